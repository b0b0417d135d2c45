"""Training steps on device="xla" give the CPU's losses and parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import burn
from burn import nn, optim

pytest.importorskip("jax")


class Sequence(nn.Module):
    """A recurrent layer, and dropout on its last state."""

    def __init__(self) -> None:
        self.lstm, self.drop, self.head = nn.LSTM(4, 8), nn.Dropout(0.2), nn.Linear(8, 3)

    def forward(self, x: burn.Tensor) -> burn.Tensor:
        return self.head(self.drop(self.lstm(x.permute(1, 0, 2))[1][0]))


def attends() -> nn.Module:
    return nn.Sequential(nn.TransformerEncoderLayer(4, 2, 8), nn.Flatten(), nn.Linear(20, 3))


def convolves() -> nn.Module:
    layers = (nn.Conv1d(5, 6, 3, padding=1), nn.BatchNorm1d(6), nn.ReLU(), nn.MaxPool1d(2), nn.Flatten())
    return nn.Sequential(*layers, nn.Linear(12, 3))


CASES: dict[str, tuple[Callable[[], nn.Module], Callable[[nn.Module], Any]]] = {
    "convolution, batch norm, SGD": (convolves, lambda m: optim.SGD(m, lr=0.05, momentum=0.9)),
    "lstm, dropout, Adam": (Sequence, lambda m: optim.Adam(m, lr=0.01)),
    "attention, AdamW": (attends, lambda m: optim.AdamW(m, lr=0.01)),
}


@pytest.mark.parametrize(
    "name", [next(iter(CASES)), *(pytest.param(n, marks=pytest.mark.slow) for n in list(CASES)[1:])]
)
def test_steps(name: str) -> None:
    make, optimizer = CASES[name]
    rng = np.random.default_rng(0)
    batches = [(rng.standard_normal((6, 5, 4)).astype("f4"), rng.integers(0, 3, 6)) for _ in range(4)]
    losses, parameters = {}, {}
    for device in ("cpu", "xla"):
        burn.manual_seed(3)
        model = make().train().to(device)
        step = burn.train.step(model, lambda m, x, y: nn.CrossEntropyLoss()(m(x), y), optimizer(model))
        losses[device] = [float(step(x, y)) for x, y in batches]
        parameters[device] = {path: p.numpy() for path, p in model.named_parameters()}
    np.testing.assert_allclose(losses["xla"], losses["cpu"], rtol=2e-5)
    assert losses["cpu"][0] != losses["cpu"][-1]
    for path, want in parameters["cpu"].items():
        if path.endswith("key.bias"):  # softmax cancels it, so Adam scales up a gradient of rounding errors
            continue
        np.testing.assert_allclose(parameters["xla"][path], want, rtol=1e-3, atol=1e-4, err_msg=path)
