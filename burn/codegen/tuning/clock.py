"""Timings of a program's launches on generated inputs. Named sizes count as typical ones."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from burn.dialect.dims import TYPICAL, estimate
from burn.dialect.program import Program
from burn.dialect.types import DTYPES, TensorType, numpy_dtype
from burn.errors import CompileError, InputError, Problem, RunError
from burn.runtime.artefact import Artefact
from burn.runtime.device import Device
from burn.runtime.executable import Executable

RUNS = 5
"""Number of repetitions; the fastest counts."""

LONG = 0.3
"""Seconds for which interleaved runs continue, so that short programs are also timed at a quiet moment."""

MOST = 60
"""The most interleaved rounds."""

HINT = 'leave autotuning off: autotune="off"'


def check(program: Program) -> None:
    """Raises CompileError for a program whose inputs cannot be generated."""
    if program.input_containers or any(DTYPES[t.dtype].kind == "string" for t in program.input_types):
        problem = Problem("the program takes lists or strings", hint=HINT)
        raise CompileError("autotuning makes up inputs of numbers", [problem])


def seconds(program: Program, artefacts: Sequence[Artefact], device: Device) -> list[list[float]]:
    """The fastest time of each launch of each artefact, on inputs of typical sizes: random floats, and integers of 0,
    which are valid indices. Several artefacts run interleaved. Raises CompileError for programs that do not run on such
    inputs."""
    check(program)
    count = len(program.inputs) - program.random_state
    given = [_made_up(type_, number) for number, type_ in enumerate(program.input_types[:count])]
    best = [[float("inf")] * len(artefact.kernels) for artefact in artefacts]
    start, rounds = time.perf_counter(), 0
    try:
        executables = [Executable(artefact, device=device) for artefact in artefacts]
        while rounds <= RUNS or (len(artefacts) > 1 and rounds < MOST and time.perf_counter() - start < LONG):
            for executable, least in zip(executables, best, strict=True):
                rows = {id(row.kernel): row.seconds for row in executable.profile(*given).rows}
                kernels = executable.artefact.kernels
                least[:] = [min(a, rows.get(id(kernel), 0.0)) for a, kernel in zip(least, kernels, strict=True)]
            rounds += 1
    except (InputError, RunError) as error:
        raise CompileError("autotuning runs a program on made-up inputs", [Problem(str(error), hint=HINT)]) from error
    return best


def _made_up(type_: TensorType, seed: int) -> np.ndarray:
    shape = tuple(estimate(d, TYPICAL) for d in type_.shape)
    if DTYPES[type_.dtype].kind in ("float", "small"):
        return np.random.default_rng(seed).standard_normal(shape).astype(numpy_dtype(type_.dtype))
    return np.zeros(shape, numpy_dtype(type_.dtype))
