"""Training steps keep derivatives of activations: the same gradients, and no more memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import burn
from burn import nn, ops
from burn.passes.keep_derivatives import KeepDerivatives

LAYERS, WIDTH, ROWS = 5, 48, 401


class Layers(nn.Module):
    def __init__(self, activation: str, options: dict[str, Any]) -> None:
        self.function = lambda x: getattr(ops, activation)(x, **options)
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = self.function(layer(x))
        return x


ACTIVATIONS = {
    "gelu": ({}, torch.nn.functional.gelu),
    "gelu by tanh": ({"approximate": "tanh"}, lambda x: torch.nn.functional.gelu(x, approximate="tanh")),
    "silu": ({}, torch.nn.functional.silu),
    "mish": ({}, torch.nn.functional.mish),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.untuned
def test_gradients_and_memory(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options, reference = ACTIVATIONS[name]
    x = np.random.default_rng(0).standard_normal((ROWS, WIDTH)).astype(np.float32) * 3
    burn.manual_seed(1)
    model = Layers(name.partition(" ")[0], options)

    def gradients() -> tuple[dict[str, Any], int]:
        function = burn.jit(lambda x: burn.grad(lambda m, x: (m(x) ** 2).mean())(model, x))
        return function(x), burn.explain(function).arena

    run, kept = KeepDerivatives.run, list[int]()

    def recorded(self: KeepDerivatives, *args: Any) -> dict[str, int]:
        counts = run(self, *args)
        kept.append(counts["kept"])
        return counts

    monkeypatch.setattr(KeepDerivatives, "run", recorded)
    found, arena = gradients()
    assert len(kept) == 1 and kept[0] >= LAYERS - 2  # the backward pass of the last layers follows at once
    monkeypatch.setattr(KeepDerivatives, "run", lambda self, *args: {"kept": 0})
    _, before = gradients()
    assert arena <= before
    y = torch.tensor(x, dtype=torch.float64)
    weights = {
        path: torch.tensor(p.numpy(), dtype=torch.float64, requires_grad=True) for path, p in model.named_parameters()
    }
    for i in range(LAYERS):
        y = reference(y @ weights[f"layers.{i}.weight"].T + weights[f"layers.{i}.bias"])
    y.square().mean().backward()
    for path, weight in weights.items():
        assert weight.grad is not None
        want = weight.grad.numpy()
        np.testing.assert_allclose(found[path], want, rtol=1e-4, atol=1e-5 * np.abs(want).max(), err_msg=path)
