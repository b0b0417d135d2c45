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
        self.const_0 = nn.Linear(257, 64, bias=False)
        self.transpose_3_0 = nn.Conv2d(256, 512, (5, 1), bias=False)
        self.const_24_0 = nn.Linear(512, 214, bias=False)
        self.broadcast_to_1_0 = nn.Buffer((1, 1, 257), "int32")
        self.reshape_0 = nn.Parameter((1, 1, 64))
        self.reshape_2_0 = nn.Parameter((1, 512, 1))
        self.reshape_3_0 = nn.Parameter((1, 512, 1))
        self.table = nn.Parameter((1, 512, 1))
        self.layer_norm_1_reshape_2_0 = nn.Parameter((1, 512))
        self.layer_norm_1_reshape_3_0 = nn.Parameter((1, 512))
        self.dense_1_reshape_0 = nn.Parameter((1, 214))

    def forward(self, bytes: burn.Tensor) -> burn.Tensor:
        unk__214 = bytes.shape[0]
        x = self.const_0((bytes.unsqueeze(2) == self.broadcast_to_1_0).astype("float32"))  # [unk__214, 2048, 64]
        x = ops.gelu(x + self.reshape_0, approximate="tanh").reshape(unk__214, 512, 256)  # [unk__214, 512, 256]
        mean = (x * x).mean(1, keepdims=True)  # [unk__214, 1, 256]
        layernorm_0_mean = x.mean(1, keepdims=True)  # [unk__214, 1, 256]
        # [unk__214, 1, 256]
        larger = ops.max(mean - layernorm_0_mean * layernorm_0_mean, burn.constant(0.0, "float32"))
        # [unk__214, 512, 256]
        x = (x - layernorm_0_mean) * (ops.rsqrt(larger + 1e-06) * self.reshape_2_0) + self.reshape_3_0
        # [..., 512, 508, 1]
        x = self.transpose_3_0(x.unsqueeze(3)[:burn.Dim.min(1000000000, unk__214)].transpose(1, 2))
        x = ops.gelu(x.flatten(2) + self.table, approximate="tanh").max(2, keepdims=True)  # [..., 512, 1]
        peak = x.flatten(1)  # [..., 512]
        mean = x.mean(1, keepdims=True)  # [..., 1, 1]
        x = ops.max((x * x).mean(1, keepdims=True) - mean * mean, burn.constant(0.0, "float32"))  # [..., 1, 1]
        x = ops.rsqrt(x.reshape(unk__214, 1) + 1e-06) * self.layer_norm_1_reshape_2_0  # [unk__214, 512]
        x = self.const_24_0((peak - mean.reshape(unk__214, 1)) * x + self.layer_norm_1_reshape_3_0)  # [unk__214, 214]
        return ops.softmax(x + self.dense_1_reshape_0, axis=1)
