"""From MLIR text to an object file: the lowering pipeline and LLVM at -O3, or without IR passes where compile time matters
more. For other machines, to LLVM's text."""

from __future__ import annotations

import ctypes
import os
import re
import threading
from collections.abc import Collection, Sequence

from burn.codegen.host.compilation_cache import Recent, digest
from burn.codegen.host.downgrade import older
from burn.dialect.mlir import ExecutionEngine, PassManager, context, ir, llvm_text, new_context
from burn.errors import CompileError
from burn.runtime.abi import FUNCTIONS
from burn.runtime.compiler_memory import release_memory
from burn.variables import variable

PIPELINE = (
    "builtin.module(cse,convert-scf-to-cf,convert-vector-to-llvm,convert-math-to-llvm,arith-expand,"
    "convert-arith-to-llvm,convert-cf-to-llvm,reconcile-unrealized-casts)"
)
ENTRY = "burn_entry"

HALF = ("__extendhfsf2", "__truncsfhf2", "__truncdfhf2", "__truncsfbf2", "__truncdfbf2")
LIBC = ("memset", "memcpy", "memmove", "fmod", "fmodf", *HALF)
"""Functions that LLVM itself may call (symbols.c): half-precision conversions if the CPU has no instruction for them.
"""

KEPT = 16 << 20
"""Bytes of objects that stay in memory: those of thousands of small programs, or of tens of networks."""

LARGE = 1 << 18
"""Characters of text from which the compiler's memory is released between stages. Compiling this much takes about half a
second, and a release 10 ms."""

_CALLED = re.compile(r"@(burn_\w+)\(")
_CUSTOM = re.compile(r"llvm\.func @(burn_custom_\w+)\(")
_own = threading.local()
_recent = Recent(KEPT)


def declarations(called: Collection[str]) -> str:
    """Declarations of only those runtime functions that are called, because each declaration costs every pass time."""

    def type_(name: str) -> str:
        return "!llvm.ptr" if name == "ptr" else name

    return "\n".join(
        f"llvm.func @{name}({', '.join(map(type_, f.arguments))}){' -> ' + type_(f.result) if f.result else ''}"
        for name, f in FUNCTIONS.items()
        if name in called
    )


def lowering() -> PassManager:
    """The passes, created once per thread, which takes as long as running them on a small program. The parser verifies
    their input, so they do not verify again."""
    if not hasattr(_own, "lowering"):
        _own.lowering = _passes()
    return _own.lowering


def _passes() -> PassManager:
    """The passes, in the current context."""
    passes = PassManager.parse(PIPELINE)
    passes.enable_verifier(False)
    return passes


def compile_object(functions: list[str], optimized: bool = True, entry: str = ENTRY) -> bytes:
    """The relocatable object that defines the given `llvm.func`s, cached for recent texts.

    entry: a function that other code calls. optimized: with LLVM's IR passes, which take about half of LLVM's time.
    Programs do without them where a run takes so little time that compile time matters more, or where the user says so.
    Code generation is that of -O2 either way. No instruction has a fast-math flag, so the results have the same bits.

    Raises CompileError, with the failing text, if MLIR or LLVM refuses: that is a bug of the code generator.
    """
    level = 3 if optimized else 0
    dump(functions)
    return _recent.get(digest([f"// -O{level}", *functions]), lambda: _compiled(functions, level, entry))


def compile_text(functions: list[str]) -> bytes:
    """The same functions as LLVM's text, not yet optimised, for a compiler of other machines' code (downgrade.py)."""
    dump(functions)
    with context():
        module = _lowered(functions)
        return older(llvm_text(module)).encode()


def module_text(functions: Sequence[str]) -> str:
    """A module of upstream MLIR dialects with these functions, and declarations of the functions that they call."""
    called = {name for function in functions for name in _CALLED.findall(function)}
    return "\n".join(["module {", declarations(called), *functions, "}"])


def dump(functions: Sequence[str]) -> None:
    """Writes the module's text to the file that BURN_DUMP_MLIR names."""
    if path := variable("BURN_DUMP_MLIR"):
        with open(path, "w") as file:
            file.write(module_text(functions))


def _lowered(functions: Sequence[str], passes: PassManager | None = None) -> ir.Module:
    try:
        module = ir.Module.parse(module_text(functions))  # the text, often of megabytes, is free before passes run
        (passes or lowering()).run(module.operation)
    except ir.MLIRError as error:
        raise CompileError("the code generator produced invalid code", [str(error)[:2000]]) from error
    return module


def _engine(functions: Sequence[str], level: int) -> ExecutionEngine:
    """An engine with the functions as LLVM IR. A context keeps each attribute and location that was parsed in it, so a large
    module has its own, which is freed here."""
    if not _is_large(functions):
        with context():
            return ExecutionEngine(_lowered(functions), opt_level=level, enable_object_dump=True)
    with new_context():
        module = _lowered(functions, _passes())
        release_memory()
        return ExecutionEngine(module, opt_level=level, enable_object_dump=True)


def _is_large(functions: Sequence[str]) -> bool:
    return sum(map(len, functions)) >= LARGE


def _compiled(functions: Sequence[str], level: int, entry: str = ENTRY) -> bytes:
    is_large = _is_large(functions)
    if is_large:
        release_memory()
    engine = _engine(functions, level)
    if is_large:
        release_memory()
    address = ctypes.cast(ctypes.CFUNCTYPE(None)(lambda: None), ctypes.c_void_p)  # the loader resolves it again
    customs = dict.fromkeys(name for function in functions for name in _CUSTOM.findall(function))
    for name in (*FUNCTIONS, *LIBC, *customs):
        engine.raw_register_runtime(name, address)
    engine.raw_lookup(entry)  # generates the code; kernels have no symbols that the engine could ask for by itself
    with os.fdopen(os.memfd_create("object"), "rb") as file:  # a file in memory alone
        engine.dump_to_object_file(f"/proc/self/fd/{file.fileno()}")
        code = file.read()
    if not code:
        raise CompileError("LLVM produced no object code", ["a symbol that the runtime does not provide is called"])
    return code
