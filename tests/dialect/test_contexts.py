"""Contexts load the dialects of generated code, and no others."""

from __future__ import annotations

import ctypes
import sys

import pytest

import burn
from burn.codegen.host.object import PIPELINE
from burn.dialect.mlir import DIALECTS, PassManager, context, ir, new_context

SCALARS = """
llvm.func @f(%count: i64, %data: !llvm.ptr) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %n = arith.index_cast %count : i64 to index
  scf.for %i = %zero to %n step %one {
    %x = llvm.load %data : !llvm.ptr -> f32
    %y = math.fma %x, %x, %x : f32
    %z = vector.broadcast %y : f32 to vector<4xf32>
    llvm.store %z, %data : vector<4xf32>, !llvm.ptr
  }
  llvm.return
}
"""


def loaded(of: ir.Context) -> int:
    """How many dialects a context has loaded."""
    with open("/proc/self/maps") as maps:
        path = next(line.split()[-1] for line in maps if "libTorchMLIRAggregateCAPI" in line)
    count = ctypes.CDLL(path).mlirContextGetNumLoadedDialects
    count.argtypes, count.restype = [ctypes.c_void_p], ctypes.c_ssize_t
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.argtypes, pointer.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p
    capsule = of._CAPIPtr
    return count(pointer(capsule, f"{ir.__package__}.ir.Context._CAPIPtr".encode()))


def test_lowering_loads_no_further_dialect(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading one while another thread uses the context would be a race. No Python module of a dialect's ops is imported."""
    module_of_ops = f"{ir.__package__}.dialects._llvm_ops_gen"
    monkeypatch.delitem(sys.modules, module_of_ops, raising=False)
    made = new_context()
    before = loaded(made)
    assert len(DIALECTS) <= before < loaded(ir.Context()) / 2
    with made, ir.Location.unknown():
        module = ir.Module.parse(SCALARS)
        PassManager.parse(PIPELINE).run(module.operation)
    assert "llvm.intr.fma" in str(module)
    assert module_of_ops not in sys.modules
    assert loaded(made) == before


def test_compiling_loads_no_further_dialect() -> None:
    before = loaded(context())
    assert float(burn.exp(burn.arange(3.0) * 0.0).sum()) == 3
    assert loaded(context()) == before
