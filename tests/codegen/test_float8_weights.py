"""Matmuls with constant matrices of 8-bit floats, as programs write them, against float64. Programs store their bytes."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
import pytest

from burn.codegen.cpu.target import host_targets
from burn.compiler import compile_program, executable
from burn.dialect import ops
from burn.dialect.compose import convert, reshape
from burn.dialect.mlir import ir
from burn.dialect.program import Program
from burn.dialect.types import TensorType, numpy_dtype
from burn.errors import TypeMismatch
from burn.options import Options
from burn.runtime.host import features
from tests.codegen.test_blockwise import close, constant

RUNNABLE = [target.name for target in host_targets(features())]
SWEEP = int(os.environ.get("BURN_SWEEP", "0"))


@dataclass(frozen=True)
class Case:
    """x [rows, depth] times a matrix of numbers with scales. scale: "none", "tensor", "column", "block" (in four axes),
    "repeated" (each scale as often as its block has numbers) or "dequantize". turned: the matrix is [columns, depth]."""

    rows: int
    depth: int
    columns: int
    scale: str
    turned: bool = True
    number: str = "float8_e4m3fn"
    dtype: str = "float32"
    block: int = 32


CASES = [
    Case(1, 64, 33, "none"),
    Case(1, 131, 40, "tensor", turned=False, number="float8_e5m2"),
    Case(3, 97, 41, "column"),
    Case(2, 64, 64, "column", turned=False, dtype="float16"),
    Case(1, 96, 64, "block"),
    Case(5, 64, 96, "repeated", turned=False, number="float8_e5m2", dtype="bfloat16"),
    Case(1, 128, 5, "dequantize", turned=False),
    Case(40, 128, 7, "dequantize", dtype="float16"),
]


def drawn(seed: int) -> Case:
    random = np.random.default_rng(seed)
    rows, depth, columns = (int(random.choice(n)) for n in ([1, 2, 7, 33], [32, 64, 224, 65], [32, 96, 1, 50]))
    kinds = ["none", "tensor", "column"] + ["block", "repeated", "dequantize"] * (depth % 32 == columns % 32 == 0)
    number, dtype = (
        str(random.choice(n)) for n in (["float8_e4m3fn", "float8_e5m2"], ["float32", "float16", "bfloat16"])
    )
    return Case(rows, depth, columns, str(random.choice(kinds)), bool(random.integers(2)), number, dtype)


class Matrix:
    """Random numbers and scales; value: what they stand for, float64[columns, depth]."""

    def __init__(self, case: Case, seed: int = 0) -> None:
        self.case, random = case, np.random.default_rng(seed)
        shape = (case.columns, case.depth) if case.turned else (case.depth, case.columns)
        self.numbers = random.standard_normal(shape).astype("float32").astype(numpy_dtype(case.number))
        self.blocks = tuple(-(-n // case.block) for n in shape)
        sizes = {"none": (), "tensor": (), "column": (case.columns, 1) if case.turned else (1, case.columns)}
        sizes |= {"block": (self.blocks[0], 1, self.blocks[1], 1), "repeated": self.blocks}
        along = 1 if case.turned else 0
        sizes["dequantize"] = tuple(self.blocks[a] if a == along else n for a, n in enumerate(shape))
        size = sizes[case.scale]
        self.scale = random.uniform(0.5, 2, size).astype(numpy_dtype(case.dtype))
        if case.scale == "none":
            self.scale = np.ones((), self.scale.dtype)

    def value(self, program: Program) -> ir.Value:
        """The matrix in the program, [columns, depth] or [depth, columns]."""
        case, block, shape = self.case, self.case.block, self.numbers.shape
        numbers, scale = (constant(program, a) for a in (self.numbers, self.scale))
        if case.scale == "dequantize":
            return ops.dequantize(numbers, scale, dtype=case.dtype, axis=1 if case.turned else 0, block=block)
        wide = convert(numbers, case.dtype)
        if case.scale == "none":
            return wide
        if case.scale == "block":
            inner = reshape(wide, (self.blocks[0], block, self.blocks[1], block))
            return reshape(ops.mul(inner, scale), shape)
        if case.scale == "repeated":
            for axis in range(2):
                counts = [*self.blocks[axis:], *shape[:axis]] if axis == 0 else [shape[0], self.blocks[1]]
                apart = [*counts[: axis + 1], 1, *counts[axis + 1 :]]
                many = [block if i == axis + 1 else n for i, n in enumerate(apart)]
                joined = [n * block if i == axis else n for i, n in enumerate(counts)]
                scale = reshape(ops.broadcast_to(reshape(scale, tuple(apart)), shape=tuple(many)), tuple(joined))
        return ops.mul(wide, scale)

    @property
    def exact(self) -> np.ndarray:
        case, scale = self.case, self.scale.astype("float64")
        if case.scale in ("block", "repeated"):
            for axis in range(2):
                scale = np.repeat(scale.reshape(scale.shape[::2] if scale.ndim == 4 else scale.shape), case.block, axis)
        if case.scale == "dequantize":
            axis = 1 if case.turned else 0
            scale = np.repeat(scale, case.block, axis)
        whole = self.numbers.astype("float64") * scale
        return whole if case.turned else whole.T

    def program(self) -> Program:
        case = self.case
        program = Program.create([("x", TensorType(case.dtype, (case.rows, case.depth)))])
        with program.building("product"):
            axis = 1 if case.turned else 0
            y = ops.dot_general(program.inputs[0], self.value(program), lhs_contract=(1,), rhs_contract=(axis,))
        return program.finish([("y", y)])

    def check(self, options: Options) -> None:
        """Weights of half precision are rounded before they are multiplied, here or by the program."""
        x = (
            np.random.default_rng(9)
            .standard_normal((self.case.rows, self.case.depth))
            .astype(numpy_dtype(self.case.dtype))
        )
        got = executable(self.program(), options)(x)
        if self.case.dtype == "float32":
            close(got, x, self.exact)
            return
        assert got.dtype == x.dtype
        unit = {"float16": 2.0**-11, "bfloat16": 2.0**-8}[self.case.dtype]
        wide = x.astype("float64")
        size = np.abs(wide) @ np.abs(self.exact).T
        assert (np.abs(got.astype("float64") - wide @ self.exact.T) <= 3 * unit * size).all()


@pytest.mark.parametrize("case", [*CASES, *map(drawn, range(SWEEP))], ids=str)
def test_forms(case: Case) -> None:
    Matrix(case).check(Options())


@pytest.mark.parametrize("target", RUNNABLE[:-1])
def test_other_targets(target: str) -> None:
    Matrix(CASES[4]).check(Options(target=target))


@pytest.mark.parametrize("case", [case for case in CASES if case.rows == 1], ids=str)
def test_numbers_stay_bytes(case: Case) -> None:
    artefact = compile_program(Matrix(case).program())
    large = [c.array() for c in artefact.constants if c.array().size >= case.depth * case.columns]
    assert [a.dtype for a in large] == [numpy_dtype(case.number)]


@pytest.mark.parametrize("number", ["float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("rows", [1, 9])
def test_special_numbers(number: str, rows: int) -> None:
    matrix = Matrix(Case(rows, 64, 48, "column", number=number))
    matrix.numbers[3, 5], matrix.numbers[7, 9], matrix.numbers[9, 2] = np.nan, np.inf, -np.inf
    matrix.numbers[11] = 2.0**-9  # below the smallest normal number of float8_e4m3fn
    x = np.random.default_rng(9).standard_normal((rows, 64)).astype("float32")
    got = executable(matrix.program())(x)
    with np.errstate(invalid="ignore"):
        want = x.astype("float64") @ matrix.exact.T
    assert np.isnan(want).any()
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_a_scale_for_each_place_of_the_depth_is_folded() -> None:
    """Such a matrix is not in blocks."""
    matrix = Matrix(Case(2, 64, 8, "tensor"))
    matrix.scale = np.random.default_rng(1).uniform(0.5, 2, (1, 64)).astype("float32")
    matrix.check(Options())


def test_numbers_without_zero_points() -> None:
    program = Program.create([("x", TensorType("float32", (2, 64)))])
    with program.building("product"):
        weight = constant(program, np.zeros((8, 2, 32), numpy_dtype("float8_e5m2")))
        scale = constant(program, np.ones((8, 2), "float32"))
        with pytest.raises(TypeMismatch, match="no zero point"):
            ops.block_dot(program.inputs[0], weight, scale, scale, bits=8, block=32)
