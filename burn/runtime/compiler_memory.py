"""Resident memory of a process that compiles: pages of the compiler's libraries, and memory that is free but held.

A first compilation maps about 100 MB of MLIR's and LLVM's code, most of it read once. Releasing it takes 1 ms. The system keeps
it in its cache of files, from which the next access maps it again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from burn.runtime import _native

LIBRARY = "libTorchMLIRAggregateCAPI"
"""Name of the library that holds MLIR and LLVM."""

READ_ONCE = (
    LIBRARY, "libMLIRPythonSupport", "libpython", "_multiarray_umath", "libscipy_openblas", "libgfortran", "onnx_cpp2py_export",
    "_ml_dtypes_ext", "_cbor2", "libcrypto", "libstdc++",
)  # fmt: skip
"""Names of libraries whose pages importing and reading a model map, and compiling hardly needs."""

ROOM = 16 << 20
"""Bytes of files that may become resident between two releases during a compilation. Releases take 10 to 15 % of the CPU time of
a compilation, because code in use is mapped again. The peak of a small model is 103 MB instead of 119 MB, and DenseNet's 126 MB
instead of 132 MB."""

OTHERS = 8
"""Bytes of other resident memory for each byte of room: releases in a large process would take longer than they are worth."""


@contextmanager
def bounded() -> Iterator[None]:
    """Bounds the resident pages of `LIBRARY` while the block runs. Blocks may be nested and run on several threads."""
    _native.begin_library_bound(LIBRARY, ROOM, OTHERS)
    try:
        yield
    finally:
        _native.end_library_bound()


def release_memory() -> None:
    """Returns free memory and the resident pages of `READ_ONCE` to the system."""
    _native.trim_memory()
    for name in READ_ONCE:
        _native.release_library(name)
