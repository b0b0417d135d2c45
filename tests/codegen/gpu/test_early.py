"""Kernels that start before the kernel before them ends: which do, what they read before they wait, and their launches."""

from __future__ import annotations

import ctypes
import os

import numpy as np
import pytest

from burn.codegen.triton.abilities import Abilities
from burn.codegen.triton.images import Source
from burn.compiler import executable
from burn.dialect import ops
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.options import Options
from burn.runtime.device import device
from tests.codegen.gpu.simulated_gpu import SimulatedGPU
from tests.codegen.gpu.sources import sources_of
from tests.codegen.gpu.test_few_bits import program_of
from tests.codegen.test_blockwise import Case, Weight

pytest.importorskip("triton")

STARTS, WAITS = "griddepcontrol.launch_dependents", "griddepcontrol.wait"


def body(source: Source) -> str:
    """The text behind the kernel's docstring."""
    return source.text.split(f"def {source.name}(")[1].split('"""\n', 1)[1]


def sums() -> Program:
    program = Program.create([("x", TensorType("float32", (300, 7)))])
    with program.building("sum"):
        total = ops.reduce(program.inputs[0], kind="sum", axes=(1,), keepdims=True)
        made = ops.exp(ops.sub(program.inputs[0], total))
    return program.finish([("y", made)])


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_120"])
def test_kernels_wait_before_they_load(architecture: str) -> None:
    sources = sources_of(sums(), Abilities.of("cuda", architecture))
    early = architecture != "sm_80"
    assert sources and all(source.early == early for source in sources)
    for source in sources:
        assert (STARTS in source.text, WAITS in source.text) == (early, early)
        if early:
            assert "load" not in body(source).split(WAITS)[0]


def test_a_kernel_that_stops_after_a_failure_waits_first() -> None:
    """It reads a result of that kernel."""
    (source,) = sources_of(sums(), Abilities.of("cuda", "sm_90"), in_place=True)
    before, after = body(source).split(WAITS)
    assert "failure" not in before and "tl.load(failure)" in after


@pytest.mark.parametrize(("dtype", "load"), [("float16", "cp.async.bulk.shared"), ("bfloat16", ".load(")])
def test_constants_are_loaded_before(dtype: str, load: str, gpu: SimulatedGPU) -> None:
    """A weight of few bits and its scales, but not the row: to shared memory, or to registers."""
    case = Case(1, 128, 48, dtype=dtype)
    weight = Weight(np.random.default_rng(0), case)
    x = np.random.default_rng(1).standard_normal((1, 128)).astype(dtype)
    before = launches()
    got = executable(program_of(case, weight), Options(device=device("cuda"), architecture="sm_90"))(x)
    bound = 2e-3 if dtype == "float16" else 2e-2
    np.testing.assert_allclose(
        got.astype(np.float64), x.astype(np.float64) @ weight.value.T, rtol=bound, atol=5 * bound
    )
    (source,) = gpu.launched
    loaded, rest = body(source).split(WAITS)
    assert loaded.count(load) >= 2 and ".load(" in rest
    assert source.early and launches() == before + 1


def launches() -> int:
    """Early launches of the simulated driver so far."""
    count = ctypes.CDLL(os.environ["BURN_CUDA_DRIVER"]).burn_simulated_early_launches
    count.restype = ctypes.c_int64
    return int(count())
