"""Model, written from ultraface.onnx by burn-import.

    model = Model.from_file("model.safetensors")
    run = burn.compile(model)
"""

from __future__ import annotations

import burn
from burn import nn, ops


class Model(nn.Module):
    inputs = {"input": "float32[1, 3, 240, 320]"}
    outputs = ("scores", "boxes")

    def __init__(self) -> None:
        self.base_net_0_0 = nn.Conv2d(3, 16, 3, stride=2, padding=1, bias=False)
        self.base_net_0_1 = nn.BatchNorm2d(16)
        self.base_net_1_0 = nn.Conv2d(16, 16, 3, padding=1, groups=16, bias=False)
        self.base_net_1_1 = nn.BatchNorm2d(16)
        self.base_net_1_3 = nn.Conv2d(16, 32, 1, bias=False)
        self.base_net_1_4 = nn.BatchNorm2d(32)
        self.base_net_2_0 = nn.Conv2d(32, 32, 3, stride=2, padding=1, groups=32, bias=False)
        self.base_net_2_1 = nn.BatchNorm2d(32)
        self.base_net_2_3 = nn.Conv2d(32, 32, 1, bias=False)
        self.base_net_2_4 = nn.BatchNorm2d(32)
        self.base_net_3_0 = nn.Conv2d(32, 32, 3, padding=1, groups=32, bias=False)
        self.base_net_3_1 = nn.BatchNorm2d(32)
        self.base_net_3_3 = nn.Conv2d(32, 32, 1, bias=False)
        self.base_net_3_4 = nn.BatchNorm2d(32)
        self.base_net_4_0 = nn.Conv2d(32, 32, 3, stride=2, padding=1, groups=32, bias=False)
        self.base_net_4_1 = nn.BatchNorm2d(32)
        self.base_net_4_3 = nn.Conv2d(32, 64, 1, bias=False)
        self.base_net_4_4 = nn.BatchNorm2d(64)
        self.base_net_5_0 = nn.Conv2d(64, 64, 3, padding=1, groups=64, bias=False)
        self.base_net_5_1 = nn.BatchNorm2d(64)
        self.base_net_5_3 = nn.Conv2d(64, 64, 1, bias=False)
        self.base_net_5_4 = nn.BatchNorm2d(64)
        self.base_net_6_0 = nn.Conv2d(64, 64, 3, padding=1, groups=64, bias=False)
        self.base_net_6_1 = nn.BatchNorm2d(64)
        self.base_net_6_3 = nn.Conv2d(64, 64, 1, bias=False)
        self.base_net_6_4 = nn.BatchNorm2d(64)
        self.branch0_0_conv = nn.Conv2d(64, 8, 1, bias=False)
        self.branch0_0_bn = nn.BatchNorm2d(8)
        self.branch0_1_conv = nn.Conv2d(8, 16, 3, padding=1, bias=False)
        self.branch0_1_bn = nn.BatchNorm2d(16)
        self.branch0_2_conv = nn.Conv2d(16, 16, 3, padding=2, dilation=2, bias=False)
        self.branch0_2_bn = nn.BatchNorm2d(16)
        self.branch1_0_conv = nn.Conv2d(64, 8, 1, bias=False)
        self.branch1_0_bn = nn.BatchNorm2d(8)
        self.branch1_1_conv = nn.Conv2d(8, 16, 3, padding=1, bias=False)
        self.branch1_1_bn = nn.BatchNorm2d(16)
        self.branch1_2_conv = nn.Conv2d(16, 16, 3, padding=3, dilation=3, bias=False)
        self.branch1_2_bn = nn.BatchNorm2d(16)
        self.branch2_0_conv = nn.Conv2d(64, 8, 1, bias=False)
        self.branch2_0_bn = nn.BatchNorm2d(8)
        self.branch2_1_conv = nn.Conv2d(8, 12, 3, padding=1, bias=False)
        self.branch2_1_bn = nn.BatchNorm2d(12)
        self.branch2_2_conv = nn.Conv2d(12, 16, 3, padding=1, bias=False)
        self.branch2_2_bn = nn.BatchNorm2d(16)
        self.branch2_3_conv = nn.Conv2d(16, 16, 3, padding=5, dilation=5, bias=False)
        self.branch2_3_bn = nn.BatchNorm2d(16)
        self.conv_linear_conv = nn.Conv2d(48, 64, 1, bias=False)
        self.conv_linear_bn = nn.BatchNorm2d(64)
        self.shortcut_conv = nn.Conv2d(64, 64, 1, bias=False)
        self.shortcut_bn = nn.BatchNorm2d(64)
        self.classification_headers_0_0 = nn.Conv2d(64, 64, 3, padding=1, groups=64)
        self.classification_headers_0_2 = nn.Conv2d(64, 6, 1)
        self.regression_headers_0_0 = nn.Conv2d(64, 64, 3, padding=1, groups=64)
        self.regression_headers_0_2 = nn.Conv2d(64, 12, 1)
        self.base_net_8_0 = nn.Conv2d(64, 64, 3, stride=2, padding=1, groups=64, bias=False)
        self.base_net_8_1 = nn.BatchNorm2d(64)
        self.base_net_8_3 = nn.Conv2d(64, 128, 1, bias=False)
        self.base_net_8_4 = nn.BatchNorm2d(128)
        self.base_net_9_0 = nn.Conv2d(128, 128, 3, padding=1, groups=128, bias=False)
        self.base_net_9_1 = nn.BatchNorm2d(128)
        self.base_net_9_3 = nn.Conv2d(128, 128, 1, bias=False)
        self.base_net_9_4 = nn.BatchNorm2d(128)
        self.base_net_10_0 = nn.Conv2d(128, 128, 3, padding=1, groups=128, bias=False)
        self.base_net_10_1 = nn.BatchNorm2d(128)
        self.base_net_10_3 = nn.Conv2d(128, 128, 1, bias=False)
        self.base_net_10_4 = nn.BatchNorm2d(128)
        self.classification_headers_1_0 = nn.Conv2d(128, 128, 3, padding=1, groups=128)
        self.classification_headers_1_2 = nn.Conv2d(128, 4, 1)
        self.regression_headers_1_0 = nn.Conv2d(128, 128, 3, padding=1, groups=128)
        self.regression_headers_1_2 = nn.Conv2d(128, 8, 1)
        self.base_net_11_0 = nn.Conv2d(128, 128, 3, stride=2, padding=1, groups=128, bias=False)
        self.base_net_11_1 = nn.BatchNorm2d(128)
        self.base_net_11_3 = nn.Conv2d(128, 256, 1, bias=False)
        self.base_net_11_4 = nn.BatchNorm2d(256)
        self.base_net_12_0 = nn.Conv2d(256, 256, 3, padding=1, groups=256, bias=False)
        self.base_net_12_1 = nn.BatchNorm2d(256)
        self.base_net_12_3 = nn.Conv2d(256, 256, 1, bias=False)
        self.base_net_12_4 = nn.BatchNorm2d(256)
        self.classification_headers_2_0 = nn.Conv2d(256, 256, 3, padding=1, groups=256)
        self.classification_headers_2_2 = nn.Conv2d(256, 4, 1)
        self.regression_headers_2_0 = nn.Conv2d(256, 256, 3, padding=1, groups=256)
        self.regression_headers_2_2 = nn.Conv2d(256, 8, 1)
        self.extras_0_0 = nn.Conv2d(256, 64, 1)
        self.extras_0_2_0 = nn.Conv2d(64, 64, 3, stride=2, padding=1, groups=64)
        self.extras_0_2_2 = nn.Conv2d(64, 256, 1)
        self.classification_headers_3 = nn.Conv2d(256, 6, 3, padding=1)
        self.regression_headers_3 = nn.Conv2d(256, 12, 3, padding=1)
        self.scale = nn.Parameter((1, 4420, 2))
        self.bias = nn.Parameter((1, 4420, 2))
        self.scale2 = nn.Parameter((1, 4420, 2))

    def forward(self, input: burn.Tensor) -> tuple[burn.Tensor, burn.Tensor]:
        x = ops.relu(self.base_net_0_1(self.base_net_0_0(input)))  # [1, 16, 120, 160]
        x = ops.relu(self.base_net_1_1(self.base_net_1_0(x)))
        x = ops.relu(self.base_net_1_4(self.base_net_1_3(x)))  # [1, 32, 120, 160]
        x = ops.relu(self.base_net_2_1(self.base_net_2_0(x)))  # [1, 32, 60, 80]
        x = ops.relu(self.base_net_2_4(self.base_net_2_3(x)))
        x = ops.relu(self.base_net_3_1(self.base_net_3_0(x)))
        x = ops.relu(self.base_net_3_4(self.base_net_3_3(x)))
        x = ops.relu(self.base_net_4_1(self.base_net_4_0(x)))  # [1, 32, 30, 40]
        x = ops.relu(self.base_net_4_4(self.base_net_4_3(x)))  # [1, 64, 30, 40]
        x = ops.relu(self.base_net_5_1(self.base_net_5_0(x)))
        x = ops.relu(self.base_net_5_4(self.base_net_5_3(x)))
        x = ops.relu(self.base_net_6_1(self.base_net_6_0(x)))
        x = ops.relu(self.base_net_6_4(self.base_net_6_3(x)))
        out = self.branch0_1_conv(self.branch0_0_bn(self.branch0_0_conv(x)))  # [1, 16, 30, 40]
        out = self.branch0_2_conv(ops.relu(self.branch0_1_bn(out)))
        branch1_1_conv = self.branch1_1_conv(self.branch1_0_bn(self.branch1_0_conv(x)))  # [1, 16, 30, 40]
        branch1_2_conv = self.branch1_2_conv(ops.relu(self.branch1_1_bn(branch1_1_conv)))
        branch2_1_conv = self.branch2_1_conv(self.branch2_0_bn(self.branch2_0_conv(x)))  # [1, 12, 30, 40]
        branch2_2_conv = self.branch2_2_conv(ops.relu(self.branch2_1_bn(branch2_1_conv)))  # [1, 16, 30, 40]
        branch2_3_conv = self.branch2_3_conv(ops.relu(self.branch2_2_bn(branch2_2_conv)))
        normed = self.branch0_2_bn(out)
        branch1_2_bn = self.branch1_2_bn(branch1_2_conv)
        branch2_3_bn = self.branch2_3_bn(branch2_3_conv)
        out = self.conv_linear_conv(ops.concat([normed, branch1_2_bn, branch2_3_bn], axis=1))  # [1, 64, 30, 40]
        x = ops.relu(self.conv_linear_bn(out) + self.shortcut_bn(self.shortcut_conv(x)))
        out = self.classification_headers_0_2(ops.relu(self.classification_headers_0_0(x)))  # [1, 6, 30, 40]
        regression_headers_0_2 = self.regression_headers_0_2(ops.relu(self.regression_headers_0_0(x)))
        x = ops.relu(self.base_net_8_1(self.base_net_8_0(x)))  # [1, 64, 15, 20]
        x = ops.relu(self.base_net_8_4(self.base_net_8_3(x)))  # [1, 128, 15, 20]
        x = ops.relu(self.base_net_9_1(self.base_net_9_0(x)))
        x = ops.relu(self.base_net_9_4(self.base_net_9_3(x)))
        x = ops.relu(self.base_net_10_1(self.base_net_10_0(x)))
        out = out.permute(0, 2, 3, 1).reshape(1, 3600, 2)  # [1, 3600, 2]
        regression_headers_0_2 = regression_headers_0_2.permute(0, 2, 3, 1).reshape(1, 3600, 4)  # [1, 3600, 4]
        x = self.base_net_10_4(self.base_net_10_3(x))
        x = ops.relu(x)
        classification_headers_1_2 = self.classification_headers_1_2(ops.relu(self.classification_headers_1_0(x)))
        regression_headers_1_2 = self.regression_headers_1_2(ops.relu(self.regression_headers_1_0(x)))  # [1, 8, 15, 20]
        x = ops.relu(self.base_net_11_1(self.base_net_11_0(x)))  # [1, 128, 8, 10]
        x = ops.relu(self.base_net_11_4(self.base_net_11_3(x)))  # [1, 256, 8, 10]
        x = ops.relu(self.base_net_12_1(self.base_net_12_0(x)))
        classification_headers_1_2 = classification_headers_1_2.permute(0, 2, 3, 1).reshape(1, 600, 2)  # [1, 600, 2]
        regression_headers_1_2 = regression_headers_1_2.permute(0, 2, 3, 1).reshape(1, 600, 4)  # [1, 600, 4]
        x = self.base_net_12_4(self.base_net_12_3(x))
        x = ops.relu(x)
        classification_headers_2_2 = self.classification_headers_2_2(ops.relu(self.classification_headers_2_0(x)))
        regression_headers_2_2 = self.regression_headers_2_2(ops.relu(self.regression_headers_2_0(x)))  # [1, 8, 8, 10]
        x = self.extras_0_2_0(ops.relu(self.extras_0_0(x)))  # [1, 64, 4, 5]
        classification_headers_2_2 = classification_headers_2_2.permute(0, 2, 3, 1).reshape(1, 160, 2)  # [1, 160, 2]
        regression_headers_2_2 = regression_headers_2_2.permute(0, 2, 3, 1).reshape(1, 160, 4)  # [1, 160, 4]
        x = self.extras_0_2_2(ops.relu(x))  # [1, 256, 4, 5]
        x = ops.relu(x)
        classification_headers_3 = self.classification_headers_3(x).permute(0, 2, 3, 1).reshape(1, 60, 2)  # [1, 60, 2]
        x = self.regression_headers_3(x).permute(0, 2, 3, 1).reshape(1, 60, 4)  # [1, 60, 4]
        joined = ops.concat(
            [out, classification_headers_1_2, classification_headers_2_2, classification_headers_3],
            axis=1,
        )
        x = ops.concat([regression_headers_0_2, regression_headers_1_2, regression_headers_2_2, x], axis=1)
        scores = ops.softmax(joined, axis=2)
        first, second = x.chunk(2, 2)  # each [1, 4420, 2]
        x = first * 0.1 * self.scale + self.bias
        scaled = ops.exp(second * 0.2) * self.scale2 * 0.5
        return scores, ops.concat([x - scaled, x + scaled], axis=2)
