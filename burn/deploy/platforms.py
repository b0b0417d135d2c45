"""Where a binary is to run: what a C compiler must be told of it, and how files are called there.

A platform is one row of `PLATFORMS`, by the name that `--target` takes. What is known of its CPU, vector width and
registers, is `codegen/cpu/target.py`'s; here is the rest: the operating system, the C library, the kinds of files.
"""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass

from burn.errors import CompileError, Problem, near


@dataclass(frozen=True)
class Platform:
    """One kind of place.

    triple: as clang calls it, with the oldest C library that will do ("x86_64-linux-gnu.2.28"). compiling, linking: flags
    besides those that every platform takes (toolchain.py). libraries: what programs and shared libraries are linked with;
    those that link against a static library must name them too. program, shared, static: a file's name from a model's, or
    None where there is no such kind of file. has_threads: whether the C library has POSIX's."""

    name: str
    triple: str
    compiling: tuple[str, ...] = ()
    linking: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    program: str | None = "{}"
    shared: str | None = "lib{}.so"
    static: str | None = "lib{}.a"
    has_threads: bool = True


_GLIBC = ("-lpthread", "-lm")
"""Threads lie in a library of their own before glibc 2.34."""

_ALL = (Platform("x86_64-linux", "x86_64-linux-gnu.2.28", ("-D_GNU_SOURCE",), ("-Wl,-z,relro,-z,now",), _GLIBC),)

PLATFORMS: dict[str, Platform] = {p.name: p for p in _ALL}

HOST = "host"


def host() -> Platform | None:
    """This machine's platform; None where it has no row."""
    machine = {"AMD64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())
    return PLATFORMS.get(f"{machine}-{sys.platform}")


def find(name: str = HOST) -> Platform:
    """The platform of a name, "host" for this machine's. Raises CompileError."""
    found = host() if name == HOST else PLATFORMS.get(name)
    if found is None:
        what = f"{platform.machine()}-{sys.platform} (this machine)" if name == HOST else f"'{name}'"
        hint = near(name, PLATFORMS) if name != HOST else f"there are {', '.join(PLATFORMS)}"
        raise CompileError("there is no such target", [Problem(f"binaries are not made for {what}", hint=hint)])
    return found
