"""Drawn training steps with updates in one launch, against a launch for each update and against the CPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import burn
from burn import optim
from burn.codegen.triton.heuristics import preferences
from tests.codegen.gpu.simulated_gpu import SimulatedGPU

pytest.importorskip("triton")

WIDTHS = (1, 3, 8, 16, 17)
RATE = 0.05

OPTIMIZERS: dict[str, Callable[[Any], optim.Optimizer]] = {
    "SGD": lambda m: optim.SGD(m, lr=RATE),
    "momentum": lambda m: optim.SGD(m, lr=RATE, momentum=0.9, nesterov=True, weight_decay=0.1),
    "AdamW": lambda m: optim.AdamW(m, lr=optim.cosine(RATE, 10), weight_decay=0.1),
    "amsgrad": lambda m: optim.Adam(m, lr=RATE, amsgrad=True),
    "AdaGrad": lambda m: optim.AdaGrad(m, lr=RATE),
    "RMSProp": lambda m: optim.RMSProp(m, lr=RATE, momentum=0.5),
    "Lion": lambda m: optim.Lion(m, lr=RATE),
    "Adan": lambda m: optim.Adan(m, lr=RATE),
    "EMA": lambda m: optim.EMA(optim.AdamW(m, lr=RATE), decay=0.9),
    "SWA": lambda m: optim.SWA(optim.SGD(m, lr=RATE, momentum=0.9), start=1, every=2),
    "combined": lambda m: optim.Combined(
        m, [(lambda _, p: p.ndim == 2, optim.Muon.Config(lr=RATE)), ("", optim.AdamW.Config(lr=RATE))]
    ),
}
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"clip_norm": 0.1},
    {"clip_value": 0.01, "accumulate": 2},
    {"precision": "float16"},
    {"precision": "bfloat16", "clip_norm": 1.0},
    {"memory": 1 << 12},
)


class Network(burn.nn.Module):
    """Linear layers, the first weight tied with the last one; norms; a table; a scalar; and a parameter without elements."""

    def __init__(self, seed: int, width: int, hidden: int) -> None:
        super().__init__()
        random = np.random.default_rng(seed)

        def parameter(*shape: int) -> burn.nn.Parameter:
            return burn.nn.Parameter(random.standard_normal(shape).astype(np.float32) * 0.5)

        self.weight, self.bias, self.back = parameter(width, hidden), parameter(hidden), parameter(width)
        self.norm, self.table, self.empty = burn.nn.LayerNorm(hidden), parameter(5, hidden), parameter(0, 3)
        self.scale = parameter()

    def forward(self, x: burn.Tensor, rows: burn.Tensor) -> burn.Tensor:
        made = self.norm((x @ self.weight + self.bias).tanh()) + self.table[rows]
        return (made @ self.weight.T + self.back) * self.scale + self.empty.sum()


def trained(
    make: Callable[[Any], optim.Optimizer], options: dict[str, Any], seed: int, device: str
) -> list[np.ndarray]:
    """The losses, parameters and state after three steps."""
    random = np.random.default_rng(seed)
    width, hidden, rows = int(random.choice(WIDTHS)), int(random.choice(WIDTHS)), int(random.choice((2, 6, 9)))
    model = Network(seed, width, hidden)
    optimizer = make(model)
    step = burn.train.step(model, lambda m, x, n, y: ((m(x, n) - y) ** 2.0).mean(), optimizer, device=device, **options)
    found = []
    for _ in range(3):
        x, y = (random.standard_normal((rows, width)).astype(np.float32) for _ in range(2))
        given = (burn.tensor(each).to(device) for each in (x, random.integers(0, 5, rows), y))
        found.append(np.asarray(step(*given)))
    return found + [np.asarray(each) for _, each in sorted(model.state_dict().items())]


CASES = [(name, number) for name in OPTIMIZERS for number in range(len(OPTIONS))]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "number"), CASES)
def test_steps(name: str, number: int, gpu: SimulatedGPU, monkeypatch: pytest.MonkeyPatch) -> None:
    seed = 7 * len(name) + number
    make, options = OPTIMIZERS[name], OPTIONS[number]
    together = trained(make, options, seed, "cuda")
    assert any("loops over different tensors" in source.text for source in gpu.launched)
    monkeypatch.setattr(preferences, "PREFERENCES", replace(preferences.PREFERENCES, foreach=0))
    launched = len(gpu.launched)
    apart = trained(make, options, seed, "cuda")
    assert not any("loops over different tensors" in source.text for source in gpu.launched[launched:])
    half = "precision" in options
    for got, other, want in zip(together, apart, trained(make, options, seed, "cpu"), strict=True):
        np.testing.assert_allclose(got, other, rtol=1e-2 if half else 1e-4, atol=2e-2 if half else 1e-5)
        np.testing.assert_allclose(got, want, rtol=0.1 if half else 1e-4, atol=0.1 if half else 1e-5)
