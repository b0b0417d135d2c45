"""Gradients kept from being too large."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from burn.tensors import Tensor, constant
from burn.tensors.gradients import Gradients


def global_norm(gradients: Mapping[str, Tensor]) -> Tensor:
    """The root of the sum of all squares: a float32 scalar, or float64 if a gradient is (0 of nothing)."""
    dtype = "float64" if any(g.dtype == "float64" for g in gradients.values()) else "float32"
    total = constant(0.0, dtype)
    for g in gradients.values():
        wide = g.astype(dtype)
        total = total + (wide * wide).sum()
    return total.sqrt()


def clip_by_norm(gradients: Mapping[str, Tensor], largest: float) -> dict[str, Tensor]:
    """All gradients by one factor, so that their norm is at most `largest`. As torch.nn.utils.clip_grad_norm_."""
    factor = (largest / (global_norm(gradients) + 1e-6)).minimum(1.0)
    return _mapped(gradients, lambda g: g * factor.astype(g.dtype))


def clip_by_value(gradients: Mapping[str, Tensor], largest: float) -> dict[str, Tensor]:
    """Every element between -largest and largest."""
    return _mapped(gradients, lambda g: g.clip(-largest, largest))


def _mapped(gradients: Mapping[str, Tensor], function: Callable[[Tensor], Tensor]) -> dict[str, Tensor]:
    return Gradients({path: function(g) for path, g in gradients.items()}, getattr(gradients, "unused", ()))
