"""From MLIR text to an object file: the lowering pipeline and LLVM at -O3."""

from __future__ import annotations

import ctypes
import os
import tempfile

from burn.dialect.mlir import ExecutionEngine, PassManager, context, ir
from burn.errors import CompileError

PIPELINE = (
    "builtin.module(canonicalize,cse,convert-scf-to-cf,convert-vector-to-llvm,convert-math-to-llvm,arith-expand,"
    "convert-arith-to-llvm,convert-cf-to-llvm,reconcile-unrealized-casts)"
)

EXTERNALS: dict[str, tuple[tuple[str, ...], str]] = {
    "burn_rt_input": (("ptr", "i64"), "ptr"),
    "burn_rt_input_dim": (("ptr", "i64", "i64"), "i64"),
    "burn_rt_constant": (("ptr", "i64"), "ptr"),
    "burn_rt_output": (("ptr", "i64", "i64", "ptr", "i64"), "ptr"),
    "burn_rt_plan": (("ptr", "ptr", "i64", "ptr"), "ptr"),
    "burn_rt_alloc": (("ptr", "i64"), "ptr"),
    "burn_rt_free": (("ptr", "ptr"), ""),
    "burn_rt_grow": (("ptr", "ptr", "i64"), "ptr"),
    "burn_rt_mark": (("ptr",), "i64"),
    "burn_rt_release": (("ptr", "i64"), ""),
    "burn_rt_scratch": (("ptr", "i64"), "ptr"),
    "burn_rt_launch": (("ptr", "i64", "ptr", "ptr", "i64", "i64"), ""),
    "burn_rt_enter": (("ptr", "i64"), ""),
    "burn_rt_leave": (("ptr", "i64"), ""),
    "burn_rt_fail": (("ptr", "i64", "i64", "i64"), ""),
    "burn_rt_kernel_fail": (("ptr", "i64", "i64", "i64"), ""),
    "burn_rt_status": (("ptr",), "i32"),
    "burn_lib_sort": (("ptr", "i64", "i64", "i64", "i64", "i64", "ptr", "ptr", "ptr"), ""),
    "burn_lib_nonzero": (("ptr", "i64", "i64", "ptr", "ptr", "ptr"), "i64"),
    "burn_lib_unique": (("ptr", *["i64"] * 5, *["ptr"] * 5), "i64"),
    "burn_lib_non_max_suppression": (("ptr", *["i64"] * 4, *["ptr"] * 6), "i64"),
    "memcpy": (("ptr", "ptr", "i64"), "ptr"),
}
"""The functions generated code may call (burn_rt.h, lib.h), with their LLVM types."""

HALF = ("__extendhfsf2", "__truncsfhf2", "__truncdfhf2", "__truncsfbf2", "__truncdfbf2")
LIBC = ("memset", "memmove", "fmod", "fmodf", *HALF)
"""What LLVM itself may call (symbols.c): conversions of halves only where the CPU has no instruction for them."""


def declarations() -> str:
    def type_(name: str) -> str:
        return "!llvm.ptr" if name == "ptr" else name

    return "\n".join(
        f"llvm.func @{name}({', '.join(map(type_, arguments))}){' -> ' + type_(result) if result else ''}"
        for name, (arguments, result) in EXTERNALS.items()
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
        for name in (*EXTERNALS, *LIBC):
            engine.raw_register_runtime(name, address)
        handle, path = tempfile.mkstemp(suffix=".o")
        os.close(handle)
        try:
            engine.dump_to_object_file(path)
            with open(path, "rb") as file:
                code = file.read()
        finally:
            os.unlink(path)
    if not code:
        raise CompileError("LLVM produced no object code", ["a symbol that the runtime does not provide is called"])
    return code
