"""Shared by all builders: a kernel under construction, its loops and indices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from burn.dialect.dims import Dim, Expr, LoopVar
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.query import op_of
from burn.dialect.shape import Reshape, Transpose
from burn.dialect.types import DTYPES, type_of
from burn.kernels.body import Access, Buffer, Convert, Kernel, Scalar
from burn.kernels.lower import Indices, Lowering, reshape_index
from burn.kernels.rewrite import map_kernel, used_buffers


class Computation(Protocol):
    """A computation to describe as kernels: a group, or a `Section` of one."""

    @property
    def ops(self) -> list[Op]:
        """The ops, in order."""
        ...

    @property
    def yielded(self) -> list[ir.Value]:
        """The results."""
        ...

    @property
    def arguments(self) -> list[ir.Value]:
        """The arguments of the group's region."""
        ...


@dataclass(frozen=True)
class Section:
    """Some ops of a group that compute one value, treated as a group of that kind."""

    kind: str
    ops: list[Op]
    yielded: list[ir.Value]
    arguments: list[ir.Value]


@dataclass(frozen=True)
class Call:
    """A kernel and the bindings of its buffers: an operand of the group ("in", i), a result ("out", i), memory shared
    between the group's kernels ("shared", i), or scratch (None). `section`: the part of the group that the kernel
    computes, if that is independent of the rest."""

    kernel: Kernel
    bindings: tuple[tuple[str, int] | None, ...]
    section: Section | None = None


def with_used_buffers(kernel: Kernel, bindings: Sequence[tuple[str, int] | None]) -> Call:
    """A kernel derived from another one, restricted to the buffers that it uses, in their order."""
    used = sorted(used_buffers(kernel))
    number = {buffer: i for i, buffer in enumerate(used)}
    made = map_kernel(kernel, lambda d: d, lambda loops: loops, number.__getitem__)
    return Call(replace(made, buffers=tuple(kernel.buffers[b] for b in used)), tuple(bindings[b] for b in used))


def shared_buffers(calls: Sequence[Call]) -> list[Buffer]:
    """The memory shared between the kernels of a group, by number."""
    found: dict[int, Buffer] = {}
    for call in calls:
        for buffer, binding in zip(call.kernel.buffers, call.bindings, strict=True):
            if binding is not None and binding[0] == "shared":
                found[binding[1]] = buffer
    return [found[number] for number in range(len(found))]


ACCUMULATE = {
    "float16": "float32",
    "bfloat16": "float32",
    **{name: "float32" for name, info in DTYPES.items() if info.kind == "small"},
}
"""Types that accumulate in a wider one."""


def accumulate_type(dtype: str) -> str:
    return ACCUMULATE.get(dtype, dtype)


def contraction_type(*dtypes: str) -> str:
    """The accumulator type of a contraction: int32 for small integers, float32 for half precision."""
    dtype = dtypes[-1]
    small = {"int8": "int32", "uint8": "int32", "int16": "int32", "uint16": "int32"}
    return small.get(dtype, accumulate_type(dtype))


def convert(scalar: Scalar, dtype: str) -> Scalar:
    return scalar if scalar.dtype == dtype else Convert(dtype, scalar)


def loops(shape: tuple[Dim, ...], prefix: str = "i") -> tuple[LoopVar, ...]:
    return tuple(LoopVar(f"{prefix}{axis}", d) for axis, d in enumerate(shape))


def loop_index(loop_vars: tuple[LoopVar, ...]) -> Indices:
    """The induction variables of loops as an index; 0 for a loop of one iteration."""
    return tuple(0 if v.extent == 1 else Expr.of(v) for v in loop_vars)


def skip_views(value: ir.Value, index: Indices, space: tuple[Dim, ...]) -> tuple[ir.Value, Indices, tuple[Dim, ...]]:
    """Strips the views at the end of a yielded value: returns the value before them, and the index and shape of its
    element in the result."""
    chain: list[Op] = []
    while (op := op_of(value)) is not None and isinstance(op, Reshape | Transpose):
        chain.append(op)
        value = op.x
    shape = space
    for view in reversed(chain):
        target = type_of(view.operation.results[0]).shape
        if isinstance(view, Transpose):
            index = tuple(index[p] for p in view.permutation)
        else:
            index = reshape_index(index, shape, target)
        shape = target
    return value, index, shape


def anchor_of(group: Computation, kernel: str) -> Op:
    """The op that determines the group's kind of kernel."""
    return next(op for op in group.ops if kernel == op.KERNEL)


class Builder:
    """One kernel under construction: a lowering of the group's region, and the buffers of its results."""

    def __init__(self, group: Computation) -> None:
        self.group = group
        self.low = Lowering()
        self.arguments = group.arguments
        self.outputs: dict[int, int] = {}  # buffer id -> result number
        self.shared_ids: dict[int, int] = {}  # buffer id -> number of the buffer shared between the group's kernels

    def out(self, result: int) -> int:
        """The buffer of a result."""
        for buffer, number in self.outputs.items():
            if number == result:
                return buffer
        dtype = type_of(self.group.yielded[result]).dtype
        buffer = self.low.new_buffer(Buffer(dtype, "write"))
        self.outputs[buffer] = result
        return buffer

    def scratch(self, dtype: str, elements: Dim) -> int:
        return self.low.new_buffer(Buffer(dtype, "scratch", elements))

    def shared(self, number: int, dtype: str, elements: Dim, access: Access) -> int:
        """A buffer that another kernel of the group writes or reads."""
        buffer = self.low.new_buffer(Buffer(dtype, access, elements))
        self.shared_ids[buffer] = number
        return buffer

    def call(self, make: Callable[[tuple[Buffer, ...]], Kernel]) -> Call:
        bindings: list[tuple[str, int] | None] = []
        for i, leaf in enumerate(self.low.leaves):
            if leaf is not None:
                bindings.append(("in", self.arguments.index(leaf)))
            elif i in self.shared_ids:
                bindings.append(("shared", self.shared_ids[i]))
            else:
                bindings.append(("out", self.outputs[i]) if i in self.outputs else None)
        return Call(make(tuple(self.low.buffers)), tuple(bindings))
