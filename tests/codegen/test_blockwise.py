"""Matmuls with low-bit weights, on every available CPU target, against float64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from burn.codegen.cpu import kernels
from burn.codegen.cpu.target import host_targets
from burn.compiler import compile_program, executable
from burn.dialect import ops
from burn.dialect.dims import symbol
from burn.dialect.mlir import ir
from burn.dialect.program import Program
from burn.dialect.types import TensorType, dtype_of_numpy, numpy_dtype
from burn.errors import TypeMismatch
from burn.options import Options
from burn.runtime.executable import Executable
from burn.runtime.host import features

RUNNABLE = [target.name for target in host_targets(features())]

EPSILON = 2.0**-23


def constant(program: Program, array: np.ndarray) -> ir.Value:
    key = program.weights.add_array(array, "w")
    return ops.weight(key=key, shape=array.shape, dtype=dtype_of_numpy(array.dtype))


@dataclass(frozen=True)
class Case:
    """A matmul of `rows` rows, or of any number of them (`dynamic`)."""

    rows: int
    depth: int
    columns: int
    bits: int = 4
    block: int = 32
    zero: bool = True
    scale: str = "float32"
    dtype: str = "float32"
    dynamic: bool = False


CASES = [
    Case(1, 64, 32, zero=False),
    Case(1, 131, 37, block=16, scale="float16"),
    Case(1, 16, 1, block=16, zero=False),
    Case(1, 100, 40, bits=8, block=16),
    Case(2, 97, 41, bits=2, block=16),
    Case(3, 129, 50, scale="float16", dtype="float16"),
    Case(7, 257, 70, block=256, zero=False),
    Case(13, 257, 70, block=64),
    Case(100, 1700, 40, bits=8),
    Case(0, 64, 32, dynamic=True),
    Case(1, 97, 40, dynamic=True),
    Case(5, 33, 67, dynamic=True, zero=False),
    Case(71, 2100, 33, dynamic=True),
    Case(2, 24, 5, block=8),  # words of 32 bits
    Case(2, 20, 5, block=2),  # which these do not fill
]


class Weight:
    """Random numbers, scales and zero points, and what they stand for."""

    def __init__(self, rng: np.random.Generator, case: Case) -> None:
        self.case, blocks, each = case, -(-case.depth // case.block), 8 // case.bits
        numbers = rng.integers(0, 2**case.bits, (case.columns, blocks, case.block)).astype("uint8")
        parts = numbers.reshape(case.columns, blocks, -1, each) << (np.arange(each, dtype="uint8") * case.bits)
        self.bytes = np.bitwise_or.reduce(parts, -1).astype("uint8")
        self.scale = rng.uniform(-0.1, 0.1, (case.columns, blocks)).astype(case.scale)
        self.zero = rng.uniform(0, 2**case.bits - 1, self.scale.shape).astype(case.scale) if case.zero else None
        point = 2.0 ** (case.bits - 1) if self.zero is None else self.zero[..., None].astype("float64")
        whole = (numbers - point) * self.scale[..., None].astype("float64")
        self.value = whole.reshape(case.columns, -1)[:, : case.depth]

    def matmul(self, program: Program, x: ir.Value) -> ir.Value:
        parts = [None if a is None else constant(program, a) for a in (self.bytes, self.scale, self.zero)]
        return ops.block_dot(x, *parts, bits=self.case.bits, block=self.case.block)


def close(got: np.ndarray, x: np.ndarray, weight: np.ndarray) -> None:
    """Within the error of float32 accumulation and the rounding to the result's type."""
    wide = x.astype("float64")
    size = np.abs(wide) @ np.abs(weight).T
    bound = 4 * EPSILON * np.sqrt(max(1, x.shape[1])) * size
    assert got.dtype == x.dtype
    if x.dtype != np.float32:
        bound += np.abs(wide @ weight.T) * float(np.finfo(x.dtype).eps)
    assert (np.abs(got.astype("float64") - wide @ weight.T) <= bound + 1e-30).all()


