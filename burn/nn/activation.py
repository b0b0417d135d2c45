"""Activations and other functions without weights, as modules: rows of a table, one class made from each function's signature.

The names of their options are torch's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

from burn import ops
from burn.nn.checks import Count, DTypeName, Range
from burn.nn.init import constant
from burn.nn.module import Layer
from burn.nn.parameter import Parameter
from burn.tensors import Tensor

Above = Annotated[float, Range(0, open=True)]


def relu(x: Tensor) -> Tensor:
    """max(x, 0)."""
    return ops.relu(x)


def relu6(x: Tensor) -> Tensor:
    """x clipped to [0, 6]."""
    return ops.clip(x, 0.0, 6.0, strict=True)


def leaky_relu(x: Tensor, negative_slope: float = 0.01) -> Tensor:
    """x for x > 0, else negative_slope * x."""
    return ops.leaky_relu(x, alpha=negative_slope)


def elu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """x for x >= 0, alpha * (exp(x) - 1) below (arXiv:1511.07289)."""
    return ops.elu(x, alpha=alpha)


def celu(x: Tensor, alpha: Above = 1.0) -> Tensor:
    """x for x >= 0, alpha * (exp(x / alpha) - 1) below (arXiv:1704.07483)."""
    return ops.celu(x, alpha=alpha)


def selu(x: Tensor) -> Tensor:
    """A scaled `ELU` that keeps mean 0 and variance 1 (arXiv:1706.02515)."""
    return ops.selu(x)


def gelu(x: Tensor, approximate: Literal["none", "tanh"] = "none") -> Tensor:
    """x times the normal distribution's integral up to x (arXiv:1606.08415)."""
    return ops.gelu(x, approximate=approximate)


def silu(x: Tensor) -> Tensor:
    """x * sigmoid(x), also called swish (arXiv:1710.05941)."""
    return ops.silu(x)


def mish(x: Tensor) -> Tensor:
    """x * tanh(softplus(x)) (arXiv:1908.08681)."""
    return ops.mish(x)


def softplus(x: Tensor, beta: Above = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(beta x)) / beta, and x itself where beta x is above the threshold."""
    if beta == 1.0:
        y = ops.softplus(x)  # equals x in float32 far below the default threshold
        return y if threshold >= 20.0 else ops.select(x > threshold, x, y)
    scaled = x * beta
    return ops.select(scaled > threshold, x, ops.softplus(scaled) / beta)


def softsign(x: Tensor) -> Tensor:
    """x / (1 + |x|)."""
    return ops.softsign(x)


def hard_swish(x: Tensor) -> Tensor:
    """x * hard_sigmoid(x) (arXiv:1905.02244)."""
    return ops.hard_swish(x)


def hard_sigmoid(x: Tensor, slope: float = 1 / 6, offset: float = 0.5) -> Tensor:
    """slope * x + offset, clipped to [0, 1]."""
    return ops.hard_sigmoid(x, alpha=slope, beta=offset)


def hard_tanh(x: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """x clipped to [min_val, max_val]."""
    return ops.clip(x, min_val, max_val, strict=True)


def hard_shrink(x: Tensor, lambd: float = 0.5) -> Tensor:
    """x, and 0 where |x| <= lambd."""
    return ops.select(abs(x) <= lambd, 0.0, x)


def soft_shrink(x: Tensor, lambd: Annotated[float, Range(0)] = 0.5) -> Tensor:
    """x moved by lambd towards 0, and 0 where |x| <= lambd."""
    return ops.select(x > lambd, x - lambd, ops.select(x < -lambd, x + lambd, 0.0 * x))


def tanh_shrink(x: Tensor) -> Tensor:
    """x - tanh(x)."""
    return x - ops.tanh(x)


def threshold(x: Tensor, threshold: float, value: float) -> Tensor:
    """x, and the value where x <= threshold."""
    return ops.select(x <= threshold, value, x)


def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + exp(-x))."""
    return ops.sigmoid(x)


def log_sigmoid(x: Tensor) -> Tensor:
    """log(sigmoid(x)), without overflow."""
    return -ops.softplus(-x)


def tanh(x: Tensor) -> Tensor:
    """The hyperbolic tangent."""
    return ops.tanh(x)


def softmax(x: Tensor, dim: int = -1) -> Tensor:
    """exp(x) / sum of exp(x) along an axis."""
    return ops.softmax(x, axis=dim)


def softmin(x: Tensor, dim: int = -1) -> Tensor:
    """The softmax of -x along an axis."""
    return ops.softmax(-x, axis=dim)


def log_softmax(x: Tensor, dim: int = -1) -> Tensor:
    """log(softmax(x)) along an axis."""
    return ops.log_softmax(x, axis=dim)


def glu(x: Tensor, dim: int = -1) -> Tensor:
    """a * sigmoid(b), with the axis split into a and b (arXiv:1612.08083). Shapes: x [.., 2 d, ..] -> [.., d, ..]."""
    a, b = split_in_two(x, dim)
    return a * ops.sigmoid(b)


def split_in_two(x: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    position = x._axis(axis)
    half = x.shape[position] // 2
    outer = (slice(None),) * position
    return x[(*outer, slice(0, half))], x[(*outer, slice(half, 2 * half))]


FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    "ReLU": relu,
    "ReLU6": relu6,
    "LeakyReLU": leaky_relu,
    "ELU": elu,
    "CELU": celu,
    "SELU": selu,
    "GELU": gelu,
    "SiLU": silu,
    "Mish": mish,
    "Softplus": softplus,
    "Softsign": softsign,
    "Hardswish": hard_swish,
    "Hardsigmoid": hard_sigmoid,
    "Hardtanh": hard_tanh,
    "Hardshrink": hard_shrink,
    "Softshrink": soft_shrink,
    "Tanhshrink": tanh_shrink,
    "Threshold": threshold,
    "Sigmoid": sigmoid,
    "LogSigmoid": log_sigmoid,
    "Tanh": tanh,
    "Softmax": softmax,
    "Softmin": softmin,
    "LogSoftmax": log_softmax,
    "GLU": glu,
}
"""Class -> its function."""

BY_NAME: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": relu, "gelu": gelu, "gelu_tanh": lambda x: gelu(x, "tanh"), "silu": silu, "tanh": tanh, "sigmoid": sigmoid,
    "mish": mish, "leaky_relu": leaky_relu, "elu": elu, "hard_swish": hard_swish,
    "relu_squared": lambda x: relu(x) * relu(x), "identity": lambda x: x,
}  # fmt: skip
"""Activations by name, for layers with an `activation` argument."""

Activation = Literal[
    "relu", "gelu", "gelu_tanh", "silu", "tanh", "sigmoid", "mish", "leaky_relu", "elu", "hard_swish", "relu_squared",
    "identity",
]  # fmt: skip


class PReLU(Layer):
    """x for x >= 0, weight * x below (arXiv:1502.01852). weight: one number, or a tensor of this shape that broadcasts with x.
    `num_parameters` gives a number for each channel (axis 1), as in torch."""

    def __init__(self, *shape: Count, num_parameters: Count | None = None, dtype: DTypeName = "float32") -> None:
        self.by_channel = num_parameters is not None
        given = (num_parameters,) if num_parameters is not None else shape or (1,)
        self.weight = Parameter(given, dtype, constant(0.25))

    def forward(self, x: Tensor) -> Tensor:
        weight: Tensor = self.weight
        if self.by_channel and self.weight.shape != (1,):
            weight = weight.reshape(-1, *[1] * (x.ndim - 2))
        return ops.prelu(x, weight)
