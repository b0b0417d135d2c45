"""Elements of short rows by indices of tensors: rows that fit in registers are loaded whole."""

from __future__ import annotations

import numpy as np
import pytest

from burn.codegen.cpu import kernels
from burn.codegen.cpu.scalars import short_rows
from burn.codegen.cpu.target import TARGETS, host_targets
from burn.compiler import compile_program
from burn.dialect import ops
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.errors import IndexRunError
from burn.kernels.body import LoopKernel
from burn.options import Options
from burn.runtime.executable import Executable
from burn.runtime.host import features

HOST = [target.name for target in host_targets(features())]


def gathered(rows: int, size: int, count: int, dtype: str = "float32", axis: int = 1) -> Program:
    """2 * x[:, indices] for x [rows, size], or 2 * x[indices]."""
    program = Program.create([("x", TensorType(dtype, (rows, size))), ("indices", TensorType("int64", (count,)))])
    with program.building("gather"):
        x, indices = program.inputs
        y = ops.gather(x, indices, axis=axis)
        y = ops.add(y, y)
    return program.finish([("y", y)])


@pytest.mark.covering
@pytest.mark.parametrize("target", HOST)
@pytest.mark.parametrize("size", [1, 7, 16, 17, 32, 33])
@pytest.mark.parametrize("count", [1, 15, 32, 61])
def test_rows(target: str, size: int, count: int) -> None:
    """Negative indices count from the end. The last row ends at the buffer's end (BURN_GUARD=end)."""
    rng = np.random.default_rng(size)
    x = rng.standard_normal((3, size)).astype(np.float32)
    indices = rng.integers(-size, size, count)
    run = Executable(compile_program(gathered(3, size, count), Options(target=target, cache=False)))
    np.testing.assert_array_equal(run(x, indices), 2 * x[:, indices])


@pytest.mark.parametrize("wrong", [7, -8])
def test_indices_out_of_range(wrong: int) -> None:
    run = Executable(compile_program(gathered(3, 7, 40), Options(cache=False)))
    indices = np.zeros(40, np.int64)
    indices[37] = wrong
    with pytest.raises(IndexRunError):
        run(np.ones((3, 7), np.float32), indices)


@pytest.mark.parametrize(("size", "name"), [(16, "permvar.sf.512"), (32, "vpermi2var.ps.512"), (33, "masked.gather")])
def test_instructions(size: int, name: str) -> None:
    options = Options(target=TARGETS["avx512"], as_text=True, cache=False)
    text = bytes(compile_program(gathered(3, size, 64), options).code).decode()
    assert name in text and (size > 32 or "masked.gather" not in text)


@pytest.mark.parametrize(("dtype", "axis", "kept"), [("float32", 1, {7}), ("int64", 1, set()), ("float32", 0, set())])
def test_only_sizes_of_rows_in_registers_are_constants(
    monkeypatch: pytest.MonkeyPatch, dtype: str, axis: int, kept: set[int]
) -> None:
    """Programs with other sizes share the other kernels."""
    found: list[set[int]] = []

    def recorded(kernel: LoopKernel) -> set[int]:
        found.append(short_rows(kernel))
        return found[-1]

    monkeypatch.setattr(kernels, "short_rows", recorded)
    shape = (3, 7) if axis else (7, 3)
    compile_program(gathered(*shape, 64, dtype, axis), Options(target=TARGETS["avx512"], as_text=True, cache=False))
    assert found == [kept]


def test_rows_in_padding_are_not_loaded_whole() -> None:
    """A row of a padded tensor can start before its buffer or end behind it."""
    program = Program.create([("x", TensorType("float32", (3, 19))), ("indices", TensorType("int64", (24,)))])
    with program.building("gather"):
        x, indices = program.inputs
        zero = ops.full(shape=(), dtype="float32", value=0.0)
        padded = ops.pad(x, zero, low=(1, 3), high=(0, 2), interior=(0, 0))
        y = ops.gather(padded, indices, axis=1)
    options = Options(target=TARGETS["avx512"], as_text=True, cache=False)
    text = bytes(compile_program(program.finish([("y", y)]), options).code).decode()
    assert "masked.gather" in text and "vpermi2var.ps" not in text
