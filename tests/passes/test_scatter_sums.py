"""Drawn scatters at linear indices: as sums of padded updates, against numpy.

BURN_SWEEP=300 draws so many, from BURN_SWEEP_SEED on."""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np
import pytest

import burn
from burn.compiler import executable
from burn.dialect.text import to_text
from burn.passes.algebra import scatter
from burn.passes.simplify import Simplify
from burn.tracing.trace import trace

CASES = int(os.environ.get("BURN_SWEEP", "14"))
SEED = int(os.environ.get("BURN_SWEEP_SEED", "0"))


class Drawn:
    """Candidates of a scatter. Each of their axes moves the target along one axis of the result, or along none."""

    def __init__(self, rng: random.Random) -> None:
        self.named, self.rest = rng.choice((1, 1, 2)), rng.choice(((), (3,), (2, 1)))
        self.counts = tuple(rng.choice((1, 2, 3, 5)) for _ in range(rng.randint(1, 4)))
        self.steps = [[0] * len(self.counts) for _ in range(self.named)]
        for number in range(len(self.counts)):
            self.steps[rng.randrange(self.named)][number] = rng.choice((0, 1, 1, 2, 3, 4, -1, -2, 7))
        self.first, self.extents = [], []
        for row in self.steps:
            moves = [step * (count - 1) for step, count in zip(row, self.counts, strict=True)]
            self.first.append(rng.randint(0, 2) - sum(min(0, m) for m in moves))
            self.extents.append(self.first[-1] + sum(max(0, m) for m in moves) + rng.randint(1, 3))
        self.from_end = rng.random() < 0.3
        self.value = rng.choice((0.0, 0.0, 1.5))

    def scatter(self, updates: Any) -> Any:
        columns = []
        for row, first, extent in zip(self.steps, self.first, self.extents, strict=True):
            index: Any = burn.ops.full(shape=self.counts, dtype="int64", value=first - extent * self.from_end)
            for axis, step in enumerate(row):
                index = index + burn.ops.iota(shape=self.counts, axis=axis) * step
            columns.append(index.reshape((*self.counts, 1)))
        x = burn.ops.full(shape=(*self.extents, *self.rest), dtype=str(updates.dtype), value=self.value)
        return burn.ops.scatter_nd(x, burn.ops.concat(columns, axis=len(self.counts)), updates, reduction="add")

    def expected(self, updates: np.ndarray) -> np.ndarray:
        result = np.full((*self.extents, *self.rest), self.value)
        for position in np.ndindex(*self.counts):
            target = tuple(
                f + sum(s * i for s, i in zip(r, position, strict=True))
                for r, f in zip(self.steps, self.first, strict=True)
            )
            result[target] += updates[position].astype("f8")
        return result


@pytest.mark.parametrize("seed", range(SEED, SEED + CASES))
def test_sums(seed: int) -> None:
    drawn = Drawn(random.Random(seed))
    dtype = ("float32", "float16", "int32")[seed % 3] if drawn.value == 0 else "float32"
    shape = (*drawn.counts, *drawn.rest)
    program = trace(drawn.scatter, {"updates": f"{dtype}[{', '.join(map(str, shape))}]"})
    assert "burn.scatter_nd" in to_text(program)
    Simplify().run(program)
    assert "burn.scatter_nd" not in to_text(program)
    updates = np.random.default_rng(seed).integers(-50, 50, shape).astype(dtype)
    got = np.asarray(executable(program)(updates))
    np.testing.assert_array_equal(got.astype("f8"), drawn.expected(updates))


def test_many_updates_of_an_element_stay_a_scatter(monkeypatch: pytest.MonkeyPatch) -> None:
    """No views are built only to be dropped."""

    def scatter_sum(updates: Any) -> Any:
        indices = burn.ops.iota(shape=(50, 400), axis=0) + burn.ops.iota(shape=(50, 400), axis=1)
        x = burn.ops.full(shape=(449,), dtype="float32")
        return burn.ops.scatter_nd(x, indices.reshape((50, 400, 1)), updates, reduction="add")

    built: list[int] = []
    sliced = scatter._sliced
    monkeypatch.setattr(scatter, "_sliced", lambda x, axis, *at: (built.append(axis), sliced(x, axis, *at))[1])
    program = trace(scatter_sum, {"updates": "float32[50, 400]"})
    Simplify().run(program)
    assert "burn.scatter_nd" in to_text(program)
    assert not built
