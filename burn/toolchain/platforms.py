"""Platforms of binaries: compiler flags and file names.

A platform is one row of `PLATFORMS`, by its name in `--target`. `codegen/cpu/target.py` describes CPUs (vector width and
registers); this module the operating system, the C library, and the kinds of files. `gpus.py` has
GPUs.
"""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass, replace

from burn.errors import CompileError, Problem, near


@dataclass(frozen=True)
class Platform:
    """A platform.

    - `triple`: clang's triple, with the oldest supported C library ("x86_64-linux-gnu.2.28").
    - `compiling`, `linking`: flags besides the common ones (`burn.toolchain`).
    - `libraries`: for linking programs and shared libraries, and for users of a static library.
    - `program`, `shared`, `static`: a file's name from a model's, or None if there is no such kind of file.
    - `cpu`: the default CPU by the code generator's name; "" for this machine's.
    - `data`: the assembler's directive for a section of constants. `prefix`: the assembler's prefix of C names.
    - `exports`: the linker needs a list of a shared library's functions, as for ELF.
    - `is_bare`: there is no operating system and no C library.
    - `opening`: further libraries to open a GPU driver at run time; None if GPU programs are not supported."""

    name: str
    triple: str
    compiling: tuple[str, ...] = ()
    linking: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    program: str | None = "{}"
    shared: str | None = "lib{}.so"
    static: str | None = "lib{}.a"
    cpu: str = ""
    data: str = '.section .rodata.burn_weights,"a",%progbits'
    prefix: str = ""
    exports: bool = True
    is_bare: bool = False
    opening: tuple[str, ...] | None = None

    def with_gpus(self) -> Platform:
        """The platform for programs with GPU code. Raises CompileError."""
        if self.opening is None:
            can = ", ".join(name for name, known in PLATFORMS.items() if known.opening is not None)
            raise CompileError(f"programs for {self.name} do not load a GPU driver", [f"those for {can} do"])
        return replace(self, libraries=(*self.libraries, *self.opening))

    @property
    def architecture(self) -> str:
        """As LLVM calls it."""
        return self.name.split("-")[0]


_GLIBC = ("-lpthread", "-lm")
"""Before glibc 2.34, threads and dlopen are in separate libraries."""


_NO_TABLES = ("-fno-unwind-tables", "-fno-asynchronous-unwind-tables")
"""Of how to unwind the stack, a tenth of a small program: no exception comes through its code."""


def _linux(
    name: str, triple: str, cpu: str, libraries: tuple[str, ...] = (), opening: tuple[str, ...] | None = None
) -> Platform:
    linking = ("-Wl,-z,relro,-z,now",)
    return Platform(name, triple, ("-D_GNU_SOURCE", *_NO_TABLES), linking, libraries, cpu=cpu, opening=opening)


PAGE = 64 << 10
SHARED_PAGES, MOST_SHARED_PAGES = 512, 32768
"""Initial and maximum size of shared memory, in WebAssembly pages. JavaScript creates the memory."""

_SHARED_MEMORY = (
    "-Wl,--shared-memory",
    "-Wl,--import-memory",
    f"-Wl,--initial-memory={SHARED_PAGES * PAGE}",
    f"-Wl,--max-memory={MOST_SHARED_PAGES * PAGE}",
)
_OF_A_THREAD = tuple(f"-Wl,--export=__{name}" for name in ("stack_pointer", "wasm_init_tls", "tls_size"))
"""Exports for thread-local data."""


def _wasm(name: str, features: str = "", linking: tuple[str, ...] = ()) -> Platform:
    cpu = f"-mcpu=generic+simd128{features}"
    own = ("-mexec-model=reactor", cpu, "-Wl,--fatal-warnings", *linking)
    told = ("-D_GNU_SOURCE", cpu)
    return Platform(name, "wasm32-wasi", told, own, program=None, shared=None, static=None, cpu="simd128")


_ALL = (
    _linux("x86_64-linux", "x86_64-linux-gnu.2.28", "avx2", _GLIBC, ("-ldl",)),
    _linux("x86_64-linux-musl", "x86_64-linux-musl", "avx2"),
    _linux("aarch64-linux", "aarch64-linux-gnu.2.28", "neon", _GLIBC, ("-ldl",)),
    _linux("aarch64-linux-musl", "aarch64-linux-musl", "neon"),
    _linux("riscv64-linux", "riscv64-linux-gnu.2.28", "rv64gc", _GLIBC),
    _linux("riscv64-linux-musl", "riscv64-linux-musl", "rv64gc"),
    Platform(
        "aarch64-macos",
        "aarch64-macos.13.0",
        shared="lib{}.dylib",
        cpu="apple-m1",
        data=".section __TEXT,__const",
        prefix="_",
        exports=False,
    ),
    Platform(
        "x86_64-windows",
        "x86_64-windows-gnu",
        program="{}.exe",
        shared="{}.dll",
        cpu="avx2",
        data='.section .rdata,"dr"',
        exports=False,
    ),
    _wasm("wasm32"),
    _wasm("wasm32-threads", "+atomics+bulk_memory", (*_SHARED_MEMORY, *_OF_A_THREAD)),
    Platform(
        "thumbv7em-none-eabihf",
        "thumb-freestanding-eabihf",
        ("-mcpu=cortex_m4", "-fno-pic", "-fno-unwind-tables", "-fno-asynchronous-unwind-tables"),
        ("-mcpu=cortex_m4", "-nostdlib"),
        program=None,
        shared=None,
        cpu="cortex-m4",
        is_bare=True,
    ),
)

PLATFORMS: dict[str, Platform] = {p.name: p for p in _ALL}

HOST = "host"


def host() -> Platform | None:
    """This machine's platform; None where it has no row."""
    machine = {"AMD64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())
    system = {"darwin": "macos", "win32": "windows"}.get(sys.platform, sys.platform)
    return PLATFORMS.get(f"{machine}-{system}")


def find(name: str = HOST) -> Platform:
    """The platform of a name, "host" for this machine's. Raises CompileError."""
    found = host() if name == HOST else PLATFORMS.get(name)
    if found is None:
        what = f"{platform.machine()}-{sys.platform} (this machine)" if name == HOST else f"'{name}'"
        hint = near(name, PLATFORMS) if name != HOST else f"there are {', '.join(PLATFORMS)}"
        raise CompileError("there is no such target", [Problem(f"binaries are not made for {what}", hint=hint)])
    return found
