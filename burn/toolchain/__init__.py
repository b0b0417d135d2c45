"""The C compiler that binaries are made with: the one interface to it.

    chain = toolchain.find(platforms.find("x86_64-linux"))
    objects = chain.compile([Path("a.c"), Path("b.c")], folder, flags=("-DNAME=1",))
    chain.program(objects, Path("model"))
    chain.shared(objects, Path("libmodel.so"), exports=("model_run",))
    chain.archive(objects, Path("libmodel.a"))

A target is a `Platform`, a row of the table in platforms.py: its triple, its flags beyond `_COMPILING` and
`_LINKING` here, and its file names. This module is independent of the platform: a new platform is a new row.

The compiler is the one in the environment's CC. Otherwise it is ziglang's clang, which has linkers and C libraries for every
platform (the package of that name on PyPI, the extra `deploy`). If that is missing, it is the system's cc, clang or gcc. All
except ziglang's compile for this machine alone.

Builds are reproducible: outputs contain no times, paths or user names.
"""

from __future__ import annotations

import functools
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from burn.errors import CompileError, Problem
from burn.toolchain import platforms
from burn.toolchain.platforms import Platform
from burn.variables import variable

_COMPILING = (
    "-std=c11",
    "-O2",
    "-g0",
    "-fPIC",
    "-fno-math-errno",
    "-fvisibility=hidden",
    "-ffunction-sections",  # lets the linker drop unused functions
    "-fdata-sections",
)
_LINKING = ("-O2", "-g0", "-Wl,--gc-sections", "-Wl,--build-id=none", "-s")
_SYSTEM = ("cc", "clang", "gcc")
_EXTRA = "pip install 'burn-mlir[deploy]' brings one, or name one in the environment's CC"
_MOST_LINES = 20  # of a compiler's messages
_ERROR = re.compile(r"error|undefined", re.IGNORECASE)


