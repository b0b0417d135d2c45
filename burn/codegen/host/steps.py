"""A program's launches as a table of steps that the runtime interprets: `Steps`. For programs that should be small, and
for long ones, whose code would take LLVM too long.

A launch takes some 100 bytes of code, and 25 of the table. The table holds compile-time values: numbers, and the numbers
of the inputs, constants and buffers of addresses. The function computes other values, such as input-dependent sizes, and
stores them in a frame of words, to which the table refers. A table ends before work that it cannot express: a branch, a
library call, the read of an element.

`burn_rt_steps` (burn_rt.h) defines the table's format.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from typing import TYPE_CHECKING, Any, TypeVar

from burn.codegen.host.calls import END, Address, Calls, Known, Word
from burn.codegen.host.emit import PTR, Function, Int, Value

if TYPE_CHECKING:
    from burn.codegen.host.entry import EntryBuilder


T = TypeVar("T")


class Step(IntEnum):
    """The kinds of steps. A launch is LAUNCH plus its kernel's number."""

    END = 0
    PLAN = 1
    OUTPUT = 2
    LAUNCH = 3


class Kind(IntEnum):
    """The kind of a word, in its two lowest bits."""

    NUMBER = 0
    HELD = 1
    CONSTANT = 2
    INPUT = 3


KIND_BITS = 2
LARGEST = (1 << 62 - KIND_BITS) - 1
"""Numbers that a table has room for."""

ON_STACK = 1 << 16
"""The most words of a frame on the stack, which may be as small as 8 MB."""

WORD_BYTES = 8

COMPARED = '["no-jump-tables", "true"]'
"""An address in a table takes 32 bytes in a position-independent program, a comparison 13."""

KERNELS = "kernel_of"
"""The function that returns a kernel's address for its number."""


CHOSEN = ""
"""The name of a kernel whose address is a word of the launch; `KERNELS` has no address for it."""


