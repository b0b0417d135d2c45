"""Model, written from lstm.onnx by burn-import.

    model = Model.from_file("model.safetensors")
    run = burn.compile(model)  # for every size of batch, length
"""

from __future__ import annotations

import burn
from burn import nn, ops


class Model(nn.Module):
    inputs = {"x": "float32[batch, length, 64]"}
    outputs = ("tags", "h", "c")

    def __init__(self) -> None:
        self.lstm = nn.LSTM(64, 96, direction="bidirectional")
        self.lstm2 = nn.LSTM(192, 96, direction="bidirectional")
        self.head = nn.Linear(192, 20)

    def forward(self, x: burn.Tensor) -> tuple[burn.Tensor, ...]:
        batch = x.shape[0]
        zeros = burn.zeros((2, batch, 96))  # [2, batch, 96]
        # [length, 2, batch, 96], [2, batch, 96], [2, batch, 96]
        x, hidden, cell = self.lstm(x.transpose(0, 1), zeros, zeros)
        # [length, 2, batch, 96], [2, batch, 96], [2, batch, 96]
        x, lstm_hidden, lstm_cell = self.lstm2(x.transpose(1, 2).flatten(2), zeros, zeros)
        return self.head(
            x.transpose(1, 2).flatten(2).transpose(0, 1),
        ), ops.concat([hidden, lstm_hidden], axis=0), ops.concat([cell, lstm_cell], axis=0)
