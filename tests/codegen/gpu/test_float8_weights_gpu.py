"""Matmuls with constant matrices of 8-bit floats on GPUs: right, one kernel reads the bytes, and it compiles."""

from __future__ import annotations

import numpy as np
import pytest

from burn.codegen.triton import images
from burn.codegen.triton.images import Machine
from burn.compiler import compile_program, executable
from burn.options import Options
from burn.runtime.device import device
from tests.codegen.gpu.simulated_gpu import SimulatedGPU
from tests.codegen.test_float8_weights import Case, Matrix

pytest.importorskip("triton")

CASES = [
    Case(1, 64, 33, "none", dtype="float16"),
    Case(1, 131, 40, "tensor", turned=False, number="float8_e5m2"),
    Case(1, 96, 64, "block", dtype="bfloat16"),
    Case(1, 96, 64, "repeated", number="float8_e5m2", dtype="float16"),
    Case(5, 64, 96, "block", dtype="float16"),
    Case(17, 97, 41, "column", turned=False, number="float8_e5m2"),
    Case(1, 128, 5, "dequantize", turned=False),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_forms(gpu: SimulatedGPU, case: Case) -> None:
    """One kernel reads the bytes and multiplies. Another one pads a row, or adds the sums of a divided depth."""
    Matrix(case).check(Options(device=device("cuda"), architecture="sm_90"))
    (reader,) = [source for source in gpu.launched if "*u8" in source.types]
    assert len(gpu.launched) <= (2 if case.rows > 1 or case.depth % 4 else 1)
    assert ("WORDS" in dict(reader.named)) == (case.rows == 1)


def test_many_rows_multiply_floats(gpu: SimulatedGPU) -> None:
    """They are widened when the program is compiled."""
    Matrix(Case(64, 64, 32, "block", dtype="float16")).check(Options(device=device("cuda"), architecture="sm_90"))
    assert not any("*u8" in source.types for source in gpu.launched)


@pytest.mark.parametrize("number", ["float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("kind", ["gpu", "amd"])
def test_special_numbers(request: pytest.FixtureRequest, kind: str, number: str) -> None:
    """AMD's GPUs widen by integer arithmetic."""
    request.getfixturevalue(kind)
    options = Options(device=device("cuda" if kind == "gpu" else "hip"))
    matrix = Matrix(Case(1, 64, 48, "column", number=number, dtype="float16"))
    matrix.numbers[3, 5], matrix.numbers[7, 9], matrix.numbers[9, 2] = np.nan, np.inf, -np.inf
    matrix.numbers[11] = 2.0**-9
    x = np.random.default_rng(9).standard_normal((1, 64)).astype("float16")
    got = executable(matrix.program(), options)(x)
    with np.errstate(invalid="ignore"):
        want = x.astype("float64") @ matrix.exact.T
    np.testing.assert_allclose(got.astype("float64"), want, rtol=3e-3, atol=3e-3)


@pytest.mark.usefixtures("processes")
@pytest.mark.slow
@pytest.mark.parametrize("number", [80, 90])
def test_machine_code(gpu: SimulatedGPU, number: int) -> None:
    """A row's kernel and a tile's, of both types of numbers."""
    for case in (CASES[0], CASES[3], CASES[4]):
        compile_program(Matrix(case).program(), Options(device=device("cuda"), architecture=f"sm_{number}"))
    made = images.compile_all(gpu.sources, Machine("cuda", number, 32))
    assert len(made) >= 3 and all(len(image.data) > 500 for image in made)
