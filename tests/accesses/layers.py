"""Layers whose training steps have kernels with operands in different orders: channels first and last, windows, heads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F

Layer = tuple[torch.nn.Module, tuple[torch.Tensor, ...]]
BATCH = 32


class Formula(torch.nn.Module):
    """A function of parameters, by name, and of inputs."""

    def __init__(self, function: Callable[..., torch.Tensor], **parameters: torch.Tensor) -> None:
        super().__init__()
        self.function = function
        self.parameters_ = torch.nn.ParameterDict({k: torch.nn.Parameter(v) for k, v in parameters.items()})

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.function(self.parameters_, *inputs)


def _normal(*shape: int) -> torch.Tensor:
    return 0.1 * torch.randn(*shape)


def _heads(p: Any, x: torch.Tensor, count: int = 12) -> tuple[torch.Tensor, ...]:
    """Queries, keys and values (batch, heads, rows, width)."""
    batch, rows, width = x.shape
    return F.linear(x, p["w"], p["b"]).reshape(batch, rows, 3, count, width // count).permute(2, 0, 3, 1, 4).unbind(0)


def _attended(p: Any, x: torch.Tensor) -> torch.Tensor:
    q, k, v = _heads(p, x)
    return F.scaled_dot_product_attention(q * p["s"], k, v).transpose(1, 2).reshape(x.shape)


def _scaled_heads(p: Any, x: torch.Tensor) -> torch.Tensor:
    q, k, v = (x * p["s"]).reshape(*x.shape[:2], 3, 12, 64).permute(2, 0, 3, 1, 4).unbind(0)
    return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(*x.shape[:2], 768)


def _cross_covariance(p: Any, x: torch.Tensor) -> torch.Tensor:
    q, k, v = (h.transpose(-1, -2) for h in _heads(p, x, 8))
    weights = (F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1) * p["s"]).softmax(-1)
    return (weights @ v).permute(0, 3, 1, 2).reshape(x.shape)


def _windows(p: Any, x: torch.Tensor) -> torch.Tensor:
    batch, height, width, channels = x.shape
    x = (x * p["s"]).reshape(batch, height // 7, 7, width // 7, 7, channels)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, 49, channels) * p["t"]


def _mixed(p: Any, x: torch.Tensor) -> torch.Tensor:
    y = F.linear(F.layer_norm(x, x.shape[-1:]).transpose(1, 2), p["w"], p["b"])
    return y.transpose(1, 2) + x * p["s"]


def _pooled_rows(p: Any, x: torch.Tensor) -> torch.Tensor:
    """Coordinate attention."""
    scaled = x * p["s"]
    return x * torch.sigmoid(F.conv2d(scaled.mean(3, keepdim=True), p["w"]))


def _linear_attention(p: Any, x: torch.Tensor) -> torch.Tensor:
    q, k, v = F.conv2d(x, p["w"]).reshape(8, 3, 4, 32, 1024).unbind(1)
    context = torch.einsum("bhdn,bhen->bhde", k.softmax(-1), v)
    return torch.einsum("bhdn,bhde->bhen", q.softmax(-2), context).reshape(8, 128, 32, 32)


def _joined(p: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """A level of a U-Net's decoder."""
    up = F.interpolate(F.conv2d(x, p["w"]), scale_factor=2)
    return F.conv2d(torch.cat((up, y * p["s"]), 1), p["v"], padding=1)


def layers() -> dict[str, Layer]:
    """By name."""
    image, rows = _normal(BATCH, 64, 56, 56), _normal(BATCH, 197, 768)
    scale = _normal(64, 1, 1)
    linear = {"w": _normal(2304, 768), "b": _normal(2304)}
    return {
        "layer scale": (
            Formula(lambda p, x: x + F.conv2d(x, p["w"]) * p["s"], w=_normal(64, 64, 1, 1), s=scale),
            (image,),
        ),
        "instance norm": (
            torch.nn.Sequential(torch.nn.Conv2d(64, 64, 1), torch.nn.InstanceNorm2d(64, affine=True)),
            (image,),
        ),
        "coordinate attention": (Formula(_pooled_rows, s=scale, w=_normal(64, 64, 1, 1)), (image,)),
        "softmax over channels": (Formula(lambda p, x: F.softmax(x * p["s"], 1), s=scale), (image,)),
        "channels last": (
            Formula(lambda p, x: (x * p["s"]).permute(0, 2, 3, 1) * p["t"], s=scale, t=_normal(56, 56, 64)),
            (image,),
        ),
        "U-Net": (
            Formula(_joined, w=_normal(32, 64, 1, 1), v=_normal(32, 64, 3, 3), s=_normal(32, 1, 1)),
            (_normal(BATCH, 64, 28, 28), _normal(BATCH, 32, 56, 56)),
        ),
        "attention": (Formula(_attended, **linear, s=_normal(12, 1, 64)), (rows,)),
        "scale of heads": (Formula(_scaled_heads, s=_normal(2304)), (_normal(BATCH, 197, 2304),)),
        "cross covariance": (
            Formula(_cross_covariance, w=_normal(384, 128), b=_normal(384), s=_normal(8, 1, 1)),
            (_normal(BATCH, 784, 128),),
        ),
        "linear attention": (Formula(_linear_attention, w=_normal(384, 128, 1, 1)), (_normal(8, 128, 32, 32),)),
        "windows": (Formula(_windows, s=_normal(96), t=_normal(49, 96)), (_normal(BATCH, 56, 56, 96),)),
        "mixer": (
            Formula(_mixed, w=_normal(196, 196), b=_normal(196), s=_normal(512)),
            (_normal(BATCH, 196, 512),),
        ),
    }
