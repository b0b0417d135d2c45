"""What the builders of all kinds of group share: a kernel in the making, its loops and places."""

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
from burn.kernels.body import Buffer, Convert, Kernel, Role, Scalar
from burn.kernels.lower import Lowering, Place, reshape_index
from burn.kernels.rewrite import map_kernel, used_buffers


class Computation(Protocol):
    """What kernels are described for: a group, or a `Section` of one."""

    @property
    def ops(self) -> list[Op]:
        """In order."""
        ...

    @property
    def yielded(self) -> list[ir.Value]:
        """The results."""
        ...

    @property
    def arguments(self) -> list[ir.Value]:
        """What the ops are given: the arguments of the group's region."""
        ...


@dataclass(frozen=True)
class Section:
    """Some ops of a group that make one value, as if they were a group of that kind."""

    kind: str
    ops: list[Op]
    yielded: list[ir.Value]
    arguments: list[ir.Value]


@dataclass(frozen=True)
class Call:
    """A kernel and what its buffers are: an operand of the group ("in", i), a result ("out", i), memory that the kernels of the
    group hand on to each other ("shared", i), as long as the buffer says, or scratch (None). section: what of the group it is
    for, where it is for a part that others have nothing to do with."""

    kernel: Kernel
    bindings: tuple[tuple[str, int] | None, ...]
    section: Section | None = None


def with_used_buffers(kernel: Kernel, bindings: Sequence[tuple[str, int] | None]) -> Call:
    """A kernel that was made of another one, with those of its buffers that it uses, in their order."""
    used = sorted(used_buffers(kernel))
    number = {buffer: i for i, buffer in enumerate(used)}
    made = map_kernel(kernel, lambda d: d, lambda loops: loops, number.__getitem__)
    return Call(replace(made, buffers=tuple(kernel.buffers[b] for b in used)), tuple(bindings[b] for b in used))


def shared_buffers(calls: Sequence[Call]) -> list[Buffer]:
    """What the kernels of a group hand on to each other, by number."""
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
    """The element type that products are summed in: int32 for small integers, float32 for half floats."""
    dtype = dtypes[-1]
    small = {"int8": "int32", "uint8": "int32", "int16": "int32", "uint16": "int32"}
    return small.get(dtype, accumulate_type(dtype))


def convert(scalar: Scalar, dtype: str) -> Scalar:
    return scalar if scalar.dtype == dtype else Convert(dtype, scalar)


def loops(shape: tuple[Dim, ...], prefix: str = "i") -> tuple[LoopVar, ...]:
    return tuple(LoopVar(f"{prefix}{axis}", d) for axis, d in enumerate(shape))


def place(loop_vars: tuple[LoopVar, ...]) -> Place:
    """The loops' variables as a place; a loop of one iteration stands at 0."""
    return tuple(0 if v.extent == 1 else Expr.of(v) for v in loop_vars)


def untangle(value: ir.Value, index: Place, space: tuple[Dim, ...]) -> tuple[ir.Value, Place, tuple[Dim, ...]]:
    """For a yielded value that ends in views: the value before them, and where its element at `index` comes to lie."""
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
    """The op that decides that the group is a kernel of this kind."""
    return next(op for op in group.ops if kernel == op.KERNEL)


class Builder:
    """One kernel in the making: a lowering over the group's region, and the buffers of its results."""

    def __init__(self, group: Computation) -> None:
        self.group = group
        self.low = Lowering()
        self.arguments = group.arguments
        self.outputs: dict[int, int] = {}  # buffer id -> result number
        self.handed_on: dict[int, int] = {}  # buffer id -> number among what the group's kernels share

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

    def shared(self, number: int, dtype: str, elements: Dim, role: Role) -> int:
        """A buffer that another kernel of the group writes or reads."""
        buffer = self.low.new_buffer(Buffer(dtype, role, elements))
        self.handed_on[buffer] = number
        return buffer

    def call(self, make: Callable[[tuple[Buffer, ...]], Kernel]) -> Call:
        bindings: list[tuple[str, int] | None] = []
        for i, leaf in enumerate(self.low.leaves):
            if leaf is not None:
                bindings.append(("in", self.arguments.index(leaf)))
            elif i in self.handed_on:
                bindings.append(("shared", self.handed_on[i]))
            else:
                bindings.append(("out", self.outputs[i]) if i in self.outputs else None)
        return Call(make(tuple(self.low.buffers)), tuple(bindings))
