"""How long the launches of programs take on made-up inputs. Sizes with names count as typical ones."""

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
"""Of which the fastest counts."""

LONG = 0.3
"""Seconds up to which programs that run by turns go on, so that short ones are timed when the machine is quiet, too."""

MOST = 60
"""Turns at most."""

HINT = 'leave autotuning off: autotune="off"'


def check(program: Program) -> None:
    """Raises CompileError for a program that takes what is not made up here."""
    if program.input_containers or any(DTYPES[t.dtype].kind == "string" for t in program.input_types):
        problem = Problem("the program takes lists or strings", hint=HINT)
        raise CompileError("autotuning makes up inputs of numbers", [problem])


def seconds(program: Program, artefacts: Sequence[Artefact], device: Device) -> list[list[float]]:
    """Of each launch of each artefact of a program, the fastest of some runs on inputs of typical sizes: random numbers, and
    integers that are 0, which name a place wherever they are indices. Several artefacts run by turns. Raises CompileError for
    programs that do not run on such."""
    check(program)
    count = len(program.inputs) - program.random_state
    given = [_made_up(type_, number) for number, type_ in enumerate(program.input_types[:count])]
    best = [[float("inf")] * len(artefact.kernels) for artefact in artefacts]
    start, turns = time.perf_counter(), 0
    try:
        executables = [Executable(artefact, device=device) for artefact in artefacts]
        while turns <= RUNS or (len(artefacts) > 1 and turns < MOST and time.perf_counter() - start < LONG):
            for executable, least in zip(executables, best, strict=True):
                rows = {id(row.kernel): row.seconds for row in executable.profile(*given).rows}
                kernels = executable.artefact.kernels
                least[:] = [min(a, rows.get(id(kernel), 0.0)) for a, kernel in zip(least, kernels, strict=True)]
            turns += 1
    except (InputError, RunError) as error:
        raise CompileError("autotuning runs a program on made-up inputs", [Problem(str(error), hint=HINT)]) from error
    return best


def _made_up(type_: TensorType, seed: int) -> np.ndarray:
    shape = tuple(estimate(d, TYPICAL) for d in type_.shape)
    if DTYPES[type_.dtype].kind in ("float", "small"):
        return np.random.default_rng(seed).standard_normal(shape).astype(numpy_dtype(type_.dtype))
    return np.zeros(shape, numpy_dtype(type_.dtype))
