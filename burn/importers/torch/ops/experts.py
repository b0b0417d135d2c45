"""Matmuls with a matrix for each group of rows: the experts of a mixture. The number of rows of each expert is known only
at run time: `offs` holds the end of each group."""

from __future__ import annotations

from typing import Any

from burn.dialect import ops
from burn.dialect.compose import convert, part, reshape, transpose
from burn.dialect.dims import Dim
from burn.dialect.mlir import ir
from burn.dialect.types import type_of
from burn.importers.torch.node import Node, aten
from burn.importers.torch.ops.contract import batched, dot
from burn.importers.torch.ops.view import select


@aten("_grouped_mm.default")
def grouped_mm(
    node: Node, a: ir.Value, b: ir.Value, offs: ir.Value | None = None, bias: ir.Value | None = None, dtype: Any = None
) -> ir.Value:
    """Grouped matmul, by the ranks of its operands.

    - [s, k] by [g, k, n]: groups of rows -> [s, n].
    - [g, m, k] by [k, s]: groups of columns -> [m, s].
    - [m, s] by [s, n]: groups of the summed axis -> [g, m, n].
    - [g, m, k] by [g, k, n] -> [g, m, n]."""
    ranks = type_of(a).rank, type_of(b).rank
    if bias is not None:
        node.fail("a bias in a grouped matmul is not supported")
    if offs is None:
        return node.as_result(batched(a, b, 1))
    ends = _ends(node, offs)
    if ranks == (2, 3):
        out = _by_rows(node, a, b, ends)
    elif ranks == (3, 2):
        turned = _by_rows(node, transpose(b, (1, 0)), transpose(a, (0, 2, 1)), ends)
        out = transpose(turned, (1, 0))
    else:
        out = _summed_by_group(transpose(a, (1, 0)), b, ends)
    return node.as_result(out)


@aten("grouped_mm_fallback.default", namespace="transformers")
def experts(node: Node, x: ir.Value, weight: ir.Value, offs: ir.Value) -> ir.Value:
    """Rows x [s, k], weight [g, k, n], offs [g] -> [s, n]. Rows behind the last group give zeros."""
    return _by_rows(node, x, weight, _ends(node, offs))


@aten("grouped_mm_fallback_backward.default", namespace="transformers")
def experts_backward(
    node: Node, x: ir.Value, weight: ir.Value, offs: ir.Value, grad: ir.Value
) -> list[ir.Value | None]:
    ends = _ends(node, offs)
    dx = _by_rows(node, grad, transpose(weight, (0, 2, 1)), ends) if node.uses(0) else None
    return [dx, _summed_by_group(x, grad, ends) if node.uses(1) else None]


def _ends(node: Node, offs: ir.Value) -> list[Dim]:
    """Where each group ends, as sizes."""
    (count,) = type_of(offs).shape
    if not isinstance(count, int):
        node.fail("the number of groups must be fixed")
    ends: list[Dim] = []
    for i in range(count):
        end = node.new_size("group")
        ops.read_dim(convert(offs, "int64"), symbol=str(end), position=i)
        ends.append(end)
    return ends


def _groups(x: ir.Value, ends: list[Dim]) -> list[ir.Value]:
    """The rows of each group."""
    return [part(x, 0, start, end - start) for start, end in zip([0, *ends], ends, strict=False)]


def _by_rows(node: Node, x: ir.Value, weight: ir.Value, ends: list[Dim]) -> ir.Value:
    """Each group's rows times its matrix."""
    rows = [dot(g, select(node, weight, 0, i)) for i, g in enumerate(_groups(x, ends))]
    rest, columns = type_of(x).shape[0] - ends[-1], type_of(weight).shape[2]
    zeros = ops.constant(values=(0,), shape=(1,), dtype=type_of(x).dtype)
    rows.append(ops.broadcast_to(zeros, shape=(rest, columns)))
    return ops.concat(rows, axis=0)


def _summed_by_group(x: ir.Value, y: ir.Value, ends: list[Dim]) -> ir.Value:
    """x [s, m], y [s, n]: x^T y of each group's rows, [g, m, n]."""
    sums = [
        ops.dot_general(a, b, lhs_contract=(0,), rhs_contract=(0,))
        for a, b in zip(_groups(x, ends), _groups(y, ends), strict=True)
    ]
    return ops.concat([reshape(p, (1, *type_of(p).shape)) for p in sums], axis=0)
