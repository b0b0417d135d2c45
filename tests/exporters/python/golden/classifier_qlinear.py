"""Model, written from classifier_qlinear.onnx by burn-import.

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
        self.quantize = nn.FakeQuantize(0.0033044699, -128)
        self.fc = nn.QuantLinear(16, 5, bias=False, per_channel=False)
        self.quantize2 = nn.FakeQuantize(0.0022432287, -54)
        self.weight_quantized = nn.Buffer((8, 3, 3, 3), "int8")
        self.conv2_weight_quantized = nn.Buffer((16, 8, 3, 3), "int8")
        self.conv3_weight_quantized = nn.Buffer((16, 16, 3, 3), "int8")

    def forward(self, image: burn.Tensor) -> burn.Tensor:
        stored = ops.quantize(
            image,
            burn.constant(0.028065179, "float32"),
            burn.constant(11, "int8"),
            dtype="int8",
            axis=0,
        )
        weight_quantized = self.weight_quantized.astype("int32")  # int32[8, 3, 3, 3]
        total = stored.astype("int32") - 11  # int32[batch, 3, 32, 32]
        features = ops.conv(
            total,
            weight_quantized,
            strides=(2, 2),
            dilations=(1, 1),
            low=(1, 1),
            high=(1, 1),
            dtype="int32",
        )
        index = burn.constant([84, -3069, -1473, -2342, -2882, 1191, 2589, 2104], "int32").reshape(1, 8, 1, 1)
        x = ops.mul(burn.constant(0.028065179, "float32"), burn.constant(0.001511609, "float32"))  # []
        x = ops.round((features + index).astype("float32") * (x / 0.008186897)) - 128.0  # [batch, 8, 16, 16]
        x = ops.min(ops.max(x, burn.constant(-128.0, "float32")), burn.constant(127.0, "float32"))
        total = x.astype("int8").astype("int32") + 128  # int32[batch, 8, 16, 16]
        conv2_weight_quantized = self.conv2_weight_quantized.astype("int32")  # int32[16, 8, 3, 3]
        features = ops.conv(
            total,
            conv2_weight_quantized,
            strides=(2, 2),
            dilations=(1, 1),
            low=(1, 1),
            high=(1, 1),
            dtype="int32",
        )
        index = burn.constant(
            [
                -16554,
                -17438,
                5732,
                14246,
                23237,
                -30512,
                -5341,
                18472,
                23490,
                5573,
                -2706,
                -2963,
                8705,
                31986,
                11390,
                3505,
            ],
            "int32",
        ).reshape(1, 16, 1, 1)
        x = ops.mul(burn.constant(0.008186897, "float32"), burn.constant(0.00092781376, "float32"))  # []
        x = ops.round((features + index).astype("float32") * (x / 0.0030209282)) - 128.0  # [batch, 16, 8, 8]
        x = ops.min(ops.max(x, burn.constant(-128.0, "float32")), burn.constant(127.0, "float32"))
        smaller = x.astype("int8")  # int8[batch, 16, 8, 8]
        total = smaller.astype("int32") + 128  # int32[batch, 16, 8, 8]
        conv3_weight_quantized = self.conv3_weight_quantized.astype("int32")  # int32[16, 16, 3, 3]
        features = ops.conv(
            total,
            conv3_weight_quantized,
            strides=(1, 1),
            dilations=(1, 1),
            low=(1, 1),
            high=(1, 1),
            dtype="int32",
        )
        index = burn.constant(
            [
                -35449,
                -19395,
                -65805,
                -26198,
                38205,
                -13525,
                14172,
                -2071,
                28784,
                29882,
                12641,
                36037,
                -6219,
                147560,
                -82161,
                -39795,
            ],
            "int32",
        ).reshape(1, 16, 1, 1)
        x = ops.mul(burn.constant(0.0030209282, "float32"), burn.constant(0.00065592787, "float32"))  # []
        x = ops.round((features + index).astype("float32") * (x / 0.001763032)) - 128.0  # [batch, 16, 8, 8]
        x = ops.min(ops.max(x, burn.constant(-128.0, "float32")), burn.constant(127.0, "float32"))
        smaller2 = x.astype("int8")  # int8[batch, 16, 8, 8]
        x = ops.dequantize(
            smaller2,
            burn.constant(0.001763032, "float32"),
            burn.constant(-128, "int8"),
            dtype="float32",
            axis=0,
        )
        real = ops.dequantize(
            smaller,
            burn.constant(0.0030209282, "float32"),
            burn.constant(-128, "int8"),
            dtype="float32",
            axis=0,
        )
        x = self.quantize(x + real).mean((2, 3), keepdims=True)  # [batch, 16, 1, 1]
        stored = ops.quantize(
            x,
            burn.constant(0.0017580546, "float32"),
            burn.constant(-128, "int8"),
            dtype="int8",
            axis=0,
        )
        stored = stored.flatten(1)  # int8[batch, 16]
        x = ops.dequantize(
            stored,
            burn.constant(0.0017580546, "float32"),
            burn.constant(-128, "int8"),
            dtype="float32",
            axis=0,
        )
        out = burn.constant([58304, 88749, -67610, -15290, 34629], "int32").astype("float32")  # [5]
        scaled = ops.mul(burn.constant(0.0017580546, "float32"), burn.constant(0.001922534, "float32"))  # []
        return self.quantize2(self.fc(x) + out * scaled)
