"""Contractions: dot_general, dot, einsum, convolution, ragged_dot."""

from __future__ import annotations

import re
from collections.abc import Sequence

from burn.dialect import ops
from burn.dialect.compose import convert, dim_value, number, reshape
from burn.dialect.dims import Dim
from burn.dialect.mlir import ir
from burn.dialect.types import type_of
from burn.importers.lax.contraction import dot_general as contracted
from burn.importers.lax.convolution import Layout, conv_general_dilated
from burn.importers.lax.scalars import like
from burn.importers.stablehlo.node import Node, rule
from burn.importers.stablehlo.syntax.module import DialectAttribute

Value = ir.Value


@rule("dot_general")
def dot_general(node: Node) -> Value:
    fields = node.fields("dot_dimension_numbers")
    pairs = [
        (fields.get(f"lhs_{kind}_dimensions", ()), fields.get(f"rhs_{kind}_dimensions", ()))
        for kind in ("contracting", "batching")
    ]
    _algorithm(node)
    return contracted(node.x(0), node.x(1), *pairs, dtype=node.dtype)


def _algorithm(node: Node) -> None:
    """An algorithm is a choice of precision: burn multiplies in the operands' own, and adds in float32 or better."""
    algorithm = node.attribute("algorithm", None)
    if algorithm is not None and not isinstance(algorithm, DialectAttribute):
        node.fail("has an algorithm of an unknown form")


@rule("dot")
def dot(node: Node) -> Value:
    """Vectors and matrices: the last axis of the one, the first of the other."""
    rank = type_of(node.x(0)).rank
    return contracted(node.x(0), node.x(1), ((rank - 1,), (0,)), dtype=node.dtype)


@rule("einsum")
def einsum(node: Node) -> Value:
    inputs, _, output = node.text("einsum_config").replace(" ", "").partition("->")
    lhs, _, rhs = inputs.partition(",")
    return _einsum(node, [lhs, rhs], output)


@rule("unary_einsum")
def unary_einsum(node: Node) -> Value:
    """A transpose, a diagonal or sums; also of the form ",ab->ba"."""
    source, _, output = node.text("einsum_config").replace(" ", "").partition("->")
    return _einsum(node, [source.removeprefix(",")], output)


def _einsum(node: Node, terms: list[str], output: str) -> Value:
    letters = "".join((*terms, output))
    if not re.fullmatch(r"[A-Za-z]*", letters) or any(len(set(t)) != len(t) for t in (*terms, output)):
        node.fail("an einsum with repeated or left-out axes is not supported", "use dot_general")
    xs = list(node.xs)
    for index, term in enumerate(terms):
        other = "".join(terms[:index] + terms[index + 1 :]) + output
        alone = tuple(axis for axis, letter in enumerate(term) if letter not in other)
        if alone:
            xs[index] = ops.reduce(xs[index], kind="sum", axes=alone)
            terms[index] = "".join(letter for letter in term if letter in other)
    if len(terms) == 1:
        return ops.transpose(xs[0], permutation=tuple(terms[0].index(letter) for letter in output))
    a, b = terms
    batch = [letter for letter in a if letter in b and letter in output]
    summed = [letter for letter in a if letter in b and letter not in output]
    contract, batches = ((tuple(map(a.index, group)), tuple(map(b.index, group))) for group in (summed, batch))
    result = contracted(xs[0], xs[1], contract, batches, dtype=node.dtype)
    order = [*batch, *(x for x in a if x not in b), *(x for x in b if x not in a)]
    return ops.transpose(result, permutation=tuple(order.index(letter) for letter in output))


_LAYOUT = re.compile(r"\[([^\]]*)\]x\[([^\]]*)\]->\[([^\]]*)\]")


def layout_of(node: Node) -> Layout:
    """From `[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]`: batch and feature first, then the spatial axes by number."""
    value = node.attribute("dimension_numbers")
    found = _LAYOUT.fullmatch(value.body.replace(" ", "")) if isinstance(value, DialectAttribute) else None
    if found is None:
        node.fail("has axes of an unknown form")
    rows = [[word for word in group.split(",") if word] for group in found.groups()]
    orders = (("b", "f"), ("o", "i"), ("b", "f"))
    spatial = [str(n) for n in range(len(rows[0]) - 2)]
    if any(sorted(row) != sorted((*order, *spatial)) for row, order in zip(rows, orders, strict=True)):
        node.fail("has axes of an unknown form")
    return Layout(*(tuple(map(row.index, (*order, *spatial))) for row, order in zip(rows, orders, strict=True)))


@rule("convolution")
def convolution(node: Node) -> Value:
    layout = layout_of(node)
    count = len(layout.lhs) - 2
    return _convolved(node, layout, node.padding("padding", count))


@rule("dynamic_conv")
def dynamic_conv(node: Node) -> Value:
    """Padding is an operand [spatial, 2]."""
    layout = layout_of(node)
    sizes = node.sizes(2, minimum=None)
    return _convolved(node, layout, list(zip(sizes[::2], sizes[1::2], strict=True)))


def _convolved(node: Node, layout: Layout, padding: Sequence[tuple[Dim, Dim]]) -> Value:
    count = len(layout.lhs) - 2
    ones = (1,) * count
    return conv_general_dilated(
        node.x(0),
        node.x(1),
        node.ints("window_strides", ones),
        padding,
        node.ints("lhs_dilation", ones),
        node.ints("rhs_dilation", ones),
        layout,
        node.integer("feature_group_count"),
        node.integer("batch_group_count"),
        node.dtype,
        node.flags("window_reversal", count),
    )


@rule("ragged_dot", dialect="chlo")
def ragged_dot(node: Node) -> Value:
    """Rows of lhs in groups, one after the other, each with its own matrix. Shapes: lhs [m, k], rhs [g, k, n], sizes [g] ->
    [m, n]. Rows beyond the last group are zeros. The other modes of the op are refused."""
    value = node.attribute("ragged_dot_dimension_numbers")
    fields = node.importer.structure(value) if isinstance(value, DialectAttribute) else {}
    usual = {
        "lhs_contracting_dimensions": (1,),
        "rhs_contracting_dimensions": (1,),
        "lhs_ragged_dimensions": (0,),
        "rhs_group_dimensions": (0,),
    }
    others = ("lhs_batching_dimensions", "rhs_batching_dimensions")
    if any(fields.get(k, ()) != v for k, v in usual.items()) or any(fields.get(k, ()) for k in others):
        node.fail("only groups of rows are supported: lhs [m, k], rhs [groups, k, n]")
    lhs, rhs, sizes = node.xs
    m, g = type_of(lhs).shape[0], type_of(rhs).shape[0]
    ends = ops.cumulative(convert(sizes, "int64"), kind="sum", axis=0)
    row = reshape(ops.iota(shape=(m,), axis=0), (m, 1))
    before = convert(ops.ge(row, reshape(ends, (1, g))), "int64")
    group = ops.reduce(before, kind="sum", axes=(1,))  # groups that end at or before the row
    count = dim_value(g)
    chosen = ops.min(group, ops.sub(count, number(1, "int64")))
    matrices = ops.gather(rhs, chosen, axis=0)
    result = contracted(lhs, matrices, ((1,), (1,)), ((0,), (0,)), node.dtype)
    return ops.select(reshape(ops.lt(group, count), (m, 1)), result, like(0, result))
