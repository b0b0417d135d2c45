"""Machine code of printed kernels: `compile_all`, which distributes the work over processes.

A kernel is compiled once for each specialisation of its sizes: 1, or a multiple of 4, 8 or 16. Indices have 32 bits if all
sizes are known to fit. Triton caches its results in burn's cache folder, so that the same kernel of another program is
cheap.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import linecache
import os
import pickle
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from burn.codegen.triton.program import with_library
from burn.errors import CompileError, Problem
from burn.runtime.artefact import KernelImage
from burn.runtime.cache import Cache

ALONE = 3
"""Up to this many kernels are compiled in this process, because starting another takes as long."""


@dataclass(frozen=True)
class Machine:
    """Triton's target: "cuda" and a compute capability such as 90, or "hip" and an architecture. warp: threads in a
    warp."""

    kind: str
    architecture: int | str
    warp: int

    @staticmethod
    def named(kind: str, architecture: str, warp: int) -> Machine:
        """architecture: "sm_90", "gfx942"."""
        return Machine(kind, int(architecture.removeprefix("sm_")) if kind == "cuda" else architecture, warp)

    @property
    def code(self) -> str:
        """The kind of machine code."""
        return "cubin" if self.kind == "cuda" else "hsaco"


@dataclass(frozen=True)
class Source:
    """A function, and the properties of its arguments: Triton's types in order ("constexpr" for those in `constants`),
    and known divisors (the argument's number, the divisor)."""

    name: str
    text: str
    types: tuple[str, ...]
    constants: tuple[tuple[int, int], ...]  # by argument number
    named: tuple[tuple[str, int], ...]  # constants after the arguments
    multiples: tuple[tuple[int, int], ...]
    wide: bool  # indices have 64 bits
    warps: int
    stages: int
    nodes: tuple[str, ...] = ()  # source nodes
    scratch: int = 0  # bytes of memory per program
    registers: int = 0  # of a thread at entry, if not 0


def compile_all(
    sources: Sequence[Source], machine: Machine, known: Mapping[Source, KernelImage] | None = None
) -> list[KernelImage]:
    """Compiles kernels, except those in `known`. Raises CompileError, which names each kernel that cannot be compiled, its
    nodes, and the file that has its text."""
    have = known or {}
    missing = [source for source in sources if source not in have]
    made = dict(zip(missing, compile_each(missing, machine), strict=True))
    problems = [
        Problem(f"{source.name}: {result}; its text is in {_kept(source)}", node=", ".join(source.nodes))
        for source, result in made.items()
        if isinstance(result, str)
    ]
    if problems:
        raise CompileError("Triton cannot compile this program's kernels", problems)
    images = (have.get(source) or made[source] for source in sources)
    return [image for image in images if isinstance(image, KernelImage)]


def compile_each(sources: Sequence[Source], machine: Machine) -> list[KernelImage | str]:
    """The images, or for each kernel that fails the reason."""
    if importlib.util.find_spec("triton") is None:
        hint = "pip install 'burn-mlir[gpu]'"
        raise CompileError("GPU kernels need Triton", [Problem("it is not installed here", hint=hint)])
    workers = min(max(1, len(sources) // 2), os.cpu_count() or 1)
    if len(sources) <= ALONE:
        return [_tried(source, machine) for source in sources]
    return _in_processes(sources, machine, workers)


def _folder() -> Path:
    return Cache.from_environment().folder("triton")


def _kept(source: Source) -> Path:
    path = _folder() / "failed" / f"{source.name}-{_digest(source)}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source.text)
    return path


def _digest(source: Source) -> str:
    return hashlib.sha256(source.text.encode()).hexdigest()[:12]


def _tried(source: Source, machine: Machine) -> KernelImage | str:
    """The image, or the reason for a failure."""
    try:
        return _compiled(source, machine)
    except Exception as error:  # any error of Triton, LLVM or the assembler
        return f"{type(error).__name__}: {error}"[:2000]


def _compiled(source: Source, machine: Machine) -> KernelImage:
    os.environ.setdefault("TRITON_CACHE_DIR", str(_folder()))
    os.environ.setdefault("TRITON_DISABLE_LINE_INFO", "1")  # the text is in no file; half of the bytes
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
    options = {"num_warps": source.warps, "num_stages": source.stages}
    if source.registers:
        options["maxnreg"] = source.registers
    make = GluonASTSource if function.is_gluon() else ASTSource
    made = triton.compile(make(function, signature, constants, attributes), target=target, options=options)
    facts = made.metadata
    if (wanted := getattr(facts, "global_scratch_size", 0)) > source.scratch:
        raise CompileError(f"the kernel needs {wanted} bytes of scratch memory instead of {source.scratch}")
    return KernelImage(facts.name, made.asm[machine.code], facts.shared, facts.num_warps * machine.warp)


def _function(source: Source) -> Any:
    name = f"<{source.name} {_digest(source)}>"
    linecache.cache[name] = (
        len(source.text),
        None,
        source.text.splitlines(keepends=True),
        name,
    )  # Triton reads source files
    names: dict[str, Any] = {"__name__": name}
    exec(compile(source.text, name, "exec"), names)
    return names[source.name]


@functools.lru_cache(maxsize=1024)
def module(name: str, text: str) -> str:
    """A kernel's text as a module."""
    return with_library([text], f"{name}, and what it calls.")


# ---- processes ---------------------------------------------------------------------------------------------------------


def _in_processes(sources: Sequence[Source], machine: Machine, workers: int) -> list[KernelImage | str]:
    """Compiles in worker processes, each for every n-th kernel. Workers run this module, not the main program."""
    command = [sys.executable, "-m", "burn.codegen.triton.images"]
    running = []
    try:
        for worker in range(workers):
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            running.append(process)
            assert process.stdin is not None
            process.stdin.write(pickle.dumps((sources[worker::workers], machine, sys.path)))
            process.stdin.close()
        made: list[KernelImage | str] = [""] * len(sources)
        for worker, process in enumerate(running):
            assert process.stdout is not None
            answer = process.stdout.read()
            if process.wait() != 0:
                raise CompileError(f"a process that compiles kernels ended with status {process.returncode}")
            made[worker::workers] = pickle.loads(answer)
        return made
    finally:
        for process in running:
            process.kill()
            process.wait()


def main() -> None:
    """Runs a worker: reads sources from standard input, writes images to standard output."""
    output = os.dup(1)
    os.dup2(2, 1)  # for anything that prints
    sources, machine, path = pickle.load(sys.stdin.buffer)
    sys.path[:] = path
    with os.fdopen(output, "wb") as file:
        pickle.dump([_tried(source, machine) for source in sources], file)


if __name__ == "__main__":
    main()
