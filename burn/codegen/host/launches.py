"""The interface of a device's kernel printer for the entry function: a group as launches. See `Kernels`."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from burn.dialect.control import Group
from burn.dialect.custom import Custom
from burn.dialect.dims import Dim, Expr, Symbol
from burn.kernels.builders.builder import Section
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
    other operands are copied. sections: the part of the group that each kernel computes, if not the whole group."""

    calls: tuple[tuple[Launch, tuple[Binding, ...]], ...]
    shared: tuple[Dim, ...]
    memory: MemorySpace = HOST
    sections: tuple[Section | None, ...] = ()


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
