"""Tiny compiled programs for the runtime's tests, written in MLIR's LLVM dialect: no part of burn's compiler is
involved."""

from __future__ import annotations

import ctypes
from pathlib import Path
from tempfile import TemporaryDirectory

from torch_mlir import ir
from torch_mlir.execution_engine import ExecutionEngine
from torch_mlir.passmanager import PassManager

from burn.runtime import _native

PIPELINE = (
    "builtin.module(canonicalize,cse,convert-scf-to-cf,convert-vector-to-llvm,convert-arith-to-llvm,"
    "convert-cf-to-llvm,reconcile-unrealized-casts)"
)

DECLARATIONS = """
llvm.func @burn_rt_input(!llvm.ptr, i64) -> !llvm.ptr
llvm.func @burn_rt_input_dim(!llvm.ptr, i64, i64) -> i64
llvm.func @burn_rt_constant(!llvm.ptr, i64) -> !llvm.ptr
llvm.func @burn_rt_output(!llvm.ptr, i64, i64, !llvm.ptr, i64) -> !llvm.ptr
llvm.func @burn_rt_plan(!llvm.ptr, !llvm.ptr, i64, !llvm.ptr) -> !llvm.ptr
llvm.func @burn_rt_alloc(!llvm.ptr, i64) -> !llvm.ptr
llvm.func @burn_rt_free(!llvm.ptr, !llvm.ptr)
llvm.func @burn_rt_scratch(!llvm.ptr, i64) -> !llvm.ptr
llvm.func @burn_rt_launch(!llvm.ptr, i64, !llvm.ptr, !llvm.ptr, i64, i64) -> i32
llvm.func @burn_rt_fail(!llvm.ptr, i64, i64, i64)
llvm.func @burn_rt_kernel_fail(!llvm.ptr, i64, i64, i64)
llvm.func @burn_rt_status(!llvm.ptr) -> i32
"""


def compile_object(text: str, extra_symbols: tuple[str, ...] = ()) -> bytes:
    """The object code of a module; `extra_symbols` are external functions that need not exist."""
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(DECLARATIONS + text)
        PassManager.parse(PIPELINE).run(module.operation)
        engine = ExecutionEngine(module, opt_level=2, enable_object_dump=True)
        for name, address in [*_native.symbols().items(), *((name, 1) for name in extra_symbols)]:
            engine.raw_register_runtime(name, ctypes.c_void_p(address))
        with TemporaryDirectory() as folder:
            path = Path(folder) / "program.o"
            engine.dump_to_object_file(str(path))
            return path.read_bytes()


# y[n] = x[n] * c[0] + 1, element by element; n is the size of the first axis. Kernel 0, one launch with `GRAIN`.
# A negative element fails with BURN_INDEX_OUT_OF_RANGE at site 1, with its index as the value.
SCALE = """
llvm.func @kernel(%worker: !llvm.ptr, %args: !llvm.ptr, %begin: i64, %end: i64) {
  %one = arith.constant 1.0 : f32
  %zero = arith.constant 0.0 : f32
  %step = arith.constant 1 : i64
  %code = arith.constant 2 : i64
  %site = arith.constant 1 : i64
  %x_slot = llvm.getelementptr %args[0] : (!llvm.ptr) -> !llvm.ptr, i64
  %y_slot = llvm.getelementptr %args[1] : (!llvm.ptr) -> !llvm.ptr, i64
  %c_slot = llvm.getelementptr %args[2] : (!llvm.ptr) -> !llvm.ptr, i64
  %x = llvm.load %x_slot : !llvm.ptr -> !llvm.ptr
  %y = llvm.load %y_slot : !llvm.ptr -> !llvm.ptr
  %c_at = llvm.load %c_slot : !llvm.ptr -> !llvm.ptr
  %c = llvm.load %c_at : !llvm.ptr -> f32
  scf.for %i = %begin to %end step %step : i64 {
    %from = llvm.getelementptr %x[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
    %to = llvm.getelementptr %y[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
    %v = llvm.load %from : !llvm.ptr -> f32
    %negative = arith.cmpf olt, %v, %zero : f32
    scf.if %negative {
      llvm.call @burn_rt_kernel_fail(%worker, %code, %site, %i) : (!llvm.ptr, i64, i64, i64) -> ()
    }
    %scaled = arith.mulf %v, %c : f32
    %sum = arith.addf %scaled, %one : f32
    llvm.store %sum, %to : f32, !llvm.ptr
  }
  llvm.return
}
llvm.func @burn_entry(%run: !llvm.ptr) -> i32 {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %four = arith.constant 4 : i64
  %three = arith.constant 3 : i64
  %grain = arith.constant GRAIN : i64
  %n = llvm.call @burn_rt_input_dim(%run, %zero, %zero) : (!llvm.ptr, i64, i64) -> i64
  %bytes = arith.muli %n, %four : i64
  %dims = llvm.alloca %one x i64 : (i64) -> !llvm.ptr
  llvm.store %n, %dims : i64, !llvm.ptr
  %x = llvm.call @burn_rt_input(%run, %zero) : (!llvm.ptr, i64) -> !llvm.ptr
  %c = llvm.call @burn_rt_constant(%run, %zero) : (!llvm.ptr, i64) -> !llvm.ptr
  %y = llvm.call @burn_rt_output(%run, %zero, %one, %dims, %bytes) : (!llvm.ptr, i64, i64, !llvm.ptr, i64) -> !llvm.ptr
  %args = llvm.alloca %three x i64 : (i64) -> !llvm.ptr
  %slot1 = llvm.getelementptr %args[1] : (!llvm.ptr) -> !llvm.ptr, i64
  %slot2 = llvm.getelementptr %args[2] : (!llvm.ptr) -> !llvm.ptr, i64
  llvm.store %x, %args : !llvm.ptr, !llvm.ptr
  llvm.store %y, %slot1 : !llvm.ptr, !llvm.ptr
  llvm.store %c, %slot2 : !llvm.ptr, !llvm.ptr
  %f = llvm.mlir.addressof @kernel : !llvm.ptr
  %status = llvm.call @burn_rt_launch(%run, %zero, %f, %args, %n, %grain)
    : (!llvm.ptr, i64, !llvm.ptr, !llvm.ptr, i64, i64) -> i32
  llvm.return %status : i32
}
"""


def scale_object(grain: int = 1024) -> bytes:
    return compile_object(SCALE.replace("GRAIN", str(grain)))