class Steps(Calls):
    """See `Calls`. Steps are collected until `finish` prints the call that runs them."""

    def __init__(self, entry: EntryBuilder) -> None:
        super().__init__(entry)
        self.words, self.held = (
            self.code.fresh(PTR),
            self.code.fresh(PTR),
        )  # of the last executed step, and of the frame
        self._most, self._room = 0, 0
        self._slots: dict[str, int] = {}  # frame slots of values, by name
        self._outputs: set[int] = set()  # slots of their addresses
        self._kernels: dict[str, int] = {}
        self._first: int | None = None  # the number of the first pending launch
        self._waiting: list[int] = []
        self._tables: list[str] = []
        self._made: dict[Hashable, Any] = {}

    def plan(self, count: int, sizes: Iterable[Int]) -> None:
        self._room += count
        self._add(Step.PLAN, list(sizes))

    def in_arena(self, number: int) -> Address:
        return Known(Kind.HELD, number)

    def input(self, number: int) -> Address:
        return Known(Kind.INPUT, number)

    def constant(self, number: int) -> Address:
        return Known(Kind.CONSTANT, number)

    def output(self, number: int, dims: Sequence[Int], size: Int) -> Address:
        slot = self._slot()
        self._outputs.add(slot)
        self._add(Step.OUTPUT, [*dims, size, number, slot])
        return Known(Kind.HELD, slot)

    def launch(self, record: int, kernel: str | Value, words: Sequence[Word], count: Int, grain: Int) -> None:
        if self._first is None:
            self._first = record
        chosen = [kernel] if isinstance(kernel, Value) else []
        number = self._kernels.setdefault(CHOSEN if isinstance(kernel, Value) else kernel, len(self._kernels))
        self._add(Step.LAUNCH + number, [*words, *chosen, count, grain])

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """The same for all launches of the key, if the values computed for one are available to the others."""
        if not self.code.at_top:
            return make()
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def kernel(self, name: str) -> Value:
        """One value for all launches, so that a selected address takes one word of the frame."""
        return self.code.pure(f"llvm.mlir.addressof @{name} : {PTR}", PTR)

    def reached(self, address: Address) -> Value:
        if isinstance(address, Value):
            return address
        self.finish()
        if address.kind == Kind.HELD:
            word = self.code.load(self.held, address.number, "i64")
            return self.code.raw(f"llvm.inttoptr {word} : i64 to {PTR}", PTR)
        return self.entry.call(
            {Kind.INPUT: "burn_rt_input", Kind.CONSTANT: "burn_rt_constant"}[Kind(address.kind)], address.number
        )

    def differ(self, a: Address, b: Address) -> bool:
        if isinstance(a, Value) or isinstance(b, Value):
            return False
        return not (self._may_alias(a, b) or self._may_alias(b, a))

    def _may_alias(self, a: Known, b: Known) -> bool:
        """True if an output may reuse a donated input's memory."""
        return a.kind == Kind.HELD and a.number in self._outputs and b.kind == Kind.INPUT

    def finish(self) -> None:
        if not self._waiting:
            return
        table, launches = f"steps{len(self._tables)}", self._first is not None
        written = bytes(b for number in (self._first or 0, *self._waiting, Step.END) for b in _bytes(number))
        text = "".join(f"\\{byte:02X}" for byte in written)
        self._tables.append(f'llvm.mlir.global internal constant @{table}("{text}") {{alignment = 1 : i64}}')
        self._waiting, self._first = [], None
        steps = self.code.raw(f"llvm.mlir.addressof @{table} : {PTR}", PTR)
        kernels = self.code.raw(f"llvm.mlir.{f'addressof @{KERNELS}' if launches else 'zero'} : {PTR}", PTR)
        self.entry.call("burn_rt_steps", steps, self.words, self.held, kernels)

    @contextmanager
    def inside(self) -> Iterator[None]:
        known = dict(self._slots)
        yield
        self._slots = known

    def close(self) -> list[str]:
        if not self._tables:
            return []
        self._memory(self._most, self.words)
        self._memory(self._room, self.held)
        return [*self._tables, *([self._lookup()] if self._kernels else [])]

    def _memory(self, words: int, name: Value) -> None:
        """Allocates `words` words, on the stack if it has room."""
        code = self.code
        if words <= ON_STACK:
            code.alloca(words, "i64", name, align=8)
            return
        null, failed, following = code.fresh(PTR), code.fresh("i1"), code.label()
        size = code.const(words * WORD_BYTES)
        code.first(f"{name} = llvm.call @burn_rt_alloc({code.arguments[0]}, {size}) : ({PTR}, i64) -> {PTR}")
        code.first(f"{null} = llvm.mlir.zero : {PTR}")
        code.first(f'{failed} = llvm.icmp "eq" {name}, {null} : {PTR}')
        code.first(f"cf.cond_br {failed}, {END}, {following}")
        code.head.append(f"{following}:")

    def _add(self, step: int, words: Sequence[Word]) -> None:
        self.entry.settle()
        self._most = max(self._most, len(words))
        self._waiting += [step, len(words), *(self._word(word) for word in words)]

    def _word(self, word: Word) -> int:
        if isinstance(word, Value) or (isinstance(word, int) and not 0 <= word <= LARGEST):
            word = Known(Kind.HELD, self._holding(self.code.value(word)))
        return word.number << KIND_BITS | word.kind if isinstance(word, Known) else word << KIND_BITS | Kind.NUMBER

    def _holding(self, value: Value) -> int:
        """The frame slot of a value, which is stored on first use."""
        if value.name not in self._slots:
            self._slots[value.name] = self._slot()
            self.code.store(self.code.word(value), self.held, self._slots[value.name])
        return self._slots[value.name]

    def _slot(self) -> int:
        self._room += 1
        return self._room - 1

    def _lookup(self) -> str:
        """The function that gives kernels' addresses."""
        attributes = self.code.attributes.replace("passthrough = [", f"passthrough = [{COMPARED}, ")
        function = Function(KERNELS, [("number", "i64")], PTR, attributes, internal=True)
        labels = [f"^kernel{number}" for number in self._kernels.values()]
        cases = ", ".join(f"{number}: {label}" for number, label in enumerate(labels))
        function.line(f"llvm.switch %number : i64, {labels[0]} [{cases}]")
        for label, kernel in zip(labels, self._kernels, strict=True):
            function.start(label)
            address = f"addressof @{kernel}" if kernel != CHOSEN else "zero"
            function.return_(function.raw(f"llvm.mlir.{address} : {PTR}", PTR))
        return function.text()


def _bytes(number: int) -> Iterator[int]:
    """LEB128: seven bits per byte, the lowest first; the highest bit is set if more bytes follow."""
    while number > 127:
        yield number & 127 | 128
        number >>= 7
    yield number
