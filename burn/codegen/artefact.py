"""Generated code as an artefact, with its description for callers and profiles: `artefact_of`."""

from __future__ import annotations

from typing import Any

from burn.codegen.backend import Backend, Built
from burn.dialect.constants import constant_array
from burn.dialect.custom import Custom
from burn.dialect.mlir import ir
from burn.dialect.program import Program
from burn.dialect.query import op_of
from burn.dialect.types import Container, TensorType
from burn.dialect.weights import WeightStore
from burn.runtime.artefact import Artefact, Constant, KernelInfo, Library, Signature, ValueSpec

_ELF = b"\x7fELF"


def artefact_of(program: Program, built: Built, backend: Backend, to_file: bool = False) -> Artefact:
    """The artefact of a program after all passes. to_file: the constants are written to the program's file of constants, if it
    has one."""
    count = len(program.inputs) - program.random_state
    donated = {source: output for output, source in program.donated.items()}
    inputs = [
        _value_spec(name, t, program.input_containers.get(i), donated.get(i))
        for i, (name, t) in enumerate(zip(program.input_names[:count], program.input_types[:count], strict=True))
    ]
    outputs = [
        _value_spec(name, t, program.output_containers.get(i), keys=program.output_keys.get(i, ()))
        for i, (name, t) in enumerate(zip(program.output_names, program.output_types, strict=True))
    ]
    return Artefact(
        signature=Signature(tuple(inputs), tuple(outputs), program.random_state, program.defaults),
        target=backend.printer.runs_on,
        code=built.code,
        constants=tuple(_constant(v, program.weights, to_file) for v in built.constants),
        live_ranges=tuple(built.live_ranges),
        buffers=tuple(map(str, built.buffers)),
        kernels=tuple(
            KernelInfo(r.name, r.kind, r.sources, str(r.flops), str(r.bytes), r.reads, r.step) for r in built.records
        ),
        sites=tuple(built.sites),
        images=tuple(built.images),
        libraries=_libraries(built),
        entry=built.entry,
    )


def _constant(value: ir.Value, weights: WeightStore, to_file: bool) -> Constant:
    """A constant's elements. The native runtime would copy those of a file that do not lie on 64 bytes, and keep the file's
    pages."""
    op = op_of(value)
    if op is None or op.OP_NAME != "weight":
        return Constant.of(constant_array(value, weights))
    array = weights.get_aligned(op.key, to_file=to_file)
    return Constant.of(array, weights.weight(op.key).stored)


def _libraries(built: Built) -> tuple[Library, ...]:
    """The functions of custom ops. Code that is text is for another compiler, which links them."""
    is_linked = not bytes(built.code[:4]).startswith(_ELF)
    made = {}
    for operation in built.operations:
        op = operation.opview
        if isinstance(op, Custom) and op.body == "c":
            definition: Any = op.definition
            if definition.symbol not in made:
                data = b"" if is_linked else definition.c.library(definition.symbol)
                made[definition.symbol] = Library(definition.symbol, op.called, data)
    return tuple(made[symbol] for symbol in built.customs)


def _value_spec(
    name: str,
    type_: TensorType,
    container: Container | None,
    donated_to: int | None = None,
    keys: tuple[int, ...] | tuple[str, ...] = (),
) -> ValueSpec:
    """The artefact's description of an input or output."""
    shape = type_.shape if container is None else container.shape or ()
    dims = tuple(d if isinstance(d, int) else str(d) for d in shape)
    if container is None:
        return ValueSpec(name, type_.dtype, dims, donated_to, keys=keys)
    return ValueSpec(name, container.dtype, dims, None, container.kinds, container.shape is None)
