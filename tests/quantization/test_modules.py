"""Modules with weights of a few bits: near those of floats, and they write texts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import burn
from burn import nn
from burn.errors import BurnError
from burn.quantization import quantize_module


class Gpt(nn.Module):
    def __init__(self) -> None:
        self.embed = nn.Embedding(50, 32)
        self.body = nn.TransformerEncoder(32, 4, 64, 1, norm_first=True, norm="rms", gated=True, rotary=True)
        self.head = nn.Linear(32, 50, bias=False)

    def start(self, batch: int, capacity: int | None = None) -> Any:
        return self.body.start(batch, capacity)

    def forward(self, tokens: Any, cache: Any = None) -> Any:
        y = self.body(self.embed(tokens), causal=True, cache=cache)
        return self.head(y) if cache is None else (self.head(y[0]), y[1])


def linear(module: nn.Module) -> list[str]:
    return [path for path, layer in module.named_modules() if type(layer) is nn.Linear]


@pytest.mark.covering
@pytest.mark.parametrize(("weights", "near"), [("int4", 0.2), ("int8", 0.02)])
@pytest.mark.parametrize("zero_points", [False, True])
def test_a_decoder(weights: str, near: float, zero_points: bool) -> None:
    burn.manual_seed(3)
    model, tokens = Gpt().eval(), np.random.default_rng(0).integers(0, 50, (2, 9))
    want = np.asarray(model(tokens))
    assert quantize_module(model, weights=weights, zero_points=zero_points) is model and not linear(model)
    got = np.asarray(model(tokens))
    assert 0 < np.abs(got - want).max() < near * np.abs(want).max()
    text = burn.generate(model, tokens, 5)
    assert (text == burn.generate(model, tokens, 5, cache=False)).all()


def test_every_holder_of_layers() -> None:
    """Layers by attribute, number and name; one that stands twice stays one; what is left out stays."""
    twice = nn.Linear(8, 8)
    model = nn.Sequential(
        first=nn.Linear(5, 8), same=twice, act=nn.ReLU(), again=twice, last=nn.Sequential(nn.Linear(8, 3))
    )
    quantize_module(model, block=8, exclude=["last.0"])
    assert linear(model) == ["last.0"] and model[1] is model[3] and isinstance(model[0], nn.BlockLinear)
    assert model(np.ones((2, 5), "float32")).shape == (2, 3)
    held = nn.ModuleDict({"a": nn.Linear(4, 4, bias=False, transposed=True)})
    before = np.asarray(held["a"](np.eye(4, dtype="float32")))
    quantize_module(held, weights="int8", block=8)
    np.testing.assert_allclose(np.asarray(held["a"](np.eye(4, dtype="float32"))), before, atol=0.01)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [({"weights": "int3"}, "int3"), ({"block": 12}, "multiple of 8"), ({"exclude": ["0.weight"]}, "not there")],
)
def test_mistakes_are_told(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(BurnError, match=says):
        quantize_module(nn.Sequential(nn.Linear(8, 8)), **arguments)
    with pytest.raises(BurnError, match="nothing to quantise"):
        quantize_module(nn.Sequential(nn.ReLU()))
