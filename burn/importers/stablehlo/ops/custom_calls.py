"""custom_call: the targets that JAX writes for a CPU, by name. Any other target is refused by name.

A target is code of the engine that ran the program: burn computes the same with its own ops, or does not import it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from burn import linalg
from burn.dialect import ops
from burn.dialect.compose import check_size, convert, number, part
from burn.dialect.dims import Dim, Expr
from burn.dialect.mlir import ir
from burn.dialect.types import TensorType, type_of
from burn.importers.lax import reduction, windows
from burn.importers.lax import sort as lax_sort
from burn.importers.lax.scalars import full, is_empty, like
from burn.importers.stablehlo.known import Condition
from burn.importers.stablehlo.node import Node, rule
from burn.importers.stablehlo.ops.linalg import cholesky_factor, lu, mirrored, qr, reflections, solved, unit
from burn.importers.stablehlo.ops.reduction import KINDS
from burn.importers.stablehlo.regions import NAMED
from burn.importers.stablehlo.syntax.module import SymbolRef
from burn.tensors.base import made

Value = ir.Value
Target = Callable[[Node], Any]
TARGETS: dict[str, Target] = {}

SAME = frozenset(
    (
        "Sharding",
        "SPMDFullToShardShape",
        "SPMDShardToFullShape",
        "annotate_device_placement",
        "LayoutConstraint",
        "MoveToHost",
        "MoveToDevice",
        "xla.sdy.FuncResultSharding",
        "xla.sdy.Sharding",
        "xla.sdy.PropagationBarrier",
    )
)
"""Targets that say where or how a tensor is stored. Its elements are the operand's."""

_LAPACK = re.compile(r"lapack_([sd])([a-z]+)_ffi")
_COMPLEX = re.compile(r"lapack_[cz][a-z]+_ffi")


def target(*names: str) -> Callable[[Target], Target]:
    def register(function: Target) -> Target:
        for name in names:
            TARGETS[name] = function
        return function

    return register


@rule("custom_call")
def custom_call(node: Node) -> Any:
    name = node.text("call_target_name")
    node.no_effect("api_version", "has_side_effect", "indices_of_shape_operands", "backend_config")
    if name in SAME:
        node.no_effect("called_computations")
        return list(node.operands)
    found = _LAPACK.fullmatch(name)
    known = TARGETS.get(found[2] if found else name)
    if known is None:
        hint = "it is code of another engine"
        if "callback" in name:
            hint = "it calls Python, and a program of burn does not"
        elif _COMPLEX.fullmatch(name):
            hint = "it is of complex numbers"
        node.fail(f"the target @{name} is not supported", hint)
    return known(node)


def _config(node: Node) -> Mapping[str, Any]:
    for name in ("mhlo.backend_config", "backend_config"):
        value = node.attribute(name, None)
        if isinstance(value, dict):
            return value
    return {}


def _letter(node: Node, name: str) -> str:
    """An option of LAPACK: the code of a letter."""
    return chr(int(_config(node).get(name, 0)))


# ---- conditions on sizes -----------------------------------------------------------------------------------------------
@target("shape_assertion")
def shape_assertion(node: Node) -> list[Value]:
    """Ends a run whose sizes are not those that the program was exported for."""
    message = node.text("error_message", "the sizes do not fit the program")
    known = node.elements(0)
    says = _filled(message, [node.elements(i) for i in range(1, len(node.operands))])
    condition = known[()] if known is not None else None
    if condition is True:
        return []
    if isinstance(condition, Condition):
        for a, relation, b in condition.parts:
            check_size(a, relation, b, says)
        return []
    if condition is False:
        node.fail(says)
    check_size(node.read_dim(convert(node.x(0), "int64")), "==", 1, says)
    return []


_HOLE = re.compile(r"\{(\d+)\}")


def _filled(message: str, values: list[Any]) -> str:
    """The sentence of a message that says what is wrong, with sizes in place of their numbers."""
    text = message.split(" Using the following polymorphic")[0].strip()

    def size(found: re.Match[str]) -> str:
        index = int(found[1])
        value = values[index] if index < len(values) else None
        return str(value[()]) if value is not None and not value.shape else found[0]

    return _HOLE.sub(size, text)


