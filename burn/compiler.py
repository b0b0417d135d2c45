"""The driver: reads as the table of contents of a compilation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from burn.codegen.backend import Backend, Built, in_halves, within
from burn.codegen.cpu.backend import CPU, FOLDING, PIPELINE
from burn.codegen.cpu.target import TARGETS, Target, host_target
from burn.codegen.tuning.choices import Choices
from burn.codegen.tuning.modes import Mode
from burn.codegen.tuning.search import Measure, Trial
from burn.dialect.constants import constant_array
from burn.dialect.control import Group
from burn.dialect.mlir import context
from burn.dialect.program import Program
from burn.dialect.types import Container, TensorType
from burn.errors import CompileError, TypeMismatch
from burn.kernels.text import group_text
from burn.options import FULL, OFF, Options
from burn.passes import pipeline
from burn.passes.environment import Environment
from burn.runtime.artefact import Artefact, Constant, KernelInfo, Signature, ValueSpec
from burn.runtime.budget import left
from burn.runtime.device import Device
from burn.runtime.executable import Executable
from burn.runtime.host import features

__all__ = ["FOLDING", "PIPELINE", "compile_count", "compile_program", "described", "environment", "executable"]

_compile_count = 0


def compile_count() -> int:
    """How many programs this process has compiled (artefacts taken from the cache are not counted)."""
    return _compile_count


def compile_program(program: Program, options: Options | None = None) -> Artefact:
    """Compiles a program, which the passes change. Raises CompileError, TypeMismatch for an unknown target, and DeviceError for a
    GPU that is not there and whose architecture the options leave open."""
    global _compile_count
    options = options or Options()
    backend = backend_for(options)
    artefact = _compile(program, backend, _passes(backend, options), options)
    _compile_count += 1
    return artefact


def backend_for(options: Options | None = None) -> Backend:
    """The back end for a compilation. Raises TypeMismatch for an unknown target, and DeviceError for a GPU that is not there."""
    options = options or Options()
    cpu, device = _cpu(options.target), options.device
    host = CPU(replace(cpu, exact=True) if options.exact else cpu, options.as_text)
    if not device.is_card:
        return host
    from burn.codegen.triton.backend import GPU

    if options.architecture:
        return GPU(host, device.kind, options.architecture)
    facts = device.facts()
    return GPU(host, device.kind, facts["architecture"], facts["warp"])


def _passes(backend: Backend, options: Options) -> str:
    """The pipeline of a compilation."""
    passes = backend.passes if options.passes is None else options.passes
    passes = within(passes, options.budget) if options.budget else passes
    return passes if options.precision == FULL else in_halves(passes, options.precision)


def _cpu(target: str | Target | None) -> Target:
    if target is None:
        return host_target(features())
    if isinstance(target, Target):
        return target
    own = {name: t for name, t in TARGETS.items() if t.is_compiled_here}
    if target not in own:
        raise TypeMismatch(f"there is no target {target!r}", [f"there are {', '.join(own)}"])
    return own[target]


def environment(backend: Backend | None = None) -> Environment:
    """What passes are told: the back end (this machine's CPU by default), and how a program is run while compiling."""
    return Environment(backend or backend_for(), _evaluate)


def _compile(program: Program, backend: Backend, passes: str, options: Options) -> Artefact:
    backend = _passed(program, backend, passes, options.autotune, options.device)
    return _artefact(program, backend.build(program), backend)


def described(program: Program, options: Options) -> tuple[Artefact, list[str]]:
    """As `compile_program`, with what each launch computes as text: the kernels of its group, or the op that the library does."""
    backend = backend_for(options)
    backend = _passed(program, backend, _passes(backend, options), options.autotune, options.device)
    built = backend.build(program)
    ops = [operation.opview for operation in built.operations]
    with context():
        texts = [group_text(op, backend.wants) if isinstance(op, Group) else str(op) for op in ops]
    return _artefact(program, built, backend), texts


def _passed(program: Program, backend: Backend, passes: str, mode: Mode, device: Device) -> Backend:
    """Takes a program through the passes; the back end then, with the forms that are fastest where that is asked for."""
    steps = pipeline.parse(passes)
    backend = backend.session(program)
    if mode.seed is not None and isinstance(backend, CPU):
        backend = replace(backend, choices=Choices(seed=mode.seed))
    if mode.name != "off":
        backend = _or_usual(mode, backend, lambda: _passes_tuned(program, backend, steps, mode, device))
    pipeline.run(steps, program, environment(backend))
    if mode.name != "off":
        return _or_usual(mode, backend, lambda: _kernels_tuned(program, backend, mode, device))
    return backend


def _or_usual(mode: Mode, backend: Backend, tune: Callable[[], Backend]) -> Backend:
    """What cannot be tuned has its usual forms where only the environment asks for more."""
    try:
        return tune()
    except CompileError:
        if not mode.wished:
            raise
        return backend


def _passes_tuned(
    program: Program, backend: Backend, steps: Sequence[pipeline.Pass], mode: Mode, device: Device
) -> Backend:
    """With the fastest of what passes decide for a CPU."""
    from burn.codegen.cpu.tuning import passes_tuned, told_apart
    from burn.codegen.tuning.clock import check

    check(program)
    if not isinstance(backend, CPU):
        return backend

    def taken(backend: CPU) -> Program:
        copy = told_apart(program.copy())
        pipeline.run(steps, copy, environment(backend))
        return copy

    return passes_tuned(taken, backend, mode.name, _clock(backend, device))


def _kernels_tuned(program: Program, backend: Backend, mode: Mode, device: Device) -> Backend:
    """With the fastest forms of a fused program's kernels."""
    clock = _clock(backend, device)
    if isinstance(backend, CPU):
        from burn.codegen.cpu.tuning import kernels_tuned

        return kernels_tuned(program, backend, mode.name, clock)
    from burn.codegen.triton.backend import GPU
    from burn.codegen.triton.tuning import tuned

    assert isinstance(backend, GPU)
    return tuned(program, backend, mode.name, device.facts()["name"], clock)


def _clock(backend: Backend, device: Device) -> Measure:
    from burn.codegen.tuning.clock import seconds

    def measure(trials: Sequence[Trial]) -> Sequence[Sequence[float]]:
        artefacts = [_artefact(trial.program, trial.built, backend) for trial in trials]
        return seconds(trials[0].program, artefacts, device)

    return measure


def _evaluate(program: Program) -> Callable[..., Sequence[np.ndarray]]:
    """A program as a function, on this machine. Sums are taken as they stand, so that a constant has the same bits for every
    program that it is part of, exact ones too."""
    options = Options(exact=True, autotune=OFF)
    host = backend_for(options)
    executable = Executable(_compile(program, host, host.folding, options))
    executable.limit_to(left())

    def run(*arrays: np.ndarray) -> Sequence[np.ndarray]:
        outputs = executable(*arrays)
        return outputs if isinstance(outputs, tuple) else (outputs,)

    return run


def _artefact(program: Program, built: Built, backend: Backend) -> Artefact:
    count = len(program.inputs) - program.random_state
    donated = {source: output for output, source in program.donated.items()}
    inputs = [
        value_spec(name, t, program.input_containers.get(i), donated.get(i))
        for i, (name, t) in enumerate(zip(program.input_names[:count], program.input_types[:count], strict=True))
    ]
    outputs = [
        value_spec(name, t, program.output_containers.get(i), keys=program.output_keys.get(i, ()))
        for i, (name, t) in enumerate(zip(program.output_names, program.output_types, strict=True))
    ]
    return Artefact(
        signature=Signature(tuple(inputs), tuple(outputs), program.random_state),
        target=backend.runs_on,
        code=built.code,
        constants=tuple(Constant.of(constant_array(v, program.weights)) for v in built.constants),
        live_ranges=tuple(built.live_ranges),
        buffers=tuple(map(str, built.buffers)),
        kernels=tuple(
            KernelInfo(r.name, r.kind, r.sources, str(r.flops), str(r.bytes), r.reads, r.step) for r in built.records
        ),
        sites=tuple(built.sites),
        images=tuple(built.images),
        symbols={},
    )


def value_spec(
    name: str,
    type_: TensorType,
    container: Container | None,
    donated_to: int | None = None,
    keys: tuple[int, ...] | tuple[str, ...] = (),
) -> ValueSpec:
    """What the artefact says of an input or output."""
    shape = type_.shape if container is None else container.shape or ()
    dims = tuple(d if isinstance(d, int) else str(d) for d in shape)
    if container is None:
        return ValueSpec(name, type_.dtype, dims, donated_to, keys=keys)
    return ValueSpec(name, container.dtype, dims, None, container.kinds, container.shape is None)


def executable(program: Program, options: Options | None = None) -> Executable:
    """The program compiled, whatever the cache holds."""
    options = options or Options()
    donate = [program.input_names[i] for i in program.given_up]
    return Executable(compile_program(program, options), donate, options.device)
