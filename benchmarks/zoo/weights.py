"""Random values for parameters and statistics that a model's initialisation leaves constant.

Many models start with a zero head, with layer scales of 1e-6 or with zeros behind residual branches. Their outputs are the same
whatever an engine computes, or so small that half precision has two digits of them. Without other values a comparison tests
nothing. Enter at `vary`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

SMALL = 0.02
"""The standard deviation of biases that were 0."""
SCALE = 0.1
"""Constants up to this are layer scales, which training makes larger."""


def vary(model: torch.nn.Module, inputs: Sequence[torch.Tensor], device: str = "cuda", seed: int = 0) -> None:
    """Replaces constant parameters, then statistics of batch norms by those of the inputs. The model stays on its device."""
    draws = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if (
                parameter.is_floating_point()
                and parameter.numel()
                and bool((parameter == parameter.flatten()[0]).all())
            ):
                parameter.copy_(_values(parameter, draws).to(parameter.dtype))
    norms = [
        m for m in model.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm) and m.track_running_stats
    ]
    if norms:
        _calibrate(model, norms, inputs, device)


def _values(parameter: torch.Tensor, draws: torch.Generator) -> torch.Tensor:
    """Of the size that training gives: around the first value of norms and scales, of Kaiming's size for matrices of zeros."""
    first = float(parameter.flatten()[0])
    drawn = torch.randn(parameter.shape, generator=draws)
    if parameter.squeeze().ndim > 1:
        return drawn / math.sqrt(parameter[0].numel())
    if first == 0:
        return SMALL * drawn
    centre = first if abs(first) > SCALE else 0.3  # a layer scale
    return centre * (1 + 0.2 * drawn)


def _calibrate(
    model: torch.nn.Module,
    norms: Sequence[torch.nn.modules.batchnorm._BatchNorm],
    inputs: Sequence[torch.Tensor],
    device: str,
) -> None:
    """One call in training mode, in which the average of one batch becomes the running one."""
    home, was_training = next(model.parameters()).device, model.training
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None
    with torch.no_grad():
        model.to(device).train()(*(x.to(device) for x in inputs))
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    model.to(home).train(was_training)
