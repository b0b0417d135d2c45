"""Scatters of many updates on a simulated GPU: sorted by target, without conflicts, with the CPU's numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import burn
from burn import ops
from burn.codegen.triton.heuristics import preferences
from burn.dialect.types import numpy_dtype
from burn.errors import RunError
from burn.kernels import builders
from burn.kernels.builders import parallel_scatter
from burn.kernels.preferences import Sorting

pytest.importorskip("triton")
pytest.importorskip("torch")

from tests.codegen.gpu.simulated_gpu import SimulatedGPU


@pytest.fixture(autouse=True)
def short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several kernels and pieces for few updates: the interpreter is slow."""
    sorting = Sorting(compared=6, block=16, whole=16, digit=3, chunk=2)
    monkeypatch.setattr(preferences, "PREFERENCES", replace(preferences.PREFERENCES, sorting=sorting))
    monkeypatch.setattr(parallel_scatter, "PIECE", 4)
    monkeypatch.setattr(builders, "_known", {})


def check(function: Any, *arrays: np.ndarray, dynamic: Any = None) -> burn.Executable:
    made = {d: burn.compile(function, arrays, dynamic, cache=False, device=d) for d in ("cuda", "cpu")}
    got, want = (made[d](*arrays) for d in ("cuda", "cpu"))
    assert got.dtype == want.dtype and got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    assert not [k for k in made["cuda"].artefact.kernels if k.kind == "host"]
    return made["cuda"]


REDUCTIONS = ("add", "mul", "max", "min", "none")
COMBINED = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum, "none": lambda old, new: new}


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("count", [9, 40, 75])
def test_tuples(gpu: SimulatedGPU, reduction: str, count: int) -> None:
    data = np.random.default_rng(count)
    x = data.standard_normal((7, 3)).astype(np.float32)
    # one target has most of the updates, one has none
    indices = np.where(data.random(count) < 0.6, 2, data.choice([0, 1, 3, 4, 6], count)).reshape(-1, 1)
    updates = data.standard_normal((count, 3)).astype(np.float32)
    check(lambda x, i, u: ops.scatter_nd(x, i, u, reduction=reduction), x, indices, updates)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("axis", [0, 1])
def test_elements(gpu: SimulatedGPU, reduction: str, axis: int) -> None:
    data = np.random.default_rng(axis)
    x = data.standard_normal((9, 8)).astype(np.float32)
    shape = (33, 5) if axis == 0 else (4, 33)
    indices = data.integers(-x.shape[axis], x.shape[axis], shape)
    updates = data.standard_normal(shape).astype(np.float32)
    check(lambda x, i, u: ops.scatter_elements(x, i, u, axis=axis, reduction=reduction), x, indices, updates)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_more_targets_than_updates(gpu: SimulatedGPU, reduction: str) -> None:
    data = np.random.default_rng(7)
    x = data.standard_normal((50, 3)).astype(np.float32)
    indices = np.where(data.random(30) < 0.5, 49, data.integers(0, 50, 30)).reshape(-1, 1)
    updates = data.standard_normal((30, 3)).astype(np.float32)
    check(lambda x, i, u: ops.scatter_nd(x, i, u, reduction=reduction), x, indices, updates)


def test_one_target_and_integers(gpu: SimulatedGPU) -> None:
    data = np.random.default_rng(0)
    x, updates = np.zeros(11, np.int64), data.integers(-9, 9, 50)
    check(lambda x, i, u: ops.scatter_nd(x, i, u, reduction="add"), x, np.full((50, 1), 10), updates)


def test_named_sizes(gpu: SimulatedGPU) -> None:
    data = np.random.default_rng(0)

    def given(rows: int, count: int) -> tuple[np.ndarray, ...]:
        return (
            np.zeros((rows, 2), np.float32),
            data.integers(0, max(rows, 1), (count, 1)),
            data.standard_normal((count, 2)).astype(np.float32),
        )

    dynamic = {"x": {0: "rows"}, "i": {0: "n"}, "u": {0: "n"}}
    made = check(lambda x, i, u: ops.scatter_nd(x, i, u, reduction="add"), *given(6, 20), dynamic=dynamic)
    for rows, count in ((30, 41), (0, 0)):
        x, i, u = given(rows, count)
        want = x.copy()
        np.add.at(want, i[:, 0], u)
        np.testing.assert_allclose(made(x, i, u), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int16"])
def test_constant_targets(gpu: SimulatedGPU, reduction: str, dtype: str) -> None:
    """One kernel: no sort, and no combined pieces."""
    data = np.random.default_rng(3)
    as_numpy = numpy_dtype(dtype)
    x = data.integers(-4, 5, (7, 3)).astype(as_numpy)
    indices = np.where(data.random(40) < 0.6, 2, data.choice([0, 1, 3, -3, 6], 40)).reshape(5, 8, 1)
    updates = data.integers(-3, 4, (5, 8, 3)).astype(as_numpy) if reduction != "mul" else np.ones((5, 8, 3), as_numpy)
    made = check(lambda x, u: ops.scatter_nd(x, burn.tensor(indices), u, reduction=reduction), x, updates)
    assert [k.kind for k in made.artefact.kernels] == ["segments"]


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_many_updates_of_constant_targets(gpu: SimulatedGPU, reduction: str) -> None:
    """Two kernels if updates are combined. Their sums have the accumulator's type."""
    data = np.random.default_rng(4)
    x = data.standard_normal((2, 5)).astype(numpy_dtype("bfloat16"))
    updates = (1 + data.standard_normal((700, 5)) / 100).astype(numpy_dtype("bfloat16"))
    indices = np.where(data.random((700, 1)) < 0.9, 1, 0)
    made = burn.compile(
        lambda x, u: ops.scatter_nd(x, burn.tensor(indices), u, reduction=reduction),
        (x, updates),
        cache=False,
        device="cuda",
    )
    want = x.astype("f8")
    for target, row in zip(indices[:, 0], updates.astype("f8"), strict=True):
        want[target] = COMBINED[reduction](want[target], row)
    np.testing.assert_allclose(made(x, updates).astype("f8"), want, rtol=2**-7)  # the interpreter truncates
    assert len(made.artefact.kernels) == (1 if reduction == "none" else 2)


def test_constant_targets_of_named_rows(gpu: SimulatedGPU) -> None:
    """A bias that every image adds: the gradient of its table, by a function of how many images there are."""
    data = np.random.default_rng(5)
    indices = data.integers(0, 9, (4, 6))

    def gradient(table: Any, slopes: Any) -> Any:
        return burn.grad(lambda t: (t[burn.tensor(indices)] * slopes).sum())(table)

    arrays = data.standard_normal((9, 3)).astype("f"), data.standard_normal((5, 4, 6, 3)).astype("f")
    made = check(gradient, *arrays, dynamic={"slopes": {0: "images"}})
    assert "scatter" not in [k.kind for k in made.artefact.kernels]


def test_a_constant_target_out_of_range(gpu: SimulatedGPU) -> None:
    indices = np.full((12, 1), 7)
    made = burn.compile(
        lambda x, u: ops.scatter_nd(x, burn.tensor(indices), u, reduction="add"),
        (np.zeros((7, 2), np.float32), np.ones((12, 2), np.float32)),
        cache=False,
        device="cuda",
    )
    with pytest.raises(RunError, match="index 7 is out of range"):
        made(np.zeros((7, 2), np.float32), np.ones((12, 2), np.float32))
