"""Attention, a composite with kernels of its own, so passes keep it whole.

`Attention.decompose` defines the op's meaning. `scores` and `probabilities` are its two steps, for an importer that
also returns an intermediate value.
"""

from __future__ import annotations

from typing import Any

from burn.dialect import ops
from burn.dialect.batching.contraction import attention
from burn.dialect.compose import convert, dim_value, number, number_like, reshape
from burn.dialect.dims import Dim, exact_div, product
from burn.dialect.dropout import share
from burn.dialect.mlir import ir
from burn.dialect.op import Agreement, DTypeName, Op, Operand, same_type
from burn.dialect.random import check_key
from burn.dialect.traits import Trait
from burn.dialect.types import FLOATS, HALF_DTYPES, TensorType, may_spread, type_of
from burn.errors import TypeMismatch

NEGATIVE_INFINITY = float("-inf")


class Attention(
    Op,
    name="attention",
    traits=Trait.ATTENTION | Trait.REPEATABLE | Trait.LOW_PRECISION,
    kernel="attention",
    batching=attention,
):
    """softmax(q k^T * scale + mask) v, in every head. A query whose keys are all masked gives zeros.

    Shapes: q [b, h, s, d], k [b, g, t, d], v [b, g, t, e], mask broadcast to [b, h, s, t], lengths [b] int64, key [2]
    uint32 -> [b, h, s, e]. h is a multiple of g: each key head serves h / g neighbouring query heads.

    mask: bool (False masks a key) or of q's element type (added to the scores). lengths: the number of valid keys of
    each batch entry. softcap: scores become softcap * tanh(scores / softcap) unless it is 0. The position of query i is
    offset + i, or lengths - s + i with lengths. With `causal` it attends to keys up to its own position; left and right
    >= 0 limit the number of keys before and after it. precision: the softmax's element type. Source: ONNX Attention.

    With a `key`, the probabilities [b, h, s, t] have dropout: each is zero unless `random_kept` keeps it, and is else
    divided by 1 - rate, 0 < rate < 1. Their softmax is then at least in float32.
    """

    q: Operand
    k: Operand
    v: Operand
    mask: Operand | None
    lengths: Operand | None
    key: Operand | None
    scale: float
    causal: bool = False
    offset: Dim = 0
    left: int = -1
    right: int = -1
    softcap: float = 0.0
    precision: DTypeName | None = None
    rate: float = 0.0

    @classmethod
    def infer(cls, q, k, v, mask, lengths, key, **attrs: Any) -> TensorType:
        return result_type(cls, q, k, v, mask, lengths, key, **attrs)

    def kernel_features(self) -> tuple[str, ...]:
        return features(self)

    def must_agree(self) -> list[Agreement]:
        return agreements(self)

    def flops(self) -> Dim:
        return 2 * attended(self)

    @classmethod
    def decompose(
        cls, q, k, v, mask, lengths, key, scale, causal, offset, left, right, softcap, precision, rate
    ) -> ir.Value:
        precision = softmax_type(type_of(q).dtype, precision, rate)
        raw = soft_cap(scores(q, k, scale), softcap)
        allowed = visible(type_of(raw).shape, lengths, causal, offset, left, right)
        p = probabilities(bias(raw, mask, allowed), precision)
        return mix(p if key is None else _dropped(p, key, rate, precision), v)


DROPOUT = "attention_dropout"
"""The feature of an attention with a key. Heads without kernels of a backward pass have another one, which no back end has."""

DEEPEST = 256
"""The most features of a head that backward kernels support."""

DEEP = "attention_deep_heads"
"""The feature of an attention whose heads have more than `SHALLOW` features: attention over the channels of an image."""

SHALLOW = 512

TYPES = ("float16", "bfloat16", "float32")
"""The element types of the backward kernels."""


def has_kernels(q: TensorType, v: TensorType, precision: str | None) -> bool:
    """True if the backward pass has kernels: heads are small, and their size is a number."""
    depths = (q.shape[3], v.shape[3])
    return q.dtype in TYPES and precision != "float64" and all(isinstance(d, int) and 0 < d <= DEEPEST for d in depths)


def features(op: Op) -> tuple[str, ...]:
    """The features of an attention, or of its forward or backward op."""
    q, v = type_of(op.q), type_of(op.v)
    found = [DEEP] if any(isinstance(d, int) and d > SHALLOW for d in (q.shape[3], v.shape[3])) else []
    if op.key is not None:
        found.append(DROPOUT if has_kernels(q, v, op.precision) else f"{DROPOUT}_of_other_heads")
    return tuple(found)


