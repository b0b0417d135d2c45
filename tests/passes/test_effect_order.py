"""Fusion keeps the order of ops with effects: random programs that print, inside of branches and loops and between them.

No code is generated. BURN_SWEEP=3000 draws so many, from BURN_SWEEP_SEED on."""

from __future__ import annotations

import os
import random
from types import SimpleNamespace
from typing import Any

import pytest

import burn
from burn.codegen.cpu.heuristics.preferences import preferences_of
from burn.codegen.cpu.target import TARGETS
from burn.codegen.triton.heuristics.preferences import PREFERENCES as GPU
from burn.dialect.mlir import context
from burn.passes import pipeline
from burn.passes.environment import Environment
from burn.tracing.trace import trace

CPU = preferences_of(TARGETS["avx2"])

COUNT = int(os.environ.get("BURN_SWEEP", "60"))
SEED = int(os.environ.get("BURN_SWEEP_SEED", "1"))


class Maker:
    """A function of pointwise ops, reductions, matmuls and branches, which prints some of its values."""

    def __init__(self, seed: int) -> None:
        self.chance, self.printed = random.Random(seed), 0

    def print(self, x: Any) -> None:
        burn.debug.print(f"{self.printed} {{}}", x)
        self.printed += 1

    def few(self, values: list[Any]) -> list[Any]:
        """Values for a region to read. If it read all, fusion could not move it before any of them."""
        return self.chance.choices(values, k=2)

    def step(self, values: list[Any], depth: int) -> Any:
        x, y = self.chance.choice(values[-4:]), self.chance.choice(values[:4])
        match self.chance.randrange(9 if depth < 3 else 7):
            case 0 | 1:
                self.print(x)
                return x
            case 2:
                return x + y
            case 3:
                return burn.exp(x) * y
            case 4:
                return x - x.sum(-1, keepdims=True)
            case 5:
                return x.T
            case 6:
                return x @ y
            case 7:
                return burn.cond(y.max() > 0, lambda: self.block(self.few(values), depth), lambda: y)
            case _:
                return burn.fori_loop(0, 2, lambda i, c: self.block([*self.few(values), c], depth), y)

    def block(self, values: list[Any], depth: int) -> Any:
        values = list(values)
        if depth:
            self.print(values[-1].sum())
        for _ in range(self.chance.randint(2, 8)):
            values.append(self.step(values, depth + 1))
        return values[-1] + values[-2]

    def __call__(self, x: Any, y: Any) -> Any:
        return self.block([x, y], 0) * 2.0


def printed(block: Any) -> list[str]:
    """The texts of all prints, in the order in which a run that enters every region once would print them."""
    found: list[str] = []
    for each in block.operations:
        if each.operation.name == "burn.debug_print":
            found.append(each.opview.text)
        for region in each.operation.regions:
            for inner in region.blocks:
                found += printed(inner)
    return found


@pytest.mark.parametrize("preferences", [CPU, GPU], ids=["cpu", "gpu"])
def test_prints_stay_in_order(preferences: Any) -> None:
    backend: Any = SimpleNamespace(preferences=preferences, layouts=None)
    environment = Environment(backend)
    for seed in range(SEED, SEED + COUNT):
        program = trace(Maker(seed), {"x": "float32[4, 4]", "y": "float32[4, 4]"})
        with context():
            before = printed(program.block)
        pipeline.run(pipeline.parse("simplify,decompose,simplify,fuse,release"), program, environment)
        with context():
            assert printed(program.block) == before, f"seed {seed}"
