"""From a file to its generic form. Enter at `generic_form`.

The parsers of MLIR are native code, and a damaged file may end a process. They run as processes of their own: `torch-mlir-opt`
for
text, which is part of torch-mlir's wheel, and `jaxlib_reader.py` for bytecode, for artefacts of jax.export, and for text that is
newer than torch-mlir. The generic form has no syntax of any dialect's own, so Python reads it (`syntax/`).
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from burn.errors import BudgetExceeded, ModelError, Problem
from burn.runtime.budget import left

if TYPE_CHECKING:
    from collections.abc import Iterator

_LONGEST = 600.0  # seconds for one file, without a budget
_LEAST = 2 << 30  # bytes of address space that a parser gets under a budget: its libraries take most of it
_SHOWN = 8
_ERROR = re.compile(r'^(?:.*?:(\d+):\d+\)?: error: |.*?error: "[^"]*":(\d+):\d+: |(?:.*: )?error: )(.*)$', re.MULTILINE)
_PRODUCER = re.compile(rb"StableHLO_v(\d+\.\d+\.\d+)")
EXTRA = "pip install 'burn-mlir[jax]'"


@dataclass(frozen=True)
class Source:
    """The generic form of a program, and what jax.export noted beside it (see `jaxlib_reader.py`)."""

    text: str
    notes: dict[str, Any] = field(default_factory=dict)


def generic_form(path: Path, kind: str) -> Source:
    """The program of a file in generic form, verified by the parser of MLIR. Raises ModelError, and BudgetExceeded."""
    if kind != "text":
        _need_jaxlib(path, "bytecode needs jaxlib" if kind == "bytecode" else "an artefact of jax.export needs JAX")
        return _by_jaxlib(path, kind)
    tool = _torch_mlir_opt()
    if tool is None:
        _need_jaxlib(path, "this installation of torch-mlir has no torch-mlir-opt, so StableHLO needs jaxlib")
        return _by_jaxlib(path, kind)
    flags = ("--mlir-print-op-generic", "--mlir-print-debuginfo", "--allow-unregistered-dialect")
    done = _run([str(tool), *flags, str(path)], path)
    if done.returncode == 0:
        return Source(done.stdout.decode("utf-8", "replace"))
    if not _has_jaxlib():
        raise _refusal(path, done, hint=f"a newer StableHLO may need jaxlib: {EXTRA}")
    return _by_jaxlib(path, kind)


@contextmanager
def as_file(content: bytes) -> Iterator[Path]:
    """The bytes of a program as a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program"
        path.write_bytes(content)
        yield path


def _has_jaxlib() -> bool:
    return importlib.util.find_spec("jaxlib") is not None


def _need_jaxlib(path: Path, why: str) -> None:
    if not _has_jaxlib():
        raise ModelError(f"{path} cannot be read", [Problem(why, hint=EXTRA)])


def _torch_mlir_opt() -> Path | None:
    spec = importlib.util.find_spec("torch_mlir")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for name in ("torch-mlir-opt", "torch-mlir-opt.exe"):
            tool = Path(folder) / "_mlir_libs" / name
            if tool.is_file():
                return tool
    return None


def _by_jaxlib(path: Path, kind: str) -> Source:
    script = Path(__file__).with_name("jaxlib_reader.py")
    done = _run([sys.executable, str(script), kind, str(path)], path)
    head, _, text = done.stdout.decode("utf-8", "replace").partition("\n")
    try:
        notes = json.loads(head) if head else {}
    except ValueError:
        notes = {}
    if done.returncode == 0 and "error" not in notes:
        return Source(text, notes)
    hint = ""
    found = _PRODUCER.search(path.read_bytes()) if kind != "text" else None
    newest = str(notes.get("version", ""))
    if found is not None and newest and _numbers(found[1].decode()) > _numbers(newest):
        hint = f"it was written by StableHLO {found[1].decode()}; the installed jaxlib reads {newest} at most"
    raise _refusal(path, done, str(notes.get("error", "")), hint)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def _run(command: Sequence[str], path: Path) -> subprocess.CompletedProcess[bytes]:
    """Runs a parser within the rest of the budget."""
    limits = left()
    # The folder in which this process runs may hold files of the model's author: no module is imported from it.
    positions = [position for position in sys.path if position]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(positions), "JAX_PLATFORMS": "cpu"}
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    )
    with process:
        if limits.bytes:
            _limit(process.pid, max(2 * limits.bytes, _LEAST))
        try:
            out, err = process.communicate(timeout=limits.seconds or _LONGEST)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            limit = f"{limits.seconds or _LONGEST:g} seconds"
            raise BudgetExceeded(f"{path} cannot be read", [f"parsing it takes more than {limit}"]) from None
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def _limit(pid: int, size: int) -> None:
    try:
        import resource
    except ModuleNotFoundError:
        return
    if sys.platform == "linux":
        try:
            resource.prlimit(pid, resource.RLIMIT_AS, (size, size))
        except OSError:  # it has ended
            return


def _refusal(path: Path, done: subprocess.CompletedProcess[bytes], error: str = "", hint: str = "") -> ModelError:
    said = "\n".join((done.stderr.decode("utf-8", "replace"), error))
    problems: dict[Problem, None] = {}
    for found in _ERROR.finditer(said):
        line = found[1] or found[2] or "0"
        where = f"line {line}: " if line != "0" else ""
        problems[Problem(f"{where}{found[3].strip()}", hint=hint)] = None
    if done.returncode < 0:
        problems = {
            Problem(f"the parser of MLIR ended with signal {-done.returncode}: the file is damaged", hint=hint): None
        }
    if not problems:
        problems[
            Problem((error or said).strip().splitlines()[0] if (error or said).strip() else "no MLIR", hint=hint)
        ] = None
    return ModelError(f"{path} is not a StableHLO program", list(problems)[:_SHOWN])
