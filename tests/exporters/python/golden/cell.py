"""Model, written from cell.onnx by burn-import.

    model = Model.from_file("model.safetensors")
    run = burn.compile(model)  # for every size of batch
"""

from __future__ import annotations

import burn
from burn import nn, ops


class Block(nn.Module):
    """Shapes: x [batch, 32], part [batch, 8] -> [batch, 8], [batch, 8]."""
    def forward(self, x: burn.Tensor, part: burn.Tensor) -> tuple[burn.Tensor, burn.Tensor]:
        first, second, third, fourth = x.chunk(4, 1)  # each [batch, 8]
        x = ops.sigmoid(second) * part + ops.sigmoid(first) * ops.tanh(third)
        return x, ops.sigmoid(fourth) * ops.tanh(x)


class Model(nn.Module):
    inputs = {"x": "float32[batch, 3, 6]", "h": "float32[batch, 8]", "c": "float32[batch, 8]"}
    outputs = ("output", "hidden", "memory")

    def __init__(self) -> None:
        self.ih = nn.Linear(6, 32)
        self.hh = nn.Linear(8, 32)
        self.block = Block()
        self.block2 = Block()
        self.block3 = Block()
        self.out = nn.Linear(8, 3)

    def forward(self, x: burn.Tensor, h: burn.Tensor, c: burn.Tensor) -> tuple[burn.Tensor, burn.Tensor, burn.Tensor]:
        total, scaled = self.block(self.ih(x[:, 0]) + self.hh(h), c)  # each [batch, 8]
        total, scaled = self.block2(self.ih(x[:, 1]) + self.hh(scaled), total)  # each [batch, 8]
        memory, hidden = self.block3(self.ih(x[:, 2]) + self.hh(scaled), total)  # each [batch, 8]
        return self.out(hidden), hidden, memory
