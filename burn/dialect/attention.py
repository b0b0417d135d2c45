"""Attention and rotary position embedding. They are composites with kernels of their own, so passes keep them whole.

`Attention.decompose` defines the op's meaning. `scores` and `probabilities` are its two steps, for an importer that
also returns an intermediate value.
"""

from __future__ import annotations

from burn.dialect import ops
from burn.dialect.batching.contraction import attention, rotary
from burn.dialect.compose import check_equal, check_spreads, convert, dim_value, number, number_like, reshape
from burn.dialect.dims import Dim, exact_div, product
from burn.dialect.mlir import ir
from burn.dialect.op import Agreement, DTypeName, Op, Operand, same_type
from burn.dialect.traits import Trait
from burn.dialect.types import FLOATS, HALF_DTYPES, TensorType, may_equal, may_spread, type_of
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

    Shapes: q [b, h, s, d], k [b, g, t, d], v [b, g, t, e], mask broadcast to [b, h, s, t], lengths [b] int64 -> [b, h,
    s, e]. h is a multiple of g: each key head serves h / g neighbouring query heads.

    mask: bool (False masks a key) or of q's element type (added to the scores). lengths: the number of valid keys of
    each batch entry. softcap: scores become softcap * tanh(scores / softcap) unless it is 0. The position of query i is
    offset + i, or lengths - s + i with lengths. With `causal` it attends to keys up to its own position; left and right
    >= 0 limit the number of keys before and after it. precision: the softmax's element type. Source: ONNX Attention.
    """

    q: Operand
    k: Operand
    v: Operand
    mask: Operand | None
    lengths: Operand | None
    scale: float
    causal: bool = False
    offset: Dim = 0
    left: int = -1
    right: int = -1
    softcap: float = 0.0
    precision: DTypeName | None = None

    @classmethod
    def infer(cls, q, k, v, mask, lengths, scale, causal, offset, left, right, softcap, precision) -> TensorType:
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
        return q.with_shape((*q.shape[:3], v.shape[3]))

    def must_agree(self) -> list[Agreement]:
        q, k, v = (type_of(x).shape for x in (self.q, self.k, self.v))
        found = [
            Agreement(k[0], q[0]),
            Agreement(v[0], q[0]),
            Agreement(k[3], q[3]),
            Agreement(v[1], k[1]),
            Agreement(v[2], k[2]),
        ]
        if self.mask is not None:
            mask, space = type_of(self.mask).shape, (*q[:3], k[2])
            pairs = zip(mask, space[4 - len(mask) :], strict=True)
            found += [Agreement(d, t, "broadcast") for d, t in pairs if d != 1]
        if self.lengths is not None:
            found.append(Agreement(type_of(self.lengths).shape[0], q[0]))
        return found

    def flops(self) -> Dim:
        return 2 * attended(self)

    @classmethod
    def decompose(cls, q, k, v, mask, lengths, scale, causal, offset, left, right, softcap, precision) -> ir.Value:
        raw = soft_cap(scores(q, k, scale), softcap)
        allowed = visible(type_of(raw).shape, lengths, causal, offset, left, right)
        return mix(probabilities(bias(raw, mask, allowed), precision), v)


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


class RotaryEmbedding(Op, name="rotary_embedding", batching=rotary):
    """Rotates pairs of features by an angle that depends on the position (RoPE, arXiv 2104.09864).

    Shapes: x [b, h, s, d], cos and sin [b or 1, s, r / 2] -> [b, h, s, d]. The pairs are features (i, r / 2 + i), or (2
    i, 2 i + 1) with `interleaved`. Features from r on do not change.
    """

    x: Operand
    cos: Operand
    sin: Operand
    interleaved: bool = False

    @classmethod
    def infer(cls, x: TensorType, cos: TensorType, sin: TensorType, interleaved: bool) -> TensorType:
        same_type(cls, x, cos, sin)
        if x.rank != 4 or cos.rank != 3 or sin.rank != 3:
            cls.fail(f"takes x [b, h, s, d], cos and sin [b, s, r / 2], not {x}, {cos}, {sin}")
        half, depth = cos.shape[2], x.shape[3]
        if not isinstance(half, int) or (isinstance(depth, int) and 2 * half > depth) or sin.shape[2] != half:
            cls.fail(f"cos {cos} and sin {sin} do not fit {depth} features")
        if any(c.shape[0] != 1 and not may_equal(c.shape[:1], x.shape[:1]) for c in (cos, sin)) or not (
            may_equal(cos.shape[1:2], x.shape[2:3]) and may_equal(sin.shape[1:2], x.shape[2:3])
        ):
            cls.fail(f"cos {cos} and sin {sin} must be [b or 1, s, r / 2] of {x}")
        return x

    @classmethod
    def decompose(cls, x: ir.Value, cos: ir.Value, sin: ir.Value, interleaved: bool) -> ir.Value:
        shape = type_of(x).shape
        half = type_of(cos).shape[2]
        assert isinstance(half, int)
        for c in (cos, sin):
            check_spreads(type_of(c).shape[:1], shape[:1], "cos and sin are [b or 1, s, r / 2]")
            check_equal(type_of(c).shape[1:2], shape[2:3], "cos and sin are [b or 1, s, r / 2]")
        cos, sin = (reshape(c, (*type_of(c).shape[:1], 1, *type_of(c).shape[1:])) for c in (cos, sin))
        step = 2 if interleaved else 1

        def part(start: Dim, size: Dim, step: int) -> ir.Value:
            return ops.slice(x, starts=(0, 0, 0, start), sizes=(*shape[:3], size), steps=(1, 1, 1, step))

        a, b = part(0, half, step), part(1 if interleaved else half, half, step)
        real = ops.sub(ops.mul(cos, a), ops.mul(sin, b))
        imaginary = ops.add(ops.mul(sin, a), ops.mul(cos, b))
        if interleaved:
            pairs = [reshape(c, (*shape[:3], half, 1)) for c in (real, imaginary)]
            rotated = reshape(ops.concat(pairs, axis=4), (*shape[:3], 2 * half))
        else:
            rotated = ops.concat([real, imaginary], axis=3)
        if shape[3] == 2 * half:
            return rotated
        return ops.concat([rotated, part(2 * half, shape[3] - 2 * half, 1)], axis=3)
