"""burn: a graph compiler and model importer on MLIR.

    model = burn.load("model.onnx")       # compiled for this machine, kept in a cache on disk
    y = model(x)                          # numpy in, numpy out

`load` and `compile` give executables; `Tensor`, `ops` and `nn` are what models are written in. Everything is imported
when it is first asked for, so that a program that runs a cached model pays for the runtime alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from burn import nn, ops
    from burn.control import cond, loop, read_dim
    from burn.errors import BurnError, CompileError, InputError, ModelError, RunError, TypeMismatch
    from burn.exporting import export
    from burn.lazy import explain
    from burn.loading import compile_count, load, set_num_threads
    from burn.runtime import Executable
    from burn.signature import spec
    from burn.tensor import Dim, Tensor, constant, from_numpy
    from burn.compiled import compile, jit

__all__ = [
    # from a file to something that runs
    "load", "Executable", "set_num_threads", "compile_count",
    # models in Python
    "Tensor", "constant", "from_numpy", "explain", "Dim", "spec", "ops", "nn", "cond", "loop", "read_dim", "compile", "jit",
    # out again
    "export",
    # what can go wrong
    "BurnError", "ModelError", "TypeMismatch", "CompileError", "InputError", "RunError",
]  # fmt: skip

_HOMES = {
    "burn.loading": ("load", "set_num_threads", "compile_count"),
    "burn.runtime": ("Executable",),
    "burn.tensor": ("Tensor", "constant", "from_numpy", "Dim"),
    "burn.lazy": ("explain",),
    "burn.control": ("cond", "loop", "read_dim"),
    "burn.signature": ("spec",),
    "burn.compiled": ("compile", "jit"),
    "burn.exporting": ("export",),
    "burn.errors": ("BurnError", "ModelError", "TypeMismatch", "CompileError", "InputError", "RunError"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}
_MODULES = ("nn", "ops")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"burn.{name}")
    if name == "__version__":
        return import_module("burn.runtime._native").__version__
    if name not in _HOME:
        raise AttributeError(f"module 'burn' has no attribute '{name}'")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
