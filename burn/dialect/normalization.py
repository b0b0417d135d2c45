"""Normalisations: composites that centre and scale their input by its own or by given statistics.

Statistics of 16-bit floats are computed in float32. Variances are means of squared differences, never E[x^2] - E[x]^2.
"""

from __future__ import annotations

from burn.dialect import ops
from burn.dialect.batching.rules import by_channel, folded, leading
from burn.dialect.compose import along, check_equal, check_spreads, convert, mean, number_like, reshape, wide
from burn.dialect.mlir import ir
from burn.dialect.op import Op, Operand, normalize_axis
from burn.dialect.types import FLOATS, TensorType, may_equal, may_spread, type_of


def _check(cls: type[Op], x: TensorType, least_rank: int = 0) -> TensorType:
    if x.dtype not in FLOATS:
        cls.fail(f"does not take {x.dtype}; it takes {', '.join(FLOATS)}")
    if x.rank < least_rank:
        cls.fail(f"takes at least {least_rank} axes, not {x}")
    return x


def _check_affine(cls: type[Op], x: TensorType, *parameters: TensorType | None) -> None:
    """Scale and bias must broadcast to x, in its element type or a wider one."""
    for parameter in parameters:
        if parameter is not None and not may_spread(parameter.shape, x.shape):
            cls.fail(f"{parameter} does not broadcast to {x}")


def _check_channels(cls: type[Op], x: TensorType, *parameters: TensorType | None) -> None:
    """Parameters have one number per channel, axis 1 of x."""
    channels = x.shape[1] if x.rank > 1 else 1
    for parameter in parameters:
        if parameter is None:
            continue
        if parameter.rank != 1:
            cls.fail(f"{parameter} must be a vector of {channels} channels")
        if not may_equal(parameter.shape, (channels,)):
            cls.fail(f"{parameter} must have {channels} channels")


def standardise(x: ir.Value, axes: tuple[int, ...], epsilon: float) -> ir.Value:
    """(x - mean) / sqrt(variance + epsilon) over `axes`, in x's element type."""
    return ops.mul(*centred_and_scale(x, axes, epsilon))


def centred_and_scale(x: ir.Value, axes: tuple[int, ...], epsilon: float) -> tuple[ir.Value, ir.Value]:
    """x - mean, and 1 / sqrt(variance + epsilon), over `axes`."""
    distance = ops.sub(x, mean(x, axes, keepdims=True))
    variance = mean(ops.mul(distance, distance), axes, keepdims=True)
    return distance, ops.rsqrt(ops.add(variance, number_like(epsilon, x)))


def check_channels(x: ir.Value, *parameters: ir.Value | None) -> None:
    """Aborts the run unless each parameter has one element per channel, axis 1 of x."""
    for parameter in parameters:
        if parameter is not None:
            channels = type_of(x).shape[1:2] or (1,)
            check_equal(type_of(parameter).shape, channels, "there is one parameter for each channel")


def _by_channel(x: ir.Value, *parameters: ir.Value | None) -> list[ir.Value | None]:
    """Vectors with one element per channel, reshaped along axis 1 of x."""
    check_channels(x, *parameters)
    return [None if v is None else along(v, 1, type_of(x).rank) for v in parameters]


def _affine(x: ir.Value, scale: ir.Value | None, bias: ir.Value | None) -> ir.Value:
    """x * scale + bias, which broadcast to x."""
    dtype = type_of(x).dtype
    for parameter in (scale, bias):
        if parameter is not None:
            check_spreads(type_of(parameter).shape, type_of(x).shape, "scale and bias broadcast to the input")
    if scale is not None:
        x = ops.mul(x, convert(scale, dtype))
    return x if bias is None else ops.add(x, convert(bias, dtype))


def _spatial(x: ir.Value) -> tuple[int, ...]:
    return tuple(range(2, type_of(x).rank))


class Variance(Op, name="variance", batching=leading("axes")):
    """The mean squared deviation from the mean over `axes`, computed in float32 for 16-bit floats.

    Shapes: x [d, ...] -> x's, without the axes or with size 1.
    """

    x: Operand
    axes: tuple[int, ...]
    keepdims: bool = False

    @classmethod
    def infer(cls, x: TensorType, axes: tuple[int, ...], keepdims: bool) -> TensorType:
        _check(cls, x)
        gone = {normalize_axis(cls, axis, x.rank) for axis in axes}
        kept = tuple(1 if i in gone else d for i, d in enumerate(x.shape) if keepdims or i not in gone)
        return x.with_shape(kept)

    @classmethod
    def decompose(cls, x: ir.Value, axes: tuple[int, ...], keepdims: bool) -> ir.Value:
        dtype = type_of(x).dtype
        distance = centred(convert(x, wide(dtype)), axes)
        return convert(mean(ops.mul(distance, distance), axes, keepdims), dtype)