# ---- LAPACK ------------------------------------------------------------------------------------------------------------
def _zeros(batch: tuple[Dim, ...]) -> Value:
    """The result that says what went wrong: nothing."""
    return full(TensorType("int32", batch), 0)


def _batch(x: Value) -> tuple[Dim, ...]:
    return type_of(x).shape[:-2]


@target("potrf")
def potrf(node: Node) -> list[Value]:
    """Cholesky's factor, and for each matrix 0, or where it is not positive definite 1 (LAPACK: the order of the minor)."""
    x = node.x(0)
    factor = cholesky_factor(x, _letter(node, "uplo") == "L")
    if is_empty(type_of(x).shape):
        return [factor, _zeros(_batch(x))]
    rank = type_of(x).rank
    diagonal = ops.select(_eye(x), factor, like(0.0, factor))
    wrong = ops.reduce(ops.isnan(diagonal), kind="any", axes=(rank - 2, rank - 1))
    return [factor, convert(wrong, "int32")]


def _eye(x: Value) -> Value:
    rows, columns = type_of(x).shape[-2:]
    return ops.eq(ops.iota(shape=(rows, 1), axis=0), ops.iota(shape=(1, columns), axis=1))


@target("getrf")
def getrf(node: Node) -> list[Value]:
    x = node.x(0)
    if is_empty(type_of(x).shape):
        *batch, m, n = type_of(x).shape
        return [x, full(TensorType("int32", (*batch, 0 if 0 in (m, n) else m)), 0), _zeros(_batch(x))]
    packed, pivots = lu(x)
    return [packed, convert(ops.add(pivots, number(1, "int64")), "int32"), _zeros(_batch(x))]


@target("geqrf")
def geqrf(node: Node) -> list[Value]:
    x = node.x(0)
    if is_empty(type_of(x).shape):
        *batch, m, n = type_of(x).shape
        return [x, full(type_of(x).with_shape((*batch, 0 if 0 in (m, n) else m)), 0)]
    return list(qr(x))


@target("orgqr")
def orgqr(node: Node) -> Value:
    a, taus = node.x(0), node.x(1)
    if is_empty(type_of(taus).shape):
        return unit(full(type_of(a), 0)) if not is_empty(type_of(a).shape) else a
    return reflections(a, taus)


@target("trsm")
def trsm(node: Node) -> Value:
    return solved(
        node.x(0),
        node.x(1),
        left=_letter(node, "side") == "L",
        lower=_letter(node, "uplo") == "L",
        transpose=_letter(node, "trans_x") != "N",
        unit_diagonal=_letter(node, "diag") == "U",
    )


@target("syevd")
def syevd(node: Node) -> list[Value]:
    """Eigenvectors in columns, and the eigenvalues, the least first. Signs of vectors are not LAPACK's."""
    x = node.x(0)
    batch = _batch(x)
    if is_empty(type_of(x).shape):
        return [x, full(type_of(x).with_shape(type_of(x).shape[:-1]), 0), _zeros(batch)]
    values, vectors = linalg.eigh(made(mirrored(x, _letter(node, "uplo") == "L")))
    return [vectors.value, values.value, _zeros(batch)]


@target("gesdd", "gesvd", "gesvdx")
def gesdd(node: Node) -> list[Value]:
    """(overwritten operand, singular values, u, vh, 0). Mode "N" leaves u and vh without values, here zeros."""
    x, mode = node.x(0), _letter(node, "mode")
    batch = _batch(x)
    types = [node.result(i) for i in range(1, 4)]
    if is_empty(type_of(x).shape):
        s, u, vh = (type_of(x).with_shape(_sizes(batch, t.shape)) for t in types)
        square = [unit(full(t, 0)) if not is_empty(t.shape) else full(t, 0) for t in (u, vh)]
        return [x, full(s, 0), *square, _zeros(batch)]
    if mode == "N":
        s = linalg.svdvals(made(x)).value
        shapes = [type_of(x).with_shape(_sizes(batch, t.shape)) for t in types[1:]]
        return [x, s, *(full(t, 0) for t in shapes), _zeros(batch)]
    found = linalg.svd(made(x), full_matrices=mode == "A")
    return [x, found.s.value, found.u.value, found.vh.value, _zeros(batch)]


