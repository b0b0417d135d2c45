"""The driver: reads as the table of contents of a compilation. It names no device: the registry of back ends does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from burn.codegen.artefact import artefact_of
from burn.codegen.backend import Backend, Built
from burn.codegen.pipeline import Pipeline, with_precision, within_budget
from burn.codegen.tuning import tuned
from burn.dialect.control import Group
from burn.dialect.mlir import context
from burn.dialect.program import Program
from burn.errors import CompileError, Problem
from burn.kernels.text import group_text
from burn.options import COMPILE_TIME, OFF, Options
from burn.passes import pipeline
from burn.passes.environment import Environment
from burn.runtime.artefact import Artefact
from burn.runtime.budget import left
from burn.runtime.compiler_memory import release_memory
from burn.runtime.executable import Executable
from burn.runtime.registry import entry

__all__ = ["backend_for", "compile_count", "compile_program", "described", "environment", "executable", "listing"]

LARGE = 64
"""Ops of a program before and after whose compilation memory is released. Compiling it takes 0.2 s or more, a release 10 ms. The
first program of a process has the code of imports to release, whatever its size."""

_compile_count = 0


def compile_count() -> int:
    """How many programs this process has compiled (artefacts taken from the cache are not counted)."""
    return _compile_count


def compile_program(program: Program, options: Options | None = None) -> Artefact:
    """Compiles a program, which the passes change. Raises CompileError, TypeMismatch for an unknown target, and DeviceError for a
    device that is not there and whose architecture the options leave open."""
    global _compile_count
    is_large = not _compile_count or len(list(program.block.operations)) >= LARGE
    if is_large:
        release_memory()  # of imports and of the reader
    artefact = artefact_of(program, *_built(program, options or Options()), to_file=True)
    if is_large:
        release_memory()  # before the first run allocates its own
    _compile_count += 1
    return artefact


def _built(program: Program, options: Options) -> tuple[Built, Backend]:
    """A program's code, and the back end that generated it."""
    backend = backend_for(options).session(program)
    backend.begin(program)
    steps = pipeline.parse(_checked(_passes(backend, options).text, options))

    def run(program: Program, backend: Backend) -> None:
        pipeline.run(steps, program, environment(backend))

    checked = options.nans and options.autotune.seed is None  # its checks would end timed runs
    mode = OFF if checked else options.autotune
    backend = tuned.before_passes(program, backend, mode, options.device, run)
    run(program, backend)
    backend = tuned.before_printing(program, backend, mode, options.device)
    return backend.printer.build(program), backend


def _passes(backend: Backend, options: Options) -> Pipeline:
    """The pipeline of a compilation. Raises CompileError if the options' own lacks an extension point that they need."""
    passes = backend.pipeline if options.passes is None else Pipeline.of(options.passes)
    passes = within_budget(passes, options.budget) if options.budget else passes
    return with_precision(passes, options.half) if options.half else passes


def _checked(passes: str, options: Options) -> str:
    """The pipeline behind the checks of `burn.debug.nans`, which see the ops of the user's code."""
    return f"nans{{infinite={str(options.nans == 'inf').lower()}}},{passes}" if options.nans else passes


def backend_for(options: Options | None = None) -> Backend:
    """The back end for a compilation; by default for this machine's CPU. Raises TypeMismatch for an unknown target, CompileError
    if there is none for the device, and DeviceError for a device that is not there and whose architecture the options leave
    open."""
    options = options or Options()
    found = entry(options.device.kind)
    if options.tf32 and not found.tensor_cores:
        hint = "float32 is multiplied in float32 there: leave the precision out"
        raise CompileError(
            f"there is no precision {options.precision} for {options.device}",
            [Problem("its multiplications are those of NVIDIA's tensor cores", hint=hint)],
        )
    return found.make(options)


def environment(backend: Backend | None = None) -> Environment:
    """The environment of passes: a back end (by default for this machine's CPU), and an evaluator of programs."""
    return Environment(backend or backend_for(), _evaluate)


def _evaluate(program: Program) -> Callable[..., Sequence[np.ndarray]]:
    """A program as a function, on this machine. Sums are taken in order, so that a constant has the same bits in every
    program, exact ones among them. It runs a few times at most, so LLVM's IR passes would take longer than they save."""
    options = Options(exact=True, autotune=OFF, nans="", optimize=COMPILE_TIME)
    options = replace(options, passes=backend_for(options).folding.text)
    executable = Executable(artefact_of(program, *_built(program, options)))
    executable.limit_to(left())

    def run(*arrays: np.ndarray) -> Sequence[np.ndarray]:
        outputs = executable(*arrays)
        executable.release_memory()  # a network's weights need tens of evaluators, which stay until all are folded
        return outputs if isinstance(outputs, tuple) else (outputs,)

    return run


def described(program: Program, options: Options) -> tuple[Artefact, list[str]]:
    """As `compile_program`, with a text for each launch: the kernels of its group, or the library op."""
    built, backend = _built(program, options)
    ops = [operation.opview for operation in built.operations]
    with context():
        texts = [group_text(op, backend.preferences) if isinstance(op, Group) else str(op) for op in ops]
    return artefact_of(program, built, backend), texts


def listing(program: Program, options: Options) -> str:
    """A program's code in the language of its back end, for people. Raises CompileError."""
    backend = backend_for(options).session(program)
    pipeline.run(pipeline.parse(_passes(backend, options).text), program, environment(backend))
    return backend.printer.listing(program)


def executable(program: Program, options: Options | None = None) -> Executable:
    """The program, compiled now: `burn.caching.executable` also reads and writes the cache on disk."""
    options = options or Options()
    donate = [program.input_names[i] for i in program.given_up]
    return Executable(compile_program(program, options), donate, options.device)
