"""Model, written from classifier.onnx by burn-import.

    model = Model.from_file("model.safetensors")
    run = burn.compile(model)  # for every size of batch
"""

from __future__ import annotations

import burn
from burn import nn, ops


class Model(nn.Module):
    inputs = {"image": "float32[batch, 3, 32, 32]"}
    outputs = ("output",)

    def __init__(self) -> None:
        self.conv1 = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.conv2 = nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.conv3 = nn.Conv2d(16, 16, 3, padding=1)
        self.fc = nn.Linear(16, 5)

    def forward(self, image: burn.Tensor) -> burn.Tensor:
        x = self.conv2(ops.relu(self.conv1(image)))  # [batch, 16, 8, 8]
        x = ops.relu(x)
        x = (ops.relu(self.conv3(x)) + x).mean((2, 3))  # [batch, 16]
        return self.fc(x)