def result_type(
    cls: type[Op],
    q: TensorType,
    k: TensorType,
    v: TensorType,
    mask: TensorType | None,
    lengths: TensorType | None,
    key: TensorType | None,
    precision: str | None,
    rate: float,
    **rest: Any,
) -> TensorType:
    """The type of an attention's result. Raises TypeMismatch, naming `cls`, for operands that do not fit."""
    same_type(cls, q, k, v)
    if not q.rank == k.rank == v.rank == 4:
        cls.fail(f"q, k and v must have rank 4, not {q}, {k}, {v}")
    if q.shape[1] != k.shape[1] and exact_div(q.shape[1], k.shape[1]) is None:
        cls.fail(f"{q.shape[1]} query heads do not share {k.shape[1]} key heads evenly")
    pairs = ((q, 0, k, 0), (k, 0, v, 0), (q, 3, k, 3), (k, 1, v, 1), (k, 2, v, 2))
    if any(_differ(a.shape[i], b.shape[j]) for a, i, b, j in pairs):
        cls.fail(f"q, k and v must be [b, h, s, d], [b, g, t, d] and [b, g, t, e], not {q}, {k}, {v}")
    if mask is not None and (mask.rank > 4 or mask.dtype not in ("bool", q.dtype)):
        cls.fail(f"the mask must be bool or {q.dtype} and broadcast to [b, h, s, t], not {mask}")
    if mask is not None and not may_spread(mask.shape, (*q.shape[:3], k.shape[2])):
        cls.fail(f"the mask must broadcast to [b, h, s, t], not {mask} for {q} and {k}")
    if lengths is not None and (lengths.rank != 1 or lengths.dtype != "int64"):
        cls.fail(f"lengths must be int64[b], not {lengths}")
    if precision is not None and precision not in FLOATS:
        cls.fail(f"the softmax is not computed in {precision}", "precision")
    if key is None and rate:
        cls.fail(f"dropout with the rate {rate} takes a key", "rate")
    if key is not None:
        check_key(cls, key)
        if not 0 < rate < 1:
            cls.fail(f"the rate is above 0 and below 1 with a key, not {rate}", "rate")
    return q.with_shape((*q.shape[:3], v.shape[3]))


def agreements(op: Op) -> list[Agreement]:
    """`Op.must_agree` of an attention, and of its forward and backward ops."""
    q, k, v = (type_of(x).shape for x in (op.q, op.k, op.v))
    found = [
        Agreement(k[0], q[0]),
        Agreement(v[0], q[0]),
        Agreement(k[3], q[3]),
        Agreement(v[1], k[1]),
        Agreement(v[2], k[2]),
    ]
    if op.mask is not None:
        mask, space = type_of(op.mask).shape, (*q[:3], k[2])
        pairs = zip(mask, space[4 - len(mask) :], strict=True)
        found += [Agreement(d, t, "broadcast") for d, t in pairs if d != 1]
    if op.lengths is not None:
        found.append(Agreement(type_of(op.lengths).shape[0], q[0]))
    return found


def softmax_type(dtype: str, precision: str | None, rate: float) -> str | None:
    """The softmax's element type for operands of type `dtype`; None is theirs. With dropout it is at least float32."""
    return "float32" if rate and precision is None and dtype in HALF_DTYPES else precision


def _dropped(p: ir.Value, key: ir.Value, rate: float, precision: str | None) -> ir.Value:
    """Probabilities after dropout, computed in the softmax's element type."""
    kept = ops.random_kept(key, shape=type_of(p).shape, rate=rate)
    wide = convert(p, precision or type_of(p).dtype)
    wide = ops.select(kept, ops.mul(wide, number_like(share(rate), wide)), number_like(0.0, wide))
    return convert(wide, type_of(p).dtype)


def attended(op: Op) -> Dim:
    """The multiply-adds of attention: the number of scores times the features of a query and of a value."""
    q, k, v = (type_of(x) for x in op.operation.operands[:3])
    return product([*q.shape[:3], k.shape[2]]) * (q.shape[3] + v.shape[3])


def heads_per_group(heads: Dim, groups: Dim) -> Dim:
    """The number of query heads for each key head; one if both are 0."""
    share = 1 if heads == groups else exact_div(heads, groups)
    if share is None:
        raise TypeMismatch(f"{heads} query heads do not share {groups} key heads evenly")
    return share


def _differ(a: Dim, b: Dim) -> bool:
    return isinstance(a, int) and isinstance(b, int) and a != b


