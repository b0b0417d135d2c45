"""From MLIR text to an object file: the lowering pipeline and LLVM at -O3."""

from __future__ import annotations

import ctypes
import os

from burn.dialect.mlir import ExecutionEngine, PassManager, context, ir
from burn.errors import CompileError
from burn.runtime.abi import FUNCTIONS

PIPELINE = (
    "builtin.module(canonicalize,cse,convert-scf-to-cf,convert-vector-to-llvm,convert-math-to-llvm,arith-expand,"
    "convert-arith-to-llvm,convert-cf-to-llvm,reconcile-unrealized-casts)"
)

HALF = ("__extendhfsf2", "__truncsfhf2", "__truncdfhf2", "__truncsfbf2", "__truncdfbf2")
LIBC = ("memset", "memcpy", "memmove", "fmod", "fmodf", *HALF)
"""What LLVM itself may call (symbols.c): conversions of halves only where the CPU has no instruction for them."""


def declarations() -> str:
    def type_(name: str) -> str:
        return "!llvm.ptr" if name == "ptr" else name

    return "\n".join(
        f"llvm.func @{name}({', '.join(map(type_, f.arguments))}){' -> ' + type_(f.result) if f.result else ''}"
        for name, f in FUNCTIONS.items()
    )


def compile_object(functions: list[str]) -> bytes:
    """The relocatable object that defines the given `llvm.func`s.

    Raises CompileError, with the text of what failed, when MLIR or LLVM refuses: that is a bug of the code generator."""
    text = "\n".join(["module {", declarations(), *functions, "}"])
    if path := os.environ.get("BURN_DUMP_MLIR"):
        with open(path, "w") as file:
            file.write(text)
    with context():
        try:
            module = ir.Module.parse(text)
            PassManager.parse(PIPELINE).run(module.operation)
        except ir.MLIRError as error:
            raise CompileError("the code generator produced invalid code", [str(error)[:2000]]) from error
        engine = ExecutionEngine(module, opt_level=3, enable_object_dump=True)
        address = ctypes.cast(ctypes.CFUNCTYPE(None)(lambda: None), ctypes.c_void_p)  # resolved anew by the loader
        for name in (*FUNCTIONS, *LIBC):
            engine.raw_register_runtime(name, address)
        with os.fdopen(os.memfd_create("object"), "rb") as file:  # a file in memory alone
            engine.dump_to_object_file(f"/proc/self/fd/{file.fileno()}")
            code = file.read()
    if not code:
        raise CompileError("LLVM produced no object code", ["a symbol that the runtime does not provide is called"])
    return code
