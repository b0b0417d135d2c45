"""Rotary position embedding, a composite."""

from __future__ import annotations

from burn.dialect import ops
from burn.dialect.batching.contraction import rotary
from burn.dialect.compose import check_equal, check_spreads, reshape
from burn.dialect.dims import Dim
from burn.dialect.mlir import ir
from burn.dialect.op import Op, Operand, same_type
from burn.dialect.types import TensorType, may_equal, type_of


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
