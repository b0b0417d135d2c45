"""Models that burn and torch both train: each is written once, with layers that `burn.nn` and `torch.nn` share.

A case's `build` gets a `Kit`, one of the two frameworks, so that both have the same layers under the same names, and one set of
weights fits both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Kit:
    """The building blocks of models in one framework. `attention(q, k, v, causal)`, on [batch, heads, length, depth], and
    `pool`, the mean of each channel of an image, differ between frameworks."""

    nn: Any
    attention: Callable[[Any, Any, Any, bool], Any]
    gelu: Callable[[Any], Any]
    relu: Callable[[Any], Any]


@dataclass(frozen=True)
class Case:
    """A model, the shape and the range of its input (integers below `below`, or floats), and how many classes it tells apart.
    `each`: a target for each place of a sequence instead of one."""

    build: Callable[[Kit], Any]
    shape: tuple[int, ...]
    classes: int
    below: int | None = None
    each: bool = False

    def batch(self, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        random = np.random.default_rng(seed)
        targets = random.integers(0, self.classes, self.shape if self.each else self.shape[:1])
        if self.below is not None:
            return random.integers(0, self.below, self.shape), targets
        return random.standard_normal(self.shape).astype(np.float32), targets


def cnn(kit: Kit) -> Any:
    nn, relu = kit.nn, kit.relu

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.first_norm = nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16)
            self.second, self.second_norm = nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32)
            self.pool = nn.MaxPool2d(2)
            self.hidden, self.head = nn.Linear(32 * 7 * 7, 128), nn.Linear(128, 10)

        def forward(self, x: Any) -> Any:
            x = self.pool(relu(self.first_norm(self.first(x))))
            x = self.pool(relu(self.second_norm(self.second(x))))
            return self.head(relu(self.hidden(x.reshape(x.shape[0], -1))))

    return Network()


def resnet(kit: Kit) -> Any:
    """ResNet-18 (arXiv:1512.03385)."""
    nn, relu = kit.nn, kit.relu

    class Block(nn.Module):
        def __init__(self, inputs: int, outputs: int, stride: int) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
            self.norm1 = nn.BatchNorm2d(outputs)
            self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
            self.norm2 = nn.BatchNorm2d(outputs)
            self.short: Any = None
            self.short_norm: Any = None
            if stride != 1 or inputs != outputs:
                self.short = nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False)
                self.short_norm = nn.BatchNorm2d(outputs)

        def forward(self, x: Any) -> Any:
            y = self.norm2(self.conv2(relu(self.norm1(self.conv1(x)))))
            return relu(y + (x if self.short is None else self.short_norm(self.short(x))))

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
            self.norm, self.pool = nn.BatchNorm2d(64), nn.MaxPool2d(3, 2, 1)
            widths = (64, 64, 128, 256, 512)
            pairs = zip(widths, widths[1:], (1, 2, 2, 2), strict=False)
            self.blocks = nn.Sequential(*(b for i, o, s in pairs for b in (Block(i, o, s), Block(o, o, 1))))
            self.mean, self.head = nn.AdaptiveAvgPool2d(1), nn.Linear(512, 1000)

        def forward(self, x: Any) -> Any:
            x = self.blocks(self.pool(relu(self.norm(self.stem(x)))))
            return self.head(self.mean(x).flatten(1))

    return Network()


def bottlenecks(kit: Kit, counts: tuple[int, ...] = (3, 4, 6, 3), width: int = 64, classes: int = 1000) -> Any:
    """ResNet-50 (arXiv:1512.03385), the stride in the middle of a block."""
    nn, relu = kit.nn, kit.relu

    class Block(nn.Module):
        def __init__(self, inputs: int, inner: int, stride: int, first: bool) -> None:
            super().__init__()
            self.conv1, self.norm1 = nn.Conv2d(inputs, inner, 1, bias=False), nn.BatchNorm2d(inner)
            self.conv2 = nn.Conv2d(inner, inner, 3, stride=stride, padding=1, bias=False)
            self.norm2 = nn.BatchNorm2d(inner)
            self.conv3, self.norm3 = nn.Conv2d(inner, 4 * inner, 1, bias=False), nn.BatchNorm2d(4 * inner)
            self.short: Any = nn.Conv2d(inputs, 4 * inner, 1, stride=stride, bias=False) if first else None
            self.short_norm: Any = nn.BatchNorm2d(4 * inner) if first else None

        def forward(self, x: Any) -> Any:
            y = relu(self.norm2(self.conv2(relu(self.norm1(self.conv1(x))))))
            return relu(self.norm3(self.conv3(y)) + (x if self.short is None else self.short_norm(self.short(x))))

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Conv2d(3, width, 7, stride=2, padding=3, bias=False)
            self.norm, self.pool = nn.BatchNorm2d(width), nn.MaxPool2d(3, 2, 1)
            blocks, inputs = [], width
            for stage, count in enumerate(counts):
                for i in range(count):
                    inner = width << stage
                    blocks.append(Block(inputs, inner, 2 if stage and not i else 1, first=not i))
                    inputs = 4 * inner
            self.blocks = nn.Sequential(*blocks)
            self.mean, self.head = nn.AdaptiveAvgPool2d(1), nn.Linear(inputs, classes)

        def forward(self, x: Any) -> Any:
            x = self.blocks(self.pool(relu(self.norm(self.stem(x)))))
            return self.head(self.mean(x).flatten(1))

    return Network()


def _layer(kit: Kit, dim: int, heads: int, causal: bool) -> Any:
    """A transformer's layer, normalised before its parts where it is causal (GPT), behind them elsewhere (BERT)."""
    nn = kit.nn

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.query, self.key, self.value, self.output = (nn.Linear(dim, dim) for _ in range(4))
            self.inner, self.outer = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)
            self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)

        def split(self, x: Any) -> Any:
            return x.reshape(x.shape[0], x.shape[1], heads, dim // heads).permute(0, 2, 1, 3)

        def attend(self, x: Any) -> Any:
            q, k, v = (self.split(part(x)) for part in (self.query, self.key, self.value))
            y = kit.attention(q, k, v, causal)
            return self.output(y.permute(0, 2, 1, 3).reshape(x.shape[0], x.shape[1], dim))

        def feed(self, x: Any) -> Any:
            return self.outer(kit.gelu(self.inner(x)))

        def forward(self, x: Any) -> Any:
            if causal:
                x = x + self.attend(self.norm1(x))
                return x + self.feed(self.norm2(x))
            x = self.norm1(x + self.attend(x))
            return self.norm2(x + self.feed(x))

    return Layer()


def gpt(kit: Kit, layers: int = 6, dim: int = 256, heads: int = 4, words: int = 256, length: int = 128) -> Any:
    nn = kit.nn

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.positions = nn.Embedding(words, dim), nn.Embedding(length, dim)
            self.layers = nn.Sequential(*(_layer(kit, dim, heads, causal=True) for _ in range(layers)))
            self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, words)

        def forward(self, x: Any) -> Any:
            y = self.layers(self.words(x) + self.positions.weight[: x.shape[1]])
            return self.head(self.norm(y)).reshape(-1, words)

    return Network()


