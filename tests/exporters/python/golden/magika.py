"""Model, written from magika.onnx by burn-import.

    model = Model.from_file("model.safetensors")
    run = burn.compile(model)  # for every size of unk__214
"""

from __future__ import annotations

import burn
from burn import nn, ops


class Model(nn.Module):
    inputs = {"bytes": "int32[unk__214, 2048]"}
    outputs = ("target_label",)

    def __init__(self) -> None:
        self.conv_0 = nn.Conv2d(256, 512, (5, 1), bias=False)
        self.dense_1 = nn.Linear(512, 214, bias=False)
        self.table = nn.Parameter((257, 64))
        self.dense_0 = nn.Parameter((1, 1, 64))
        self.layer_norm_0 = nn.Parameter((1, 512, 1))
        self.magika_v2_layer_norm_0 = nn.Parameter((1, 512, 1))
        self.bias = nn.Parameter((1, 512, 1))
        self.layer_norm_1 = nn.Parameter((1, 512))
        self.magika_v2_layer_norm_1 = nn.Parameter((1, 512))
        self.magika_v2_dense_1 = nn.Parameter((1, 214))

    def forward(self, bytes: burn.Tensor) -> burn.Tensor:
        unk__214 = bytes.shape[0]
        x = ops.pad(self.table, 0.0, low=(0, 0), high=(1, 0))  # [258, 64]
        part = bytes.astype("int64")  # int64[unk__214, 2048]
        x = ops.gather(x, burn.where((part >= 0) & (part < 257), part, 257))  # [unk__214, 2048, 64]
        x = ops.gelu(x + self.dense_0, approximate="tanh").reshape(unk__214, 512, 256)  # [unk__214, 512, 256]
        mean = (x * x).mean(1, keepdims=True)  # [unk__214, 1, 256]
        mean2 = x.mean(1, keepdims=True)  # [unk__214, 1, 256]
        scale = ops.rsqrt(ops.max(mean - mean2 * mean2, burn.constant(0.0, "float32")) + 1e-06)
        x = ((x - mean2) * (scale * self.layer_norm_0) + self.magika_v2_layer_norm_0).unsqueeze(3)
        x = ops.gelu(self.conv_0(x.transpose(1, 2)).flatten(2) + self.bias, approximate="tanh")  # [unk__214, 512, 508]
        x = x.max(2, keepdims=True)  # [unk__214, 512, 1]
        peak = x.flatten(1)  # [unk__214, 512]
        mean = x.mean(1, keepdims=True)  # [unk__214, 1, 1]
        x = ops.max((x * x).mean(1, keepdims=True) - mean * mean, burn.constant(0.0, "float32"))
        x = (peak - mean.flatten(1)) * (ops.rsqrt(x + 1e-06).flatten(1) * self.layer_norm_1)
        return ops.softmax(self.dense_1(x + self.magika_v2_layer_norm_1) + self.magika_v2_dense_1, axis=1)
