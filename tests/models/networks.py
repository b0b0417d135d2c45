"""Hand-written torch modules: the convolutional and recurrent shapes that the transformer library has none of."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def randomise(module: nn.Module, seed: int = 0) -> nn.Module:
    """Give every bias, scale and running statistic a value of its own, and put the module in eval mode.

    Fresh modules have zeros and ones there, and a compiler that drops or swaps such a tensor would not be caught.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
            if not tensor.is_floating_point() or tensor.ndim != 1:
                continue
            noise = torch.randn(tensor.shape, generator=generator) * 0.1
            tensor.copy_(noise.abs() + 0.8 if name.endswith("running_var") else tensor + noise)
    return module.eval()


class SqueezeExcite(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.reduce = nn.Conv2d(channels, channels // 4, 1)
        self.expand = nn.Conv2d(channels // 4, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        scale = F.adaptive_avg_pool2d(x, 1)
        return x * F.hardsigmoid(self.expand(F.relu(self.reduce(scale))))


class InvertedResidual(nn.Module):
    """Expand 1x1, depthwise kxk, optional squeeze-and-excite, project 1x1 (Howard et al., 2019, figure 4)."""

    def __init__(self, inner: int, hidden: int, outer: int, kernel: int, stride: int, excite: bool, hard: bool) -> None:
        super().__init__()
        activation = nn.Hardswish if hard else nn.ReLU
        self.residual = stride == 1 and inner == outer
        self.body = nn.Sequential(
            nn.Conv2d(inner, hidden, 1, bias=False),
            nn.BatchNorm2d(hidden),
            activation(),
            nn.Conv2d(hidden, hidden, kernel, stride, kernel // 2, groups=hidden, bias=False),
            nn.BatchNorm2d(hidden),
            activation(),
            SqueezeExcite(hidden) if excite else nn.Identity(),
            nn.Conv2d(hidden, outer, 1, bias=False),
            nn.BatchNorm2d(outer),
        )

    def forward(self, x: Tensor) -> Tensor:
        y = self.body(x)
        return x + y if self.residual else y


class MobileNet(nn.Module):
    """MobileNetV3-small's blocks (table 2 of Howard et al., 2019) and a classifier; any image size."""

    # hidden, outer, kernel, stride, excite, hard-swish
    BLOCKS = (
        (16, 16, 3, 2, True, False),
        (72, 24, 3, 2, False, False),
        (88, 24, 3, 1, False, False),
        (96, 40, 5, 2, True, True),
        (240, 40, 5, 1, True, True),
        (240, 40, 5, 1, True, True),
        (120, 48, 5, 1, True, True),
        (144, 48, 5, 1, True, True),
        (288, 96, 5, 2, True, True),
        (576, 96, 5, 1, True, True),
        (576, 96, 5, 1, True, True),
    )

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.Hardswish())
        inner, blocks = 16, []
        for hidden, outer, kernel, stride, excite, hard in self.BLOCKS:
            blocks.append(InvertedResidual(inner, hidden, outer, kernel, stride, excite, hard))
            inner = outer
        self.blocks = nn.Sequential(*blocks)
        self.last = nn.Sequential(nn.Conv2d(inner, 576, 1, bias=False), nn.BatchNorm2d(576), nn.Hardswish())
        self.classify = nn.Sequential(nn.Linear(576, 1024), nn.Hardswish(), nn.Dropout(0.2), nn.Linear(1024, 1000))

    def forward(self, image: Tensor) -> Tensor:
        x = self.last(self.blocks(self.stem(image)))
        return self.classify(F.adaptive_avg_pool2d(x, 1).flatten(1))


class DoubleConv(nn.Sequential):
    def __init__(self, inner: int, outer: int) -> None:
        super().__init__(
            nn.Conv2d(inner, outer, 3, padding=1, bias=False),
            nn.BatchNorm2d(outer),
            nn.ReLU(),
            nn.Conv2d(outer, outer, 3, padding=1),
            nn.GroupNorm(4, outer),
            nn.SiLU(),
        )


class UNet(nn.Module):
    """Four levels down and up, with both ways up: a transposed convolution and a bilinear resize."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        widths = [width << level for level in range(4)]
        self.down = nn.ModuleList(DoubleConv(a, b) for a, b in zip([3, *widths], widths, strict=False))
        self.pool = nn.MaxPool2d(2)
        self.up = nn.ModuleList(
            [
                nn.ConvTranspose2d(widths[3], widths[2], 2, stride=2),
                nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear"), nn.Conv2d(widths[2], widths[1], 1)),
                nn.ConvTranspose2d(widths[1], widths[0], 4, stride=2, padding=1),
            ]
        )
        self.merge = nn.ModuleList(DoubleConv(2 * w, w) for w in reversed(widths[:3]))
        self.head = nn.Conv2d(widths[0], 2, 1)

    def forward(self, image: Tensor) -> Tensor:
        x, skips = image, []
        for level, down in enumerate(self.down):
            x = down(self.pool(x) if level else x)
            skips.append(x)
        for up, merge, skip in zip(self.up, self.merge, reversed(skips[:-1]), strict=True):
            x = merge(torch.cat([skip, up(x)], dim=1))
        return self.head(x)


class BiLSTM(nn.Module):
    """A two-layer bidirectional LSTM tagger; the final state is also an output."""

    def __init__(self, features: int = 64, hidden: int = 96, tags: int = 20) -> None:
        super().__init__()
        self.lstm = nn.LSTM(features, hidden, num_layers=2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(2 * hidden, tags)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y, (h, c) = self.lstm(x)
        return self.head(y), h, c


def mobilenet() -> nn.Module:
    torch.manual_seed(0)
    return randomise(MobileNet())


def unet() -> nn.Module:
    torch.manual_seed(0)
    return randomise(UNet())


def lstm() -> nn.Module:
    torch.manual_seed(0)
    return randomise(BiLSTM())