@pytest.mark.parametrize("target", RUNNABLE)
def test_matmuls_with_blocks(target: str) -> None:
    rng = np.random.default_rng(0)
    weights = [Weight(rng, case) for case in CASES]
    xs = [rng.standard_normal((c.rows, c.depth)).astype(numpy_dtype(c.dtype)) for c in CASES]
    types = [TensorType(c.dtype, (symbol(f"rows{i}") if c.dynamic else c.rows, c.depth)) for i, c in enumerate(CASES)]
    program = Program.create([(f"x{i}", type_) for i, type_ in enumerate(types)])
    with program.building("products"):
        made = [w.matmul(program, x) for w, x in zip(weights, program.inputs, strict=True)]
    run = executable(program.finish([(f"y{i}", v) for i, v in enumerate(made)]), Options(target=target))
    for got, x, weight in zip(run(*xs), xs, weights, strict=True):
        close(got, x, weight.value)


@pytest.mark.untuned
def test_weights_stay_small() -> None:
    """A program stores a weight's bits and scales, but no floats; row-wise ops after a matmul stay its epilogue."""
    rng, case = np.random.default_rng(1), Case(1, 512, 256)
    weight = Weight(rng, case)
    program = Program.create([("x", TensorType("float32", (1, 512)))])
    with program.building("product"):
        y = ops.relu(weight.matmul(program, program.inputs[0]))
    artefact = compile_program(program.finish([("y", y)]))
    assert sum(c.array().nbytes for c in artefact.constants) <= 512 * 256 // 2 + 2 * 4 * 256 * 16
    assert [k.kind for k in artefact.kernels] == ["contract"]


def test_rows_of_several_axes_and_a_bias() -> None:
    rng, case = np.random.default_rng(2), Case(6, 40, 24, block=16)
    weight, bias = Weight(rng, case), rng.standard_normal(24).astype("float32")
    program = Program.create([("x", TensorType("float32", (2, 3, 40)))])
    with program.building("product"):
        y = ops.add(weight.matmul(program, program.inputs[0]), constant(program, bias))
    x = rng.standard_normal((2, 3, 40)).astype("float32")
    got = executable(program.finish([("y", y)]))(x)
    close(got.reshape(6, 24) - bias, x.reshape(6, 40), weight.value)


