"""Attention under differentiation: a forward op that also returns softmax statistics, and a backward op.

Back ends have kernels for them (arXiv 2307.08691) that never hold the probabilities. Second derivatives, and shapes
without kernels (`has_kernels`), decompose both ops into matmuls that do.
"""

from __future__ import annotations

from typing import Any

from burn.dialect import ops
from burn.dialect.attention import (
    DEEPEST,
    NEGATIVE_INFINITY,
    TYPES,
    Attention,
    agreements,
    attended,
    bias,
    features,
    has_kernels,
    result_type,
    scores,
    soft_cap,
    visible,
)
from burn.dialect.batching.contraction import attention
from burn.dialect.compose import broadcast_to, convert, number, reshape
from burn.dialect.dims import Dim
from burn.dialect.mlir import ir
from burn.dialect.op import Agreement, DTypeName, Op, Operand
from burn.dialect.traits import Trait
from burn.dialect.types import TensorType, type_of

LOG2E = 1.4426950408889634


def _norm_type(q: TensorType) -> TensorType:
    return TensorType("float64" if q.dtype == "float64" else "float32", q.shape[:3])


class AttentionForward(
    Op, name="attention_forward", traits=Trait.ATTENTION | Trait.REPEATABLE, kernel="attention", batching=attention
):
    """burn.attention and, for each query, log2 of the sum of the exponentials of its scores (0 if all keys are masked).
    The backward pass recomputes probabilities from it. Dropout does not change it.

    Shapes: as burn.attention's -> [b, h, s, e] and [b, h, s] in float32 (for float64 operands in float64).
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
    def infer(cls, q, k, v, mask, lengths, key, **attrs: Any) -> list[TensorType]:
        return [result_type(cls, q, k, v, mask, lengths, key, **attrs), _norm_type(q)]

    def kernel_features(self) -> tuple[str, ...]:
        return features(self)

    def must_agree(self) -> list[Agreement]:
        return agreements(self)

    def flops(self) -> Dim:
        return 2 * attended(self)

    @classmethod
    def decompose(cls, q, k, v, mask, lengths, key, **attrs: Any) -> list[ir.Value]:
        y = ops.attention(q, k, v, mask, lengths, key, **attrs)
        raw = soft_cap(scores(q, k, attrs["scale"]), attrs["softcap"])
        rest = (attrs[name] for name in ("causal", "offset", "left", "right"))
        x = bias(raw, mask, visible(type_of(raw).shape, lengths, *rest))
        return [y, _norms(convert(x, _norm_type(type_of(q)).dtype))]


def _norms(x: ir.Value) -> ir.Value:
    type_ = type_of(x)
    low, zero = (number(value, type_.dtype) for value in (NEGATIVE_INFINITY, 0.0))
    top = ops.reduce(x, kind="max", axes=(3,), keepdims=True)
    top = ops.select(ops.eq(top, low), zero, top)
    total = ops.reduce(ops.exp(ops.sub(x, top)), kind="sum", axes=(3,), keepdims=True)
    total = ops.select(ops.eq(total, zero), number(1.0, type_.dtype), total)
    norms = ops.mul(ops.add(ops.log(total), top), number(LOG2E, type_.dtype))
    return reshape(norms, type_.shape[:3])


class AttentionBackward(
    Op, name="attention_backward", traits=Trait.ATTENTION, kernel="attention_gradient", batching=attention
):
    """The gradients of an attention's queries, keys and values: y and norms are the results of burn.attention_forward,
    g the gradient of y.

    Shapes: q, k, v, mask, lengths and key as burn.attention's, y and g [b, h, s, e], norms [b, h, s] -> those of q, k and v.

    mask_gradient: a fourth result [b, h, s, t] is the gradient of the mask, of q's element type, before the sums over the axes
    along which the mask broadcasts.
    """

    q: Operand
    k: Operand
    v: Operand
    mask: Operand | None
    lengths: Operand | None
    key: Operand | None
    y: Operand
    norms: Operand
    g: Operand
    scale: float
    causal: bool = False
    offset: Dim = 0
    left: int = -1
    right: int = -1
    softcap: float = 0.0
    precision: DTypeName | None = None
    rate: float = 0.0
    mask_gradient: bool = False

    @classmethod
    def infer(cls, q, k, v, mask, lengths, key, y, norms, g, mask_gradient, **attrs: Any) -> list[TensorType]:
        result = result_type(cls, q, k, v, mask, lengths, key, **attrs)
        if y != result or g != result or norms != _norm_type(q):
            cls.fail(f"y and g must be {result} and norms {_norm_type(q)}, not {y}, {g} and {norms}")
        if not has_kernels(q, v, attrs["precision"]):
            cls.fail(f"heads are of 1 to {DEEPEST} features of {', '.join(TYPES)}, not {q} and {v}")
        if mask_gradient and (mask is None or mask.dtype != q.dtype):
            cls.fail(f"a mask with a gradient has the element type {q.dtype}, not {mask}", "mask_gradient")
        return [q, k, v, *([q.with_shape((*q.shape[:3], k.shape[2]))] if mask_gradient else [])]

    def kernel_features(self) -> tuple[str, ...]:
        return (*features(self), *((MASK_GRADIENT,) if self.mask_gradient else ()))

    def must_agree(self) -> list[Agreement]:
        return agreements(self)

    def flops(self) -> Dim:
        """Does not count recomputation."""
        return 5 * attended(self)

    @classmethod
    def decompose(cls, q, k, v, mask, lengths, key, y, norms, g, mask_gradient, **attrs: Any) -> list[ir.Value]:
        """Decomposes into ops on the operands alone, so that the gradients can be differentiated again. Operands are
        distinct even if two of them are one value."""
        from burn.dialect.adjoint.reverse import gradients

        operands = [ops.reshape(x, shape=type_of(x).shape) for x in (q, k, v)]
        if mask_gradient:
            mask = broadcast_to(mask, (*type_of(q).shape[:3], type_of(k).shape[2]))
            mask = ops.reshape(mask, shape=type_of(mask).shape)
            operands.append(mask)
        q, k, v = operands[:3]
        result = Attention.decompose(q, k, v, mask, lengths, key, **attrs)
        found = gradients([result], [g], operands)
        assert all(isinstance(x, ir.Value) for x in found)
        return found  # type: ignore[return-value]  # as all of them are depended on


MASK_GRADIENT = "attention_mask_gradient"
"""The feature of a backward op that also gives the gradient of its mask."""
