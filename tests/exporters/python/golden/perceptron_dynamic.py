"""Model, written from perceptron_dynamic.onnx by burn-import.

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
        self.weight_quantized = nn.Buffer((16, 32), "int8")
        self.bias = nn.Parameter((32,))
        self.fc2_weight_quantized = nn.Buffer((32, 32), "int8")
        self.fc2_bias = nn.Parameter((32,))
        self.fc3_weight_quantized = nn.Buffer((32, 4), "int8")
        self.fc3_bias = nn.Parameter((4,))

    def forward(self, x: burn.Tensor) -> burn.Tensor:
        smaller = ops.min(ops.reduce(x, kind="min", axes=(0, 1)), burn.constant(0.0, "float32"))  # []
        larger = ops.max(ops.reduce(x, kind="max", axes=(0, 1)), burn.constant(0.0, "float32"))  # []
        ratio = (larger - smaller) / 255.0
        weight_quantized = self.weight_quantized.astype("int32")  # int32[16, 32]
        mask = ratio == 0.0  # bool[]
        chosen = burn.where(mask, 1.0, ratio)
        larger = ops.max(ops.round(-smaller / chosen), burn.constant(0.0, "float32"))
        smaller = ops.min(larger, burn.constant(255.0, "float32")).astype("uint8")  # uint8[]
        difference = ops.quantize(x, chosen, smaller, dtype="uint8").astype("int32") - smaller.astype("int32")
        product = ops.dot_general(difference, weight_quantized, lhs_contract=(1,), rhs_contract=(0,), dtype="int32")
        x = ops.relu(product.astype("float32") * (ratio * 0.001967867) + self.bias)  # [batch, 32]
        smaller = ops.min(ops.reduce(x, kind="min", axes=(0, 1)), burn.constant(0.0, "float32"))  # []
        larger = ops.max(ops.reduce(x, kind="max", axes=(0, 1)), burn.constant(0.0, "float32"))  # []
        ratio = (larger - smaller) / 255.0
        chosen = burn.where(ratio == 0.0, 1.0, ratio)
        larger = ops.max(ops.round(-smaller / chosen), burn.constant(0.0, "float32"))
        smaller = ops.min(larger, burn.constant(255.0, "float32")).astype("uint8")  # uint8[]
        difference = ops.quantize(x, chosen, smaller, dtype="uint8").astype("int32") - smaller.astype("int32")
        x = ratio * 0.0013917206
        fc2_weight_quantized = self.fc2_weight_quantized.astype("int32")  # int32[32, 32]
        product = ops.dot_general(difference, fc2_weight_quantized, lhs_contract=(1,), rhs_contract=(0,), dtype="int32")
        x = ops.relu(product.astype("float32") * x + self.fc2_bias)  # [batch, 32]
        smaller = ops.min(ops.reduce(x, kind="min", axes=(0, 1)), burn.constant(0.0, "float32"))  # []
        larger = ops.max(ops.reduce(x, kind="max", axes=(0, 1)), burn.constant(0.0, "float32"))  # []
        ratio = (larger - smaller) / 255.0
        chosen = burn.where(ratio == 0.0, 1.0, ratio)
        larger = ops.max(ops.round(-smaller / chosen), burn.constant(0.0, "float32"))
        smaller = ops.min(larger, burn.constant(255.0, "float32")).astype("uint8")  # uint8[]
        difference = ops.quantize(x, chosen, smaller, dtype="uint8").astype("int32") - smaller.astype("int32")
        x = ratio * 0.0013824297
        fc3_weight_quantized = self.fc3_weight_quantized.astype("int32")  # int32[32, 4]
        product = ops.dot_general(difference, fc3_weight_quantized, lhs_contract=(1,), rhs_contract=(0,), dtype="int32")
        return ops.softmax(product.astype("float32") * x + self.fc3_bias, axis=1)
