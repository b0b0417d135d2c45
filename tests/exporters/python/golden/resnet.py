"""Model, written from resnet.onnx by burn-import.

    model = Model.from_file("model.safetensors")
    run = burn.compile(model)  # for every size of batch
"""

from __future__ import annotations

import burn
from burn import nn, ops


class ConvBlock(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, stride: int) -> None:
        self.conv1 = nn.Conv2d(in_channels, out_channels, 1, bias=False)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, stride=stride, padding=1, bias=False)
        self.conv3 = nn.Conv2d(out_channels, 4 * out_channels, 1, bias=False)
        self.downsample = nn.Conv2d(in_channels, 4 * out_channels, 1, stride=stride, bias=False)
        self.conv1_2 = nn.Conv2d(4 * out_channels, out_channels, 1, bias=False)
        self.conv2_2 = nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False)
        self.conv3_2 = nn.Conv2d(out_channels, 4 * out_channels, 1, bias=False)

    def forward(self, x: burn.Tensor) -> burn.Tensor:
        out = self.conv2(ops.relu(self.conv1(x)))
        x = ops.relu(self.conv3(ops.relu(out)) + self.downsample(x))
        out = self.conv2_2(ops.relu(self.conv1_2(x)))
        return ops.relu(self.conv3_2(ops.relu(out)) + x)


class Model(nn.Module):
    inputs = {"image": "float32[batch, 3, 64, 64]"}
    outputs = ("output",)

    def __init__(self) -> None:
        self.conv1 = nn.Conv2d(3, 8, 7, stride=2, padding=3, bias=False)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        self.stages = nn.Sequential(ConvBlock(8, 8, 1), ConvBlock(32, 16, 2), ConvBlock(64, 32, 2))
        self.fc = nn.Linear(128, 11)

    def forward(self, image: burn.Tensor) -> burn.Tensor:
        x = self.maxpool(ops.relu(self.conv1(image)))  # [batch, 8, 16, 16]
        return self.fc(self.stages(x).mean((2, 3)))
