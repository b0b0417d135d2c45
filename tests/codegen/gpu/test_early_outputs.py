"""Early outputs of a run on a simulated GPU: a reader waits only for the kernels that the output depends on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import burn
from burn.codegen.host import early_outputs
from burn.errors import IndexRunError
from burn.runtime.device import device
from burn.runtime.device_array import to_device

pytest.importorskip("triton")
pytest.importorskip("torch")

from tests.codegen.gpu.simulated_gpu import SimulatedGPU
from tests.runtime.simulation import simulation

BEHIND = 4
TABLE = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)


@pytest.fixture
def launched(gpu: SimulatedGPU, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernels that have run, on a GPU that runs nothing before a synchronisation."""
    monkeypatch.setattr(early_outputs, "BEHIND", BEHIND)
    names: list[str] = []

    def launch(image: str, function: str, *rest: Any) -> None:
        names.append(function)
        gpu.launch(image, function, *rest)

    simulation().on_launch(launch)
    return names


def summed_first(table: Any, first: Any, last: Any) -> Any:
    """A number, and what takes many kernels more."""
    long = rows = burn.take(table, first, axis=0)
    number = (rows * rows).sum()
    for _ in range(BEHIND):
        long = burn.softmax(long @ (table.T @ table), axis=1)
    return number, burn.take(long, last, axis=0)


def compiled() -> Any:
    return burn.compile(summed_first, (TABLE, np.zeros(2, np.int64), np.zeros(2, np.int64)), cache=False, device="cuda")


def test_who_reads_waits_for_no_more(launched: list[str]) -> None:
    """Kernel by kernel, recorded and replayed."""
    program = compiled()
    with simulation().lazy():
        table = to_device(TABLE, "cuda")
        for call in range(5):
            indices = np.array([call % 5, 4])
            number, long = program(table, to_device(indices, "cuda"), to_device(np.array([1, 0]), "cuda"))
            before = len(launched)
            np.testing.assert_allclose(number.numpy(), (TABLE[indices] ** 2).sum(), rtol=1e-5)
            early_ones = len(launched) - before
            want = TABLE[indices]
            for _ in range(BEHIND):
                scores = np.exp(want @ (TABLE.T @ TABLE))
                want = scores / scores.sum(1, keepdims=True)
            np.testing.assert_allclose(long.numpy(), want[[1, 0]], rtol=1e-4)
            assert 0 < early_ones <= len(launched) - before - BEHIND
            np.testing.assert_allclose(number.numpy(), (TABLE[indices] ** 2).sum(), rtol=1e-5)


@pytest.mark.parametrize("calls", [0, 4])
def test_a_failure_comes_with_what_it_is_behind(launched: list[str], calls: int) -> None:
    """One that the number depends on when it is read, a later one with the rest."""
    program = compiled()
    with simulation().lazy():
        table, fine, wrong = (to_device(a, "cuda") for a in (TABLE, np.array([1, 2]), np.array([1, 9])))
        for _ in range(calls):
            program(table, fine, to_device(np.array([0, 1]), "cuda"))[1].numpy()
        number, _ = program(table, wrong, to_device(np.array([0, 1]), "cuda"))
        with pytest.raises(IndexRunError, match="index 9 is out of range"):
            number.numpy()
        number, long = program(table, fine, wrong)
        np.testing.assert_allclose(number.numpy(), (TABLE[1:3] ** 2).sum(), rtol=1e-5)
        with pytest.raises(IndexRunError, match="index 9 is out of range"):
            long.numpy()


def test_lent_memory_is_waited_for_as_a_whole(launched: list[str]) -> None:
    """Another library may write it, which also counts."""
    program = compiled()
    with simulation().lazy():
        number, _ = program(*(to_device(a, "cuda") for a in (TABLE, np.array([1, 2]), np.array([1, 0]))))
        number.__dlpack__(stream=1)
        number.numpy()
        everything = len(launched)
        device("cuda").wait()
        assert len(launched) == everything


def test_what_comes_late_or_is_large_is_waited_for_with_the_rest(launched: list[str]) -> None:
    large = early_outputs.SMALL // 4 + 1

    def function(x: Any) -> Any:
        wide = burn.exp(x)
        y = wide
        for _ in range(BEHIND - 2):
            y = burn.softmax(y * 2 + 1, axis=0)
        return wide, y.sum()

    program = burn.compile(function, (np.zeros(large, np.float32),), cache=False, device="cuda")
    with simulation().lazy():
        x = to_device(np.zeros(large, np.float32), "cuda")
        wide, total = program(x)
        wide.numpy()
        everything = len(launched)
        total.numpy()
        assert len(launched) == everything
