"""The only importer of the MLIR bindings, so that their provider can be exchanged.

burn imports everything of MLIR from here. `context()` is the process's context with the burn dialect loaded.
"""

from __future__ import annotations

import sys
import threading
from types import ModuleType

from torch_mlir import execution_engine, ir, passmanager
from torch_mlir.dialects import ext, func

__all__ = ["ExecutionEngine", "PassManager", "context", "ext", "func", "ir", "llvm_text"]

ExecutionEngine = execution_engine.ExecutionEngine
PassManager = passmanager.PassManager

# The bindings look for a Python module of an op's dialect at each op, and a failed import is slow.
sys.modules.setdefault(f"{ir.__package__}.dialects.burn", ModuleType("burn"))

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

            _loading = made = ir.Context()
            with made, ir.Location.unknown():
                load_dialect()
            _context = made
        return _loading


def llvm_text(module: ir.Module) -> str:
    """A module of the `llvm` dialect in LLVM's syntax."""
    from torch_mlir.dialects import llvm  # some thousand lines of Python, imported on demand

    return llvm.translate_module_to_llvmir(module.operation)
