"""Copies of packages whose libraries do not execute `cpuid`.

The first byte of each such instruction is one that 64-bit code may not have, so that a handler answers for it (cpuid.c).
objdump (of binutils) lists the instructions. Their two bytes also occur inside of other instructions, which stay as they are.
"""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from burn.errors import BurnError, Problem

CPUID, FAULTING = b"\x0f\xa2", b"\xce\xa2"
"""The instruction, and its replacement: 0xce was `into`, which 64-bit code does not have. cpuid.c has the same bytes."""

STAMP = "copied.json"
"""The file of a copy that names the sizes and dates of the libraries, so that it is used again while they are the same."""

_INSTRUCTION = re.compile(rb"^\s*([0-9a-f]+):\s+cpuid\b", re.MULTILINE)
_SEGMENT = re.compile(rb"LOAD\s+off\s+0x(\w+)\s+vaddr\s+0x(\w+)[^\n]*\n\s+filesz\s+0x(\w+)")


def copied(packages: Sequence[str], folder: Path) -> None:
    """Makes `folder/PACKAGE` for each package that is installed, unless it is there. Its files are links, but for libraries with
    `cpuid`. Raises BurnError if a package was imported from elsewhere, which has queried the CPU, and without objdump."""
    for name in packages:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            continue
        source, target = Path(spec.origin).parent, folder / name
        if source == target:
            continue
        if name in sys.modules:
            raise BurnError(f"{name} has found this CPU", [Problem("it was imported before it could be copied")])
        stamp = json.dumps({str(file): _identity(file) for file in _libraries(source)})
        if (target / STAMP).is_file() and (target / STAMP).read_text() == stamp:
            continue
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target, copy_function=_copy, ignore=shutil.ignore_patterns("__pycache__"))
        (target / STAMP).write_text(stamp)


def _libraries(folder: Path) -> Iterator[Path]:
    return (file for file in sorted(folder.rglob("*.so*")) if file.is_file())


def _identity(file: Path) -> list[int]:
    found = file.stat()
    return [found.st_size, found.st_mtime_ns]


def _copy(source: str, target: str) -> None:
    """Links a file, or writes a library whose instructions `cpuid` are replaced."""
    if ".so" not in Path(source).suffixes or CPUID not in (code := bytearray(Path(source).read_bytes())):
        Path(target).symlink_to(source)
        return
    for offset in _offsets(source):
        if code[offset : offset + 2] != CPUID:
            raise BurnError(f"{source} is not as objdump reads it", [f"there is no cpuid at byte {offset}"])
        code[offset : offset + 2] = FAULTING
    Path(target).write_bytes(code)


def _offsets(library: str) -> Iterator[int]:
    """The positions of the instructions in the file."""
    segments = [tuple(int(text, 16) for text in found) for found in _SEGMENT.findall(_objdump("-p", library))]
    for text in _INSTRUCTION.findall(_objdump("-d", "--no-show-raw-insn", library)):
        address = int(text, 16)
        yield next(offset + address - start for offset, start, size in segments if start <= address < start + size)


def _objdump(*arguments: str) -> bytes:
    try:
        return subprocess.run(["objdump", *arguments], capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise BurnError("the instructions of a library cannot be listed", [f"objdump: {error}"]) from None
