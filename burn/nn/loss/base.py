"""Base of losses: the reduction to one number, and weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from burn.dialect.compose import wide
from burn.dialect.types import FLOATS
from burn.errors import TypeMismatch
from burn.nn.loss.reductions import mean, summed
from burn.nn.module import Layer
from burn.nn.parameter import Buffer
from burn.tensors import Tensor

Reduction = Literal["none", "mean", "sum"]
Weights = Sequence[float] | np.ndarray | Tensor | None


class Loss(Layer):
    """Base of losses. reduction: "none" gives one number for each element (or sample), "mean" and "sum" one number. fp16 and bf16
    inputs are computed in float32, and give float32 results."""

    def __init__(self, reduction: Reduction = "mean") -> None:
        self.reduction = reduction

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return super().__call__(*map(_widened, args), **{name: _widened(value) for name, value in kwargs.items()})

    def _reduced(self, loss: Tensor) -> Tensor:
        if self.reduction == "none":
            return loss
        return summed(loss) if self.reduction == "sum" else mean(loss)

    def extra_repr(self) -> str:
        return f"reduction={self.reduction!r}"


def _widened(value: Any) -> Any:
    return value.astype(wide(value.dtype)) if isinstance(value, Tensor) and value.dtype in FLOATS else value


def buffer(weights: Weights) -> Buffer | None:
    """Weights as a buffer of float32, or of their own float type."""
    if weights is None:
        return None
    array = weights.numpy() if isinstance(weights, Tensor) else np.asarray(weights)
    return Buffer(
        array if isinstance(weights, (Tensor, np.ndarray)) and array.dtype.kind == "f" else array.astype("f4")
    )


def same_shape(loss: Loss, *tensors: Tensor) -> None:
    """Raises TypeMismatch if shapes differ: broadcasting would hide a mistake."""
    first = tensors[0]
    for other in tensors[1:]:
        pairs = zip(first.shape, other.shape, strict=False)
        if first.ndim != other.ndim or any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in pairs):
            raise TypeMismatch(
                f"{type(loss).__name__} takes tensors of one shape", [f"not {first.type} and {other.type}"]
            )
