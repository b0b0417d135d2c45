"""Concats of more tensors than a kernel reads, with readers that move their elements, on a simulated GPU against numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import burn
from tests.codegen.gpu.simulated_gpu import SimulatedGPU

pytest.importorskip("triton")

READERS: dict[str, Callable[[Any, Any], Any]] = {
    "itself": lambda m, x: x,
    "a transpose": lambda m, x: x.swapaxes(1, 2),
    "a transpose of other values": lambda m, x: m.exp(x).swapaxes(0, 2),
    "other values of a transpose": lambda m, x: m.exp(x.swapaxes(0, 1)) * 2.0,
    "a reshape": lambda m, x: x.reshape(-1, 4),
    "a transpose of a reshape": lambda m, x: x.reshape(2, -1).swapaxes(0, 1),
    "a slice": lambda m, x: x[:, 1:, ::2],
    "reversed": lambda m, x: x[:, ::-1],
    "repeated": lambda m, x: m.broadcast_to(x[None], (3, *x.shape)),
    "two readers": lambda m, x: x[:, :8] + x[:, :8].swapaxes(1, 2),
    "a sum with a row": lambda m, x: x + x[:, :1],
    "a sum with its reverse": lambda m, x: x + x[:, ::-1],
}


@pytest.mark.parametrize("count", [8, 9, 17])
@pytest.mark.parametrize("reader", READERS)
def test_readers(gpu: SimulatedGPU, reader: str, count: int) -> None:
    rng = np.random.default_rng(count)
    arrays = [rng.standard_normal((2, 8)).astype(np.float32) for _ in range(count)]
    read = READERS[reader]
    compiled = burn.compile(lambda *xs: read(burn, burn.stack(xs, 1)), tuple(arrays), device="cuda", cache=False)
    np.testing.assert_allclose(np.asarray(compiled(*arrays)), read(np, np.stack(arrays, 1)), rtol=1e-5, atol=1e-6)
