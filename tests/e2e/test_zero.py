"""Networks with axes of no elements: one program with named sizes, run with a batch of nothing, a sequence of nothing, both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import burn
from burn import RunError, Tensor, nn


class Encoder(nn.Module):
    def __init__(self) -> None:
        self.embed = nn.Embedding(50, 32)
        self.layers = nn.ModuleList([nn.TransformerEncoderLayer(32, 4, 64) for _ in range(2)])
        self.norm = nn.LayerNorm(32)

    def forward(self, ids: Tensor) -> Any:
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        x = self.norm(x)
        return x, x[:, 1:] - x[:, :-1], x[:, :1], x[:, -3:], x.sum(1), x.reshape(-1, 32).softmax(-1), x.argmax(-1)


class Network(nn.Module):
    def __init__(self) -> None:
        self.first, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.norm, self.pool = nn.BatchNorm2d(8), nn.MaxPool2d(2)
        self.head = nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Any:
        y = self.second(self.pool(self.norm(self.first(x)).relu()))
        return self.head(y.mean((2, 3))), y


class Tagger(nn.Module):
    def __init__(self) -> None:
        self.lstm, self.head = nn.LSTM(6, 8), nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Any:
        y = self.lstm(x)
        y = y[0] if isinstance(y, tuple) else y
        return self.head(y).log_softmax(-1)


MODELS: dict[str, tuple[type[nn.Module], str, list[dict[str, int]]]] = {
    "encoder": (Encoder, "int64[b, s]", [{"b": 0, "s": 5}, {"b": 2, "s": 0}, {"b": 0, "s": 0}, {"b": 1, "s": 1}]),
    "convolutions": (Network, "float32[b, 3, h, 12]", [{"b": 0, "h": 8}, {"b": 2, "h": 9}]),
    "recurrent": (Tagger, "float32[b, s, 6]", [{"b": 0, "s": 5}, {"b": 2, "s": 0}, {"b": 0, "s": 0}, {"b": 2, "s": 3}]),
}


@pytest.mark.parametrize("name", MODELS)
def test_one_program_serves_sizes_of_nothing(name: str) -> None:
    make, text, cases = MODELS[name]
    model = make()
    program = burn.compile(model, (text,))
    dtype, _, inner = text.rstrip("]").partition("[")
    for sizes in cases:
        x = np.ones([sizes.get(d.strip()) or (0 if d.strip() in sizes else int(d)) for d in inner.split(",")], dtype)
        for ours, fixed in zip(_list(program(x)), _list(model(burn.constant(x))), strict=True):
            assert ours.shape == fixed.shape, sizes  # what sizes known at compile time give
            np.testing.assert_allclose(ours, fixed.numpy(), rtol=1e-5, atol=1e-5)


def test_the_extreme_of_a_sequence_of_nothing_ends_the_run() -> None:
    program = burn.compile(lambda x: x.max(1), ("float32[b, s]",))
    assert program(np.ones((0, 0), np.float32)).shape == (0,)  # as numpy: there is nothing to find an extreme for
    with pytest.raises(RunError, match="there is no max of no elements"):
        program(np.ones((2, 0), np.float32))


def _list(results: Any) -> list[Any]:
    if isinstance(results, Mapping):
        return list(results.values())
    return list(results) if isinstance(results, (list, tuple)) else [results]
