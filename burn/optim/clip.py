"""Gradients kept from being too large."""

from __future__ import annotations

from collections.abc import Mapping

from burn.tensors import Tensor, constant


def global_norm(gradients: Mapping[str, Tensor]) -> Tensor:
    """The root of the sum of all squares: a float32 scalar (0 of nothing)."""
    total = constant(0.0)
    for g in gradients.values():
        wide = g.astype("float32") if g.dtype != "float64" else g
        total = total + (wide * wide).sum().astype("float32")
    return total.sqrt()


def clip_by_norm(gradients: Mapping[str, Tensor], largest: float) -> dict[str, Tensor]:
    """All gradients by one factor, so that their norm is at most `largest`. As torch.nn.utils.clip_grad_norm_."""
    factor = (largest / (global_norm(gradients) + 1e-6)).minimum(1.0)
    return {path: g * factor.astype(g.dtype) for path, g in gradients.items()}


def clip_by_value(gradients: Mapping[str, Tensor], largest: float) -> dict[str, Tensor]:
    """Every element between -largest and largest."""
    return {path: g.clip(-largest, largest) for path, g in gradients.items()}
