"""Weights of few bits on a GPU: kernels read them packed, for one row and for many, and give what dequantised ones give."""

from __future__ import annotations

import os

import numpy as np
import pytest

from burn.codegen.triton.heuristics.fragments import MOST_ROWS
from burn.compiler import compile_program, executable
from burn.dialect import ops
from burn.dialect.dims import symbol
from burn.dialect.program import Program
from burn.dialect.types import TensorType, numpy_dtype
from burn.options import Options
from burn.runtime.device import device
from tests.codegen.gpu.simulated_gpu import SimulatedGPU
from tests.codegen.test_blockwise import Case, Weight

pytest.importorskip("triton")

CASES = [
    Case(1, 256, 8, zero=False),
    Case(1, 1100, 5, block=16),
    Case(1, 96, 7, bits=2, dtype="float16", scale="float16"),
    Case(1, 64, 3, bits=8, zero=False, dtype="bfloat16"),
    Case(1, 33, 1, bits=8, block=4),
    Case(1, 20, 5, block=2),  # blocks do not fill words
    Case(3, 96, 17),
    Case(8, 128, 16, zero=False, dtype="float16"),
    Case(17, 70, 5, bits=2),
    Case(64, 64, 33, bits=8, block=16, dtype="float16"),
    Case(1, 2100, 33, dtype="float16", scale="float16"),
    Case(1, 96, 16, zero=False, dtype="float16"),
    Case(2, 131, 50, block=64, dtype="bfloat16"),
    Case(13, 70, 20, bits=8, dtype="bfloat16"),
    Case(32, 257, 17, bits=8, zero=False, dtype="float16"),
    Case(0, 64, 32, dynamic=True),
    Case(5, 33, 67, dynamic=True),
]
SWEEP = int(os.environ.get("BURN_SWEEP", "0"))
UNITS = {"float32": 2.0**-21, "float16": 1.1 * 2.0**-10, "bfloat16": 1.1 * 2.0**-7}
"""Rounding relative to the sum of absolute values: in half precision the weight and the result are rounded."""

SUBNORMAL = 2.0**-25
"""Rounding of a weight or a result below the least normal float16."""

SUBTRACTED = 2.0**-23
"""Rounding of a number minus its zero point, relative to the largest number."""


def in_fragments(case: Case) -> bool:
    """True if tensor cores read the weight of a case as it is in memory."""
    return case.dtype != "float32" and case.bits > 2 and case.block % 32 == 0


def drawn(seed: int) -> Case:
    random = np.random.default_rng(seed)
    bits = int(random.choice([2, 4, 8]))
    block = int(random.choice([32 // bits, 16, 32, 64, 128]))
    rows, depth, columns = (int(random.choice(n)) for n in ([1, 1, 2, 13, 64], [1, 7, 31, 256, 700], [1, 5, 16, 67]))
    dtype, scale = (str(random.choice(["float32", "float16"])) for _ in range(2))
    return Case(rows, depth, columns, bits, block, bool(random.integers(2)), scale, dtype, bool(random.integers(2)))


def program_of(case: Case, weight: Weight) -> Program:
    rows = symbol("rows") if case.dynamic else case.rows
    program = Program.create([("x", TensorType(case.dtype, (rows, case.depth)))])
    with program.building("matmul"):
        made = weight.matmul(program, program.inputs[0])
    return program.finish([("y", made)])


@pytest.mark.parametrize("case", [*CASES, *map(drawn, range(SWEEP))], ids=str)
def test_block_dot(gpu: SimulatedGPU, case: Case) -> None:
    random = np.random.default_rng(1)
    weight = Weight(random, case)
    x = random.standard_normal((case.rows, case.depth)).astype(numpy_dtype(case.dtype))
    got = executable(program_of(case, weight), Options(device=device("cuda"), architecture="sm_90"))(x)
    exact = x.astype(np.float64) @ weight.value.T
    largest = np.repeat(np.abs(weight.scale.astype(np.float64)), case.block, 1)[:, : case.depth] * 2**case.bits
    size = np.abs(x.astype(np.float64)) @ (np.abs(weight.value) + SUBTRACTED * largest / UNITS[case.dtype]).T
    least = SUBNORMAL * (np.abs(x.astype(np.float64)).sum(1, keepdims=True) + 1) if case.dtype == "float16" else 0.0
    assert got.dtype == x.dtype and got.shape == exact.shape
    assert (np.abs(got.astype(np.float64) - exact) <= UNITS[case.dtype] * size + least + 1e-30).all()
    if case.block * case.bits % 32 == 0 and case.rows and not case.dynamic:
        (multiplied,) = (s for s in gpu.launched if "*u8" in s.types)
        assert ("tl.dot" in multiplied.text) == ((case.rows > 1 and not in_fragments(case)) or case.rows > MOST_ROWS)
        assert ("mma.sync" in multiplied.text) == (in_fragments(case) and case.rows <= MOST_ROWS)


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("bits", [4, pytest.param(8, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)])
def test_the_weight_stays_packed(bits: int) -> None:
    """The constants of a compiled program are a fraction of the matrix in floats."""
    for rows in (1, 8):
        case = Case(rows, 512, 256, bits, dtype="float16")
        weight = Weight(np.random.default_rng(0), case)
        options = Options(device=device("cuda"), architecture="sm_90")
        artefact = compile_program(program_of(case, weight), options)
        packed = 512 * 256 * bits // 8 + 2 * 4 * 256 * 16
        assert sum(c.bytes for c in artefact.constants) <= packed
        assert all(len(image.data) > 500 for image in artefact.images)


def test_a_bias_and_rows_of_several_axes(gpu: SimulatedGPU) -> None:
    """Pointwise ops after the matmul stay in its kernel."""
    random, case = np.random.default_rng(2), Case(1, 64, 24)
    weight = Weight(random, case)
    program = Program.create([("x", TensorType("float32", (1, 1, 64)))])
    with program.building("matmul"):
        y = ops.relu(weight.matmul(program, program.inputs[0]))
    x = random.standard_normal((1, 1, 64)).astype("float32")
    got = executable(program.finish([("y", y)]), Options(device=device("cuda"), architecture="sm_90"))(x)
    np.testing.assert_allclose(got[0, 0], np.maximum(x[0, 0] @ weight.value.T, 0), rtol=1e-4, atol=1e-5)
    assert len(gpu.launched) == 1


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision(gpu: SimulatedGPU, dtype: str) -> None:
    """A float32 program with half precision multiplies several rows by `tl.dot` in that type."""
    case = Case(8, 64, 24)
    random = np.random.default_rng(3)
    weight = Weight(random, case)
    x = random.standard_normal((8, 64)).astype("float32")
    options = Options(device=device("cuda"), architecture="sm_90", precision=dtype)
    got = executable(program_of(case, weight), options)(x)
    size = (
        np.abs(x.astype(np.float64)) @ np.abs(weight.value).T
        + np.abs(x).sum(1, keepdims=True) * np.abs(weight.scale).max()
    )
    assert got.dtype == np.float32
    assert (np.abs(got - x @ weight.value.T) <= 6 * UNITS[dtype] * size).all()
    (multiplied,) = (s for s in gpu.launched if "*u8" in s.types)
    assert {"float16": "*fp16", "bfloat16": "*bf16"}[dtype] in multiplied.types and "mma.sync" in multiplied.text
