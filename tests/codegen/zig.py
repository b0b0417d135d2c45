"""Objects of LLVM's text, for tests of it: by ziglang's clang, which is older than the LLVM that wrote the text."""

from __future__ import annotations

import subprocess
from pathlib import Path

from burn.codegen.cpu.target import Target
from burn.runtime.artefact import Buffer
from burn.toolchain import zig

ZIG = {
    "x86_64": ("x86_64-linux-musl",),
    "aarch64": ("aarch64-linux-musl",),
    "riscv64": ("riscv64-linux-musl",),
    "wasm32": ("wasm32-freestanding",),
    "thumbv7em": ("thumb-freestanding-eabihf", "-mcpu=cortex_m4"),
}


def assembled(code: Buffer, target: Target, folder: Path) -> bytes:
    text, made = folder / "code.ll", folder / "code.o"
    text.write_bytes(code)
    told = ["-target", *ZIG[target.architecture], "-O1", "-fPIC", "-Wno-override-module", "-c", str(text)]
    command = [str(zig()), "cc", *told, "-o", str(made)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return made.read_bytes()
