"""burn.debug in programs for a GPU: printing, callbacks and NaN checks, on the simulated GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import burn

pytest.importorskip("triton")

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_print_and_callback_get_what_kernels_wrote(gpu: Any, capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[np.ndarray] = []

    @burn.jit(device="cuda")
    def run(x: burn.Tensor) -> burn.Tensor:
        y = burn.exp(x) * 2.0
        burn.debug.print("sum {s:.2f}", s=y.sum())
        burn.debug.callback(lambda value: seen.append(np.array(value)), y)
        return y.sum(1)

    result = np.asarray(run(X))
    y = np.exp(X.astype(np.float64)) * 2
    np.testing.assert_allclose(result, y.sum(1), rtol=1e-6)
    assert capsys.readouterr().out == f"sum {y.sum():.2f}\n"
    np.testing.assert_allclose(seen[0], y, rtol=1e-6)
    assert gpu.launched


def test_nans_name_the_op(gpu: Any) -> None:
    @burn.jit(device="cuda")
    def run(x: burn.Tensor) -> burn.Tensor:
        return burn.log(x) + 1.0

    with burn.debug.nans(), pytest.raises(burn.BurnError, match="log"):
        np.asarray(run(-X - 1))
