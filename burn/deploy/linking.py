"""Parts of building a binary: a compiled program, its object, the constants of several versions, files that appear whole."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from burn import toolchain
from burn.codegen.cpu.target import Target
from burn.compiler import compile_program
from burn.deploy import objects
from burn.deploy.gpus import GpuTarget
from burn.deploy.options import Options
from burn.dialect.program import Program
from burn.errors import CompileError, Problem
from burn.options import Options as CompileOptions
from burn.runtime import files
from burn.runtime.artefact import Artefact, Constant

MOST_EMBEDDED = 1 << 30
"""Bytes of weights in a binary: code reaches across 2 GiB of one and no further."""

_PYTHON_ONLY = {
    "burn_lib_image_decode": "it decodes image files, which Python does for it",
    "burn_lib_debug_call": "burn.debug.callback calls a Python function",
    "burn_lib_collective": "its collectives need the processes of burn.distributed",
}
ENTRY = "burn_entry"
_CALLED = re.compile(r"@(burn_\w+)\(")
_ELF = b"\x7fELF"


def compiled(program: Program, gpu: GpuTarget | None, options: CompileOptions) -> Artefact:
    made = compile_program(program, options).resolved()
    if gpu is not None:
        gpu.check(made)
    return made


def entry_name(name: str, gpu: GpuTarget | None, target: Target | None) -> str:
    kind = [*([gpu.architecture] if gpu else []), *([target.name.replace("-", "_")] if target else [])]
    return "_".join([name, "entry", *kind])


def merged(versions: Sequence[Sequence[Constant]]) -> tuple[list[Constant], list[list[int]]]:
    """All constants of several versions, each once, and their numbers in each: what is packed for a CPU's registers differs."""
    if len(versions) == 1:
        return list(versions[0]), [list(range(len(versions[0])))]
    found: dict[tuple[str, tuple[int, ...], bytes], int] = {}
    constants: list[Constant] = []
    numbers: list[list[int]] = []
    for version in versions:
        numbers.append([])
        for constant in version:
            key = (constant.dtype, constant.shape, hashlib.sha256(constant.data).digest())
            if key not in found:
                found[key] = len(constants)
                constants.append(constant)
            numbers[-1].append(found[key])
    return constants, numbers


def code_of(artefact: Artefact, entry: str, options: Options, scratch: Path, calls: Callable[[str], str] = str) -> Path:
    """The program's object, its entry function called `entry`, and what it calls as `calls` says."""
    code = bytes(artefact.code)
    if not code.startswith(_ELF):
        text, chain = scratch / f"{entry}.ll", toolchain.find(options.platform)
        text.write_text(calls(re.sub(rf"@{ENTRY}\b", f"@{entry}", code.decode())))
        return chain.compile([text], scratch, ["-Wno-override-module", *chain.smallest * options.small])[0]
    made = scratch / f"{entry}.o"
    made.write_bytes(objects.linkable(code, ENTRY, entry, calls))
    return made


def placed(made: Path, output: Path) -> Path:
    """A finished file where it belongs, whole or not at all; as executable as it was made."""
    mode = made.stat().st_mode & 0o111
    with files.whole(output) as target, made.open("rb") as source:
        shutil.copyfileobj(source, target)
    output.chmod(output.stat().st_mode | mode)
    return output


def called(artefact: Artefact) -> frozenset[str]:
    """The functions that a program leaves to others."""
    code = bytes(artefact.code)
    return objects.asked_for(code) if code.startswith(_ELF) else frozenset(_CALLED.findall(code.decode()))


def refuse_python(asked: frozenset[str]) -> None:
    problems = [Problem(why, hint="burn.load runs it") for name, why in _PYTHON_ONLY.items() if name in asked]
    if problems:
        raise CompileError("this model needs Python while it runs", problems)


def written(output: Path, data: bytes) -> list[Path]:
    with files.whole(output) as file:
        file.write(data)
    return [output]
