"""Resident memory of a process that compiles: pages of the compiler's libraries, and memory that is free but held.

A first compilation maps about 100 MB of MLIR's and LLVM's code, most of it read once. Releasing it takes 1 ms. The system keeps
it in its cache of files, from which the next access maps it again.
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


def release_memory() -> None:
    """Returns free memory and the resident pages of `READ_ONCE` to the system."""
    _native.trim_memory()
    for name in READ_ONCE:
        _native.release_library(name)
