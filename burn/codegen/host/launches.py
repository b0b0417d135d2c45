"""The interface of a device's kernel printer for the entry function: a group as launches. See `Kernels`."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from burn.dialect.control import Group
from burn.dialect.custom import Custom
from burn.dialect.dims import Dim, Expr, Symbol, estimate, product
from burn.dialect.types import DTYPES
from burn.kernels.body import Kernel, LoopKernel
from burn.kernels.builders.builder import Call, Section, shared_buffers
from burn.runtime.memory import HOST, MemorySpace

if TYPE_CHECKING:
    from burn.codegen.host.calls import Address
    from burn.codegen.host.emit import Int
    from burn.codegen.host.entry import EntryBuilder

Binding = tuple[str, int] | None
"""The binding of a kernel's buffer: ("in", the group's operand), ("out", its result), ("shared", a number), or the
kernel's own."""


THREADS = Expr.of(Symbol("<threads>"))
"""The number of threads that a launch may use, as a size (`EntryBuilder.pass_threads`)."""


class Launch(Protocol):
    """A printed kernel, which can be launched any number of times."""

    def print(self, entry: EntryBuilder, buffers: Sequence[Address | None], record: int, made: Int) -> None:
        """Prints a launch into the entry function. buffers: the address of each of the kernel's buffers; None for its
        own. made: the number of elements that it computes. A launch without elements must not run: its loops may have
        huge extents around an empty one."""
        ...


@dataclass(frozen=True)
class Launches:
    """A group: its kernels in order, and the bytes of each buffer that they share. memory: the kernels' memory space, to which
    other operands are copied. sections: the part of the group that each kernel computes, if not the whole group. sharers: the
    number of kernels that perform the contractions of that part together with each kernel; 0 if the kernel performs none."""

    calls: tuple[tuple[Launch, tuple[Binding, ...]], ...]
    shared: tuple[Dim, ...]
    memory: MemorySpace
    sections: tuple[Section | None, ...]
    sharers: tuple[int, ...]

    @staticmethod
    def of(calls: Sequence[Call], printed: Sequence[Launch], memory: MemorySpace = HOST) -> Launches:
        """The launches of a group's kernels. printed: one for each."""
        shared = tuple(b.elements * DTYPES[b.dtype].size for b in shared_buffers(calls))
        bound = tuple((launch, call.bindings) for launch, call in zip(printed, calls, strict=True))
        return Launches(bound, shared, memory, tuple(call.section for call in calls), _sharers(calls))


def _sharers(calls: Sequence[Call]) -> tuple[int, ...]:
    """See `Launches`. The contractions of a part are performed by its contraction and attention kernels; without any, by the
    loops with the most iterations. Its other kernels copy operands, or combine results."""

    def performs(call: Call) -> bool:
        partners = [each for each in calls if each.section is call.section]
        matrices = [each for each in partners if not isinstance(each.kernel, LoopKernel)]
        return call in (matrices or [max(partners, key=lambda each: _iterations(each.kernel))])

    found = [performs(call) for call in calls]
    counts = [
        sum(done and other.section is call.section for other, done in zip(calls, found, strict=True)) for call in calls
    ]
    return tuple(count if done else 0 for count, done in zip(counts, found, strict=True))


def _iterations(kernel: Kernel) -> int:
    if not isinstance(kernel, LoopKernel):
        return 0
    inner = sum(estimate(product([loop.extent for loop in stage.loops])) for stage in kernel.stages)
    return estimate(product([loop.extent for loop in kernel.parallel])) * inner


class Kernels(Protocol):
    """Prints the kernels of one program, for a device."""

    @property
    def memory(self) -> MemorySpace:
        """The memory space of the program's tensors."""
        ...

    @property
    def sites(self) -> list[str]:
        """Source nodes that run-time errors name by number; the entry function adds its own."""
        ...

    @property
    def functions(self) -> Sequence[str]:
        """The LLVM functions that host launches call."""
        ...

    def group(self, group: Group) -> Launches:
        """A group's launches. Raises CompileError if it has no kernel."""
        ...

    def custom(self, entry: EntryBuilder, op: Custom) -> None:
        """Prints the launches of a custom op whose body is kernels of the device."""
        ...

    def variant(self, group: Group) -> Hashable:
        """Distinguishes a group's kernels from those of a structurally equal group."""
        ...
