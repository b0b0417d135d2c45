"""Normalisation layers. Batch normalisation uses its running statistics, unless it is in training mode."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import ClassVar

from burn import ops
from burn.dialect import compose
from burn.dialect import ops as build
from burn.errors import TypeMismatch
from burn.nn.checks import Count, DTypeName, Epsilon, Positive, Probability
from burn.nn.init import ones, zeros
from burn.nn.module import Layer
from burn.nn.parameter import Buffer, BufferOrNone, Parameter, ParameterOrNone
from burn.ops import element
from burn.tensors import Tensor, constant
from burn.tensors.control import check_size


class LayerNorm(Layer):
    """(x - mean) / sqrt(variance + eps) * weight + bias over the last axes (arXiv:1607.06450).

    Shapes: x [.., normalized_shape] -> the same."""

    def __init__(
        self,
        normalized_shape: Count | Sequence[Count],
        eps: Epsilon = 1e-5,
        affine: bool = True,
        bias: bool = True,
        dtype: DTypeName = "float32",
    ) -> None:
        self.shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps = eps
        self.weight: ParameterOrNone = Parameter(self.shape, dtype, ones) if affine else None
        self.bias: ParameterOrNone = Parameter(self.shape, dtype, zeros) if affine and bias else None

    def forward(self, x: Tensor) -> Tensor:
        axis = _first_axis(self, x, self.shape)
        return Tensor(
            build.layer_norm(
                x.value, _value(self.weight), _value(self.bias), axis=axis, epsilon=element(self.eps, x.dtype)
            )
        )

    def extra_repr(self) -> str:
        return ", ".join(map(str, self.shape))


class RMSNorm(Layer):
    """x / sqrt(mean of x^2 + eps) * weight over the last axes (arXiv:1910.07467). Shapes: x [.., normalized_shape] -> the
    same."""

    def __init__(
        self,
        normalized_shape: Count | Sequence[Count],
        eps: Epsilon = 1e-5,
        affine: bool = True,
        dtype: DTypeName = "float32",
    ) -> None:
        self.shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps = eps
        self.weight: ParameterOrNone = Parameter(self.shape, dtype, ones) if affine else None

    def forward(self, x: Tensor) -> Tensor:
        axis = _first_axis(self, x, self.shape)
        return Tensor(build.rms_norm(x.value, _value(self.weight), axis=axis, epsilon=element(self.eps, x.dtype)))

    def extra_repr(self) -> str:
        return ", ".join(map(str, self.shape))


class _BatchNorm(Layer):
    """weight * (x - mean) / sqrt(variance + eps) + bias, one number a channel (arXiv:1502.03167).

    Shapes: x [N, C, d..] -> the same.

    mean and variance are the running statistics. In training mode (or without running statistics) they are the batch's, and
    running = (1 - momentum) * running + momentum * batch (variance with n - 1)."""

    RANKS: ClassVar[tuple[int, ...]]

    def __init__(
        self,
        num_features: Count,
        eps: Epsilon = 1e-5,
        dtype: DTypeName = "float32",
        momentum: Probability = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
    ) -> None:
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.weight: ParameterOrNone = Parameter((num_features,), dtype, ones) if affine else None
        self.bias: ParameterOrNone = Parameter((num_features,), dtype, zeros) if affine else None
        self.running_mean: BufferOrNone = Buffer((num_features,), dtype, zeros) if track_running_stats else None
        self.running_var: BufferOrNone = Buffer((num_features,), dtype, ones) if track_running_stats else None

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim not in self.RANKS:
            raise TypeMismatch(f"{type(self).__name__} takes {' or '.join(map(str, self.RANKS))} axes", [f"not {x!r}"])
        if self.running_mean is None or self.running_var is None or self.training:
            mean, variance = self._statistics(x)
        else:
            mean, variance = self.running_mean, self.running_var
        dtype = x.dtype if self.weight is None else self.weight.dtype
        weight = _filled(self.num_features, dtype, 1.0) if self.weight is None else self.weight
        bias = _filled(self.num_features, dtype, 0.0) if self.bias is None else self.bias
        operands = (weight, bias, mean, variance)
        return Tensor(build.batch_norm(x.value, *(p.value for p in operands), epsilon=element(self.eps, x.dtype)))

    def _statistics(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The batch's mean and variance; updates the running statistics."""
        tracked = self.training and self.running_mean is not None
        axes = (0, *range(2, x.ndim))
        wide = x.astype(compose.wide(x.dtype))
        mean, variance = wide.mean(axes), Tensor(build.variance(wide.value, axes=axes))
        if tracked:
            count = prod(x.shape[a] for a in axes)
            check_size(count, ">=", 2, f"{type(self).__name__} in training mode needs two values a channel")
            share = constant(count, variance.dtype) / constant(count - 1, variance.dtype)
            for running, new in ((self.running_mean, mean), (self.running_var, variance * share)):
                assert running is not None
                running.assign(running * (1.0 - self.momentum) + new.astype(running.dtype) * self.momentum)
        return mean, variance

    def extra_repr(self) -> str:
        return str(self.num_features)


