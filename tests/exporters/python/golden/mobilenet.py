"""Model, written from mobilenet.onnx by burn-import.

    model = Model.from_file("model.safetensors")
    run = burn.compile(model)  # for every size of batch, height, width
"""

from __future__ import annotations

import burn
from burn import nn, ops


class ConvBlock(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, stride: int) -> None:
        self.body = nn.Sequential(
            nn.Conv2d(in_channels, out_channels, 1),
            nn.ReLU(),
            nn.Conv2d(out_channels, out_channels, 3, stride=stride, padding=1, groups=out_channels),
            nn.ReLU(),
            nn.Conv2d(out_channels, 24, 1),
        )

    def forward(self, x: burn.Tensor) -> burn.Tensor:
        return self.body(x)


class SqueezeExcite(nn.Module):
    def __init__(self, in_channels: int) -> None:
        self.reduce = nn.Conv2d(in_channels, in_channels // 4, 1)
        self.expand = nn.Conv2d(in_channels // 4, in_channels, 1)

    def forward(self, x: burn.Tensor) -> burn.Tensor:
        reduce = self.reduce(x.mean((2, 3), keepdims=True))
        gate = ops.hard_sigmoid(self.expand(ops.relu(reduce)), alpha=0.16666667)
        return x * gate


class ConvBlock2(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, stride: int, out_channels2: int) -> None:
        self.body = nn.Sequential(
            nn.Conv2d(in_channels, out_channels, 1),
            nn.Hardswish(),
            nn.Conv2d(out_channels, out_channels, 5, stride=stride, padding=2, groups=out_channels),
            nn.Hardswish(),
            SqueezeExcite(out_channels),
            nn.Conv2d(out_channels, out_channels2, 1),
        )

    def forward(self, x: burn.Tensor) -> burn.Tensor:
        return self.body(x)


class Residual(nn.Module):
    def __init__(self, in_channels: int, out_channels: int) -> None:
        self.body = nn.Sequential(
            nn.Conv2d(in_channels, out_channels, 1),
            nn.Hardswish(),
            nn.Conv2d(out_channels, out_channels, 5, padding=2, groups=out_channels),
            nn.Hardswish(),
            SqueezeExcite(out_channels),
            nn.Conv2d(out_channels, in_channels, 1),
        )

    def forward(self, x: burn.Tensor) -> burn.Tensor:
        return x + self.body(x)


class Residual2(nn.Module):
    """Shapes: x [batch, 24, ..., ...] -> [batch, 24, ..., ...]."""

    def __init__(self) -> None:
        self.body = ConvBlock(24, 88, 1)

    def forward(self, x: burn.Tensor) -> burn.Tensor:
        return x + self.body(x)


class ConvBlock3(nn.Module):
    """Shapes: x [batch, 16, ((height + 1) // 2), ((width + 1) // 2)] -> [batch, 16, ..., ...]."""

    def __init__(self) -> None:
        self.body = nn.Sequential(
            nn.Conv2d(16, 16, 1),
            nn.ReLU(),
            nn.Conv2d(16, 16, 3, stride=2, padding=1, groups=16),
            nn.ReLU(),
            SqueezeExcite(16),
            nn.Conv2d(16, 16, 1),
        )

    def forward(self, x: burn.Tensor) -> burn.Tensor:
        return self.body(x)


class Model(nn.Module):
    inputs = {"image": "float32[batch, 3, height, width]"}
    outputs = ("logits",)

    def __init__(self) -> None:
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.Hardswish())
        self.blocks = nn.Sequential(
            ConvBlock3(),
            ConvBlock(16, 72, 2),
            Residual2(),
            ConvBlock2(24, 96, 2, 40),
            Residual(40, 240),
            Residual(40, 240),
            ConvBlock2(40, 120, 1, 48),
            Residual(48, 144),
            ConvBlock2(48, 288, 2, 96),
            Residual(96, 576),
            Residual(96, 576),
        )
        self.last = nn.Sequential(nn.Conv2d(96, 576, 1), nn.Hardswish())
        self.classify = nn.Sequential(nn.Linear(576, 1024), nn.Hardswish(), nn.Linear(1024, 1000))

    def forward(self, image: burn.Tensor) -> burn.Tensor:
        x = self.last(self.blocks(self.stem(image)))  # [batch, 576, ..., ...]
        return self.classify(x.mean((2, 3)))
