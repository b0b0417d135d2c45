"""The C runtime is C11 that compiles without a warning wherever programs are made for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.runtime.sanitizers import NATIVE

pytest.importorskip("ziglang")

SYSTEMS = {
    "linux": ("x86_64-linux-musl", "-D_GNU_SOURCE"),
    "macos": ("aarch64-macos",),
    "windows": ("x86_64-windows-gnu",),
    "wasm": ("wasm32-wasi", "-D_GNU_SOURCE"),
    "wasm with threads": ("wasm32-wasi", "-D_GNU_SOURCE", "-matomics", "-mbulk-memory"),
}
HERE_ALONE = {"elf.c", "symbols.c", "communicator_shared.c", "communicator_nccl.c", "run_collective.c"}
"""They load objects into a process that compiles, and connect processes of a mesh."""


@pytest.mark.parametrize("folder", SYSTEMS)
def test_the_runtime_compiles(folder: str, tmp_path: Path) -> None:
    with_gpus = {path.name for pattern in ("device*.c", "driver*.c") for path in NATIVE.glob(pattern)}
    with_gpus |= {"run_device.c", "run_recorded.c", "run_traced.c"}
    files = [str(p) for p in NATIVE.glob("*.c") if p.name not in HERE_ALONE | with_gpus]
    warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wstrict-prototypes", "-Werror"]
    told = ["-target", SYSTEMS[folder][0], "-lc", "--name", "runtime", "-static"]
    flags = ["-cflags", "-std=c11", *SYSTEMS[folder][1:], *warnings, "--"]
    command = [sys.executable, "-m", "ziglang", "build-lib", *told, *flags, *files]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
