"""Attention with dropout of its probabilities, and the ops of its derivative. They are as those without dropout (`attention.py`,
`attention_gradient.py`), with a key and a rate. Kernels for them draw the numbers of `random_kept` where they use them, so
that neither probabilities nor the mask are in memory. The backward pass draws them again.

An op with a key of its own: passes that divide or repeat an attention would change what is drawn, so they get its decomposition.
"""

from __future__ import annotations

from typing import Any

from burn.dialect import ops
from burn.dialect.attention import (
    Attention,
    attended,
    bias,
    mix,
    probabilities,
    scores,
    soft_cap,
    visible,
)
from burn.dialect.attention_gradient import DEEPEST, AttentionForward, has_kernels
from burn.dialect.compose import convert, number_like
from burn.dialect.dims import Dim
from burn.dialect.dropout import share
from burn.dialect.mlir import ir
from burn.dialect.op import Agreement, DTypeName, Op, Operand
from burn.dialect.random import check_key
from burn.dialect.traits import Trait
from burn.dialect.types import HALF_DTYPES, TensorType, type_of


def _check_rate(cls: type[Op], key: TensorType, rate: float) -> None:
    check_key(cls, key)
    if not 0 < rate < 1:
        cls.fail(f"the rate is above 0 and below 1, not {rate}", "rate")


class DroppedAttention(
    Op,
    name="dropped_attention",
    traits=Trait.ATTENTION | Trait.REPEATABLE | Trait.LOW_PRECISION,
    kernel="attention",
):
    """burn.attention whose probabilities have dropout: each is zero unless `random_kept` keeps it, and is else divided by 1 -
    rate. Their softmax is at least in float32.

    Shapes: as burn.attention's, and key [2] uint32 -> [b, h, s, e]. The probabilities are [b, h, s, t].
    """

    q: Operand
    k: Operand
    v: Operand
    mask: Operand | None
    lengths: Operand | None
    key: Operand
    rate: float
    scale: float
    causal: bool = False
    offset: Dim = 0
    left: int = -1
    right: int = -1
    softcap: float = 0.0
    precision: DTypeName | None = None

    @classmethod
    def infer(cls, q, k, v, mask, lengths, key, rate, **attrs: Any) -> TensorType:
        _check_rate(cls, key, rate)
        return Attention.infer(q, k, v, mask, lengths, **attrs)

    def must_agree(self) -> list[Agreement]:
        return Attention.must_agree(self)  # type: ignore[arg-type]  # the same operands, and more

    def flops(self) -> Dim:
        return 2 * attended(self)

    @classmethod
    def decompose(cls, q, k, v, mask, lengths, key, rate, **attrs: Any) -> ir.Value:
        attrs = _wide(type_of(q), attrs)
        raw = soft_cap(scores(q, k, attrs["scale"]), attrs["softcap"])
        rest = (attrs[name] for name in ("causal", "offset", "left", "right"))
        p = probabilities(bias(raw, mask, visible(type_of(raw).shape, lengths, *rest)), attrs["precision"])
        kept = ops.random_kept(key, shape=type_of(p).shape, rate=rate)
        wide = convert(p, attrs["precision"] or type_of(p).dtype)
        wide = ops.select(kept, ops.mul(wide, number_like(share(rate), wide)), number_like(0.0, wide))
        return mix(convert(wide, type_of(v).dtype), v)


def _wide(q: TensorType, attrs: dict[str, Any]) -> dict[str, Any]:
    """The attributes with a precision of at least float32."""
    half = attrs["precision"] is None and q.dtype in HALF_DTYPES
    return {**attrs, "precision": "float32"} if half else attrs


