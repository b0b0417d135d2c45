"""The main program of a process that compiles kernels with Triton: sources from standard input, images to standard output.

A message is a pickle behind its length, a 64-bit number. The process imports Triton before the first message arrives, and little
else (`python -X importtime`). It ends when its input ends, or after a while without a message.

Triton's own cache is not used, because burn's has the images. Triton's key of a kernel needs a digest of its library of 400 MB,
which takes as long as compiling a small kernel.
"""

from __future__ import annotations

import itertools
import linecache
import os
import pickle
import select
import shutil
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

from burn.codegen.triton.abilities import SHARED_MEMORY
from burn.codegen.triton.sources import Machine, Source
from burn.codegen.triton.staging import ALIGNMENT

IDLE_SECONDS = 30.0
LENGTH = struct.Struct("<Q")
MOST_TEXT = 2000
MOST_WARPS = 8
"""Of a kernel whose layouts Triton cannot find with fewer."""

Image = tuple[str, bytes, int, int]
"""A kernel's name, its machine code, bytes of shared memory, threads of a block."""

_keys = itertools.count()


def tried(source: Source, machine: Machine) -> Image | str:
    """The image, or the reason for a failure."""
    try:
        try:
            return _compiled(source, machine)
        except RuntimeError as error:
            # Triton 3.6: TritonGPURemoveLayoutConversions makes invalid IR of some epilogues; layouts depend on the warps.
            if "PassManager" not in str(error) or 2 * source.warps > MOST_WARPS or "@gluon.jit" in source.text:
                raise
            return _compiled(replace(source, warps=2 * source.warps), machine)
    except Exception as error:  # any error of Triton, LLVM or the assembler
        return f"{type(error).__name__}: {error}"[:MOST_TEXT]


def _compiled(source: Source, machine: Machine) -> Image:
    import triton
    import triton.language as tl
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.experimental.gluon._runtime import GluonASTSource

    function = _function(source)
    names = function.arg_names
    signature = dict(zip(names, source.types, strict=False)) | dict.fromkeys(names[len(source.types) :], "constexpr")
    constants: dict[Any, Any] = {(number,): value for number, value in source.constants}
    constants |= {(names.index("INT"),): tl.int64 if source.wide else tl.int32}
    constants |= {(names.index(name),): value for name, value in source.named}
    attributes = {(number,): [["tt.divisibility", of]] for number, of in source.multiples}
    target = GPUTarget(machine.kind, machine.architecture, machine.warp)
    options = {"num_warps": source.warps}
    if source.registers:
        options["maxnreg"] = source.registers
    make = GluonASTSource if function.is_gluon() else ASTSource
    least, most = source.stages if function.is_gluon() else min(source.stages, 1), SHARED_MEMORY.get(machine.name, 0)
    for stages in range(source.stages, least - 1, -1):
        options["num_stages"] = stages
        made = triton.compile(make(function, signature, constants, attributes), target=target, options=options)
        shared = made.metadata.shared
        if source.shared:
            shared = -(-shared // ALIGNMENT) * ALIGNMENT + source.shared
        if not most or shared <= most:  # fewer blocks in flight take less
            break
    else:
        raise ValueError(f"the kernel needs {shared} bytes of shared memory, and a block of {machine.name} gets {most}")
    facts = made.metadata
    if (wanted := getattr(facts, "global_scratch_size", 0)) > source.scratch:
        raise ValueError(f"the kernel needs {wanted} bytes of scratch memory instead of {source.scratch}")
    return facts.name, bytes(made.asm[machine.code]), shared, facts.num_warps * machine.warp


def _function(source: Source) -> Any:
    name = f"<{source.name} {source.digest}>"
    linecache.cache[name] = (
        len(source.text),
        None,
        source.text.splitlines(keepends=True),
        name,
    )  # Triton reads source files
    names: dict[str, Any] = {"__name__": name}
    exec(compile(source.text, name, "exec"), names)
    return names[source.name]


def _prepare(folder: str) -> None:
    """Imports Triton. It writes the stages of each kernel to files of its cache, which are of no use here."""
    os.environ["TRITON_CACHE_DIR"] = folder
    os.environ.setdefault("TRITON_DISABLE_LINE_INFO", "1")  # the text is in no file; half of the bytes
    os.environ.setdefault("TRITON_STORE_BINARY_ONLY", "1")
    import triton.compiler.compiler as compiler
    import triton.experimental.gluon._runtime  # noqa: F401

    if hasattr(compiler, "get_cache_key"):
        compiler.get_cache_key = lambda *_, **__: f"kernel {next(_keys)}"


def read(file: BinaryIO) -> Any:
    """A message. Raises EOFError at the end of the file."""
    (length,) = LENGTH.unpack(_bytes(file, LENGTH.size))
    return pickle.loads(_bytes(file, length))


def _bytes(file: BinaryIO, count: int) -> bytes:
    """A pipe without a buffer gives what it holds, which may be less. Raises EOFError at its end."""
    found = bytearray()
    while len(found) < count:
        piece = file.read(count - len(found))
        if not piece:
            raise EOFError
        found += piece
    return bytes(found)


def write(file: BinaryIO, message: Any) -> None:
    """Raises OSError if no process reads the file."""
    body = pickle.dumps(message)
    file.write(LENGTH.pack(len(body)) + body)
    file.flush()


def main(folder: str) -> None:
    """Runs until the input ends. folder: for Triton's files; it is removed at the end."""
    messages = os.fdopen(0, "rb", buffering=0, closefd=False)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # for anything that prints
    try:
        problem = ""
        try:
            _prepare(folder)
        except Exception as error:  # an installation that does not work
            problem = f"{type(error).__name__}: {error}"[:MOST_TEXT]
        while select.select([0], [], [], IDLE_SECONDS)[0]:
            try:
                source, machine = read(messages)
            except EOFError:
                return
            write(answers, problem or tried(source, machine))
            for entry in Path(folder).iterdir():
                shutil.rmtree(entry, ignore_errors=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
