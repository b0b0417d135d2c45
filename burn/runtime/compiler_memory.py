"""Resident memory of a process that compiles: pages of the compiler's libraries, and memory that is free but held.

Importing MLIR and LLVM maps about 40 MB of their code and tables, most of it read once, and a compilation uses about 25 MB.
Releasing pages takes 1 ms. The system keeps them in its cache of files, from which the next access maps them again.
"""

from __future__ import annotations

from burn.runtime import _native

LIBRARY = "libTorchMLIRAggregateCAPI"
"""Name of the library that holds MLIR and LLVM."""

READ_ONCE = (
    LIBRARY, "libMLIRPythonSupport", "libpython", "_multiarray_umath", "libscipy_openblas", "libgfortran", "onnx_cpp2py_export",
    "_ml_dtypes_ext", "_cbor2", "libcrypto", "libstdc++",
)  # fmt: skip
"""Names of libraries whose pages importing and reading a model map, and compiling hardly needs."""


def limit_code() -> None:
    """Releases pages that importing MLIR and LLVM has mapped. Later ones are mapped one by one: 16 at once, if the system cannot
    do that, take 20 to 25 MB more."""
    _native.release_library(LIBRARY)
    _native.separate_library_pages(LIBRARY)


def release_memory() -> None:
    """Returns free memory and the resident pages of `READ_ONCE` to the system."""
    _native.trim_memory()
    for name in READ_ONCE:
        _native.release_library(name)
