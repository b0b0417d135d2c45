"""Model, written from unet.onnx by burn-import.

    model = Model.from_file("model.safetensors")
    run = burn.compile(model)  # for every size of batch
"""

from __future__ import annotations

import burn
from burn import nn, ops


class ConvBlock(nn.Module):
    def __init__(self, in_channels: int, out_channels: int) -> None:
        self.down_0_0 = nn.Conv2d(in_channels, out_channels, 3, padding=1)
        self.conv = nn.Conv2d(out_channels, out_channels, 3, padding=1)
        self.down_0_4 = nn.GroupNorm(4, out_channels)

    def forward(self, x: burn.Tensor) -> burn.Tensor:
        x = self.conv(ops.relu(self.down_0_0(x)))
        return ops.silu(self.down_0_4(x))


class Model(nn.Module):
    inputs = {"image": "float32[batch, 3, 32, 32]"}
    outputs = ("mask",)

    def __init__(self) -> None:
        self.down = nn.ModuleList([ConvBlock(3, 16), ConvBlock(16, 32), ConvBlock(32, 64), ConvBlock(64, 128)])
        self.pool = nn.MaxPool2d(2)
        self.up_0 = nn.ConvTranspose2d(128, 64, 2, stride=2)
        self.merge = nn.ModuleList([ConvBlock(128, 64), ConvBlock(64, 32), ConvBlock(32, 16)])
        self.up_1_0 = nn.Upsample(scale_factor=2, mode="bilinear")
        self.up_1_1 = nn.Conv2d(64, 32, 1)
        self.up_2 = nn.ConvTranspose2d(32, 16, 4, stride=2, padding=1)
        self.head = nn.Conv2d(16, 2, 1)

    def forward(self, image: burn.Tensor) -> burn.Tensor:
        x = self.down[0](image)  # [batch, 16, 32, 32]
        out = self.down[1](self.pool(x))  # [batch, 32, 16, 16]
        down = self.down[2](self.pool(out))  # [batch, 64, 8, 8]
        up_0 = self.up_0(self.down[3](self.pool(down)))
        merge = self.merge[0](ops.concat([down, up_0], axis=1))
        joined = ops.concat([out, self.up_1_1(self.up_1_0(merge))], axis=1)  # [batch, 64, 16, 16]
        x = ops.concat([x, self.up_2(self.merge[1](joined))], axis=1)  # [batch, 32, 32, 32]
        return self.head(self.merge[2](x))
