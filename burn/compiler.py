"""The driver: reads as the table of contents of a compilation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from burn.codegen.cpu.entry import Entry, EntryBuilder
from burn.codegen.cpu.object import compile_object
from burn.codegen.cpu.target import TARGETS, Target, host_target
from burn.dialect.constants import constant_array
from burn.dialect.mlir import context
from burn.dialect.program import Program
from burn.dialect.types import Container, TensorType
from burn.errors import TypeMismatch
from burn.passes import pipeline
from burn.passes.environment import Environment
from burn.runtime.artefact import Artefact, Constant, KernelInfo, Signature, ValueSpec
from burn.runtime.artefact import Target as ArtefactTarget
from burn.runtime.executable import Executable
from burn.runtime.host import features

PIPELINE = "simplify{absorb=false},recognise,decompose{keep=attention},simplify,layout,simplify,pack,fold,fuse,donate"
FOLDING = "decompose,fuse"
"""How a program of constants alone is compiled, whose results become weights."""

_compile_count = 0


def compile_count() -> int:
    """How many programs this process has compiled (artefacts taken from the cache are not counted)."""
    return _compile_count


def compile_program(program: Program, *, target: str | None = None, passes: str | None = None) -> Artefact:
    """Turns a program into an artefact for a CPU ("avx512", "avx2", "generic"; this machine's by default)."""
    global _compile_count
    artefact = _compile(program, _target(target), PIPELINE if passes is None else passes)
    _compile_count += 1
    return artefact


def _target(name: str | None) -> Target:
    """A CPU by name; this machine's where none is given. Raises TypeMismatch."""
    if name is None:
        return host_target(features())
    if name not in TARGETS:
        raise TypeMismatch(f"there is no target {name!r}", [f"there are {', '.join(TARGETS)}"])
    return TARGETS[name]


def environment(target: Target | None = None) -> Environment:
    """What passes are told: the CPU (this machine's by default), and how a program is run while compiling."""
    return Environment(target or host_target(features()), _evaluate)


def _compile(program: Program, target: Target, passes: str) -> Artefact:
    pipeline.run(pipeline.parse(passes), program, environment(target))
    with context():
        entry = EntryBuilder(program, target).build()
        code = compile_object(entry.functions)
    return _artefact(program, entry, code, target)


def _evaluate(program: Program) -> Callable[..., Sequence[np.ndarray]]:
    """A program as a function, on this machine."""
    executable = Executable(_compile(program, host_target(features()), FOLDING))

    def run(*arrays: np.ndarray) -> Sequence[np.ndarray]:
        outputs = executable(*arrays)
        return outputs if isinstance(outputs, tuple) else (outputs,)

    return run


def _artefact(program: Program, entry: Entry, code: bytes, target: Target) -> Artefact:
    count = len(program.inputs) - program.random_state
    donated = {source: output for output, source in program.donated.items()}
    inputs = [
        value_spec(name, t, program.input_containers.get(i), donated.get(i))
        for i, (name, t) in enumerate(zip(program.input_names[:count], program.input_types[:count], strict=True))
    ]
    outputs = [
        value_spec(name, t, program.output_containers.get(i))
        for i, (name, t) in enumerate(zip(program.output_names, program.output_types, strict=True))
    ]
    return Artefact(
        signature=Signature(tuple(inputs), tuple(outputs), program.random_state),
        target=ArtefactTarget("x86_64-unknown-linux-gnu", target.features),
        code=code,
        constants=tuple(Constant.of(constant_array(v, program.weights)) for v in entry.constants),
        live_ranges=tuple(entry.live_ranges),
        kernels=tuple(KernelInfo(r.name, r.kind, r.sources, str(r.flops), str(r.bytes)) for r in entry.records),
        sites=tuple(entry.sites),
        symbols={},
    )


def value_spec(name: str, type_: TensorType, container: Container | None, donated_to: int | None = None) -> ValueSpec:
    """What the artefact says of an input or output."""
    shape = type_.shape if container is None else container.shape or ()
    dims = tuple(d if isinstance(d, int) else str(d) for d in shape)
    if container is None:
        return ValueSpec(name, type_.dtype, dims, donated_to)
    return ValueSpec(name, container.dtype, dims, None, container.kinds, container.shape is None)


def executable(program: Program, **options) -> Executable:
    donate = [program.input_names[i] for i in program.given_up]
    return Executable(compile_program(program, **options), donate)
