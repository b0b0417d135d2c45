"""A program for a machine without an operating system: a static library that needs no C library and allocates nothing.

This module plans the buffers at compile time. It compiles the target's kernels once for this machine and runs
them (native/bare/measure.c) to measure their allocations, which are the same in every run. The library has the plan as
constants; its only function takes an arena of the size in its header. Weights stay in flash.
"""

from __future__ import annotations

import math
import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from burn.codegen.cpu.target import Target
from burn.compiler import compile_program
from burn.deploy import customs
from burn.deploy import weights as stored
from burn.deploy.interface import Interface
from burn.deploy.report import Report, footprint
from burn.deploy.weights import Weights
from burn.dialect.program import Program
from burn.errors import CompileError, Problem
from burn.options import OFF
from burn.options import Options as CompileOptions
from burn.runtime import _native
from burn.runtime.artefact import Artefact, ValueSpec
from burn.runtime.dtypes import numpy_dtype
from burn.toolchain import Toolchain

NATIVE = Path(__file__).parent / "native" / "bare"
RUNTIME = Path(__file__).parents[1] / "runtime" / "native"
ALIGNMENT = 64
_ARENA = ("void *arena", "size_t arena_bytes")
_OFFERED = """input input_dim constant output plan scratch copy read write launch steps enter leave fail kernel_fail
    status"""
OFFERED = frozenset((*(f"burn_rt_{name}" for name in _OFFERED.split()), "burn_lib_custom"))
"""The runtime functions of native/bare."""

_CALLED = re.compile(r"@(burn_(?:rt|lib)_\w+)\(")
_OF_A_CPU = re.compile(r' "target-(?:cpu|features)"="[^"]*"')


@dataclass(frozen=True)
class Memory:
    """Bytes of each buffer, where it lies in the arena, the bytes of all, and those behind them for what kernels need."""

    sizes: Sequence[int]
    offsets: Sequence[int]
    planned: int
    scratch: int

    @property
    def arena(self) -> int:
        return self.planned + self.scratch


@dataclass(frozen=True)
class Bare:
    """The parts of a library."""

    interface: Interface
    artefact: Artefact
    weights: Weights
    memory: Memory

    @staticmethod
    def of(program: Program, name: str, target: Target, here: Toolchain) -> Bare:
        """Compiles a program, and measures it with a compiler for this machine. Raises CompileError, also for programs with
        data-dependent sizes."""
        artefact = compile_program(program, CompileOptions(target, as_text=True, autotune=OFF)).resolved()
        interface = Interface.of(name, artefact.signature)
        _check(interface, artefact)
        weights = stored.layout(artefact.constants, as_file=False)
        return Bare(interface, artefact, weights, _measured(interface, artefact, weights, here))

    def objects(self, chain: Toolchain, folder: Path) -> list[Path]:
        """Compiles the objects of the library."""
        tables = _tables(self.interface, self.artefact, self.weights, self.memory)
        code = bytes(self.artefact.code).decode()
        made, linking = _compiled(chain, folder, code, tables, self, ("run.c", "memory.c"))
        assert not linking, "customs.refuse_systems finds what would need these"
        return [*made, *chain.helpers(folder)]

    def report(self, image: Path) -> Report:
        """The report, with the footprint of the linked image."""
        signature = self.artefact.signature
        values = sum(_bytes(spec) for spec in (*signature.inputs, *signature.outputs))
        constants = sum(constant.bytes for constant in self.artefact.constants)
        return Report.of(self.artefact, constants, footprint(image, self.memory.arena + values))

    def header(self) -> str:
        """The library's header."""
        return _header(self.interface, self.artefact, self.memory)


def _check(interface: Interface, artefact: Artefact) -> None:
    signature = artefact.signature
    problems = [
        Problem(f"{spec.name}: {spec.type_text} has sizes that a call chooses", hint="give them with --dim NAME=SIZE")
        for spec in (*signature.inputs, *signature.outputs)
        if any(isinstance(dim, str) for dim in spec.dims)
    ]
    if interface.random_state:
        problems.append(Problem("the program draws random numbers"))
    customs.refuse_python(artefact)
    customs.refuse_systems(artefact)
    called = set(_CALLED.findall(bytes(artefact.code).decode()))
    problems += [Problem(f"the program needs {name}") for name in sorted(called - OFFERED)]
    if problems:
        raise CompileError("this program does not run without an operating system", problems)


# ---- measuring -------------------------------------------------------------------------------------------------------


