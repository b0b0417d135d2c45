"""Operators that torch does not decompose, written here in torch's operators. Enter at `COMPOSED`.

AOTAutograd and torch.export trace these functions instead of the operators. Gradients are in `gradients.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ctypes import c_float
from typing import Any

import torch
import torch._dynamo._trace_wrapped_higher_order_op  # defines flex_lib's operators
from torch import Tensor

from burn.importers.torch.encoder_layers import FAST_PATH
from burn.importers.torch.fused_cells import FUSED_CELLS

aten = torch.ops.aten


# ---- fake quantisation --------------------------------------------------------------------------------------------------
def fake_quantize(x: Tensor, scale: float, zero: int, low: int, high: int) -> tuple[Tensor, Tensor]:
    """x rounded to scale * (n - zero) for an integer n in [low, high], and a mask of the elements that were not clamped. The
    scale and its reciprocal are float32, as in torch's kernel."""
    rounded_scale = c_float(scale).value
    levels = torch.round(_wide(x) * c_float(1 / rounded_scale).value) + zero
    return _quantized(x, rounded_scale, levels, zero, low, high)


def fake_quantize_of_tensors(
    x: Tensor, scale: Tensor, zero: Tensor, enabled: Tensor, low: int, high: int
) -> tuple[Tensor, Tensor]:
    """The same with scale and zero in tensors of one element. `enabled` is one integer; 0 leaves x as it is."""
    scale, zero, on = scale.reshape(()), zero.reshape(()).to(torch.int64), enabled.reshape(()) != 0
    result, kept = _quantized(x, scale, torch.round(_wide(x) * scale.reciprocal()) + zero, zero, low, high)
    return torch.where(on, result, x), kept | ~on


def fake_quantize_channels(
    x: Tensor, scale: Tensor, zero: Tensor, axis: int, low: int, high: int
) -> tuple[Tensor, Tensor]:
    """The same with a scale and a zero for each index of an axis. A zero that is a float is added before rounding."""
    shape = [-1 if i == axis % x.dim() else 1 for i in range(x.dim())]
    scale, zero = scale.reshape(shape), zero.reshape(shape)
    scaled = _wide(x) * scale.reciprocal()
    levels = torch.round(scaled + zero) if zero.is_floating_point() else torch.round(scaled) + zero
    return _quantized(x, scale, levels, zero, low, high)


def _wide(x: Tensor) -> Tensor:
    """x in float32 if it is in half precision: a scaled value that is rounded to half precision may have another level."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def _quantized(x: Tensor, scale: Any, levels: Tensor, zero: Any, low: int, high: int) -> tuple[Tensor, Tensor]:
    return ((levels.clamp(low, high) - zero) * scale).to(x.dtype), (levels >= low) & (levels <= high)


# ---- embeddings ---------------------------------------------------------------------------------------------------------
SHRUNK = 1e-7
"""torch adds this to a norm that it divides by."""


def embedding_renorm(weight: Tensor, indices: Tensor, largest: float, p: float) -> Tensor:
    """The rows that are looked up, scaled to norms of at most `largest`: nn.Embedding(max_norm=largest)."""
    norms = torch.linalg.vector_norm(weight, p, 1)
    looked_up = torch.zeros_like(norms, dtype=torch.bool).index_fill(0, indices.reshape(-1), True)
    factors = torch.where(looked_up & (norms > largest), largest / (norms + SHRUNK), 1)
    return weight * factors.unsqueeze(1)


# ---- attention ----------------------------------------------------------------------------------------------------------
def zeros_and_scatter(shape: Sequence[Any], indices: Sequence[Tensor], values: Tensor) -> Tensor:
    """The gradient of tensors that a score function of flex_attention reads."""
    return values.new_zeros(shape).index_put(list(indices), values, accumulate=True)


# ---- sampled images -----------------------------------------------------------------------------------------------------
def grid_sampler(x: Tensor, grid: Tensor) -> Tensor:
    """cuDNN's, which torch takes on CUDA tensors: bilinear, with zeros as padding and aligned corners."""
    return aten.grid_sampler_2d(x, grid, 0, 0, True)


def grid_sampler_backward(x: Tensor, grid: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    return aten.grid_sampler_2d_backward(grad, x, grid, 0, 0, True, [True, True])


COMPOSED: dict[Any, Callable[..., Any]] = {
    aten.fake_quantize_per_tensor_affine_cachemask.default: fake_quantize,
    aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default: fake_quantize_of_tensors,
    aten.fake_quantize_per_channel_affine_cachemask.default: fake_quantize_channels,
    aten.embedding_renorm.default: embedding_renorm,
    torch.ops.flex_lib.zeros_and_scatter.default: zeros_and_scatter,
    aten.cudnn_grid_sampler.default: grid_sampler,
    aten.cudnn_grid_sampler_backward.default: grid_sampler_backward,
    **FAST_PATH,
    **FUSED_CELLS,
}
"""Operator -> the function that replaces it."""
