"""Bytes embedded in a binary: weights and GPU kernels."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from burn.deploy.weights import ALIGNMENT
from burn.runtime.artefact import Buffer
from burn.toolchain.platforms import Platform


def embedded(name: str, pieces: Iterable[Buffer], platform: Platform, scratch: Path) -> Path:
    """A C file in a folder that defines the symbol `name`, at which the bytes begin. Their digest is part of it: a compiler that
    keeps what it has made looks at the C file alone."""
    data, source = scratch / f"{name}.bin", scratch / f"{name}.c"
    digest, size = hashlib.sha256(), 0
    with data.open("wb") as file:
        for piece in pieces:
            file.write(piece)
            digest.update(piece)
            size += memoryview(piece).nbytes
    symbol = f"{platform.prefix}{name}"
    is_wasm = platform.architecture == "wasm32"  # whose objects name the size of data
    section = f'.section .rodata.{symbol},"",@' if is_wasm else platform.data
    directives = [
        section.replace('"', '\\"'),
        *([f".type {symbol},@object", f".size {symbol}, {size}"] if is_wasm else []),
        f".balign {ALIGNMENT}",
        *([f".hidden {symbol}"] if platform.exports else []),
        f".globl {symbol}",
        f"{symbol}:",
        f'.incbin \\"{data}\\"',
        *([] if is_wasm else [".text"]),
    ]
    lines = "\n".join(f'        "{line}\\n"' for line in directives)
    source.write_text(f"/* {digest.hexdigest()} */\n__asm__(\n{lines});\n")
    return source