def _measured(interface: Interface, artefact: Artefact, weights: Weights, here: Toolchain) -> Memory:
    buffers = len(artefact.live_ranges)
    empty = Memory([0] * buffers, [0] * buffers, 0, 0)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        tables = _tables(interface, artefact, weights, empty, "burn_measured")
        code = _OF_A_CPU.sub("", bytes(artefact.code).decode())
        bare = Bare(interface, artefact, weights, empty)
        made = folder / "measure"
        objects, linking = _compiled(here, folder, code, tables, bare, ("run.c", "measure.c"))
        here.program(objects, made, linking)
        done = subprocess.run([made], capture_output=True, text=True)
    if done.returncode:
        raise CompileError("the program fails on zeros", [f"the runtime's status is {done.returncode}"])
    *sizes, needed = map(int, done.stdout.split())
    if len(sizes) != buffers:
        sizes = [0] * buffers  # it plans nothing
    offsets, planned = _native.plan(list(artefact.live_ranges), sizes)
    return Memory(sizes, offsets, planned, -(-needed // ALIGNMENT) * ALIGNMENT)


def _compiled(
    chain: Toolchain, folder: Path, code: str, tables: str, bare: Bare, runtime: Sequence[str]
) -> tuple[list[Path], list[str]]:
    """Objects, and the linker's flags that custom ops need."""
    name = bare.interface.name
    texts = {
        f"{name}_code.ll": re.sub(r"@burn_entry\b", f"@{name}_entry", code),
        f"{name}.c": tables,
        f"{name}_weights.S": _assembly(name, bare.weights),
    }
    for file, text in texts.items():
        (folder / file).write_text(text)
    (folder / f"{name}.bin").write_bytes(bare.weights.joined())
    own, linking = customs.objects([bare.artefact], chain, folder)
    files = [folder / file for file in texts] + [NATIVE / file for file in (*runtime, *["custom.c"] * bool(own))]
    flags = (f"-I{NATIVE}", f"-I{RUNTIME}", f"-Wa,-I{folder}", "-Wno-override-module")
    return [*chain.compile(files, folder, flags), *own], linking


def _assembly(name: str, weights: Weights) -> str:
    """The weights' bytes as a section of their own."""
    included = f'.incbin "{name}.bin"\n' if weights.bytes else ""
    return f""".section .rodata.{name}_weights, "a"
.balign {ALIGNMENT}
.globl {name}_weights
.hidden {name}_weights
{name}_weights:
{included}.byte 0
"""


# ---- the library's own files -----------------------------------------------------------------------------------------


def _tables(interface: Interface, artefact: Artefact, weights: Weights, memory: Memory, symbol: str = "program") -> str:
    """The C file: tables, and the function of the header."""
    name, signature = interface.name, artefact.signature
    static = "static " if symbol == "program" else ""
    arguments = ", ".join([*_ARENA, *_parameters(interface)])
    parts = [
        '#include "bare.h"',
        f"extern int32_t {name}_entry(burn_run *run);\nextern const unsigned char {name}_weights[];",
        _values("inputs", signature.inputs),
        _values("outputs", signature.outputs),
        _numbers("constants", [entry.offset for entry in weights.entries]),
        _numbers("sizes", memory.sizes),
        _numbers("offsets", memory.offsets),
        f"{static}const burn_bare_program {symbol} = {{{name}_entry, inputs, outputs, {name}_weights, constants, sizes, offsets, "
        f"{len(signature.inputs)}, {len(signature.outputs)}, {len(weights.entries)}, {len(memory.sizes)}, "
        f"{memory.planned}, {memory.scratch}}};",
        f"int32_t {name}_run({arguments});\nint32_t {name}_run({arguments}) {{\n"
        f"    const void *const burn_in[] = {{{', '.join(p.name for p in interface.inputs) or '0'}}};\n"
        f"    void *const burn_out[] = {{{', '.join(p.name for p in interface.outputs) or '0'}}};\n"
        f"    return burn_bare_run(&{symbol}, arena, arena_bytes, burn_in, burn_out);\n}}",
    ]
    return "\n\n".join(parts) + "\n"


def _values(table: str, specs: Sequence[ValueSpec]) -> str:
    rows = [
        f"    {{{_bytes(spec)}, {len(spec.dims)}, {{{', '.join(map(str, spec.dims)) or '0'}}}}},\n" for spec in specs
    ]
    return f"static const burn_bare_value {table}[] = {{\n{''.join(rows) or '    {0},'}}};"


def _numbers(table: str, numbers: Sequence[int]) -> str:
    return f"static const int64_t {table}[] = {{{', '.join(map(str, numbers)) or '0'}}};"


def _bytes(spec: ValueSpec) -> int:
    return math.prod(int(dim) for dim in spec.dims) * numpy_dtype(spec.dtype).itemsize


def _parameters(interface: Interface) -> list[str]:
    return [
        *(f"const {p.c_type} *{p.name}" for p in interface.inputs),
        *(f"{p.c_type} *{p.name}" for p in interface.outputs),
    ]


def _header(interface: Interface, artefact: Artefact, memory: Memory) -> str:
    name, upper = interface.name, interface.name.upper()
    signature = artefact.signature
    values = [
        f" *   {p.name}: {p.spec.type_text}, {_bytes(p.spec)} bytes{f' ({p.note})' if p.note else ''}\n"
        for p in (*interface.inputs, *interface.outputs)
    ]
    counts = "".join(
        f"#define {upper}_{p.name.upper()}_COUNT {math.prod(int(d) for d in spec.dims)}\n"
        for p, spec in zip(
            (*interface.inputs, *interface.outputs), (*signature.inputs, *signature.outputs), strict=True
        )
    )
    cpu = artefact.target.triple.split("-")[0]
    return f"""/* {name}, compiled by burn {artefact.burn_version} for {cpu}. Link lib{name}.a and nothing else. */
#ifndef {upper}_H
#define {upper}_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

/* What {name}_run works in: bytes at least, and what their address must be a multiple of. Their contents do not matter. */
#define {upper}_ARENA_BYTES {max(memory.arena, ALIGNMENT)}
#define {upper}_ARENA_ALIGNMENT {ALIGNMENT}

/* Elements of each input and output. */
{counts}
/* One inference. Returns 0, or the number of what went wrong: 1 where an output or the arena is missing, or the
 * arena is too small or not aligned, 10 where an input is missing. Tensors are dense and row-major:
{"".join(values)} */
int32_t {name}_run({", ".join([*_ARENA, *_parameters(interface)])});

#ifdef __cplusplus
}}
#endif
#endif
"""
