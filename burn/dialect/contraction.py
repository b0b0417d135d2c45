"""Contractions: the general dot product and convolution."""

from __future__ import annotations

from burn.dialect.batching.contraction import conv, dot_general
from burn.dialect.dims import Dim, product
from burn.dialect.op import Agreement, Op, Operand, same_type
from burn.dialect.reduction import check_windows, window_size, windows_fit
from burn.dialect.traits import Trait
from burn.dialect.types import TensorType, is_symbolic, type_of


class DotGeneral(
    Op,
    name="dot_general",
    traits=Trait.CONTRACTION | Trait.REPEATABLE | Trait.LOW_PRECISION,
    kernel="contract",
    batching=dot_general,
):
    """A contraction: multiplies and sums over the contracting axes, for every index of the batch axes.

    Shapes: lhs and rhs -> [batch.., the rest of lhs.., the rest of rhs..], batch axes in the order given. Integers
    accumulate in int32 or their own wider type, narrower floats in float32; `dtype` is the result's element type (the
    operands' own by default).

    `sums` "fast" lets a GPU accumulate 8-bit floats in its tensor cores' own precision (about 14 bits at NVIDIA's
    compute capability 9.0); see docs/guide/gpu.md. It affects no other element type.
    """

    lhs: Operand
    rhs: Operand
    lhs_batch: tuple[int, ...] = ()
    rhs_batch: tuple[int, ...] = ()
    lhs_contract: tuple[int, ...] = ()
    rhs_contract: tuple[int, ...] = ()
    dtype: str | None = None
    sums: str | None = None

    @classmethod
    def infer(cls, lhs, rhs, lhs_batch, rhs_batch, lhs_contract, rhs_contract, dtype, sums) -> TensorType:
        if sums not in (None, "fast"):
            cls.fail(f"sums are 'fast' or as ever, not {sums!r}")
        if dtype is None:
            same_type(cls, lhs, rhs)
        for a, b in (*zip(lhs_batch, rhs_batch, strict=True), *zip(lhs_contract, rhs_contract, strict=True)):
            x, y = lhs.shape[a], rhs.shape[b]
            if x != y and not is_symbolic(x) and not is_symbolic(y):
                cls.fail(f"axis {a} of {lhs} and axis {b} of {rhs} must be of one size")
        batch = [_known(lhs.shape[a], rhs.shape[b]) for a, b in zip(lhs_batch, rhs_batch, strict=True)]
        left = [d for i, d in enumerate(lhs.shape) if i not in (*lhs_batch, *lhs_contract)]
        right = [d for i, d in enumerate(rhs.shape) if i not in (*rhs_batch, *rhs_contract)]
        return TensorType(dtype or lhs.dtype, (*batch, *left, *right))

    def must_agree(self) -> list[Agreement]:
        lhs, rhs = type_of(self.lhs).shape, type_of(self.rhs).shape
        pairs = (
            *zip(self.lhs_batch, self.rhs_batch, strict=True),
            *zip(self.lhs_contract, self.rhs_contract, strict=True),
        )
        return [Agreement(lhs[a], rhs[b]) for a, b in pairs]

    def flops(self) -> Dim:
        depth = product([type_of(self.lhs).shape[a] for a in self.lhs_contract])
        return type_of(self.operation.results[0]).elements * depth * 2


def _known(a: Dim, b: Dim) -> Dim:
    return b if is_symbolic(a) else a


class Conv(
    Op, name="conv", traits=Trait.CONTRACTION | Trait.REPEATABLE | Trait.LOW_PRECISION, kernel="contract", batching=conv
):
    """Convolution (cross-correlation, as in ONNX and torch) over 1 to 3 spatial axes.

    `layout` "first": x [N, C, d..], weight [O, C / groups, k..] -> [N, O, e..]; "last": x [N, d.., C], weight [k.., C /
    groups, O] -> [N, e.., O], e = (low + d + high - (k - 1) * dilation - 1) // stride + 1.

    `fill` is the value of padding, 0 by default: the zero point of quantised integers.
    """

    x: Operand
    weight: Operand
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    low: tuple[Dim, ...]
    high: tuple[Dim, ...]
    groups: int = 1
    layout: str = "first"
    dtype: str | None = None
    fill: int | None = None

    @classmethod
    def infer(cls, x, weight, strides, dilations, low, high, groups, layout, dtype, fill) -> TensorType:
        if dtype is None:
            same_type(cls, x, weight)
        n = len(strides)
        if x.rank != n + 2 or weight.rank != n + 2 or not n == len(dilations) == len(low) == len(high):
            cls.fail(f"x {x} and weight {weight} do not fit {n} spatial axes")
        if min(*strides, *dilations) < 1:
            cls.fail(f"strides {list(strides)} and dilations {list(dilations)} must be at least 1", "strides")
        last = layout == "last"
        channels, spatial = (x.shape[-1], x.shape[1:-1]) if last else (x.shape[1], x.shape[2:])
        inputs, outputs = (weight.shape[-2], weight.shape[-1]) if last else (weight.shape[1], weight.shape[0])
        kernel = weight.shape[:-2] if last else weight.shape[2:]
        if isinstance(channels, int) and isinstance(inputs, int) and channels != inputs * groups:
            cls.fail(f"{channels} input channels do not fit weight {weight} with {groups} groups", "groups")
        if isinstance(outputs, int) and outputs % groups:
            cls.fail(f"{outputs} output channels do not split into {groups} groups", "groups")
        check_windows(cls, spatial, kernel, dilations, low, high)
        sizes = [window_size(*a) for a in zip(spatial, kernel, strides, dilations, low, high, strict=True)]
        shape = (x.shape[0], *sizes, outputs) if last else (x.shape[0], outputs, *sizes)
        return TensorType(dtype or x.dtype, shape)

    def must_agree(self) -> list[Agreement]:
        x, weight = type_of(self.x).shape, type_of(self.weight).shape
        last = self.layout == "last"
        channels, spatial = (x[-1], x[1:-1]) if last else (x[1], x[2:])
        inputs, kernel = (weight[-2], weight[:-2]) if last else (weight[1], weight[2:])
        fit = windows_fit(spatial, kernel, self.dilations, self.low, self.high)
        return [Agreement(channels, inputs * self.groups), *fit]

    def flops(self) -> Dim:
        weight = type_of(self.weight).shape
        taps = product(weight[:-1] if self.layout == "last" else weight[1:])
        return type_of(self.operation.results[0]).elements * taps * 2