@pytest.mark.covering
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("dtype", "block"), [("int4", 32), ("uint4", 16), ("int8", 32), ("int8", 0), ("uint8", 0)])
@pytest.mark.parametrize("target", RUNNABLE[:1] + RUNNABLE[-1:])
def test_dequantised_weights(target: str, dtype: str, block: int, turned: bool) -> None:
    """QDQ weights: in blocks along the depth, or with a scale for each column, before or behind a transpose."""
    rng = np.random.default_rng(3)
    low, high = (
        (-8, 7) if dtype == "int4" else (0, 15) if dtype == "uint4" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    )
    depth, columns = 75, 34
    blocks = -(-depth // block) if block else 1
    numbers = rng.integers(low, high, (depth, columns), endpoint=True)
    scale = rng.uniform(0.01, 0.1, (blocks, columns)).astype("float32")
    zero = rng.integers(low, high, (blocks, columns), endpoint=True)
    spread = [np.repeat(p, block or depth, 0)[:depth] for p in (zero, scale.astype("float64"))]
    value = (numbers - spread[0]) * spread[1]
    program = Program.create([("x", TensorType("float32", (3, depth)))])
    held = numpy_dtype(dtype)
    arrays = [numbers.astype(held), scale if block else scale[0], (zero if block else zero[0]).astype(held)]
    axis = 0 if block else 1
    if turned:
        arrays, axis = [np.ascontiguousarray(a.T) for a in arrays], 1 - axis
    with program.building("product"):
        w = ops.dequantize(*(constant(program, a) for a in arrays), dtype="float32", axis=axis, block=block)
        w = ops.transpose(w, permutation=(1, 0)) if turned else w
        y = ops.dot_general(program.inputs[0], w, lhs_contract=(1,), rhs_contract=(0,))
    x = rng.standard_normal((3, depth)).astype("float32")
    run = executable(program.finish([("y", y)]), Options(target=target))
    close(run(x), x, value.T)


def test_wrong_operands_are_refused() -> None:
    program = Program.create([("x", TensorType("float32", (2, 64)))])
    with program.building("product"):
        weight = constant(program, np.zeros((8, 2, 16), "uint8"))
        scale = constant(program, np.ones((8, 2), "float32"))
        for attributes in ({"bits": 3, "block": 32}, {"bits": 4, "block": 3}, {"bits": 4, "block": 16}):
            with pytest.raises(TypeMismatch):
                ops.block_dot(program.inputs[0], weight, scale, None, **attributes)
        with pytest.raises(TypeMismatch, match="zero points"):
            ops.block_dot(
                program.inputs[0], weight, scale, constant(program, np.ones((8, 1), "float32")), bits=4, block=32
            )


IN_TILES = [
    Case(128, 256, 256, zero=False),
    Case(67, 96 + 64, 130, block=16),
    Case(97, 1600, 160, bits=8, block=64),
    Case(300, 800, 200, bits=2, scale="float16"),
    Case(33, 896, 200, block=128, zero=False),
    Case(130, 1020, 140, block=16, dynamic=True),
]
"""Large enough for tile registers, with depths in one part and in several."""


@pytest.fixture
def in_tiles(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[Weight], Executable]:
    """Compiles matmuls for tile registers, which are used if there is enough to multiply."""
    text = tmp_path / "code.mlir"
    monkeypatch.setenv("BURN_DUMP_MLIR", str(text))
    monkeypatch.setattr(kernels, "amx_pays", lambda *_: ())

    def compile_(weight: Weight) -> Executable:
        case = weight.case
        rows = symbol("rows") if case.dynamic else case.rows
        program = Program.create([("x", TensorType(case.dtype, (rows, case.depth)))])
        with program.building("product"):
            y = weight.matmul(program, program.inputs[0])
        run = executable(program.finish([("y", y)]), Options.of(target="amx", autotune="off"))
        assert "tdpbf16ps" in text.read_text()
        return run

    return compile_


@pytest.mark.skipif("amx" not in RUNNABLE, reason="this CPU has no tile registers")
@pytest.mark.parametrize("case", IN_TILES, ids=str)
def test_many_rows_in_tile_registers(in_tiles: Callable[[Weight], Executable], case: Case) -> None:
    rng = np.random.default_rng(7)
    weight = Weight(rng, case)
    run = in_tiles(weight)
    for rows in (case.rows, 5, 1, 0, 65) if case.dynamic else (case.rows,):
        x = rng.standard_normal((rows, case.depth)).astype("float32")
        close(run(x), x, weight.value)


@pytest.mark.skipif("amx" not in RUNNABLE, reason="this CPU has no tile registers")
@pytest.mark.parametrize("depth", [160, 1600])
def test_numbers_that_tile_registers_cannot_sum(in_tiles: Callable[[Weight], Executable], depth: int) -> None:
    """Strips with infinities and NaN are summed in float32."""
    rng, case = np.random.default_rng(8), Case(70, depth, 136)
    weight = Weight(rng, case)
    x = rng.standard_normal((case.rows, case.depth)).astype("float32")
    x[3, 40], x[35, 0], x[69, 159] = np.inf, np.nan, -np.inf
    got = in_tiles(weight)(x)
    with np.errstate(invalid="ignore"):
        wanted = np.einsum("rk,ck->rc", x.astype("float64"), weight.value)
    assert np.array_equal(np.isnan(got), np.isnan(wanted))
    assert np.array_equal(np.isinf(got), np.isinf(wanted))
    whole = np.isfinite(x).all(1)
    close(got[whole], x[whole], weight.value)
