"""Prints calls of the runtime's library (burn/runtime/native/lib.h): sorting, selecting, searching.

A result whose length depends on the data is allocated by the library, which returns the length: the entry function
takes the address from it and binds the length to the symbol that the op defines. Nothing may have placed the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from burn.codegen.cpu.emit import PTR, Int
from burn.codegen.cpu.emitters import emits
from burn.dialect.dims import Dim, product
from burn.dialect.mlir import ir
from burn.dialect.op import Agreement, Op, source_name
from burn.dialect.types import type_of
from burn.errors import CompileError, Problem
from burn.runtime.dtypes import CODES as DTYPES

if TYPE_CHECKING:
    from burn.codegen.cpu.entry import EntryBuilder


def refuse(op: Op, reason: str) -> None:
    problem = Problem(reason, op=op.OP_NAME, node=source_name(op))
    raise CompileError("the CPU code generator cannot compile this program", [problem])


def dtype_code(op: Op, value: ir.Value, allowed: Sequence[str] = DTYPES) -> int:
    dtype = type_of(value).dtype
    if dtype not in allowed:
        refuse(op, f"burn.{op.OP_NAME} of {dtype} is not supported")
    return DTYPES.index(dtype)


def around(shape: tuple[Dim, ...], axis: int) -> tuple[Dim, Dim, Dim]:
    """A shape as [outer, n, inner], seen from one axis. A scalar is one element."""
    if not shape:
        return 1, 1, 1
    axis %= len(shape)
    return product(shape[:axis]), shape[axis], product(shape[axis + 1 :])


class Call:
    """One call being put together: its operands, and the words through which it gives back addresses."""

    def __init__(self, entry: EntryBuilder, op: Op) -> None:
        self.entry, self.op = entry, op
        self.operands: list[Int] = []
        self._words = 0

    def number(self, *dims: Dim) -> Call:
        self.operands += [self.entry.sizes.dim(d) for d in dims]
        return self

    def read(self, *values: ir.Value) -> Call:
        self.operands += [self.entry.pointer(v) for v in values]
        return self

    def write(self, *values: ir.Value) -> Call:
        self.operands += [self.entry.define(v) for v in values]
        return self

    def words(self, dims: Sequence[Dim]) -> Call:
        """An array of sizes."""
        first = self._reserve(len(dims))
        for i, dim in enumerate(dims):
            self.entry.set_word(first + i, self.entry.sizes.dim(dim))
        self.operands.append(self.entry.code.gep(self.entry.words, first, "i64"))
        return self

    def run(self, function: str) -> None:
        self.entry.library(self.op, function, self.operands)

    def allocates(self, function: str, count: str, *results: ir.Value) -> None:
        """Runs a function whose last operands are places for results' addresses, and which returns their length."""
        entry, code = self.entry, self.entry.code
        first = self._reserve(len(results))
        places = [code.gep(entry.words, first + i, "i64") for i in range(len(results))]
        entry.bind(count, entry.library(self.op, function, [*self.operands, *places]))
        for place, result in zip(places, results, strict=True):
            entry.pointers[result] = code.load(place, 0, PTR)

    def _reserve(self, count: int) -> int:
        self._words += count
        self.entry.reserve_words(self._words)
        return self._words - count


@emits("sort")
def _sort(entry: EntryBuilder, op: Op) -> None:
    real = [d for d in DTYPES if not d.startswith("complex") and d not in ("string", "list")]
    call = Call(entry, op).number(dtype_code(op, op.x, real), *around(type_of(op.x).shape, op.axis), int(op.descending))
    call.read(op.x).write(*op.operation.results).run("burn_lib_sort")


@emits("nonzero")
def _nonzero(entry: EntryBuilder, op: Op) -> None:
    x = type_of(op.x)
    call = Call(entry, op).number(dtype_code(op, op.x), x.rank).words(x.shape).read(op.x)
    call.allocates("burn_lib_nonzero", op.count, op.operation.results[0])


# ---- strings ---------------------------------------------------------------------------------------------------------


def _over(entry: EntryBuilder, op: Op, *numbers: Dim) -> Call:
    """A call over the elements of the op's first operand."""
    return Call(entry, op).number(*numbers, type_of(op.operation.operands[0]).elements)


@emits("string_concat")
def _string_concat(entry: EntryBuilder, op: Op) -> None:
    _over(entry, op).read(op.lhs, op.rhs).write(op.operation.results[0]).run("burn_lib_text_concat")


@emits("string_case")
def _string_case(entry: EntryBuilder, op: Op) -> None:
    call = _over(entry, op).read(op.x).number(type_of(op.table).shape[0]).read(op.table)
    call.write(op.operation.results[0]).run("burn_lib_text_case")


@emits("string_split")
def _string_split(entry: EntryBuilder, op: Op) -> None:
    pieces, counts = op.operation.results
    call = _over(entry, op).number(op.maximum).read(op.x, op.delimiter).write(counts)
    call.allocates("burn_lib_text_split", op.count, pieces)


@emits("string_match")
def _string_match(entry: EntryBuilder, op: Op) -> None:
    call = _over(entry, op).read(op.x).number(type_of(op.program).elements).read(op.program)
    call.write(op.operation.results[0]).run("burn_lib_text_match")


@emits("string_find")
def _string_find(entry: EntryBuilder, op: Op) -> None:
    call = _over(entry, op).read(op.x).number(type_of(op.keys).elements).read(op.keys)
    call.write(op.operation.results[0]).run("burn_lib_text_find")


@emits("string_rank")
def _string_rank(entry: EntryBuilder, op: Op) -> None:
    _over(entry, op).read(op.x).write(op.operation.results[0]).run("burn_lib_text_rank")


@emits("number_to_string")
def _number_to_string(entry: EntryBuilder, op: Op) -> None:
    dtype = type_of(op.x).dtype
    call = _over(entry, op, DTYPES.index(op.precision if dtype == "float64" else dtype)).read(op.x)
    call.write(op.operation.results[0]).run("burn_lib_text_write")


@emits("string_to_number")
def _string_to_number(entry: EntryBuilder, op: Op) -> None:
    call = _over(entry, op, entry.site(source_name(op)), DTYPES.index(op.dtype)).read(op.x)
    call.write(op.operation.results[0]).run("burn_lib_text_read")


# ---- searching -------------------------------------------------------------------------------------------------------


@emits("unique")
def _unique(entry: EntryBuilder, op: Op) -> None:
    x = type_of(op.x)
    sizes = (1, x.elements, 1) if op.axis is None else around(x.shape, op.axis)
    values, first, inverse, counts = op.operation.results
    call = Call(entry, op).number(dtype_code(op, op.x), int(op.sorted), *sizes).read(op.x).write(inverse)
    call.allocates("burn_lib_unique", op.count, values, first, counts)


@emits("non_max_suppression")
def _non_max_suppression(entry: EntryBuilder, op: Op) -> None:
    for value in (op.boxes, op.scores, op.overlap, op.threshold):
        dtype_code(op, value, ("float32",))
    batches, classes, n = type_of(op.scores).shape
    for have, want in zip(type_of(op.boxes).shape, (batches, n, 4), strict=True):
        entry.require(Agreement(have, want), source_name(op))
    call = Call(entry, op).number(int(op.center_point), batches, classes, n)
    call.read(op.boxes, op.scores, op.maximum, op.overlap, op.threshold)
    call.allocates("burn_lib_non_max_suppression", op.count, op.operation.results[0])
