"""The one door to the MLIR bindings, so that their provider can be swapped.

Everything of MLIR that burn uses is imported from here. `context()` is the process's context with the burn dialect loaded.
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

# The bindings look for a Python module of an op's dialect each time they meet one, and a failed import is slow.
sys.modules.setdefault(f"{ir.__package__}.dialects.burn", ModuleType("burn"))

_context: ir.Context | None = None
_loading: ir.Context | None = None  # seen by the thread that loads the dialect alone
_lock = threading.RLock()


def context() -> ir.Context:
    """The context all of burn's IR lives in; the dialect is loaded on the first call, whichever thread makes it."""
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
    """A module of the `llvm` dialect as LLVM prints it."""
    from torch_mlir.dialects import llvm  # some thousand lines of Python, for those who need them

    return llvm.translate_module_to_llvmir(module.operation)
