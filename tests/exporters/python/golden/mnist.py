"""Model, written from mnist.onnx by burn-import.

    model = Model.from_file("model.safetensors")
    run = burn.compile(model)
"""

from __future__ import annotations

import burn
from burn import nn, ops


class Model(nn.Module):
    inputs = {"input.1": "float32[1, 1, 28, 28]"}
    outputs = ("33",)

    def __init__(self) -> None:
        self.conv1 = nn.Conv2d(1, 8, 3)
        self.conv2 = nn.Conv2d(8, 16, 3)
        self.conv3 = nn.Conv2d(16, 24, 3)
        self.norm1 = nn.BatchNorm2d(24)
        self.fc1 = nn.Linear(11616, 32)
        self.fc2 = nn.Linear(32, 10)
        self.norm2 = nn.BatchNorm1d(10)

    def forward(self, input_1: burn.Tensor) -> burn.Tensor:
        x = self.conv2(ops.relu(self.conv1(input_1)))  # [1, 16, 24, 24]
        x = ops.relu(self.conv3(ops.relu(x)))  # [1, 24, 22, 22]
        x = ops.relu(self.fc1(self.norm1(x).flatten(1)))  # [1, 32]
        return ops.log_softmax(self.norm2(self.fc2(x)), axis=1)
