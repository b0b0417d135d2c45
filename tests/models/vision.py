"""Published convolutional networks whose figures runtimes are compared by, written out: EfficientNet-B0 and a YOLO."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.models.networks import randomise


def _conv(inner: int, outer: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inner, outer, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outer),
        nn.SiLU(),
    )


class SqueezeExcite(nn.Module):
    """With sigmoids and SiLU; what it squeezes to is a quarter of the block's input, not of its own channels."""

    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.reduce = nn.Conv2d(channels, squeezed, 1)
        self.expand = nn.Conv2d(squeezed, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(self.expand(F.silu(self.reduce(x.mean((2, 3), keepdim=True)))))


class MBConv(nn.Module):
    """Expand, depthwise, squeeze and excite, project (Tan and Le, 2019, table 1)."""

    def __init__(self, inner: int, outer: int, expansion: int, kernel: int, stride: int) -> None:
        super().__init__()
        hidden = inner * expansion
        self.residual = stride == 1 and inner == outer
        self.body = nn.Sequential(
            _conv(inner, hidden) if expansion > 1 else nn.Identity(),
            _conv(hidden, hidden, kernel, stride, hidden),
            SqueezeExcite(hidden, max(1, inner // 4)),
            nn.Conv2d(hidden, outer, 1, bias=False),
            nn.BatchNorm2d(outer),
        )

    def forward(self, x: Tensor) -> Tensor:
        y = self.body(x)
        return x + y if self.residual else y


class EfficientNet(nn.Module):
    """EfficientNet-B0 for images of 224 x 224."""

    # expansion, outer, layers, kernel, stride
    STAGES = (
        (1, 16, 1, 3, 1),
        (6, 24, 2, 3, 2),
        (6, 40, 2, 5, 2),
        (6, 80, 3, 3, 2),
        (6, 112, 3, 5, 1),
        (6, 192, 4, 5, 2),
        (6, 320, 1, 3, 1),
    )

    def __init__(self) -> None:
        super().__init__()
        inner, blocks = 32, []
        for expansion, outer, layers, kernel, stride in self.STAGES:
            for layer in range(layers):
                blocks.append(MBConv(inner, outer, expansion, kernel, 1 if layer else stride))
                inner = outer
        self.features = nn.Sequential(_conv(3, 32, 3, 2), *blocks, _conv(inner, 1280))
        self.classify = nn.Linear(1280, 1000)

    def forward(self, image: Tensor) -> Tensor:
        return self.classify(self.features(image).mean((2, 3)))


class Bottleneck(nn.Module):
    def __init__(self, channels: int, residual: bool) -> None:
        super().__init__()
        self.body = nn.Sequential(_conv(channels, channels, 3), _conv(channels, channels, 3))
        self.residual = residual

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x) if self.residual else self.body(x)


class C2f(nn.Module):
    """Half of the channels goes through `layers` bottlenecks, and every step on the way is joined."""

    def __init__(self, inner: int, outer: int, layers: int, residual: bool) -> None:
        super().__init__()
        self.first = _conv(inner, outer)
        self.steps = nn.ModuleList(Bottleneck(outer // 2, residual) for _ in range(layers))
        self.last = _conv((2 + layers) * outer // 2, outer)

    def forward(self, x: Tensor) -> Tensor:
        parts = list(self.first(x).chunk(2, 1))
        for step in self.steps:
            parts.append(step(parts[-1]))
        return self.last(torch.cat(parts, 1))


class SPPF(nn.Module):
    """Three poolings of 5 x 5 in a row, concatenated with their input."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = _conv(channels, channels // 2)
        self.last = _conv(2 * channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        parts = [self.first(x)]
        for _ in range(3):
            parts.append(F.max_pool2d(parts[-1], 5, 1, 2))
        return self.last(torch.cat(parts, 1))


class Head(nn.Module):
    """The head of one scale: four edges of a box, each a distribution over 16 distances, and 80 classes."""

    def __init__(self, inner: int) -> None:
        super().__init__()
        self.box = nn.Sequential(_conv(inner, 64, 3), _conv(64, 64, 3), nn.Conv2d(64, 64, 1))
        self.kind = nn.Sequential(_conv(inner, 80, 3), _conv(80, 80, 3), nn.Conv2d(80, 80, 1))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.box(x), self.kind(x)], 1).flatten(2)


class Yolo(nn.Module):
    """A detector after YOLOv8n: a backbone of C2f blocks, a path up and a path down between three scales, decoded boxes."""

    WIDTHS = (16, 32, 64, 128, 256)

    def __init__(self) -> None:
        super().__init__()
        a, b, c, d, e = self.WIDTHS
        self.stem = nn.Sequential(_conv(3, a, 3, 2), _conv(a, b, 3, 2), C2f(b, b, 1, True), _conv(b, c, 3, 2))
        self.near = C2f(c, c, 2, True)
        self.middle = nn.Sequential(_conv(c, d, 3, 2), C2f(d, d, 2, True))
        self.far = nn.Sequential(_conv(d, e, 3, 2), C2f(e, e, 1, True), SPPF(e))
        self.up = nn.ModuleList([C2f(d + e, d, 1, False), C2f(c + d, c, 1, False)])
        self.down = nn.ModuleList([_conv(c, c, 3, 2), _conv(d, d, 3, 2)])
        self.merge = nn.ModuleList([C2f(c + d, d, 1, False), C2f(d + e, e, 1, False)])
        self.heads = nn.ModuleList([Head(c), Head(d), Head(e)])

    def forward(self, image: Tensor) -> Tensor:
        near = self.near(self.stem(image))
        middle = self.middle(near)
        far = self.far(middle)
        middle = self.up[0](torch.cat([F.interpolate(far, scale_factor=2.0), middle], 1))
        near = self.up[1](torch.cat([F.interpolate(middle, scale_factor=2.0), near], 1))
        middle = self.merge[0](torch.cat([self.down[0](near), middle], 1))
        far = self.merge[1](torch.cat([self.down[1](middle), far], 1))
        found = [head(scale) for head, scale in zip(self.heads, (near, middle, far), strict=True)]
        sides, kinds = torch.cat(found, 2).split((64, 80), 1)
        distances = sides.unflatten(1, (4, 16)).softmax(2)
        steps = torch.arange(16, dtype=image.dtype).view(1, 1, 16, 1)
        return torch.cat([(distances * steps).sum(2), kinds.sigmoid()], 1)


def efficientnet() -> nn.Module:
    torch.manual_seed(0)
    return randomise(EfficientNet())


def yolo() -> nn.Module:
    torch.manual_seed(0)
    return randomise(Yolo())