def minilm(kit: Kit, layers: int = 6, dim: int = 384, heads: int = 12, words: int = 30522) -> Any:
    """MiniLM (arXiv:2002.10957) with a head for two classes."""
    nn = kit.nn

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.positions, self.norm = nn.Embedding(words, dim), nn.Embedding(512, dim), nn.LayerNorm(dim)
            self.layers = nn.Sequential(*(_layer(kit, dim, heads, causal=False) for _ in range(layers)))
            self.head = nn.Linear(dim, 2)

        def forward(self, x: Any) -> Any:
            y = self.norm(self.words(x) + self.positions.weight[: x.shape[1]])
            return self.head(self.layers(y)[:, 0])

    return Network()


GPT2 = partial(gpt, layers=12, dim=768, heads=12, words=50257, length=1024)
BERT = partial(minilm, layers=12, dim=768, heads=12)

CASES = {
    "cnn": Case(cnn, (64, 1, 28, 28), 10),
    "gpt": Case(gpt, (8, 128), 256, below=256, each=True),
    "resnet18": Case(resnet, (8, 3, 224, 224), 1000),
    "minilm": Case(minilm, (8, 128), 2, below=30522),
}

GPU_CASES = {
    "bert-base": Case(BERT, (32, 128), 2, below=30522),
    "gpt2": Case(GPT2, (8, 1024), 50257, below=50257, each=True),
    "resnet50": Case(bottlenecks, (64, 3, 224, 224), 1000),
}
"""Cases large enough for a GPU."""
