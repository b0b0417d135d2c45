"""Torch modules for the golden sources: the ways in which people write networks, with few and narrow layers."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.models.networks import randomise


class Named(nn.Module):
    """A model of the transformers library that returns one field of its output."""

    def __init__(self, model: nn.Module, field: str, names: tuple[str, ...]) -> None:
        super().__init__()
        self.model, self.field, self.names = randomise(model), field, names

    def forward(self, *inputs: Tensor) -> Tensor:
        options = {"use_cache": False} if getattr(self.model.config, "use_cache", None) is not None else {}
        return getattr(self.model(**dict(zip(self.names, inputs, strict=True)), **options), self.field)


class Conv(nn.Module):
    """YOLO's unit: convolution, normalisation, SiLU."""

    def __init__(self, inner: int, outer: int, kernel: int = 1, stride: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inner, outer, kernel, stride, kernel // 2, bias=False)
        self.bn = nn.BatchNorm2d(outer)
        self.act = nn.SiLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.bn(self.conv(x)))


class Bottleneck(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.cv1, self.cv2 = Conv(channels, channels, 3), Conv(channels, channels, 3)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.cv2(self.cv1(x))


class C2f(nn.Module):
    def __init__(self, inner: int, outer: int, depth: int = 1) -> None:
        super().__init__()
        self.cv1 = Conv(inner, outer)
        self.cv2 = Conv((2 + depth) * (outer // 2), outer)
        self.m = nn.ModuleList(Bottleneck(outer // 2) for _ in range(depth))

    def forward(self, x: Tensor) -> Tensor:
        parts = list(self.cv1(x).chunk(2, 1))
        for block in self.m:
            parts.append(block(parts[-1]))
        return self.cv2(torch.cat(parts, 1))


class Pyramid(nn.Module):
    """Pools at several scales, joined."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.cv1, self.cv2 = Conv(channels, channels // 2), Conv(2 * channels, channels)
        self.m = nn.MaxPool2d(5, 1, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.cv1(x)
        once = self.m(x)
        twice = self.m(once)
        return self.cv2(torch.cat([x, once, twice, self.m(twice)], 1))


class Detector(nn.Module):
    """A backbone of three scales, a way up and down again, a head for each scale."""

    def __init__(self, classes: int = 4) -> None:
        super().__init__()
        self.stem, self.d2, self.c2 = Conv(3, 8, 3, 2), Conv(8, 16, 3, 2), C2f(16, 16)
        self.d3, self.c3 = Conv(16, 32, 3, 2), C2f(32, 32, 2)
        self.d4, self.c4, self.spp = Conv(32, 64, 3, 2), C2f(64, 64), Pyramid(64)
        self.up = nn.Upsample(scale_factor=2)
        self.n3, self.p4, self.m4 = C2f(96, 32), Conv(32, 32, 3, 2), C2f(96, 64)
        self.boxes = nn.ModuleList(nn.Sequential(Conv(c, 16, 3), nn.Conv2d(16, 4, 1)) for c in (32, 64))
        self.classes = nn.ModuleList(nn.Sequential(Conv(c, 16, 3), nn.Conv2d(16, classes, 1)) for c in (32, 64))

    def forward(self, images: Tensor) -> Tensor:
        fine = self.c3(self.d3(self.c2(self.d2(self.stem(images)))))
        coarse = self.spp(self.c4(self.d4(fine)))
        fine = self.n3(torch.cat([self.up(coarse), fine], 1))
        coarse = self.m4(torch.cat([self.p4(fine), coarse], 1))
        found = [
            torch.cat([boxes(x), classes(x).sigmoid()], 1).flatten(2)
            for x, boxes, classes in zip((fine, coarse), self.boxes, self.classes, strict=True)
        ]
        return torch.cat(found, 2).transpose(1, 2)


class Cell(nn.Module):
    """An LSTM cell spelled out, three steps of it."""

    def __init__(self, features: int = 6, hidden: int = 8) -> None:
        super().__init__()
        self.ih, self.hh = nn.Linear(features, 4 * hidden), nn.Linear(hidden, 4 * hidden)
        self.out = nn.Linear(hidden, 3)

    def forward(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        for step in range(x.shape[1]):
            i, f, g, o = (self.ih(x[:, step]) + self.hh(h)).chunk(4, 1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
        return self.out(h), h, c


class Perceptron(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(16, 32), nn.Linear(32, 32), nn.Linear(32, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x))))).softmax(-1)


class Classifier(nn.Module):
    """Convolutions, one with a residual, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, 2, 1)
        self.conv2 = nn.Conv2d(8, 16, 3, 2, 1)
        self.conv3 = nn.Conv2d(16, 16, 3, 1, 1)
        self.fc = nn.Linear(16, 5)

    def forward(self, image: Tensor) -> Tensor:
        x = F.relu(self.conv2(F.relu(self.conv1(image))))
        x = F.relu(self.conv3(x)) + x
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


class Decoder(nn.Module):
    """A small GPT as people write it by hand: joined projections, learned positions, a causal mask that is a buffer."""

    class Block(nn.Module):
        def __init__(self, width: int, heads: int, length: int) -> None:
            super().__init__()
            self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.c_fc, self.c_out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
            self.heads = heads
            self.bias: Tensor
            self.register_buffer("bias", torch.tril(torch.ones(length, length)).view(1, 1, length, length))

        def forward(self, x: Tensor) -> Tensor:
            n, t, c = x.shape
            q, k, v = (
                y.view(n, t, self.heads, c // self.heads).transpose(1, 2) for y in self.c_attn(self.ln_1(x)).split(c, 2)
            )
            scores = (q @ k.transpose(-2, -1)) * (1.0 / (c // self.heads) ** 0.5)
            scores = scores.masked_fill(self.bias[:, :, :t, :t] == 0, float("-inf"))
            y = (scores.softmax(-1) @ v).transpose(1, 2).reshape(n, t, c)
            x = x + self.c_proj(y)
            return x + self.c_out(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))

    def __init__(self, width: int = 32, heads: int = 4, depth: int = 3, length: int = 16, vocabulary: int = 50) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.h = nn.ModuleList(Decoder.Block(width, heads, length) for _ in range(depth))
        self.ln_f, self.lm_head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))
