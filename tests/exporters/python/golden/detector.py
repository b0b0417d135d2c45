"""Model, written from detector.onnx by burn-import.

    model = Model.from_file("model.safetensors")
    run = burn.compile(model)  # for every size of batch
"""

from __future__ import annotations

import burn
from burn import nn, ops


class ConvActivation(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, stride: int, padding: int) -> None:
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size, stride=stride, padding=padding)

    def forward(self, x: burn.Tensor) -> burn.Tensor:
        return ops.silu(self.conv(x))


class Residual(nn.Module):
    def __init__(self, in_channels: int) -> None:
        self.cv1 = ConvActivation(in_channels, in_channels, 3, 1, 1)
        self.cv2 = ConvActivation(in_channels, in_channels, 3, 1, 1)

    def forward(self, x: burn.Tensor) -> burn.Tensor:
        return x + self.cv2(self.cv1(x))


class Branches(nn.Module):
    def __init__(self, in_channels: int, out_channels: int) -> None:
        self.cv1 = ConvActivation(in_channels, out_channels, 1, 1, 0)
        self.m = Residual(out_channels // 2)
        self.cv2 = ConvActivation(3 * out_channels // 2, out_channels, 1, 1, 0)

    def forward(self, x: burn.Tensor) -> burn.Tensor:
        first, second = self.cv1(x).chunk(2, 1)
        x = ops.concat([first, second, self.m(second)], axis=1)
        return self.cv2(x)


class Model(nn.Module):
    inputs = {"images": "float32[batch, 3, 64, 64]"}
    outputs = ("output",)

    def __init__(self) -> None:
        self.stem = ConvActivation(3, 8, 3, 2, 1)
        self.d2 = ConvActivation(8, 16, 3, 2, 1)
        self.c2 = Branches(16, 16)
        self.d3 = ConvActivation(16, 32, 3, 2, 1)
        self.c3_cv1 = ConvActivation(32, 32, 1, 1, 0)
        self.c3_m = nn.ModuleList(Residual(16) for _ in range(2))
        self.c3_cv2 = ConvActivation(64, 32, 1, 1, 0)
        self.d4 = ConvActivation(32, 64, 3, 2, 1)
        self.c4 = Branches(64, 64)
        self.spp_cv1 = ConvActivation(64, 32, 1, 1, 0)
        self.spp_m = nn.MaxPool2d(5, stride=1, padding=2)
        self.spp_cv2 = ConvActivation(128, 64, 1, 1, 0)
        self.up = nn.Upsample(scale_factor=2)
        self.n3 = Branches(96, 32)
        self.p4 = ConvActivation(32, 32, 3, 2, 1)
        self.m4 = Branches(96, 64)
        self.boxes_0_0 = ConvActivation(32, 16, 3, 1, 1)
        self.boxes_0_1 = nn.Conv2d(16, 4, 1)
        self.classes_0_0 = ConvActivation(32, 16, 3, 1, 1)
        self.classes_0_1 = nn.Conv2d(16, 4, 1)
        self.boxes_1_0 = ConvActivation(64, 16, 3, 1, 1)
        self.boxes_1_1 = nn.Conv2d(16, 4, 1)
        self.classes_1_0 = ConvActivation(64, 16, 3, 1, 1)
        self.classes_1_1 = nn.Conv2d(16, 4, 1)

    def forward(self, images: burn.Tensor) -> burn.Tensor:
        x = self.c2(self.d2(self.stem(images)))  # [batch, 16, 16, 16]
        first, second = self.c3_cv1(self.d3(x)).chunk(2, 1)  # each [batch, 16, 8, 8]
        x = self.c3_m[0](second)
        x = ops.concat([first, second, x, self.c3_m[1](x)], axis=1)  # [batch, 64, 8, 8]
        x = self.c3_cv2(x)  # [batch, 32, 8, 8]
        out = self.spp_cv1(self.c4(self.d4(x)))  # [batch, 32, 4, 4]
        pooled = self.spp_m(out)
        spp_m = self.spp_m(pooled)
        joined = ops.concat([out, pooled, spp_m, self.spp_m(spp_m)], axis=1)  # [batch, 128, 4, 4]
        out = self.spp_cv2(joined)  # [batch, 64, 4, 4]
        x = ops.concat([self.up(out), x], axis=1)  # [batch, 96, 8, 8]
        x = self.n3(x)  # [batch, 32, 8, 8]
        joined = ops.concat([self.p4(x), out], axis=1)  # [batch, 96, 4, 4]
        out = self.m4(joined)  # [batch, 64, 4, 4]
        gate = ops.sigmoid(self.classes_0_1(self.classes_0_0(x)))  # [batch, 4, 8, 8]
        x = ops.concat([self.boxes_0_1(self.boxes_0_0(x)), gate], axis=1)  # [batch, 8, 8, 8]
        gate = ops.sigmoid(self.classes_1_1(self.classes_1_0(out)))  # [batch, 4, 4, 4]
        joined = ops.concat([self.boxes_1_1(self.boxes_1_0(out)), gate], axis=1)  # [batch, 8, 4, 4]
        x = ops.concat([x.flatten(2), joined.flatten(2)], axis=2)  # [batch, 8, 80]
        return x.transpose(1, 2)
