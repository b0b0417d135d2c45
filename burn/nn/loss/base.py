"""What losses have in common: the reduction of one number an element to one number, and weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from burn.errors import TypeMismatch
from burn.nn.module import Layer
from burn.nn.parameter import Buffer
from burn.tensors import Tensor

Reduction = Literal["none", "mean", "sum"]
Weights = Sequence[float] | np.ndarray | Tensor | None


class Loss(Layer):
    """Base of the losses. reduction: "none" gives a number an element (or a sample), "mean" and "sum" one number."""

    def __init__(self, reduction: Reduction = "mean") -> None:
        self.reduction = reduction

    def _reduced(self, loss: Tensor) -> Tensor:
        if self.reduction == "none":
            return loss
        return loss.sum() if self.reduction == "sum" else loss.mean()

    def extra_repr(self) -> str:
        return f"reduction={self.reduction!r}"


def buffer(weights: Weights) -> Buffer | None:
    """Weights as a buffer of float32, or of their own float type."""
    if weights is None:
        return None
    array = weights.numpy() if isinstance(weights, Tensor) else np.asarray(weights)
    return Buffer(
        array if isinstance(weights, (Tensor, np.ndarray)) and array.dtype.kind == "f" else array.astype("f4")
    )


def same_shape(loss: Loss, *tensors: Tensor) -> None:
    """Raises TypeMismatch where shapes differ: broadcasting would hide a mistake."""
    first = tensors[0]
    for other in tensors[1:]:
        pairs = zip(first.shape, other.shape, strict=False)
        if first.ndim != other.ndim or any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in pairs):
            raise TypeMismatch(
                f"{type(loss).__name__} takes tensors of one shape", [f"not {first.type} and {other.type}"]
            )
