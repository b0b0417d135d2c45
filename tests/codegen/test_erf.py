"""erf on vectors with tables in registers: as accurate as promised, the same for any number of lanes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from burn.codegen.cpu.elementary.coefficients import ERF_PIECES, ERF_SPACING
from burn.codegen.cpu.elementary.tables import NUMBERS
from burn.codegen.cpu.math import apply
from burn.codegen.cpu.target import TARGETS, host_targets
from burn.codegen.host.emit import Function, vector
from burn.compiler import compile_program
from burn.dialect import ops
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.options import Options
from burn.runtime.executable import Executable
from burn.runtime.host import features

WIDE = [target.name for target in host_targets(features()) if "avx512f" in target.features][-1:]
"""The plainest of this CPU's targets with such vectors."""

ULPS = 1.35


def erf(x: np.ndarray, doubles: bool = False) -> np.ndarray:
    """erf of float32. doubles: in one loop with float64, whose vectors have half as many lanes."""
    program = Program.create([("x", TensorType("float32", x.shape))])
    with program.building("node"):
        y = ops.erf(program.inputs[0])
        outputs = [("y", y)] + ([("z", ops.cast(y, dtype="float64"))] if doubles else [])
    return Executable(compile_program(program.finish(outputs), Options(target=WIDE[0])))(x)


@pytest.mark.skipif(not WIDE, reason="needs a CPU with AVX-512")
def test_accuracy() -> None:
    """Every exponent, the range in which results are below 1, and the ends of all pieces."""
    rng = np.random.default_rng(8)
    exponents = np.ldexp(rng.uniform(1, 2, 12000), np.repeat(np.arange(-149, 91), 50))
    ends = ((np.arange(NUMBERS) + 0.5) * ERF_SPACING).astype("f4")
    beside = [np.nextafter(ends, np.float32(to)) for to in (0, 9)]
    x = np.concatenate([exponents, rng.uniform(0, 4.5, 60000), ends, *beside, [3.9, 4, 9]]).astype("f4")
    want = np.array([math.erf(v) for v in x.astype("f8")])
    for sign in (1, -1):
        got = erf((sign * x).astype("f4"))
        errors = np.abs(sign * got.astype("f8") - want) / np.spacing(np.maximum(want, 2.0**-149).astype("f4"))
        assert errors.max() < ULPS
        assert np.abs(got).max() == 1


@pytest.mark.skipif(not WIDE, reason="needs a CPU with AVX-512")
def test_special_values() -> None:
    x = np.array([0.0, -0.0, np.inf, -np.inf, 3e38, -3e38, 1e-45, -1e-45, np.nan], "f4")
    got = erf(x)
    np.testing.assert_array_equal(got[:-1], np.array([0.0, -0.0, 1, -1, 1, -1, 1e-45, -1e-45], "f4"))
    assert np.signbit(got[1]) and not np.signbit(got[0]) and np.isnan(got[-1])


@pytest.mark.skipif(not WIDE, reason="needs a CPU with AVX-512")
@pytest.mark.parametrize("doubles", [False, True])
def test_any_number_of_lanes(doubles: bool) -> None:
    """One element, vectors with a masked rest, and vectors of eight have the same bits."""
    x = np.random.default_rng(2).uniform(-4, 4, 83).astype("f4")
    got = erf(x, doubles)
    for values in got if doubles else [got]:
        np.testing.assert_array_equal(values[::9], [erf(x[i : i + 1])[0] for i in range(0, 83, 9)])


@pytest.mark.parametrize("lanes", [1, 4, 8, 16])
def test_instructions(lanes: int) -> None:
    """Six lookups, whatever the lanes; a CPU without them computes an exponential."""
    found = {}
    for name in ("avx512", "avx2"):
        code = Function("f", [("x", vector(lanes, "f32"))], "", TARGETS[name].attributes)
        apply(code, "erf", "float32", code.arguments[0])
        found[name] = code.text().count("vpermi2var")
    assert found == {"avx512": 6, "avx2": 0}


def test_pieces() -> None:
    """Neighbours meet: their values halfway between two centres agree. The last one is 1."""
    assert [len(numbers) for numbers in ERF_PIECES] == [NUMBERS] * 6
    coefficients = np.array(ERF_PIECES).T
    half = ERF_SPACING / 2
    below = [np.polyval(piece[::-1], half) + (number == 0) * half for number, piece in enumerate(coefficients)]
    above = [np.polyval(piece[::-1], -half) for piece in coefficients[1:]]
    np.testing.assert_allclose(below[:-1], above, rtol=2e-7)
    assert coefficients[-1].tolist() == [1, 0, 0, 0, 0, 0]
