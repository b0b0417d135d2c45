"""Model, written from mobilenet.onnx by burn-import.

    model = Model.from_file("model.safetensors")
    run = burn.compile(model)  # for every size of batch, height, width
"""

from __future__ import annotations

import burn
from burn import nn, ops


class ConvBlock(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, stride: int) -> None:
        self.conv = nn.Conv2d(in_channels, out_channels, 1)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, stride=stride, padding=1, groups=out_channels)
        self.conv3 = nn.Conv2d(out_channels, 24, 1)

    def forward(self, x: burn.Tensor) -> burn.Tensor:
        x = self.conv2(ops.relu(self.conv(x)))
        return self.conv3(ops.relu(x))


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
        self.conv = nn.Conv2d(in_channels, out_channels, 1)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 5, stride=stride, padding=2, groups=out_channels)
        self.squeeze_excite = SqueezeExcite(out_channels)
        self.conv3 = nn.Conv2d(out_channels, out_channels2, 1)

    def forward(self, x: burn.Tensor) -> burn.Tensor:
        x = self.conv2(ops.hard_swish(self.conv(x)))
        return self.conv3(self.squeeze_excite(ops.hard_swish(x)))


class Residual(nn.Module):
    def __init__(self, in_channels: int, out_channels: int) -> None:
        self.body = ConvBlock2(in_channels, out_channels, 1, in_channels)

    def forward(self, x: burn.Tensor) -> burn.Tensor:
        return x + self.body(x)


class Residual2(nn.Module):
    def __init__(self) -> None:
        self.body = ConvBlock(24, 88, 1)

    def forward(self, x: burn.Tensor) -> burn.Tensor:
        return x + self.body(x)


class ConvBlock3(nn.Module):
    def __init__(self) -> None:
        self.conv = nn.Conv2d(16, 16, 1)
        self.conv2 = nn.Conv2d(16, 16, 3, stride=2, padding=1, groups=16)
        self.squeeze_excite = SqueezeExcite(16)
        self.conv3 = nn.Conv2d(16, 16, 1)

    def forward(self, x: burn.Tensor) -> burn.Tensor:
        x = self.conv2(ops.relu(self.conv(x)))  # [batch, 16, ..., ...]
        return self.conv3(self.squeeze_excite(ops.relu(x)))


class Model(nn.Module):
    inputs = {"image": "float32[batch, 3, height, width]"}
    outputs = ("logits",)

    def __init__(self) -> None:
        self.stem_0 = nn.Conv2d(3, 16, 3, stride=2, padding=1)
        self.blocks = nn.ModuleList(
            [
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
            ],
        )
        self.last_0 = nn.Conv2d(96, 576, 1)
        self.classify_0 = nn.Linear(576, 1024)
        self.classify_3 = nn.Linear(1024, 1000)

    def forward(self, image: burn.Tensor) -> burn.Tensor:
        x = ops.hard_swish(self.stem_0(image))  # [batch, 16, ((height + 1) // 2), ((width + 1) // 2)]
        for block in self.blocks:
            x = block(x)  # [batch, 96, ..., ...]
        x = self.classify_0(ops.hard_swish(self.last_0(x)).mean((2, 3), keepdims=True).flatten(1))  # [batch, 1024]
        return self.classify_3(ops.hard_swish(x))
