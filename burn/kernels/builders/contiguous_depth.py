"""Transposes operands before a matmul: tensor cores accept 8-bit floats only with a contiguous depth."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from burn.dialect.dims import Dim, LoopVar, atoms, coefficient, product
from burn.kernels.body import Buffer, ContractionKernel, Convert, Load, LoopKernel, Scalar, Stage, Write
from burn.kernels.builders.builder import Call, loop_index
from burn.kernels.lower import linear


def with_contiguous_depth(call: Call, dtypes: Collection[str]) -> list[Call]:
    """The kernels of a matmul: first one transpose for each 8-bit operand with a strided depth."""
    calls: list[Call] = []
    for name in ("lhs", "rhs"):
        kernel = call.kernel
        assert isinstance(kernel, ContractionKernel)
        load = _strided_operand(getattr(kernel, name), kernel.depth[-1], dtypes)
        if load is not None:
            own = kernel.rows if name == "lhs" else (kernel.column,)
            copy, call = _transposed(call, kernel, name, load, own, len(calls))
            calls.append(copy)
    return [*calls, call]


def _strided_operand(operand: Scalar, depth: LoopVar, dtypes: Collection[str]) -> Load | None:
    load = operand.arg if isinstance(operand, Convert) else operand
    if not isinstance(load, Load) or load.dtype not in dtypes or depth.extent == 1:
        return None
    return None if coefficient(load.offset, depth) == 1 else load


def _transposed(
    call: Call, kernel: ContractionKernel, name: str, load: Load, own: tuple[LoopVar, ...], number: int
) -> tuple[Call, Call]:
    """The kernel that transposes an operand, and the matmul that reads its result."""
    used = atoms(load.offset)
    loops = tuple(v for v in (*kernel.batch, *own, *kernel.depth) if v in used)
    shape: tuple[Dim, ...] = tuple(v.extent for v in loops)
    offset, elements = linear(loop_index(loops), shape), product(shape)
    read, written = Buffer(load.dtype, "read"), Buffer(load.dtype, "write", elements)
    stage = Stage((), (), (Write(1, offset, Load(load.dtype, 0, load.offset)),))
    copy = Call(LoopKernel(loops, (stage,), (read, written)), (call.bindings[load.buffer], ("shared", number)))
    operand = Convert(kernel.dtype, Load(load.dtype, len(kernel.buffers), offset))
    buffers = (*kernel.buffers, replace(written, access="read"))
    lhs, rhs = (operand, kernel.rhs) if name == "lhs" else (kernel.lhs, operand)
    return copy, Call(replace(kernel, lhs=lhs, rhs=rhs, buffers=buffers), (*call.bindings, ("shared", number)))
