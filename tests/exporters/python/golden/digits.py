"""Model, written from digits.onnx by burn-import.

    model = Model.from_file("model.safetensors")
    run = burn.compile(model)  # for every size of batch
"""

from __future__ import annotations

import burn
from burn import nn, ops


class Model(nn.Module):
    inputs = {"image": "float32[batch, 1, 8, 8]"}
    outputs = ("logits",)

    def __init__(self) -> None:
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.norm1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.norm2 = nn.BatchNorm2d(32)
        self.max_pool = nn.MaxPool2d(2)
        self.conv3 = nn.Conv2d(32, 32, 3, padding=1)
        self.norm3 = nn.BatchNorm2d(32)
        self.avg_pool = nn.AvgPool2d(2)
        self.hidden = nn.Linear(128, 64)
        self.output = nn.Linear(64, 10)

    def forward(self, image: burn.Tensor) -> burn.Tensor:
        x = ops.relu(self.norm1(self.conv1(image / 16.0)))  # [batch, 16, 8, 8]
        x = ops.relu(self.norm2(self.conv2(x)))  # [batch, 32, 8, 8]
        x = self.norm3(self.conv3(self.max_pool(x)))  # [batch, 32, 4, 4]
        x = self.hidden(self.avg_pool(ops.relu(x)).flatten(1))  # [batch, 64]
        return self.output(ops.relu(x))
