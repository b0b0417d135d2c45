"""Model, written from classifier_qdq.onnx by burn-import.

    model = Model.from_file("model.safetensors")
    run = burn.compile(model)  # for every size of batch
"""

from __future__ import annotations

import burn
from burn import nn


class Model(nn.Module):
    inputs = {"image": "float32[batch, 3, 32, 32]"}
    outputs = ("output",)

    def __init__(self) -> None:
        self.quantize = nn.FakeQuantize(0.028065179, 11)
        self.conv1 = nn.QuantConv2d(3, 8, 3, stride=2, padding=1)
        self.quantize2 = nn.FakeQuantize(0.008186897, -128)
        self.conv2 = nn.QuantConv2d(8, 16, 3, stride=2, padding=1)
        self.quantize3 = nn.FakeQuantize(0.0030209282, -128)
        self.conv3 = nn.QuantConv2d(16, 16, 3, padding=1)
        self.quantize4 = nn.FakeQuantize(0.001763032, -128)
        self.quantize5 = nn.FakeQuantize(0.0033044699, -128)
        self.quantize6 = nn.FakeQuantize(0.0017580546, -128)
        self.quantize7 = nn.FakeQuantize(0.0017580546, -128)
        self.fc = nn.QuantLinear(16, 5)
        self.quantize8 = nn.FakeQuantize(0.0022432287, -54)

    def forward(self, image: burn.Tensor) -> burn.Tensor:
        x = self.quantize2(self.conv1(self.quantize(image)))  # [batch, 8, 16, 16]
        x = self.quantize3(self.conv2(x))  # [batch, 16, 8, 8]
        x = self.quantize5(self.quantize4(self.conv3(x)) + x)
        x = self.quantize6(x.mean((2, 3), keepdims=True))  # [batch, 16, 1, 1]
        x = self.fc(self.quantize7(x.flatten(1)))  # [batch, 5]
        return self.quantize8(x)
