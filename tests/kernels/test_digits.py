"""Kernels that sort rows by digits, in the interpreter of kernels: beside numpy, and with conflict-free launches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burn.codegen.triton.backend import GPU
from burn.dialect import ops
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.kernels import builders
from burn.kernels.body import LoopKernel
from burn.kernels.preferences import Preferences, Sorting
from burn.kernels.text import kernel_text
from burn.passes import pipeline
from burn.passes.environment import Environment
from tests.kernels.interpreting import interpreted


class SortingGPU(GPU):
    """A GPU that sorts with small blocks."""

    preferences = Preferences(
        parallel_sort=True,
        parallel_scatter=True,
        sorting=Sorting(compared=6, block=16, whole=16, digit=4, chunk=2),
    )


def run(function: Any, *arrays: np.ndarray) -> list[np.ndarray]:
    from burn.dialect.mlir import context

    program = Program.create([(f"x{i}", TensorType(str(a.dtype), a.shape)) for i, a in enumerate(arrays)])
    with context(), program.building("node"):
        results = function(*program.inputs)
    program.finish([(f"y{i}", y) for i, y in enumerate(results)])
    gpu = SortingGPU()
    pipeline.run(pipeline.parse("decompose,fuse,release"), program, Environment(gpu))
    launched: list[LoopKernel] = []

    def launch(kernel: Any, buffers: Any, sizes: Any) -> None:
        from burn.kernels import interpret

        launched.append(kernel)
        interpret.run(kernel, buffers, sizes)

    found = interpreted(program, arrays, launch, gpu.preferences)
    assert any("= rank " in kernel_text(kernel) for kernel in launched)
    return found


@pytest.fixture(autouse=True)
def no_known_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builders, "_known", {})


@pytest.mark.parametrize("n", [7, 16, 33, 70])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_rows(n: int, dtype: str) -> None:
    data = np.random.default_rng(n)
    x = (data.integers(0, 40, (2, n)) - (0 if dtype[0] == "u" else 20)).astype(dtype)
    values, order = run(lambda x: ops.sort(x, axis=1), x)
    np.testing.assert_array_equal(order, np.argsort(x, 1, kind="stable"))
    np.testing.assert_array_equal(values, np.sort(x, 1))


@pytest.mark.parametrize("count", [12, 70])
def test_scatters(count: int) -> None:
    data = np.random.default_rng(count)
    x, i = data.integers(0, 9, (11, 2)), data.integers(0, 11, (count, 1))
    updates = data.integers(-9, 9, (count, 2))
    (got,) = run(lambda x, i, u: [ops.scatter_nd(x, i, u, reduction="add")], x, i, updates)
    np.add.at(x, i[:, 0], updates)
    np.testing.assert_array_equal(got, x)
