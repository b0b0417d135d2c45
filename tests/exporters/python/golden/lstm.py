"""Model, written from lstm.onnx by burn-import.

    model = Model.from_file("model.safetensors")
    run = burn.compile(model)  # for every size of batch, length
"""

from __future__ import annotations

import burn
from burn import nn


class Model(nn.Module):
    inputs = {"x": "float32[batch, length, 64]"}
    outputs = ("tags", "h", "c")

    def __init__(self) -> None:
        self.lstm = nn.StackedLSTM(64, 96, num_layers=2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(192, 20)

    def forward(self, x: burn.Tensor) -> tuple[burn.Tensor, burn.Tensor, burn.Tensor]:
        output, (h, c) = self.lstm(x)  # [batch, length, 192], [4, batch, 96], [4, batch, 96]
        return self.head(output), h, c
