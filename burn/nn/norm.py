"""Normalisation layers, for inference: batch normalisation uses its running statistics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from burn.dialect import ops as build
from burn.errors import TypeMismatch
from burn.nn.module import Module
from burn.nn.parameter import Buffer, Parameter
from burn.ops import element
from burn.tensor import Tensor


class LayerNorm(Module):
    """(x - mean) / sqrt(variance + eps) * weight + bias over the last axes.

    Shapes: x [.., normalized_shape] -> the same."""

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        affine: bool = True,
        bias: bool = True,
        dtype: str = "float32",
    ) -> None:
        self.shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps = eps
        self.weight = Parameter(self.shape, dtype, np.ones) if affine else None
        self.bias = Parameter(self.shape, dtype, np.zeros) if affine and bias else None

    def forward(self, x: Tensor) -> Tensor:
        axis = x.ndim - len(self.shape)
        return Tensor(
            build.layer_norm(
                x.value, _value(self.weight), _value(self.bias), axis=axis, epsilon=element(self.eps, x.dtype)
            )
        )

    def extra_repr(self) -> str:
        return ", ".join(map(str, self.shape))


class RMSNorm(Module):
    """x / sqrt(mean of x^2 + eps) * weight over the last axes. Shapes: x [.., normalized_shape] -> the same."""

    def __init__(
        self, normalized_shape: int | Sequence[int], eps: float = 1e-5, affine: bool = True, dtype: str = "float32"
    ) -> None:
        self.shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps = eps
        self.weight = Parameter(self.shape, dtype, np.ones) if affine else None

    def forward(self, x: Tensor) -> Tensor:
        axis = x.ndim - len(self.shape)
        return Tensor(build.rms_norm(x.value, _value(self.weight), axis=axis, epsilon=element(self.eps, x.dtype)))

    def extra_repr(self) -> str:
        return ", ".join(map(str, self.shape))


class _BatchNorm(Module):
    """weight * (x - running_mean) / sqrt(running_var + eps) + bias, one number a channel. Shapes: x [N, C, d..]."""

    RANKS: ClassVar[tuple[int, ...]]

    def __init__(self, num_features: int, eps: float = 1e-5, dtype: str = "float32") -> None:
        self.eps = eps
        self.weight = Parameter((num_features,), dtype, np.ones)
        self.bias = Parameter((num_features,), dtype, np.zeros)
        self.running_mean = Buffer((num_features,), dtype, np.zeros)
        self.running_var = Buffer((num_features,), dtype, np.ones)

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim not in self.RANKS:
            raise TypeMismatch(f"{type(self).__name__} takes {' or '.join(map(str, self.RANKS))} axes", [f"not {x!r}"])
        operands = (self.weight, self.bias, self.running_mean, self.running_var)
        return Tensor(build.batch_norm(x.value, *(p.value for p in operands), epsilon=element(self.eps, x.dtype)))

    def extra_repr(self) -> str:
        return str(self.weight.shape[0])


class BatchNorm1d(_BatchNorm):
    RANKS = (2, 3)


class BatchNorm2d(_BatchNorm):
    RANKS = (4,)


class BatchNorm3d(_BatchNorm):
    RANKS = (5,)


class GroupNorm(Module):
    """Groups of channels of each sample, normalised by their own statistics. Shapes: x [N, C, d..] -> the same."""

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True, dtype: str = "float32"
    ) -> None:
        self.groups, self.eps = num_groups, eps
        self.weight = Parameter((num_channels,), dtype, np.ones) if affine else None
        self.bias = Parameter((num_channels,), dtype, np.zeros) if affine else None

    def forward(self, x: Tensor) -> Tensor:
        operands = (x.value, _value(self.weight), _value(self.bias))
        return Tensor(build.group_norm(*operands, groups=self.groups, epsilon=element(self.eps, x.dtype)))

    def extra_repr(self) -> str:
        return str(self.groups)


class InstanceNorm(Module):
    """Each channel of each sample, normalised by its own statistics. Shapes: x [N, C, d..] -> the same."""

    def __init__(self, num_features: int, eps: float = 1e-5, affine: bool = True, dtype: str = "float32") -> None:
        self.eps = eps
        self.weight = Parameter((num_features,), dtype, np.ones) if affine else None
        self.bias = Parameter((num_features,), dtype, np.zeros) if affine else None

    def forward(self, x: Tensor) -> Tensor:
        return Tensor(
            build.instance_norm(x.value, _value(self.weight), _value(self.bias), epsilon=element(self.eps, x.dtype))
        )


def _value(parameter: Parameter | None):
    return None if parameter is None else parameter.value