class DroppedAttentionForward(
    Op, name="dropped_attention_forward", traits=Trait.ATTENTION | Trait.REPEATABLE, kernel="attention"
):
    """burn.dropped_attention, and the statistics of its softmax, which has no dropout.

    Shapes: as burn.dropped_attention's -> [b, h, s, e] and [b, h, s], as burn.attention_forward's.
    """

    q: Operand
    k: Operand
    v: Operand
    mask: Operand | None
    lengths: Operand | None
    key: Operand
    rate: float
    scale: float
    causal: bool = False
    offset: Dim = 0
    left: int = -1
    right: int = -1
    softcap: float = 0.0
    precision: DTypeName | None = None

    @classmethod
    def infer(cls, q, k, v, mask, lengths, key, rate, **attrs: Any) -> list[TensorType]:
        _check_rate(cls, key, rate)
        return AttentionForward.infer(q, k, v, mask, lengths, **attrs)

    def must_agree(self) -> list[Agreement]:
        return Attention.must_agree(self)  # type: ignore[arg-type]  # the same operands, and more

    def flops(self) -> Dim:
        return 2 * attended(self)

    @classmethod
    def decompose(cls, q, k, v, mask, lengths, key, rate, **attrs: Any) -> list[ir.Value]:
        y = DroppedAttention.decompose(q, k, v, mask, lengths, key, rate, **attrs)
        return [y, AttentionForward.decompose(q, k, v, mask, lengths, **_wide(type_of(q), attrs))[1]]


class DroppedAttentionBackward(
    Op, name="dropped_attention_backward", traits=Trait.ATTENTION, kernel="attention_gradient"
):
    """The gradients of queries, keys and values: y and norms are the results of burn.dropped_attention_forward, g the gradient
    of y.

    Shapes: as burn.attention_backward's, and key [2] uint32 -> those of q, k and v.
    """

    q: Operand
    k: Operand
    v: Operand
    mask: Operand | None
    lengths: Operand | None
    key: Operand
    y: Operand
    norms: Operand
    g: Operand
    rate: float
    scale: float
    causal: bool = False
    offset: Dim = 0
    left: int = -1
    right: int = -1
    softcap: float = 0.0
    precision: DTypeName | None = None

    @classmethod
    def infer(cls, q, k, v, mask, lengths, key, y, norms, g, rate, **attrs: Any) -> list[TensorType]:
        _check_rate(cls, key, rate)
        results = AttentionForward.infer(q, k, v, mask, lengths, **attrs)
        if [y, norms] != results or g != results[0]:
            cls.fail(f"y and g must be {results[0]} and norms {results[1]}, not {y}, {g} and {norms}")
        if not has_kernels(q, v, attrs["precision"]):
            cls.fail(f"heads are of 1 to {DEEPEST} features, not {q} and {v}")
        return [q, k, v]

    def must_agree(self) -> list[Agreement]:
        return Attention.must_agree(self)  # type: ignore[arg-type]  # the same operands, and more

    def flops(self) -> Dim:
        """Does not count recomputation."""
        return 5 * attended(self)

    @classmethod
    def decompose(cls, q, k, v, mask, lengths, key, y, norms, g, rate, **attrs: Any) -> list[ir.Value]:
        """As burn.attention_backward's."""
        from burn.dialect.adjoint.reverse import gradients

        operands = [ops.reshape(x, shape=type_of(x).shape) for x in (q, k, v)]
        q, k, v = operands
        result = DroppedAttention.decompose(q, k, v, mask, lengths, key, rate, **attrs)
        found = gradients([result], [g], operands)
        assert all(isinstance(x, ir.Value) for x in found)
        return found  # type: ignore[return-value]  # as all of them are depended on


def attention_with_dropout(
    q: ir.Value,
    k: ir.Value,
    v: ir.Value,
    mask: ir.Value | None,
    lengths: ir.Value | None,
    key: ir.Value,
    *,
    rate: float,
    scale: float,
    causal: bool = False,
    offset: Dim = 0,
) -> ir.Value:
    """burn.dropped_attention, or its decomposition if back ends have no kernels for such heads. 0 < rate < 1."""
    attrs = {"rate": rate, "scale": scale, "causal": causal, "offset": offset}
    if has_kernels(type_of(q), type_of(v), None):
        return ops.dropped_attention(q, k, v, mask, lengths, key, **attrs)
    rest = {"left": -1, "right": -1, "softcap": 0.0, "precision": None}
    return DroppedAttention.decompose(q, k, v, mask, lengths, key, **attrs, **rest)
