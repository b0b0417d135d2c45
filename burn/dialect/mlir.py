"""The only importer of the MLIR bindings, so that their provider can be exchanged.

burn imports everything of MLIR from here. `context()` is the process's context with the burn dialect loaded.
"""

from __future__ import annotations

import sys
import threading
from types import ModuleType

from torch_mlir import execution_engine, ir, passmanager
from torch_mlir.dialects import ext, func

__all__ = ["ExecutionEngine", "PassManager", "context", "ext", "func", "ir", "llvm_text", "new_context"]

ExecutionEngine = execution_engine.ExecutionEngine
PassManager = passmanager.PassManager

# The bindings look for a Python module of an op's dialect at each op, and a failed import is slow.
sys.modules.setdefault(f"{ir.__package__}.dialects.burn", ModuleType("burn"))

DIALECTS = ("arith", "cf", "func", "irdl", "llvm", "math", "memref", "scf", "tensor", "vector")
"""Dialects of generated code and of the passes that lower it, and the one that defines burn's. MLIR would load its more than 40
dialects, which takes 13 ms, 2.4 MB of heap and 12 MB of code."""

_context: ir.Context | None = None
_loading: ir.Context | None = None  # only the thread that loads the dialect sees it
_lock = threading.RLock()


def context() -> ir.Context:
    """The context of all of burn's IR. The first call, on any thread, loads the dialect."""
    global _context, _loading
    if _context is not None:
        return _context
    with _lock:
        if _loading is None:
            from burn.dialect import load_dialect  # the dialect imports this module

            _loading = made = new_context()
            with made, ir.Location.unknown():
                load_dialect()
            _context = made
        return _loading


def new_context() -> ir.Context:
    """A context without burn's dialect. `DIALECTS` are loaded at once, because loading is not safe while other threads use the
    context; the parser loads others when it meets them."""
    made = ir.Context(load_on_create_dialects=())
    for name in DIALECTS:  # by descriptor: `made.dialects[name]` also imports the Python module of the dialect's ops
        made.get_dialect_descriptor(name)
    return made


def llvm_text(module: ir.Module) -> str:
    """A module of the `llvm` dialect in LLVM's syntax."""
    from torch_mlir.dialects import llvm  # some thousand lines of Python, imported on demand

    return llvm.translate_module_to_llvmir(module.operation)