def centred(x: ir.Value, axes: tuple[int, ...]) -> ir.Value:
    """x minus its mean over `axes`, as `mean(x, axes)` computes it: equal subexpressions are computed once."""
    gone = {a % type_of(x).rank for a in axes}
    kept = tuple(1 if i in gone else d for i, d in enumerate(type_of(x).shape))
    return ops.sub(x, reshape(mean(x, axes), kept))


class LayerNorm(Op, name="layer_norm", batching=leading("axis")):
    """(x - mean) / sqrt(variance + epsilon) over axes `axis` to the last, then times scale, plus bias
    (arXiv:1607.06450).

    Shapes: x [a.., b..], scale and bias broadcast to it -> [a.., b..]."""

    x: Operand
    scale: Operand | None
    bias: Operand | None
    axis: int = -1
    epsilon: float = 1e-5

    @classmethod
    def infer(cls, x, scale, bias, axis: int, epsilon: float) -> TensorType:
        normalize_axis(cls, axis, x.rank)
        _check_affine(cls, x, scale, bias)
        return _check(cls, x, 1)

    @classmethod
    def decompose(cls, x: ir.Value, scale, bias, axis: int, epsilon: float) -> ir.Value:
        type_ = type_of(x)
        axes = tuple(range(axis % type_.rank, type_.rank))
        result = standardise(convert(x, wide(type_.dtype)), axes, epsilon)
        return convert(_affine(result, scale, bias), type_.dtype)


class RmsNorm(Op, name="rms_norm", batching=leading("axis")):
    """x / sqrt(mean of x^2 + epsilon) over axes `axis` to the last, then times scale (arXiv:1910.07467).

    Shapes: x [a.., b..], scale broadcast to it -> [a.., b..]."""

    x: Operand
    scale: Operand | None
    axis: int = -1
    epsilon: float = 1e-5

    @classmethod
    def infer(cls, x, scale, axis: int, epsilon: float) -> TensorType:
        normalize_axis(cls, axis, x.rank)
        _check_affine(cls, x, scale)
        return _check(cls, x, 1)

    @classmethod
    def decompose(cls, x: ir.Value, scale, axis: int, epsilon: float) -> ir.Value:
        type_ = type_of(x)
        axes = tuple(range(axis % type_.rank, type_.rank))
        value = convert(x, wide(type_.dtype))
        square = mean(ops.mul(value, value), axes, keepdims=True)
        result = ops.mul(value, ops.rsqrt(ops.add(square, number_like(epsilon, value))))
        return convert(_affine(result, scale, None), type_.dtype)


class BatchNorm(Op, name="batch_norm", batching=by_channel):
    """scale * (x - mean) / sqrt(variance + epsilon) + bias with given statistics, one number per channel
    (arXiv:1502.03167).

    Shapes: x [N, C, d..], scale, bias, mean, variance [C] -> [N, C, d..].
    """

    x: Operand
    scale: Operand
    bias: Operand
    mean: Operand
    variance: Operand
    epsilon: float = 1e-5

    @classmethod
    def infer(cls, x, scale, bias, mean, variance, epsilon: float) -> TensorType:
        _check_channels(cls, x, scale, bias, mean, variance)
        return _check(cls, x, 1)

    @classmethod
    def decompose(cls, x: ir.Value, scale, bias, mean, variance, epsilon: float) -> ir.Value:
        """One multiplication and one addition per element; the channels' factors are small tensors."""
        type_ = type_of(x)
        check_channels(x, scale, bias, mean, variance)
        dtype = wide(type_.dtype)
        scale, bias, mean, variance = (convert(v, dtype) for v in (scale, bias, mean, variance))
        factor = ops.div(scale, ops.sqrt(ops.add(variance, number_like(epsilon, variance))))
        offset = ops.sub(bias, ops.mul(mean, factor))
        factor, offset = (along(v, min(1, type_.rank - 1), type_.rank) for v in (factor, offset))
        return convert(ops.add(ops.mul(convert(x, dtype), factor), offset), type_.dtype)


class InstanceNorm(Op, name="instance_norm", batching=by_channel):
    """Centres and scales each channel of each sample by its own statistics (arXiv:1607.08022).

    Shapes: x [N, C, d..], scale and bias [C] -> [N, C, d..].
    """

    x: Operand
    scale: Operand | None
    bias: Operand | None
    epsilon: float = 1e-5

    @classmethod
    def infer(cls, x, scale, bias, epsilon: float) -> TensorType:
        _check_channels(cls, x, scale, bias)
        return _check(cls, x, 3)

    @classmethod
    def decompose(cls, x: ir.Value, scale, bias, epsilon: float) -> ir.Value:
        type_ = type_of(x)
        result = standardise(convert(x, wide(type_.dtype)), _spatial(x), epsilon)
        scale, bias = _by_channel(x, scale, bias)
        return convert(_affine(result, scale, bias), type_.dtype)


