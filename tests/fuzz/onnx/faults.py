"""Cases in which ONNX Runtime is no reference: the specification leaves them open, or they are known faults. Each has a reason.

A piece with such a reason is not added to a graph, at any set of sizes. Tests of their own cover burn's results for
these cases.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper

from .values import Array, words


@dataclass(frozen=True)
class Site:
    """A node and its operands at one set of sizes: None for one that is left out or unknown (a body's own)."""

    node: onnx.NodeProto
    operands: Sequence[Array | None]
    opset: int

    def operand(self, index: int) -> Array | None:
        return self.operands[index] if index < len(self.operands) else None

    def attribute(self, name: str, default: Any = None) -> Any:
        found = (helper.get_attribute_value(a) for a in self.node.attribute if a.name == name)
        return next(found, default)


Rule = Callable[[Site], bool]


def _empty(site: Site) -> bool:
    first = site.operand(0)
    return first is not None and not first.size


def _not_a_number(site: Site) -> bool:
    return any(x is not None and x.dtype.kind == "f" and bool(np.isnan(x).any()) for x in site.operands)


def _infinite(site: Site) -> bool:
    return any(x is not None and x.dtype.kind == "f" and not np.isfinite(x).all() for x in site.operands)


def _division(site: Site) -> bool:
    """By zero, where it is no infinity; and the least integer by -1."""
    divisor = site.operand(1)
    if divisor is None:
        return True
    if divisor.dtype.kind == "f":
        return site.node.op_type == "Mod" and bool((divisor == 0).any())
    return bool((divisor == 0).any() or (divisor.dtype.kind == "i" and (divisor == -1).any()))


def _cast_out_of_range(site: Site) -> bool:
    to, given = site.attribute("to"), site.operand(0)
    if given is None:
        return True
    if given.dtype.kind != "f" or not given.size:
        return False
    dtype = helper.tensor_dtype_to_np_dtype(to)
    if dtype.kind not in "iu":
        return False
    limits, finite = np.iinfo(dtype), np.isfinite(given).all()
    return not finite or bool(given.min() < max(limits.min, -(2.0**31)) or given.max() > min(limits.max, 2.0**31 - 130))


def _long_shift(site: Site) -> bool:
    amount = site.operand(1)
    return amount is None or bool((amount >= amount.dtype.itemsize * 8).any())


def _integer_power(site: Site) -> bool:
    base, exponent = site.operand(0), site.operand(1)
    if base is None or base.dtype.kind == "f":
        return False
    return exponent is None or bool(
        (exponent < 0).any() or (exponent.astype(float) > 3).any() or (np.abs(base) > 1000).any()
    )


def _ties(site: Site) -> bool:
    """True if the greatest number along the axis occurs twice."""
    given = site.operand(0)
    if given is None or not given.size:
        return True
    axis = site.attribute("axis", -1)
    return bool(((given == given.max(axis, keepdims=True)).sum(axis) != 1).any())


def _slope_is_wider(site: Site) -> bool:
    given, slope = site.operand(0), site.operand(1)
    if given is None or slope is None:
        return True
    return np.broadcast_shapes(given.shape, slope.shape) != given.shape


def _wide_matmul(site: Site) -> bool:
    given = site.operand(0)
    if given is None or given.dtype.kind == "f":
        return False
    return bool(np.abs(given.astype(float)).max(initial=1) ** given.size > 2.0**30)


def _partly_overflows(site: Site) -> bool:
    """True if some of the factors overflow when multiplied in another order, next to a zero or a NaN."""
    given = site.operand(0)
    if given is None or given.dtype.kind != "f" or not given.size:
        return False
    factors = np.abs(given[np.isfinite(given) & (given != 0)].astype(np.float64))
    spread = np.abs(np.log2(factors)).sum()
    return bool(spread > {2: 14, 4: 120, 8: 1000}[given.dtype.itemsize])


def _special_root(site: Site) -> bool:
    base, exponent = site.operand(0), site.operand(1)
    if base is None or exponent is None or base.dtype.kind != "f":
        return False
    return bool((np.abs(exponent) == 0.5).any() and ((base == 0) | np.isneginf(base)).any())


def _nearly_constant(site: Site) -> bool:
    """Numbers whose spread is what rounding left of it."""
    given = site.operand(0)
    if given is None or not given.size:
        return True
    instance = site.node.op_type == "InstanceNormalization"
    axes = tuple(range(2, given.ndim)) if instance else tuple(site.attribute("axes", (0, 2, 3)))
    wide = given.astype(np.float64)
    with np.errstate(all="ignore"):
        return not bool((wide.std(axes) > 1e-3 * np.abs(wide).max(axes)).all())


def _times_zero(site: Site) -> bool:
    return site.attribute("alpha", 1.0) == 0


def _float64(site: Site) -> bool:
    given = site.operand(0)
    return given is not None and given.dtype == np.float64


def _tanh_in_float64(site: Site) -> bool:
    return _float64(site) and site.attribute("approximate", b"none") == b"tanh"


def _negative_padding(site: Site) -> bool:
    """`SAME`, where a stride steps over more than the window covers."""
    window = site.attribute("kernel_shape", ())
    given = site.operand(1) if site.node.op_type in ("Conv", "ConvInteger", "QLinearConv") and not window else None
    window = given.shape[2:] if given is not None else window
    strides, dilations = site.attribute("strides", (1,) * len(window)), site.attribute("dilations", (1,) * len(window))
    steps_over = any((k - 1) * d + 1 < s for k, s, d in zip(window, strides, dilations, strict=True))
    return steps_over and site.attribute("auto_pad", b"NOTSET") in (b"SAME_UPPER", b"SAME_LOWER")


def _near_the_bound(site: Site) -> bool:
    """True if a float16 equals the attribute `lambd` up to rounding."""
    given, bound = site.operand(0), site.attribute("lambd", 0.5)
    return given is None or (given.dtype == np.float16 and bool((np.abs(given) == np.float16(bound)).any()))


def _window_beyond(site: Site) -> bool:
    """A window that is larger than the padded axis it moves along."""
    given, window = site.operand(0), site.attribute("kernel_shape", ())
    if given is None or site.attribute("auto_pad", b"NOTSET") in (b"SAME_UPPER", b"SAME_LOWER"):
        return given is None
    spatial = len(window)
    pads, dilations = site.attribute("pads", (0,) * spatial * 2), site.attribute("dilations", (1,) * spatial)
    sizes = zip(given.shape[2:], window, dilations, pads[:spatial], pads[spatial:], strict=True)
    return any((k - 1) * dilation + 1 > size + low + high for size, k, dilation, low, high in sizes)


def _all_zero(site: Site) -> bool:
    given = site.operand(0)
    return given is not None and not given.any()


def _wide_sum(site: Site) -> bool:
    given = site.operand(0)
    if given is None or given.dtype.kind == "f":
        return False
    return bool(np.abs(given.astype(float)).max(initial=0) ** 2 * max(given.size, 1) > 2.0**30)


def _never_runs(site: Site) -> bool:
    trips = site.operand(0)
    return trips is None or int(trips.reshape(())) <= 0


def _computed_zero(site: Site) -> bool:
    given, shape = site.operand(0), site.operand(1)
    return given is not None and shape is not None and not given.size and bool((shape == 0).any())


def _half_pixel_tie(site: Site) -> bool:
    """A coordinate on the border of two pixels, or so near that float32 decides."""
    given, scales = site.operand(0), site.operand(2)
    if site.attribute("mode", b"nearest") != b"nearest" or given is None:
        return False
    if scales is None or not scales.size:
        sizes = site.operand(3)
        if sizes is None:
            return True
        scales = sizes.astype(np.float64) / np.maximum(given.shape, 1)
    for size, scale in zip(given.shape, scales.astype(np.float64), strict=True):
        out = np.arange(int(np.floor(size * scale)))
        patches = {
            b"asymmetric": out / scale,
            b"align_corners": out * (size - 1) / max(len(out) - 1, 1),
        }.get(site.attribute("coordinate_transformation_mode", b"half_pixel"), (out + 0.5) / scale - 0.5)
        beyond = np.abs(patches * 2 - np.round(patches * 2))
        if scale != 1 and (beyond < 1e-5).any() and (np.round(patches * 2)[beyond < 1e-5] % 2 != 0).any():
            return True
        if scale != 1 and ((beyond < 1e-5) & (beyond > 0)).any():
            return True
    return False


def _near_integer_size(site: Site) -> bool:
    given, scales = site.operand(0), site.operand(2)
    if given is None or scales is None or not scales.size:
        return False
    sizes = np.array(given.shape) * scales.astype(np.float64)
    near = np.abs(sizes - np.round(sizes))
    return bool(((near < 1e-4) & (near > 0)).any())


OVER_NOTHING = words(
    "ReduceSum ReduceProd ArgMax ArgMin ReduceMean ReduceMax ReduceMin ReduceLogSum ReduceLogSumExp LayerNormalization"
    " InstanceNormalization GroupNormalization MeanVarianceNormalization Softmax LogSoftmax Hardmax BatchNormalization"
    " ReduceL2 ReduceL1 ReduceSumSquare TopK DynamicQuantizeLinear Resize Det RMSNormalization LpNormalization Unique"
    " Einsum Slice AveragePool MaxPool LpPool Pad LRN Conv ConvTranspose"
)
ORDERED = words("ArgMax ArgMin TopK Unique Hardmax ReduceMax ReduceMin MaxPool GlobalMaxPool Max Min Clip Relu Sign")

RULES: tuple[tuple[tuple[str, ...], Rule, str], ...] = (
    (
        OVER_NOTHING,
        _empty,
        "refused, left as it was, or zeros that mean nothing: no two versions agree on empty operands",
    ),
    (ORDERED, _not_a_number, "a comparison with NaN is false: which one wins depends on the order of its vector lanes"),
    (words("Hardmax"), _ties, "all greatest elements are marked; the specification marks the first"),
    (words("Div Mod"), _division, "undefined for integers, and the process may end by SIGFPE"),
    (words("Cast"), _cast_out_of_range, "undefined by the specification"),
    (words("BitShift"), _long_shift, "undefined in C++"),
    (
        words("Pow"),
        _integer_power,
        "computed in floating point: wrong from 2^53 on, and a negative exponent is undefined",
    ),
    (words("PRelu"), _slope_is_wider, "broadcasts both ways; the specification lets only the slope be broadcast"),
    (words("ReduceProd"), _wide_matmul, "int32 saturates where int64 wraps"),
    (words("ReduceProd"), _partly_overflows, "an overflow on the way, in another order of the factors"),
    (
        words("Pow"),
        _special_root,
        "numpy and torch take sqrt(x) for x^0.5, not a number at -inf and -0 at -0, where C's pow has inf and 0",
    ),
    (
        words("MeanVarianceNormalization"),
        _nearly_constant,
        "E[x^2] - E[x]^2 in float32, which may be negative: a root that is not a number",
    ),
    (
        words("InstanceNormalization"),
        _nearly_constant,
        "x * s - mean * s, which cancels: s is large where the variance is small",
    ),
    (words("Gemm"), _times_zero, "left out: no -0, and nothing of what is infinite"),
    (words("LRN"), _infinite, "a running sum: what is infinite stays in it"),
    (
        words("DynamicQuantizeLinear"),
        _all_zero,
        "a scale of 1; by the specification's formula it is (max - min) / 255, 0",
    ),
    (words("HardSwish"), _float64, "1/6 in float32; the specification says 1/6"),
    (
        words("Gelu"),
        _tanh_in_float64,
        "sqrt(2 / pi) and 0.044715 in float32; the specification has the numbers themselves",
    ),
    (words("Shrink"), _near_the_bound, "compared with a float32; the specification casts the bound to float16"),
    (
        words("AveragePool MaxPool LpPool Conv"),
        _negative_padding,
        "padding below 0 crops; the specification's `same` is no cropping, nor is TensorFlow's that it comes from",
    ),
    (
        words("AveragePool MaxPool LpPool"),
        _window_beyond,
        "one window where the specification's formula has none: -1 / 2 is rounded towards 0. Burn refuses such a window",
    ),
    (words("ReduceSumSquare ReduceL1 ReduceSum CumSum"), _wide_sum, "int32 saturates where int64 wraps"),
    (
        words("Reshape"),
        _computed_zero,
        "a size that was computed as 0 means `as in the operand`; burn takes it for the size that it is",
    ),
    (words("Loop"), _never_runs, "a scan output of no iterations has shape [0], with the wrong rank"),
    (words("Resize Upsample"), _half_pixel_tie, "float32 coordinates: a tie falls to either side"),
    (words("Resize Upsample"), _infinite, "a neighbour of weight 0 counts or not, as the coordinate is cut"),
    (words("Resize Upsample"), _near_integer_size, "the output's size is cut in float32"),
    (
        words("QuantizeLinear DynamicQuantizeLinear"),
        _infinite,
        "undefined: a NaN or an infinity has no quantised number",
    ),
)


def fault(site: Site) -> str | None:
    """Why this node's result says nothing."""
    for ops, rule, reason in RULES:
        if site.node.op_type in ops and rule(site):
            return reason
    return None
