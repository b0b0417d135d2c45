"""Random training steps as libraries: layers, optimizer and options are drawn, and the steps have the bits of Python's.

`BURN_SWEEP=100` draws so many, and `BURN_SWEEP_SEED` draws others.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burn
from burn import nn, optim
from burn.train.step import Step
from tests.deploy.training import Trainer, made

CASES = int(os.environ.get("BURN_SWEEP", 3))
SEED = int(os.environ.get("BURN_SWEEP_SEED", 0))
WIDTH = 6

pytestmark = pytest.mark.slow

LAYERS: dict[str, Callable[[], nn.Module]] = {
    "linear": lambda: nn.Linear(WIDTH, WIDTH),
    "layer norm": lambda: nn.LayerNorm(WIDTH),
    "batch norm": lambda: nn.BatchNorm1d(WIDTH),
    "dropout": lambda: nn.Dropout(0.3),
    "noise": lambda: nn.GaussianNoise(0.1),
    "gelu": nn.GELU,
    "tanh": nn.Tanh,
    "rms norm": lambda: nn.RMSNorm(WIDTH),
}

OPTIMIZERS: dict[str, Callable[[nn.Module, Any], optim.Optimizer]] = {
    "SGD": lambda m, lr: optim.SGD(m, lr=lr),
    "momentum": lambda m, lr: optim.SGD(m, lr=lr, momentum=0.9, nesterov=True, weight_decay=0.01),
    "Adam": lambda m, lr: optim.Adam(m, lr=lr, amsgrad=True),
    "AdamW": lambda m, lr: optim.AdamW(m, lr=lr, groups=[("bias", {"weight_decay": 0.0, "lr": lr})]),
    "RMSProp": lambda m, lr: optim.RMSProp(m, lr=lr, centered=True, momentum=0.5),
    "AdaGrad": lambda m, lr: optim.AdaGrad(m, lr=lr),
    "Muon": lambda m, lr: optim.Muon(m, lr=lr),
}

SCHEDULES: dict[str, Any] = {
    "number": 0.01,
    "cosine": optim.cosine(0.02, 8, warmup=2),
    "sequence": optim.sequence([optim.linear(0.001, 0.02, 3), optim.exponential(0.02, 0.9)], [3]),
}


class Drawn(nn.Module):
    """x float32[rows, 6] -> float32[rows, 3]."""

    def __init__(self, layers: list[nn.Module]) -> None:
        self.layers = nn.Sequential(*layers)
        self.head = nn.Linear(WIDTH, 3)

    def forward(self, x: burn.Tensor) -> burn.Tensor:
        return self.head(self.layers(x))


def _drawn(draw: random.Random) -> tuple[str, Step, list[int]]:
    """A step, its description, and the rows of its batches."""
    names = [draw.choice([*LAYERS]) for _ in range(draw.randint(1, 4))]
    model = Drawn([LAYERS[name]() for name in names])
    optimizer, schedule = draw.choice([*OPTIMIZERS]), draw.choice([*SCHEDULES])
    if optimizer == "Muon":  # only matrices have its update
        model.freeze("bias|norm")
        names = [name for name in names if "norm" not in name]
        model = Drawn([LAYERS[name]() if name != "linear" else nn.Linear(WIDTH, WIDTH, bias=False) for name in names])
        model.head = nn.Linear(WIDTH, 3, bias=False)
    options: dict[str, Any] = {
        "clip_norm": draw.choice([None, 0.5]),
        "clip_value": draw.choice([None, 0.05]),
        "accumulate": draw.choice([1, 1, 2]),
        "precision": draw.choice(["float32", "float32", "bfloat16", "float16"]),
        "has_aux": draw.random() < 0.3,
    }
    rate = SCHEDULES[schedule]
    if optimizer == "AdamW" and callable(rate):
        optimizer = "Adam"

    def loss(model: nn.Module, x: burn.Tensor, y: burn.Tensor) -> Any:
        logits = model(x)
        value = nn.CrossEntropyLoss()(logits, y)
        return (value, {"logits": logits}) if options["has_aux"] else value

    step = burn.train.step(model, loss, OPTIMIZERS[optimizer](model, rate), **options)
    least = 2 * options["accumulate"] if "batch norm" in names else 1  # variances in training need two values
    rows = [max(draw.choice([2, 4, 6, 14, 32]), least) for _ in range(4)]
    if options["precision"] == "float16":
        rows.append(4)
    return f"{names} {optimizer} {schedule} {options}", step, rows


@pytest.mark.parametrize("case", range(CASES))
def test_a_drawn_step(case: int, tmp_path: Path) -> None:
    draw = random.Random(1000 * SEED + case)
    burn.manual_seed(case)
    told, step, rows = _drawn(draw)
    inputs = {"x": f"float32[batch, {WIDTH}]", "y": "int64[batch]"}
    trainer = Trainer(made(step, inputs, tmp_path / "net"))
    rng = np.random.default_rng(case)
    batches = [
        {"x": rng.standard_normal((n, WIDTH)).astype(np.float32), "y": rng.integers(0, 3, n)} for n in (*rows, *rows)
    ]
    for number, batch in enumerate(batches):
        if number == len(rows):  # both go on from the other's checkpoint
            step.save(tmp_path / "python.safetensors")
            trainer.save(tmp_path / "binary.safetensors")
            trainer.load(tmp_path / "python.safetensors")
            step.load(tmp_path / "binary.safetensors")
        wanted = step(batch["x"], batch["y"])
        loss = wanted[0] if isinstance(wanted, tuple) else wanted
        assert trainer.step(batch) == float(loss), f"{told}, step {number}"
