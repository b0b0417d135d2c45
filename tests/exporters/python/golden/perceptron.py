"""Model, written from perceptron.onnx by burn-import.

    model = Model.from_file("model.safetensors")
    run = burn.compile(model)  # for every size of batch
"""

from __future__ import annotations

import burn
from burn import nn, ops


class Model(nn.Module):
    inputs = {"x": "float32[batch, 16]"}
    outputs = ("output",)

    def __init__(self) -> None:
        self.fc1 = nn.Linear(16, 32)
        self.fc2 = nn.Linear(32, 32)
        self.fc3 = nn.Linear(32, 4)

    def forward(self, x: burn.Tensor) -> burn.Tensor:
        x = self.fc2(ops.relu(self.fc1(x)))  # [batch, 32]
        return ops.softmax(self.fc3(ops.relu(x)), axis=1)
