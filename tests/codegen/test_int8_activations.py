"""Matmuls of few rows with low-bit weights, whose activations are 8-bit limbs: numbers of any size, and NaN."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from burn.codegen.cpu.target import TARGETS, Target, compact, host_targets
from burn.compiler import executable
from burn.dialect import ops
from burn.dialect.dims import symbol
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.options import Options
from burn.runtime.executable import Executable
from burn.runtime.host import features

INSTRUCTIONS = {"vnni": "vpdpbusd", "avx2": "pmadd.ub.sw"}
"""Of the targets that multiply digits."""

MOST = {"vnni": 16, "avx2": 3}
"""Rows up to which they do."""

HOST = [target.name for target in host_targets(features())]

RUNNABLE = [name for name in HOST if name in INSTRUCTIONS]

pytestmark = pytest.mark.skipif(not RUNNABLE, reason="this CPU has no such instructions")

DEPTH, COLUMNS, BLOCK = 96, 70, 32


class Weight:
    """4 bits in blocks; `value` is what they stand for."""

    def __init__(self, block: int = BLOCK, depth: int = DEPTH, numbers: np.ndarray | None = None) -> None:
        rng = np.random.default_rng(0)
        self.block, self.depth = block, depth
        if numbers is None:
            numbers = rng.integers(0, 16, (COLUMNS, depth // block, block))
        numbers = numbers.astype("uint8")
        self.bytes = numbers[..., ::2] | numbers[..., 1::2] << 4
        self.scale = rng.uniform(-0.1, 0.1, numbers.shape[:2]).astype("float32")
        self.value = ((numbers - 8.0) * self.scale[..., None]).reshape(COLUMNS, depth).T

    def matmul(self, target: str | Target, rows: int | str = 1, exact: bool = False) -> Executable:
        shape = symbol(rows) if isinstance(rows, str) else rows, self.depth
        program = Program.create([("x", TensorType("float32", shape))])
        with program.building("product"):
            held = [(self.bytes, "uint8"), (self.scale, "float32")]
            parts = [ops.weight(key=program.weights.add_array(a, "w"), shape=a.shape, dtype=d) for a, d in held]
            y = ops.block_dot(program.inputs[0], *parts, None, bits=4, block=self.block)
        return executable(program.finish([("y", y)]), Options(target=target, exact=exact))

    def check(self, got: np.ndarray, x: np.ndarray) -> None:
        """Within 2^-23 of a block's largest number for each weight, see int8_activations.py, and the rounding of float32 sums."""
        wide, sums = x.astype("float64"), np.abs(self.value)
        blocks = np.abs(wide).reshape(len(x), self.depth // self.block, self.block)
        largest = np.repeat(blocks.max(-1), self.block, -1)
        bound = 2.0**-23 * (largest @ sums + 4 * (np.abs(wide) @ sums)) + 2.0**-140
        assert (np.abs(got - wide @ self.value) <= bound).all()


WEIGHT = Weight()


@pytest.fixture
def text(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    path = tmp_path / "code.mlir"
    monkeypatch.setenv("BURN_DUMP_MLIR", str(path))
    return path


@pytest.mark.covering
@pytest.mark.parametrize("target", RUNNABLE)
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 7, 13, 16, 17])
def test_few_rows_are_digits(target: str, rows: int, exact: bool, text: Path) -> None:
    used = rows <= MOST[target] and not exact
    run = WEIGHT.matmul(target, rows, exact)
    assert (INSTRUCTIONS[target] in text.read_text()) == used
    x = np.random.default_rng(1).standard_normal((rows, DEPTH)).astype("float32")
    WEIGHT.check(run(x), x)