class BatchNorm1d(_BatchNorm):
    __doc__ = _BatchNorm.__doc__
    RANKS = (2, 3)


class BatchNorm2d(_BatchNorm):
    __doc__ = _BatchNorm.__doc__
    RANKS = (4,)


class BatchNorm3d(_BatchNorm):
    __doc__ = _BatchNorm.__doc__
    RANKS = (5,)


class GroupNorm(Layer):
    """Groups of channels of each sample, normalised by their own statistics (arXiv:1803.08494). Shapes: x [N, C, d..] -> the
    same."""

    def __init__(
        self,
        num_groups: Positive,
        num_channels: Count,
        eps: Epsilon = 1e-5,
        affine: bool = True,
        dtype: DTypeName = "float32",
    ) -> None:
        if num_channels % num_groups:
            raise TypeMismatch("GroupNorm cannot split its channels", [f"{num_channels} into {num_groups} groups"])
        self.groups, self.eps = num_groups, eps
        self.weight: ParameterOrNone = Parameter((num_channels,), dtype, ones) if affine else None
        self.bias: ParameterOrNone = Parameter((num_channels,), dtype, zeros) if affine else None

    def forward(self, x: Tensor) -> Tensor:
        operands = (x.value, _value(self.weight), _value(self.bias))
        return Tensor(build.group_norm(*operands, groups=self.groups, epsilon=element(self.eps, x.dtype)))

    def extra_repr(self) -> str:
        return str(self.groups)


class InstanceNorm(Layer):
    """Each channel of each sample, normalised by its own statistics (arXiv:1607.08022). Shapes: x [N, C, d..] -> the same."""

    def __init__(
        self, num_features: Count, eps: Epsilon = 1e-5, affine: bool = True, dtype: DTypeName = "float32"
    ) -> None:
        self.num_features, self.eps = num_features, eps
        self.weight: ParameterOrNone = Parameter((num_features,), dtype, ones) if affine else None
        self.bias: ParameterOrNone = Parameter((num_features,), dtype, zeros) if affine else None

    def forward(self, x: Tensor) -> Tensor:
        return Tensor(
            build.instance_norm(x.value, _value(self.weight), _value(self.bias), epsilon=element(self.eps, x.dtype))
        )

    def extra_repr(self) -> str:
        return str(self.num_features)


class LocalResponseNorm(Layer):
    """x / (k + alpha / size * sum of x^2 over `size` neighbouring channels)^beta (Krizhevsky et al., "ImageNet classification
    with deep convolutional neural networks", 2012). Shapes: x [N, C, d..] -> the same."""

    def __init__(self, size: Positive, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, x: Tensor) -> Tensor:
        # for an even size torch's window extends further back, the op's (ONNX's) further ahead
        if self.size % 2:
            return ops.lrn(x, size=self.size, alpha=float(self.alpha), beta=float(self.beta), bias=float(self.k))
        rank = x.ndim
        before = self.size // 2

        def at_channels(n: int, elsewhere: int) -> tuple[int, ...]:
            return tuple(n if axis == 1 else elsewhere for axis in range(rank))

        squares = Tensor(
            build.window_reduce(
                (x * x).value,
                kind="sum",
                window=at_channels(self.size, 1),
                strides=(1,) * rank,
                dilations=(1,) * rank,
                low=at_channels(before, 0),
                high=at_channels(self.size - 1 - before, 0),
            )
        )
        return x / (squares * (self.alpha / self.size) + self.k) ** self.beta

    def extra_repr(self) -> str:
        return str(self.size)


def _first_axis(layer: Layer, x: Tensor, shape: tuple[int, ...]) -> int:
    """The first normalised axis. Raises TypeMismatch if x does not end in the shape."""
    last = x.shape[max(x.ndim - len(shape), 0) :]
    if x.ndim < len(shape) or any(isinstance(a, int) and a != b for a, b in zip(last, shape, strict=True)):
        raise TypeMismatch(f"{type(layer).__name__} takes [.., {', '.join(map(str, shape))}]", [f"not {x.type}"])
    return x.ndim - len(shape)


def _filled(size: int, dtype: str, value: float) -> Tensor:
    return Tensor(build.full(shape=(size,), dtype=dtype, value=value))


def _value(parameter: Parameter | None):
    return None if parameter is None else parameter.value
