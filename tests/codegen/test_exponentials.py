"""exp by AVX-512's scaling instruction and by two factors, which other CPUs need: the same bits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from burn.codegen.cpu.target import host_targets
from burn.compiler import compile_program
from burn.dialect import ops
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.options import Options
from burn.runtime.executable import Executable
from burn.runtime.host import features

TARGETS = {target.name: target for target in host_targets(features())}


def values(function: Callable, x: np.ndarray, target: str) -> np.ndarray:
    program = Program.create([("x", TensorType(x.dtype.name, x.shape))])
    with program.building("node"):
        result = function(program.inputs[0])
    return Executable(compile_program(program.finish([("y", result)]), Options(target=target)))(x)


@pytest.mark.skipif(not {"avx512", "avx2"} <= TARGETS.keys(), reason="needs a CPU with AVX-512")
@pytest.mark.parametrize("name", ["exp", "sinh", "cosh"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_same_bits(name: str, dtype: str) -> None:
    rng = np.random.default_rng(3)
    end = 110.0 if dtype == "float32" else 760.0
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-30, -1e-30, end, -end, 3e38, -3e38]
    x = np.concatenate([special, rng.uniform(-end, end, 9973), rng.uniform(-1, 1, 1009)]).astype(dtype)
    bits = f"u{x.dtype.itemsize}"
    wide, narrow = (values(getattr(ops, name), x, target).view(bits) for target in ("avx512", "avx2"))
    nan = np.isnan(x)
    np.testing.assert_array_equal(wide[~nan], narrow[~nan])
    assert np.isnan(wide.view(dtype)[nan]).all()


@pytest.mark.skipif("avx512" not in TARGETS, reason="needs a CPU with AVX-512")
def test_results_that_are_denormal_are_rounded_once() -> None:
    x = np.linspace(-104, -86, 4001).astype(np.float32)
    want = np.exp(x.astype(np.float64))
    got = values(ops.exp, x, "avx512").astype(np.float64)
    assert got.min() == 0.0 < got[-1]
    assert (np.abs(got - want) <= 0.51 * 2.0**-149 + 1e-7 * want).all()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_of_what_is_never_above_zero(target: str, dtype: str) -> None:
    """Of a square or a magnitude with its sign turned: written shorter, down to results that are denormal."""
    rng = np.random.default_rng(5)
    end = 110.0 if dtype == "float32" else 760.0
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-30, end, -end, 3e38]
    x = np.concatenate([special, rng.uniform(-end, end, 1009), rng.uniform(-10, 10, 1009)]).astype(dtype)
    with np.errstate(over="ignore"):
        given = {"square": -(x * x), "magnitude": -np.abs(x)}
    shorter = {"square": lambda v: ops.exp(ops.neg(ops.mul(v, v))), "magnitude": lambda v: ops.exp(ops.neg(ops.abs(v)))}
    least, bound = np.finfo(dtype).smallest_subnormal, 2 * np.finfo(dtype).eps
    for name, argument in given.items():
        got = values(shorter[name], x, target)
        want = np.exp(argument.astype(np.longdouble))
        known = ~np.isnan(x)
        assert np.isnan(got[~known]).all()
        assert (np.abs(got - want)[known] <= bound * want[known] + least).all()
        assert (got[np.isinf(x)] == 0).all() and (got[x == 0] == 1).all()