@pytest.mark.parametrize("target", RUNNABLE)
def test_numbers_of_any_size(target: str) -> None:
    """From subnormal ones on to such as a float can just hold the sum of, and near to powers of two."""
    run, rng = WEIGHT.matmul(target), np.random.default_rng(2)
    base = rng.standard_normal((1, DEPTH))
    for size in (1.0, 1e-30, 1e-31, 1e-36, 1e-40, 1e28, 1e31, 1e36):
        x = (base * size).astype("float32")
        WEIGHT.check(run(x), x)
    for largest in np.nextafter(np.array([2, 4, 1.984375, 1.9921875, 1.998046875], "float32"), np.float32(0)):
        x = base.clip(-0.9, 0.9).astype("float32")
        x[0, 7], x[0, 40] = largest, -largest
        WEIGHT.check(run(x), x)


@pytest.mark.parametrize("target", RUNNABLE)
def test_blocks_of_sizes_that_differ(target: str) -> None:
    """A large number costs its own block's small ones their last bits, and no other block's."""
    x = np.random.default_rng(3).standard_normal((1, DEPTH)).astype("float32")
    x[0, BLOCK : 2 * BLOCK] *= np.float32(1e12)
    x[0, 2 * BLOCK :] = 0
    WEIGHT.check(WEIGHT.matmul(target)(x), x)
    x[0, BLOCK:] = 0
    WEIGHT.check(WEIGHT.matmul(target)(x), x)


@pytest.mark.parametrize("target", RUNNABLE)
@pytest.mark.parametrize("number", [np.inf, -np.inf, np.nan])
def test_numbers_that_are_not_finite(target: str, number: float) -> None:
    """In one row of three: the others' sums are as ever."""
    x = np.random.default_rng(4).standard_normal((3, DEPTH)).astype("float32")
    x[1, 33] = number
    with np.errstate(invalid="ignore"):
        wanted = (x.astype("float64")[:, :, None] * WEIGHT.value).sum(1)
    got = WEIGHT.matmul(target, 3)(x)
    assert np.array_equal(np.isnan(got), np.isnan(wanted))
    assert np.array_equal(got[1], wanted[1].astype("float32"), equal_nan=True)
    WEIGHT.check(np.delete(got, 1, 0), np.delete(x, 1, 0))


@pytest.mark.covering
@pytest.mark.parametrize("target", RUNNABLE)
@pytest.mark.parametrize("block", [8, 16, 24, 64, 256, 1536])
def test_blocks_of_any_size(target: str, block: int) -> None:
    """Fewer words than an unrolled iteration has, as many, and many iterations; two columns have the largest sums."""
    numbers = np.random.default_rng(6).integers(0, 16, (COLUMNS, 1536 // block, block))
    numbers[:2] = np.array([0, 15])[:, None, None]
    weight, x = Weight(block, 1536, numbers), np.random.default_rng(7).standard_normal((2, 1536)).astype("float32")
    x[1] = np.nextafter(np.float32(1.984375), np.float32(0))  # of three largest digits
    weight.check(weight.matmul(target, 2)(x), x)
    weight.check(weight.matmul(target, 2)(-x), -x)


@pytest.mark.parametrize("target", RUNNABLE)
def test_short_code_has_floats(target: str, text: Path) -> None:
    x = np.random.default_rng(8).standard_normal((1, DEPTH)).astype("float32")
    WEIGHT.check(WEIGHT.matmul(compact(TARGETS[target]))(x), x)
    assert INSTRUCTIONS[target] not in text.read_text() and "prefetch" not in text.read_text()


@pytest.mark.parametrize("target", RUNNABLE)
def test_any_number_of_rows(target: str, text: Path) -> None:
    run, rng = WEIGHT.matmul(target, "rows"), np.random.default_rng(5)
    assert INSTRUCTIONS[target] in text.read_text()
    for rows in (0, 1, 2, 7, 8, 16, 17, 33):
        x = rng.standard_normal((rows, DEPTH)).astype("float32")
        WEIGHT.check(run(x), x)


@pytest.mark.skipif("avx512" not in HOST, reason="this CPU has no AVX-512")
def test_other_targets_take_floats(text: Path) -> None:
    WEIGHT.matmul("avx512")
    assert not any(name in text.read_text() for name in INSTRUCTIONS.values())