def _sizes(batch: tuple[Dim, ...], declared: tuple[int | None, ...]) -> tuple[Dim, ...]:
    rest = declared[len(batch) :]
    return (*batch, *(size or 0 for size in rest))


# ---- JAX's own ops with sizes that the program computes --------------------------------------------------------------------
def _reduction_of(node: Node) -> str:
    """The name of the reduction that the called function makes of its two operands."""
    value = node.attribute("called_computations")
    names = [v.name for v in value if isinstance(v, SymbolRef)] if isinstance(value, list) else []
    function = node.importer.module.functions.get(names[0]) if len(names) == 1 else None
    body = function.regions[0][0].ops if function is not None and function.regions else []
    kind = NAMED.get(body[0].name) if len(body) == 2 else None
    if kind is None:
        node.fail("reduces by a function that is not supported")
    return kind


@target("stablehlo.dynamic_reduce_window")
def dynamic_reduce_window(node: Node) -> Value:
    """Operands: x, the initial value, and window, strides, base and window dilations, padding [axes, 2]."""
    x, start = node.x(0), node.x(1)
    kind = _reduction_of(node)
    window, strides, base, dilations, padding = (node.sizes(i, minimum=None) for i in range(2, 7))
    pairs = list(zip(padding[::2], padding[1::2], strict=True))
    name = KINDS.get(kind, kind)
    shape = type_of(x).shape
    symbolic = [axis for axis, size in enumerate(window) if isinstance(size, Expr)]
    if symbolic:
        (axis, *more) = symbolic
        rest = all(size == 1 for i, size in enumerate(window) if i != axis)
        unit_steps = all(n == 1 for n in (*strides, *base, *dilations))
        from_start = pairs[axis] == (window[axis] - 1, 0)
        to_end = pairs[axis] == (0, window[axis] - 1)
        zeros = all(pair == (0, 0) for i, pair in enumerate(pairs) if i != axis)
        whole = window[axis] == shape[axis] and rest and unit_steps and zeros and (from_start or to_end)
        if more or not whole or name not in ("sum", "prod", "max", "min"):
            node.fail("a window of a size that is not fixed is supported as a running reduction only")
        found = reduction.cumulative(x, name, axis, reverse=to_end)
    else:
        fixed = [[int(n) for n in row if not isinstance(n, Expr)] for row in (window, strides, base, dilations)]
        if any(len(row) != len(shape) for row in fixed):
            node.fail("has strides or dilations that are not fixed")
        found = windows.reduce_window(x, name, fixed[0], fixed[1], pairs, fixed[2], fixed[3])
    return reduction.COMBINE[name](found, start)


@target("stablehlo.dynamic_top_k", "mhlo.topk", "TopK")
def dynamic_top_k(node: Node) -> list[Value]:
    """The largest elements; their number is an operand."""
    node.no_effect("mhlo.attributes", "mhlo.version", "called_computations")
    count = node.sizes(1)[0] if len(node.operands) > 1 else node.result(0).shape[-1]
    if count is None:
        node.fail("selects a number of elements that is not known")
    values, indices = lax_sort.top_k(node.x(0), count)
    return [values, convert(indices, "int32")]


@target("ApproxTopK", "PartialReduce", "stablehlo.dynamic_approx_top_k")
def approx_top_k(node: Node) -> list[Value]:
    """The exact answer is an allowed one."""
    node.no_effect("called_computations")
    config = _config(node)
    x, indices = node.x(0), node.x(1)
    axis, k = int(config.get("reduction_dim", -1)), int(config.get("top_k", 0))
    axis %= type_of(x).rank
    names = node.attribute("called_computations")
    largest = isinstance(names, list) and any("gt" in str(name) for name in names)
    if not largest and not (isinstance(names, list) and any("lt" in str(name) for name in names)):
        node.fail("has an unknown comparator")
    ordered = lax_sort.sort([x, indices], axis, [lax_sort.Key(0, largest)])
    return [part(v, axis, 0, k) for v in ordered]
