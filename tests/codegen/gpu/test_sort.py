"""Sorting on a simulated GPU: stable, in kernels, with the CPU's order of special values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import burn
from burn import ops
from burn.codegen.triton.heuristics import preferences
from burn.dialect.types import numpy_dtype
from burn.kernels import builders
from burn.kernels.preferences import Sorting

pytest.importorskip("triton")
pytest.importorskip("torch")

from tests.codegen.gpu.simulated_gpu import SimulatedGPU

SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 1e-45, -np.nan]


def drawn(dtype: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Few distinct values, and special ones."""
    data = np.random.default_rng(seed)
    as_numpy = numpy_dtype(dtype)
    if "float" not in dtype:
        low, high = (0, 2) if dtype == "bool" else (np.iinfo(as_numpy).min, np.iinfo(as_numpy).max)
        few = data.integers(-3, 4, shape).astype(as_numpy) if low else data.integers(0, 5, shape).astype(as_numpy)
        return np.where(data.random(shape) < 0.2, data.choice(np.array([low, high]).astype(as_numpy), shape), few)
    x = np.round(data.standard_normal(shape) * 4) / 2
    return np.where(data.random(shape) < 0.3, data.choice(SPECIAL, shape), x).astype(as_numpy)


def check(x: np.ndarray, axis: int, descending: bool, dynamic: Any = None) -> burn.Executable:
    def function(x: Any) -> Any:
        return ops.sort(x, axis=axis, descending=descending)

    made = {d: burn.compile(function, (x,), dynamic, cache=False, device=d) for d in ("cuda", "cpu")}
    got, want = (made[d](x) for d in ("cuda", "cpu"))
    for ours, theirs in zip(got, want, strict=True):
        assert ours.dtype == theirs.dtype
        assert np.asarray(ours).tobytes() == np.asarray(theirs).tobytes()
    assert not [k for k in made["cuda"].artefact.kernels if k.kind == "host"]
    return made["cuda"]


DTYPES = ["float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "bool"]
DTYPES += [f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("descending", [False, True])
def test_element_types(gpu: SimulatedGPU, dtype: str, descending: bool) -> None:
    check(drawn(dtype, (3, 17)), -1, descending)


def sorting(monkeypatch: pytest.MonkeyPatch, **sizes: int) -> None:
    """Sorts with other numbers than the GPU's: the interpreter is slow."""
    made = replace(preferences.PREFERENCES, sorting=Sorting(**sizes))
    monkeypatch.setattr(preferences, "PREFERENCES", made)
    monkeypatch.setattr(builders, "_known", {})


@pytest.mark.covering
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("block", [16, 32])
def test_element_types_by_digits(
    gpu: SimulatedGPU, monkeypatch: pytest.MonkeyPatch, dtype: str, descending: bool, block: int
) -> None:
    """A row takes two blocks, or is ranked at once."""
    sorting(monkeypatch, compared=6, block=block, whole=block, digit=8)
    check(drawn(dtype, (2, 19)), -1, descending)


@pytest.fixture(params=[0, 16])
def short_runs(monkeypatch: pytest.MonkeyPatch, request: Any) -> None:
    """Several kernels for short rows: runs are merged, or digits take several blocks."""
    sorting(
        monkeypatch, compared=6, block=request.param, whole=request.param, digit=4, chunk=2, run=4, fan=4, longest=16
    )


@pytest.mark.parametrize("n", [0, 1, 6, 7, 16, 17, 63, 64, 65, 101])
def test_lengths(gpu: SimulatedGPU, short_runs: None, n: int) -> None:
    check(drawn("float32", (2, n)), 1, n % 2 == 0)


def test_a_long_row(gpu: SimulatedGPU) -> None:
    check(drawn("int32", (1, 600)), 1, False)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_axes(gpu: SimulatedGPU, axis: int) -> None:
    check(drawn("int32", (5, 4, 3)), axis, True)


def test_a_number(gpu: SimulatedGPU) -> None:
    check(np.array(3.0, np.float32), 0, False)


def test_named_sizes(gpu: SimulatedGPU, short_runs: None) -> None:
    x = drawn("float32", (2, 40))
    made = check(x, 1, False, {"x": {0: "rows", 1: "n"}})
    for shape in ((1, 1), (0, 5), (3, 0), (1, 33), (2, 90)):
        other = drawn("float32", shape, 1)
        values, order = made(other)
        np.testing.assert_array_equal(values, np.take_along_axis(other, order, 1))
        want = np.argsort(np.where(other == 0, 0.0, other), axis=1, kind="stable")
        np.testing.assert_array_equal(order, want)


@pytest.mark.parametrize("result", [0, 1])
def test_one_result(gpu: SimulatedGPU, result: int) -> None:
    x = drawn("float16", (3, 20))
    made = {
        d: burn.compile(lambda x: ops.sort(x, axis=1)[result], (x,), cache=False, device=d) for d in ("cuda", "cpu")
    }
    np.testing.assert_array_equal(made["cuda"](x), made["cpu"](x))


def test_the_largest(gpu: SimulatedGPU) -> None:
    x = drawn("float32", (4, 61))
    made = {d: burn.compile(lambda x: burn.topk(x, 5), (x,), cache=False, device=d) for d in ("cuda", "cpu")}
    for ours, theirs in zip(made["cuda"](x), made["cpu"](x), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert not [k for k in made["cuda"].artefact.kernels if k.kind == "host"]