class GroupNorm(Op, name="group_norm", batching=by_channel):
    """Centres and scales groups of channels of each sample by their own statistics (arXiv:1803.08494).

    Shapes: x [N, C, d..], scale and bias [C] -> [N, C, d..]; `groups` divides C.
    """

    x: Operand
    scale: Operand | None
    bias: Operand | None
    groups: int
    epsilon: float = 1e-5

    @classmethod
    def infer(cls, x, scale, bias, groups: int, epsilon: float) -> TensorType:
        _check(cls, x, 2)
        _check_channels(cls, x, scale, bias)
        if groups < 1 or (isinstance(x.shape[1], int) and x.shape[1] % groups):
            cls.fail(f"{x.shape[1]} channels do not split into {groups} groups", "groups")
        return x

    @classmethod
    def decompose(cls, x: ir.Value, scale, bias, groups: int, epsilon: float) -> ir.Value:
        type_ = type_of(x)
        batch, channels, *spatial = type_.shape
        check_channels(x, scale, bias)
        # All ops between the reshapes are of one shape, so that one kernel computes them. One group needs no reshapes.
        apart = (channels,) if groups == 1 else (groups, channels // groups)
        ones = (1,) * len(spatial)
        scale, bias = (v if v is None else reshape(v, (1, *apart, *ones)) for v in (scale, bias))
        grouped = convert(reshape(x, (batch, *apart, *spatial)), wide(type_.dtype))
        first = len(apart)
        result = standardise(grouped, tuple(range(first, first + 1 + len(spatial))), epsilon)
        return reshape(convert(_affine(result, scale, bias), type_.dtype), type_.shape)


class LpNorm(Op, name="lp_norm", batching=leading("axis")):
    """x / its p-norm along `axis` (p 1 or 2); 0 if the norm is 0. Shapes: x [...] -> [...]."""

    x: Operand
    axis: int = -1
    p: int = 2

    @classmethod
    def infer(cls, x: TensorType, axis: int, p: int) -> TensorType:
        normalize_axis(cls, axis, x.rank)
        if p not in (1, 2):
            cls.fail(f"p must be 1 or 2, not {p}", "p")
        return _check(cls, x, 1)

    @classmethod
    def decompose(cls, x: ir.Value, axis: int, p: int) -> ir.Value:
        type_ = type_of(x)
        value = convert(x, wide(type_.dtype))
        powers = ops.mul(value, value) if p == 2 else ops.abs(value)
        norm = ops.reduce(powers, kind="sum", axes=(axis % type_.rank,), keepdims=True)
        if p == 2:
            norm = ops.sqrt(norm)
        zero = number_like(0, value)
        return convert(ops.select(ops.eq(norm, zero), zero, ops.div(value, norm)), type_.dtype)


class Lrn(Op, name="lrn", batching=folded(x=0)):
    """Local response normalisation: x / (bias + alpha / size * sum of x^2 over `size` neighbouring channels)^beta.

    Shapes: x [N, C, d..] -> [N, C, d..]. (Krizhevsky et al. 2012.)"""

    x: Operand
    size: int
    alpha: float = 1e-4
    beta: float = 0.75
    bias: float = 1.0

    @classmethod
    def infer(cls, x: TensorType, size: int, alpha: float, beta: float, bias: float) -> TensorType:
        if size < 1:
            cls.fail(f"size must be at least 1, not {size}", "size")
        return _check(cls, x, 2)

    @classmethod
    def decompose(cls, x: ir.Value, size: int, alpha: float, beta: float, bias: float) -> ir.Value:
        type_ = type_of(x)
        value, rank = convert(x, wide(type_.dtype)), type_.rank
        below = (size - 1) // 2

        def at_channels(n: int, elsewhere: int) -> tuple[int, ...]:
            return tuple(n if axis == 1 else elsewhere for axis in range(rank))

        squares = ops.window_reduce(
            ops.mul(value, value),
            kind="sum",
            window=at_channels(size, 1),
            strides=(1,) * rank,
            dilations=(1,) * rank,
            low=at_channels(below, 0),
            high=at_channels(size - 1 - below, 0),
        )
        base = ops.add(ops.mul(squares, number_like(alpha / size, value)), number_like(bias, value))
        return convert(ops.div(value, ops.pow(base, number_like(beta, value))), type_.dtype)
