"""Timings of a program's launches on generated inputs. Named sizes count as typical ones."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from burn.dialect.collective import COLLECTIVES
from burn.dialect.dims import TYPICAL, estimate
from burn.dialect.mlir import context
from burn.dialect.program import Program
from burn.dialect.query import blocks
from burn.dialect.types import DTYPES, TensorType, numpy_dtype
from burn.errors import CompileError, Problem, RunCancelled, RunError, TimeBudgetError
from burn.runtime import debugging
from burn.runtime.artefact import Artefact
from burn.runtime.budget import left
from burn.runtime.device import Device
from burn.runtime.executable import Executable

RUNS = 5
"""Number of repetitions; the fastest counts."""

LONG = 0.3
"""Seconds for which interleaved runs of two programs continue, so that short ones are also timed at a quiet moment."""

MOST = 60
"""The most interleaved rounds."""

FEWEST, PATIENCE = 3, 1.0
"""Programs repeat fewer times, but at least `FEWEST`, if that takes more than `PATIENCE` seconds for each of them."""

LONGEST = 20.0
"""Seconds after which a run is ended: loops whose condition reads an input may not end on generated ones."""

HINT = 'leave autotuning off: autotune="off"'


class Untimed(CompileError):
    """A program that is not timed, because it does not run on generated inputs."""


def check(program: Program) -> None:
    """Raises Untimed for a program whose inputs cannot be generated, and for one whose runs need other processes."""
    if program.input_containers or any(DTYPES[t.dtype].kind == "string" for t in program.input_types):
        problem = Problem("the program takes lists or strings", hint=HINT)
        raise Untimed("autotuning makes up inputs of numbers", [problem])
    with context():
        if any(isinstance(op, COLLECTIVES) for block in blocks(program.block) for op in block.operations):
            problem = Problem("its processes would have to agree on the number of runs", hint=HINT)
            raise Untimed("autotuning runs no program of several processes", [problem])


def seconds(program: Program, artefacts: Sequence[Artefact], device: Device) -> list[list[float]]:
    """The fastest time of each launch of each artefact, on inputs of typical sizes: random floats, and integers of 0,
    which are valid indices. Several artefacts run interleaved. These runs print nothing, call no functions of the user but
    custom ops, and leave the random numbers of other runs as they are.

    Raises Untimed for programs that do not run here or on such inputs; `check` is for those that cannot. It is also raised
    for runs of more than LONGEST, or of more memory than the compilation may have. Raises TimeBudgetError if the compilation
    has no time left."""
    count = len(program.inputs) - program.random_state
    given = [_made_up(type_, number) for number, type_ in enumerate(program.input_types[:count])]
    best = [[float("inf")] * len(artefact.kernels) for artefact in artefacts]
    start, rounds = time.perf_counter(), 0
    executables = [_loaded(artefact, device) for artefact in artefacts]
    long = LONG / 2 * len(artefacts) if len(artefacts) > 1 else 0.0

    def is_enough() -> bool:
        """By times of undisturbed runs: a busy machine needs no fewer."""
        if rounds >= FEWEST and rounds * sum(map(sum, best)) > PATIENCE * len(best):
            return True
        return rounds > RUNS and (rounds >= MOST or time.perf_counter() - start >= long)

    with debugging.silenced():
        while not is_enough():
            for executable, least in zip(executables, best, strict=True):
                kernels = executable.artefact.kernels
                taken = _run(executable, given)
                least[:] = [min(a, taken.get(id(kernel), 0.0)) for a, kernel in zip(least, kernels, strict=True)]
            rounds += 1
    return best


def _loaded(artefact: Artefact, device: Device) -> Executable:
    """Its random numbers are its own. Raises Untimed for a program that this machine cannot run."""
    try:
        executable = Executable(artefact, device=device)
    except RunError as error:
        raise _untimed(error) from error
    executable.seed(0)
    return executable


def _run(executable: Executable, given: Sequence[np.ndarray]) -> dict[int, float]:
    """The seconds of each kernel by its identity. Raises as `seconds`."""
    limits = left()
    is_own = not limits.seconds or limits.seconds > LONGEST
    executable.limit_to(limits._replace(seconds=LONGEST) if is_own else limits)
    try:
        return {id(row.kernel): row.seconds for row in executable.profile(*given).rows}
    except RunCancelled:
        raise
    except TimeBudgetError as error:
        if not is_own:
            raise  # the compilation has no time left
        raise _untimed(error) from error
    except Exception as error:  # of the program, or of a custom op's body
        raise _untimed(error) from error


def _untimed(error: Exception) -> Untimed:
    return Untimed("autotuning runs a program on made-up inputs", [Problem(str(error), hint=HINT)])


def _made_up(type_: TensorType, seed: int) -> np.ndarray:
    shape = tuple(estimate(d, TYPICAL) for d in type_.shape)
    if DTYPES[type_.dtype].kind in ("float", "small"):
        return np.random.default_rng(seed).standard_normal(shape).astype(numpy_dtype(type_.dtype))
    return np.zeros(shape, numpy_dtype(type_.dtype))