@dataclass(frozen=True)
class Toolchain:
    """A C compiler for one platform. Every method raises CompileError with the compiler's messages."""

    platform: Platform
    compiler: tuple[str, ...]  # the command
    archiver: tuple[str, ...]
    takes_triple: bool  # ziglang's: it compiles for any platform

    @property
    def identity(self) -> str:
        """The compiler's version and the platform, on which its output depends besides its input."""
        return f"{_version(self.compiler)}\n{self.platform!r}"

    @property
    def smallest(self) -> tuple[str, ...]:
        """Flags for small code."""
        return (
            ("-Oz", "-fomit-frame-pointer", "-fno-vectorize", "-fno-slp-vectorize") if self.takes_triple else ("-Os",)
        )

    def compile(self, sources: Sequence[Path], folder: Path, flags: Sequence[str] = ()) -> list[Path]:
        """Objects of C files or of LLVM's text (.ll), in a folder, in the same order; no two of the same name. Each CPU
        compiles a file at a time."""
        objects = [folder / f"{source.stem}.o" for source in sources]
        if len(set(objects)) != len(objects):
            raise ValueError(f"two of these files have one name: {[source.name for source in sources]}")

        def compile_one(source: Path, target: Path) -> None:
            standard = _COMPILING if source.suffix == ".c" else _COMPILING[1:]
            arguments = (*standard, *self.platform.compiling, *flags, f"-I{source.parent}")
            self._run([*self._command, *arguments, f"-ffile-prefix-map={source.parent}=.", "-c", source, "-o", target])

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(compile_one, sources, objects))  # raises the error of the first
        return objects

    def assembly(self, source: Path, output: Path) -> None:
        """The assembly of LLVM's text, as `compile` would assemble it."""
        self._run([*self._command, *_COMPILING[1:], *self.platform.compiling, "-S", source, "-o", output])

    def program(self, objects: Sequence[Path], output: Path, flags: Sequence[str] = ()) -> None:
        """Links an executable."""
        if self.platform.program is None:
            raise CompileError(f"there are no executables on {self.platform.name}")
        self._link(objects, output, flags)

    def shared(self, objects: Sequence[Path], output: Path, exports: Sequence[str], flags: Sequence[str] = ()) -> None:
        """Links a shared library that shows the functions `exports` and no others."""
        if self.platform.shared is None:
            raise CompileError(f"there are no shared libraries on {self.platform.name}")
        if not self.platform.exports:
            self._link(objects, output, ("-shared", *flags))
            return
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder) / "exports.map"
            script.write_text("{ global: " + "".join(f"{name}; " for name in exports) + "local: *; };\n")
            own = ("-shared", f"-Wl,-soname,{output.name}", f"-Wl,--version-script={script}")
            self._link(objects, output, (*own, *flags))

    def module(self, objects: Sequence[Path], output: Path) -> None:
        """Links a module of WebAssembly, which offers what its functions' attributes say."""
        self._link(objects, output, ())

    def image(self, objects: Sequence[Path], output: Path, entry: str) -> None:
        """Links what a function needs, and nothing that runs it: to be looked at."""
        self._link(objects, output, (f"-Wl,-e,{entry}",))

    def helpers(self, folder: Path) -> list[Path]:
        """Functions that compilers call implicitly, such as memcpy and divisions without a CPU instruction, for targets without
        a C library. Empty if the linking compiler provides them."""
        if not self.takes_triple:
            return []
        empty, library = folder / "empty.c", folder / "libhelpers.a"
        empty.write_text("")
        cpu = [flag for flag in self.platform.compiling if flag.startswith("-mcpu")]
        arguments = ["-target", self.platform.triple, *cpu, "-static", "-OReleaseSmall", "-fstrip", "-fcompiler-rt"]
        self._run([*self.compiler[:-1], "build-lib", *arguments, "--name", "helpers", f"-femit-bin={library}", empty])
        self._run([*self.archiver, "x", f"--output={folder}", library, "compiler_rt.o"])
        return [folder / "compiler_rt.o"]

    def archive(self, objects: Sequence[Path], output: Path) -> None:
        """A static library."""
        if self.platform.static is None:
            raise CompileError(f"there are no static libraries on {self.platform.name}")
        output.unlink(missing_ok=True)
        self._run([*self.archiver, "rcsD", output, *objects])

    def _link(self, objects: Sequence[Path], output: Path, flags: Sequence[str]) -> None:
        arguments = (*_LINKING, *self.platform.linking, *flags)
        self._run([*self._command, *objects, *arguments, *self.platform.libraries, "-o", output])

    @property
    def _command(self) -> tuple[str, ...]:
        return (*self.compiler, "-target", self.platform.triple) if self.takes_triple else self.compiler

    def _run(self, command: Sequence[str | Path]) -> None:
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace")
        except OSError as error:
            raise CompileError(f"the C compiler {command[0]} cannot be run", [str(error)]) from None
        if done.returncode:
            lines = done.stderr.splitlines()
            arguments = [line for line in lines if _ERROR.search(line)] or lines or [f"exit status {done.returncode}"]
            raise CompileError(f"the C compiler failed: {Path(command[-1]).name}", arguments[:_MOST_LINES])


def find(platform: Platform) -> Toolchain:
    """The compiler for a platform. Raises CompileError where there is none."""
    here = platforms.host()
    native = here is not None and platform.name == here.name
    if (compiler := variable("CC")) is not None:
        if not native:
            hint = "unset CC: ziglang's compiler, which is taken then, makes code for every platform"
            what = f"CC names a compiler for this machine, not for {platform.name}"
            raise CompileError("there is no C compiler for this target", [Problem(what, hint=hint)])
        return Toolchain(platform, tuple(shlex.split(compiler)), _archiver(), False)
    if (path := zig()) is not None:
        return Toolchain(platform, (path, "cc"), (path, "ar"), True)
    own = next((path for name in _SYSTEM if (path := shutil.which(name))), None)
    if own is None or not native:
        what = f"none of {', '.join(_SYSTEM)} is here" if own is None else f"{own} compiles for this machine alone"
        raise CompileError(f"there is no C compiler for {platform.name}", [Problem(what, hint=_EXTRA)])
    return Toolchain(platform, (own,), _archiver(), False)


def zig() -> str | None:
    """The path of ziglang's executable; None if the package is not installed. `python -m ziglang` costs a start of Python more
    for each file."""
    spec = find_spec("ziglang")
    if spec is None or not spec.submodule_search_locations:
        return None
    return str(Path(spec.submodule_search_locations[0]) / "zig")


def _archiver() -> tuple[str, ...]:
    return tuple(shlex.split(variable("AR") or "ar"))


@functools.cache
def _version(compiler: tuple[str, ...]) -> str:
    try:
        said = subprocess.run([*compiler, "--version"], capture_output=True, text=True, errors="replace")
    except OSError as error:
        raise CompileError(f"the C compiler {compiler[0]} cannot be run", [str(error)]) from None
    return " ".join((*compiler, said.stdout))
