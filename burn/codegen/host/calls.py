"""The runtime calls of an entry function, for memory, outputs and launches.

`Calls` is straight-line code. `Steps` (steps.py) is the same as a table, for programs that should be small or are long.
Both return addresses that `launch` accepts; `reached` converts one to a value.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from burn.codegen.host.emit import PTR, Int, Value

if TYPE_CHECKING:
    from burn.codegen.host.entry import EntryBuilder


T = TypeVar("T")
END = "^end"
"""The block that ends the entry function."""


@dataclass(frozen=True)
class Known:
    """A word that a table of steps describes: a kind and a number."""

    kind: int
    number: int


Address = Value | Known
Word = Int | Known


class Calls:
    """Prints one runtime call after another. Every use of an address requests it again."""

    def __init__(self, entry: EntryBuilder) -> None:
        self.entry, self.code = entry, entry.code
        self._base: Value | None = None
        self._offsets: Value | None = None

    def plan(self, count: int, sizes: Iterable[Int]) -> None:
        """Plans the arena's buffers with these sizes."""
        code = self.code
        room = code.alloca(count, "i64")
        self._offsets = code.alloca(count, "i64")
        for i, size in enumerate(sizes):
            code.store(code.value(size), room, i)
        self._base = self.entry.call("burn_rt_plan", room, count, self._offsets)

    def in_arena(self, number: int) -> Address:
        """The address of a planned buffer."""
        assert self._base is not None and self._offsets is not None
        return self.code.gep(self._base, self.code.load(self._offsets, number, "i64"), "i8")

    def input(self, number: int) -> Address:
        return self.entry.call("burn_rt_input", number)

    def constant(self, number: int) -> Address:
        return self.entry.call("burn_rt_constant", number)

    def output(self, number: int, dims: Sequence[Int], size: Int) -> Address:
        """The memory of an output of `size` bytes."""
        self.entry.set_words(dims)
        return self.entry.call("burn_rt_output", number, len(dims), self.entry.words, size)

    def launch(self, record: int, kernel: str | Value, words: Sequence[Word], count: Int, grain: Int) -> None:
        """Launches a kernel, by its name or address, for `count` iterations."""
        if isinstance(kernel, str):
            kernel = self.kernel(kernel)
        self.entry.set_words([self.reached(word) if isinstance(word, Known) else word for word in words])
        self.entry.call("burn_rt_launch", record, kernel, self.entry.words, count, grain)

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Code printed before a launch, for each launch again."""
        return make()

    def kernel(self, name: str) -> Value:
        """A kernel's address."""
        return self.code.raw(f"llvm.mlir.addressof @{name} : {PTR}", PTR)

    def reached(self, address: Address) -> Value:
        """An address as a value."""
        assert isinstance(address, Value)
        return address

    def differ(self, a: Address, b: Address) -> bool:
        """True if two addresses are known to differ."""
        return False

    def finish(self) -> None:
        """Emits all pending steps before the following code."""

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Values printed inside a region are not available outside."""
        yield

    def close(self) -> list[str]:
        """Ends the function; returns other functions of the module."""
        return []
