"""Compiles lane-wise functions to kernels over numpy arrays, for the tests of the CPU code generator's arithmetic."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from burn.codegen.cpu.convert import element_type
from burn.codegen.host.emit import PTR, Function, Value, vector
from burn.dialect.mlir import ExecutionEngine, PassManager, ir
from burn.dialect.types import numpy_dtype

_PIPELINE = (
    "builtin.module(canonicalize,cse,convert-scf-to-cf,convert-vector-to-llvm,convert-math-to-llvm,arith-expand,"
    "convert-arith-to-llvm,convert-ub-to-llvm,convert-cf-to-llvm,reconcile-unrealized-casts)"
)
_WIDE = 'passthrough = [["prefer-vector-width","512"]]'


@dataclass(frozen=True)
class Lanewise:
    """A function to compile: `emit` writes the body for operands of these burn dtypes, `lanes` at a time."""

    emit: Callable[..., Value]  # (code, *values) -> value
    operands: Sequence[str]
    result: str
    lanes: int = 16


def text_of(name: str, kernel: Lanewise) -> str:
    """One `llvm.func name(count, operands..., result)`; count is a multiple of the lanes."""
    arguments = [("count", "i64"), *((f"in{i}", PTR) for i in range(len(kernel.operands))), ("out", PTR)]
    code = Function(name, arguments, attributes=_WIDE)
    count, *operands, out = code.arguments
    with code.for_(0, count, kernel.lanes) as loop:
        values = [
            code.load(pointer, loop.iv, vector(kernel.lanes, element_type(dtype)))
            for pointer, dtype in zip(operands, kernel.operands, strict=True)
        ]
        code.store(kernel.emit(code, *values), out, loop.iv)
    code.return_()
    return code.text()


class Compiled:
    """Kernels by name, called with numpy arrays of one size."""

    def __init__(self, kernels: Mapping[str, Lanewise], dump: str = "") -> None:
        self.kernels = dict(kernels)
        text = "\n".join(text_of(name, kernel) for name, kernel in kernels.items())
        with ir.Context(), ir.Location.unknown():
            module = ir.Module.parse(text)
            PassManager.parse(_PIPELINE).run(module.operation)
            self._engine = ExecutionEngine(module, opt_level=3, enable_object_dump=bool(dump))
        if dump:
            self._engine.dump_to_object_file(dump)

    def entry(self, name: str) -> Callable[[ctypes.Array[Any]], None]:
        """The kernel, to be called with an array of pointers to its arguments."""
        return ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self._engine.raw_lookup(name))

    def __call__(self, name: str, *arrays: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        kernel = self.kernels[name]
        size = arrays[0].size
        padded = -(-size // kernel.lanes) * kernel.lanes
        operands = []
        for array, dtype in zip(arrays, kernel.operands, strict=True):
            assert array.dtype == numpy_dtype(dtype), (array.dtype, dtype)
            operand = np.zeros(padded, array.dtype)
            operand[:size] = array.ravel()
            operands.append(operand)
        out = np.zeros(padded, numpy_dtype(kernel.result))
        words = [ctypes.c_int64(padded), *(ctypes.c_void_p(a.ctypes.data) for a in (*operands, out))]
        packed = (ctypes.c_void_p * len(words))(*(ctypes.addressof(w) for w in words))
        self.entry(name)(packed)
        return out[:size].reshape(arrays[0].shape)