def scores(q: ir.Value, k: ir.Value, scale: float) -> ir.Value:
    """q k^T * scale: [b, h, s, t]. For 16-bit types both operands are multiplied by the root of the scale, as in ONNX."""
    type_, keys = type_of(q), type_of(k)
    batch, heads, length, depth = type_.shape
    groups = keys.shape[1]
    if type_.dtype in HALF_DTYPES:
        root = number(scale**0.5, type_.dtype)
        q, k = ops.mul(q, root), ops.mul(k, root)
    elif scale != 1.0:
        q = ops.mul(q, number(scale, type_.dtype))
    share = heads_per_group(heads, groups)
    if share == 1:
        return ops.dot_general(q, k, lhs_batch=(0, 1), rhs_batch=(0, 1), lhs_contract=(3,), rhs_contract=(3,))
    q = reshape(q, (batch, groups, share * length, depth))
    dots = ops.dot_general(q, k, lhs_batch=(0, 1), rhs_batch=(0, 1), lhs_contract=(3,), rhs_contract=(3,))
    return reshape(dots, (batch, heads, length, keys.shape[2]))


def soft_cap(x: ir.Value, limit: float) -> ir.Value:
    """limit * tanh(x / limit); x if limit is 0."""
    if not limit:
        return x
    bound = number_like(limit, x)
    return ops.mul(ops.tanh(ops.div(x, bound)), bound)


def visible(
    shape: tuple[Dim, ...], lengths: ir.Value | None, causal: bool, offset: Dim, left: int, right: int
) -> ir.Value | None:
    """The mask of keys [.., s, t] that a query's position allows; None if it allows all."""
    length, total = shape[2:]
    key = ops.iota(shape=(length, total), axis=1)
    conditions = []
    if causal or left >= 0 or right >= 0:
        position = ops.iota(shape=(length, total), axis=0)
        if lengths is not None:
            ends = reshape(lengths, (shape[0], 1, 1, 1))
            position = ops.add(position, ops.sub(ends, dim_value(length)))
        elif offset != 0:
            position = ops.add(position, dim_value(offset))
        behind = ops.sub(position, key)
        if causal:
            conditions.append(ops.le(key, position))
        if left >= 0:
            conditions.append(ops.le(behind, number(left, "int64")))
        if right >= 0:
            conditions.append(ops.ge(behind, number(-right, "int64")))
    if lengths is not None:
        conditions.append(ops.lt(key, reshape(lengths, (shape[0], 1, 1, 1))))
    allowed = None
    for condition in conditions:
        allowed = condition if allowed is None else ops.and_(allowed, condition)
    return allowed


def bias(x: ir.Value, mask: ir.Value | None, allowed: ir.Value | None) -> ir.Value:
    """Scores with the mask added, and minus infinity for keys that are not allowed. A query without keys has a row of
    minus infinities."""
    hidden = number_like(NEGATIVE_INFINITY, x)
    if mask is not None:
        x = ops.select(mask, x, hidden) if type_of(mask).dtype == "bool" else ops.add(x, mask)
    return x if allowed is None else ops.select(allowed, x, hidden)


def probabilities(x: ir.Value, precision: str | None = None) -> ir.Value:
    """The softmax of the last axis; zero in rows of only minus infinities."""
    dtype = type_of(x).dtype
    wide = precision or dtype
    x = convert(x, wide)
    low = number(NEGATIVE_INFINITY, wide)
    top = ops.reduce(x, kind="max", axes=(3,), keepdims=True)
    top = ops.select(ops.eq(top, low), number(0.0, wide), top)
    e = ops.exp(ops.sub(x, top))
    total = ops.reduce(e, kind="sum", axes=(3,), keepdims=True)
    one = number(1.0, wide)
    total = ops.select(ops.eq(total, number(0.0, wide)), one, total)
    p = ops.div(e, total)
    return convert(p, dtype)


def mix(p: ir.Value, v: ir.Value) -> ir.Value:
    """Probabilities [b, h, s, t] times values [b, g, t, e]: [b, h, s, e]."""
    batch, heads, length, total = type_of(p).shape
    groups, depth = type_of(v).shape[1], type_of(v).shape[3]
    if groups != heads:
        p = reshape(p, (batch, groups, heads_per_group(heads, groups) * length, total))
    out = ops.dot_general(p, v, lhs_batch=(0, 1), rhs_batch=(0, 1), lhs_contract=(3,), rhs_contract=(2,))
    return out if groups == heads else reshape(out, (batch, heads, length, depth))
