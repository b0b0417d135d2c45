"""Sizes beyond 32 bits: the host's kernels, or a named error. A count never wraps. Values of an index are bounded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import burn
from burn.codegen.wgsl.widths import MOST, largest, needed
from burn.dialect.dims import Expr, LoopVar, mod, parse
from burn.errors import RunError
from burn.kernels.body import Buffer, Index, Load, LoopKernel, Stage, Write

N = parse("n")


def copy(dtype: str, elements: Any, value: Any = None) -> LoopKernel:
    """A kernel that copies a buffer."""
    i = LoopVar("i", elements)
    stage = Stage((), (), (Write(1, Expr.of(i), value or Load(dtype, 0, Expr.of(i))),))
    return LoopKernel((i,), (stage,), (Buffer(dtype, "read", elements), Buffer(dtype, "write", elements)))


def test_bytes_may_have_more_elements_than_an_index_reaches() -> None:
    assert needed(copy("float32", N)) == ()  # bounded by the device's memory
    assert needed(copy("int8", N)) == (N,)
    assert needed(copy("int8", 1000)) == ()
    assert needed(copy("int8", MOST + 1)) == (MOST + 1,)


def test_values_of_indices_are_bounded() -> None:
    i, j = LoopVar("i", N), LoopVar("j", 1000)
    dim = Expr.of(i) * 1000 + Expr.of(j) - 5
    assert largest(dim) == N * 1000 + 1005
    assert largest(mod(Expr.of(i) * 1000, 77)) == 77
    assert needed(copy("int64", N, Index("int64", Expr.of(LoopVar("i", N)) * 3))) == (3 * N,)


@pytest.mark.usefixtures("webgpu")
def test_more_iterations_than_32_bits_count() -> None:
    """4.9e9 elements are no array: a stride of 0 in both axes. As numbers the sizes are known to be too large for WGSL."""

    def function(x: Any, y: Any) -> Any:
        return burn.broadcast_to(x[:1].reshape(1, 1), (x.shape[0], y.shape[0])).max()

    made = burn.compile(function, ("float32[n]", "int8[m]"), cache=False, device="wgpu")
    x, y = np.ones(70000, np.float32), np.ones(70000, np.int8)
    assert made(x[:300], y[:70]) == 1
    with pytest.raises(RunError, match="is 4900000000; kernels of WebGPU have 32-bit indices"):
        made(x, y)
    assert made(x[:3], y[:7]) == 1
    fixed = burn.compile(function, (x, y), cache=False, device="wgpu")
    assert [k.kind for k in fixed.artefact.kernels] == ["host"]
