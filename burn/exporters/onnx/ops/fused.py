"""Several ops as one ONNX operator: a convolution or matmul with its bias, sums divided by their count.

The last op is written together with the ops that it absorbs, which have no other uses.
"""

from __future__ import annotations

from typing import Any

from burn.dialect.dims import Dim, product
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.pointwise import Cast
from burn.dialect.shape import DimValues, Full
from burn.dialect.types import DTYPES, type_of
from burn.exporters.onnx.emitters import Site, emits
from burn.exporters.onnx.kernels import computed_in
from burn.exporters.onnx.ops.contraction import contracted, convolved
from burn.exporters.onnx.ops.pointwise import scalar_value
from burn.exporters.onnx.ops.window import is_pool, pooled, slides


def _maker(value: ir.Value, name: str) -> Any:
    """The op that makes a value, where it is one of that name and nothing else uses the value."""
    owner = value.owner
    if not isinstance(owner, (ir.Operation, ir.OpView)):
        return None
    op = owner.opview
    alone = isinstance(op, Op) and name == op.OP_NAME and sum(1 for _ in value.uses) == 1
    return op if alone else None


def _same_block(op: Any, other: Any) -> bool:
    return op.operation.block == other.operation.block


# ---- biases ------------------------------------------------------------------------------------------------------------


def _biased_conv(op: Any) -> list[Op]:
    """For an addition: the convolution of floats, and the reshape [C] -> [C, 1..] of the vector that is added to it."""
    for value, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        conv, shaped = _maker(value, "conv"), _maker(other, "reshape")
        if conv is None or shaped is None or not (_same_block(op, conv) and _same_block(op, shaped)):
            continue
        type_, vector, spread = type_of(value), type_of(shaped.x), type_of(other).shape
        along = (type_.shape[1], *[1] * (type_.rank - 2))
        plain = conv.layout == "first" and DTYPES[type_.dtype].kind == "float"
        if plain and vector.shape == along[:1] and spread in (along, (1, *along)) and type_of(op.result) == type_:
            return [conv, shaped]
    return []


@emits("add", absorbs=_biased_conv)
def biased_conv(site: Site) -> str:
    conv, shaped = (site.of(op) for op in _biased_conv(site.op))
    return convolved(conv, shaped.inputs[0])


def _biased_matmul(op: Any) -> list[Op]:
    """For an addition of a vector: the float matmul of two matrices that it is added to."""
    for value, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        dot = _maker(value, "dot_general")
        if dot is None or not _same_block(op, dot):
            continue
        sides = [type_of(dot.lhs), type_of(dot.rhs)]
        type_ = type_of(value)
        flat = all(t.rank == 2 and t.dtype == type_.dtype for t in sides) and len(dot.lhs_contract) == 1
        plain = flat and not dot.lhs_batch and computed_in("Gemm", type_.dtype)
        if plain and type_of(other).shape == (type_.shape[1],) and type_of(op.result) == type_:
            return [dot]
    return []


@emits("add", absorbs=_biased_matmul)
def biased_matmul(site: Site) -> str:
    (dot,) = _biased_matmul(site.op)
    bias = site.inputs[1] if site.op.lhs == dot.operation.results[0] else site.inputs[0]
    return contracted(site.of(dot), bias)


# ---- means -------------------------------------------------------------------------------------------------------------


def _counts(value: ir.Value, wanted: Dim) -> bool:
    """True if a value is the number `wanted`, written out or computed from sizes."""
    owner = value.owner
    op = owner.opview if isinstance(owner, (ir.Operation, ir.OpView)) else None
    if not isinstance(op, Op):
        return False
    if isinstance(op, Cast):
        return _counts(op.operation.operands[0], wanted)
    if isinstance(op, DimValues):
        return op.attrs["scalar"] and op.attrs["dims"] == (wanted,)
    return (
        isinstance(op, Full) and not op.attrs["shape"] and isinstance(wanted, int) and float(scalar_value(op)) == wanted
    )


def _mean(op: Any) -> list[Op]:
    reduce = _maker(op.lhs, "reduce")
    if reduce is None or reduce.kind != "sum" or not reduce.axes or not _same_block(op, reduce):
        return []
    type_ = type_of(reduce.x)
    wide = (
        DTYPES[type_.dtype].kind == "float" and computed_in("ReduceMean", type_.dtype) and DTYPES[type_.dtype].bits > 16
    )
    return [reduce] if wide and _counts(op.rhs, product(type_.shape[a] for a in reduce.axes)) else []


@emits("div", absorbs=_mean)
def mean(site: Site) -> str:
    (reduce,) = _mean(site.op)
    inner = site.of(reduce)
    axes = sorted(a % inner.types[0].rank for a in reduce.attrs["axes"])
    return site.node("ReduceMean", inner.inputs[0], site.ints(axes), keepdims=int(reduce.attrs["keepdims"]))


def _average_pool(op: Any) -> list[Op]:
    pool = _maker(op.lhs, "window_reduce")
    if pool is None or pool.kind != "sum" or not _same_block(op, pool):
        return []
    attrs = pool.attrs
    if not is_pool(attrs, type_of(pool.x).dtype):
        return []
    return [pool] if _counts(op.rhs, product(attrs["window"][a] for a in slides(attrs))) else []


@emits("div", absorbs=_average_pool)
def average_pool(site: Site) -> str:
    (pool,) = _average_pool(site.op)
    return pooled(site.of(pool), average=True)
