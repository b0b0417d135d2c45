"""Prints calls of the runtime's library (burn/runtime/native/lib.h): sorting, selecting, searching.

The library allocates a result whose length depends on the data, and returns the length. The entry function takes over the
result's address and binds the length to the symbol that the op defines. Such a result must not have planned memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from burn.codegen.host.emit import PTR, Int, Value
from burn.codegen.host.emitters import emits
from burn.dialect.dims import Dim, product
from burn.dialect.image import PIXEL_FORMATS
from burn.dialect.library import FORMS
from burn.dialect.mlir import ir
from burn.dialect.op import Agreement, Op, full_name
from burn.dialect.trees import COMPARISONS
from burn.dialect.types import type_of
from burn.errors import CompileError, Problem
from burn.runtime.dtypes import CODES as DTYPES
from burn.runtime.origins import resolved

if TYPE_CHECKING:
    from burn.codegen.host.entry import EntryBuilder


def refuse(op: Op, reason: str) -> None:
    problem = Problem(reason, op=op.OP_NAME, node=resolved(full_name(op)))
    raise CompileError("the code generator cannot compile this program", [problem])


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
    """A call under construction: its operands, and the words in which it returns addresses."""

    def __init__(self, entry: EntryBuilder, op: Op) -> None:
        self.entry, self.op = entry, op
        self.operands: list[Int] = []
        self._words = 0
        self._drafts: list[tuple[ir.Value, Value]] = []

    def number(self, *dims: Dim) -> Call:
        self.operands += [self.entry.sizes.dim(d) for d in dims]
        return self

    def read(self, *values: ir.Value) -> Call:
        self.operands += [self.entry.operand(v) for v in values]
        return self

    def write(self, *values: ir.Value) -> Call:
        drafts = [(v, self.entry.draft(v)) for v in values]
        self._drafts += drafts
        self.operands += [draft for _, draft in drafts]
        return self

    def words(self, dims: Sequence[Dim]) -> Call:
        """An array of sizes."""
        first = self._reserve(len(dims))
        for i, dim in enumerate(dims):
            self.entry.set_word(first + i, self.entry.sizes.dim(dim))
        self.operands.append(self.entry.code.gep(self.entry.words, first, "i64"))
        return self

    def run(self, function: str, *more: Int) -> Value:
        """Calls the function and returns its result."""
        value = self.entry.library(self.op, function, [*self.operands, *more])
        self._send()
        return value

    def _send(self) -> None:
        for result, draft in self._drafts:
            self.entry.deliver(result, draft)

    def allocates(self, function: str, count: str, *results: ir.Value) -> None:
        """Runs a function whose last operands receive the results' addresses, and which returns their length."""
        entry, code = self.entry, self.entry.code
        first = self._reserve(len(results))
        addresses = [code.gep(entry.words, first + i, "i64") for i in range(len(results))]
        entry.bind(count, entry.library(self.op, function, [*self.operands, *addresses]))
        made = [code.load(address, 0, PTR) for address in addresses]  # the words may serve another call from here on
        self._send()
        for result, memory in zip(results, made, strict=True):
            entry.adopt(result, memory)

    def _reserve(self, count: int) -> int:
        self._words += count
        self.entry.reserve_words(self._words)
        return self._words - count


def _sorting(entry: EntryBuilder, op: Op) -> Call:
    real = [d for d in DTYPES if not d.startswith("complex") and d not in ("string", "list")]
    sizes = around(type_of(op.x).shape, op.axis)
    return Call(entry, op).number(dtype_code(op, op.x, real), *sizes, int(op.descending))


@emits("sort")
def _sort(entry: EntryBuilder, op: Op) -> None:
    _sorting(entry, op).read(op.x).write(*op.operation.results).run("burn_lib_sort")


@emits("partial_sort")
def _partial_sort(entry: EntryBuilder, op: Op) -> None:
    entry.check_sizes(op)
    call = _sorting(entry, op).number(op.start, op.size)
    call.read(op.x).write(*op.operation.results).run("burn_lib_partial_sort")


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


@emits("string_tokens")
def _string_tokens(entry: EntryBuilder, op: Op) -> None:
    tokens, counts = op.operation.results
    call = _over(entry, op).number(op.least, int(op.between), type_of(op.program).elements)
    call.read(op.x, op.program).write(counts).allocates("burn_lib_text_tokens", op.count, tokens)


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
    call = _over(entry, op, entry.site(full_name(op)), DTYPES.index(op.dtype)).read(op.x)
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
    batches, classes, n = type_of(op.scores).shape
    for have, want in zip(type_of(op.boxes).shape, (batches, n, 4), strict=True):
        entry.require(Agreement(have, want), full_name(op))
    call = Call(entry, op).number(dtype_code(op, op.boxes), FORMS.index(op.form), batches, classes, n)
    call.read(op.boxes, op.scores, op.maximum, op.overlap).number(int(op.threshold is not None))
    call.read(op.overlap if op.threshold is None else op.threshold)
    call.allocates("burn_lib_non_max_suppression", op.count, op.operation.results[0])


@emits("tree_leaves")
def _tree_leaves(entry: EntryBuilder, op: Op) -> None:
    entry.check_sizes(op)
    sets = (0, 0) if op.sets is None else type_of(op.sets).shape
    call = Call(entry, op).number(
        dtype_code(op, op.x), *type_of(op.x).shape, len(op.depths), type_of(op.nodes).shape[0]
    )
    call.number(max(op.depths, default=0), op.features, COMPARISONS.get(op.comparison, 0), *sets)
    call.read(op.x, op.nodes, op.roots, op.x if op.sets is None else op.sets)
    call.write(op.operation.results[0]).run("burn_lib_tree_leaves")


# ---- lists -------------------------------------------------------------------------------------------------------------


def _site(entry: EntryBuilder, op: Op) -> Call:
    return Call(entry, op).number(entry.site(full_name(op)))


def _position(call: Call, op: Op) -> Call:
    """True if there is a position, and its address."""
    return call.number(int(op.position is not None)).read(op.list if op.position is None else op.position)


def _take(call: Call, function: str) -> None:
    """Runs a function whose last operand has the expected sizes of the op's result; it overwrites them with the actual
    sizes."""
    entry, op, result = call.entry, call.op, call.op.operation.results[0]
    first = call._words
    data = call.words(op.sizes).run(function)
    unknown = [axis for axis, size in enumerate(op.sizes) if size < 0]
    for name, axis in zip(op.symbols, unknown, strict=True):
        entry.bind(name, entry.code.load(entry.words, first + axis, "i64"))
    if unknown or not entry.space(result).is_host:
        entry.adopt(result, data)
    else:  # of known size: it may already have memory
        entry.copy(result, entry.define(result), data, type_of(result).bytes)


@emits("list_empty")
def _list_empty(entry: EntryBuilder, op: Op) -> None:
    entry.call("burn_rt_write", entry.define(op.operation.results[0]), 0, 8)


@emits("list_insert")
def _list_insert(entry: EntryBuilder, op: Op) -> None:
    x = type_of(op.x)
    call = _position(_site(entry, op).read(op.list), op).number(dtype_code(op, op.x), x.rank).words(x.shape)
    call.read(op.x).number(x.bytes).write(op.operation.results[0]).run("burn_lib_list_insert")


@emits("list_erase")
def _list_erase(entry: EntryBuilder, op: Op) -> None:
    call = _position(_site(entry, op).read(op.list), op)
    call.write(op.operation.results[0]).run("burn_lib_list_erase")


@emits("list_length")
def _list_length(entry: EntryBuilder, op: Op) -> None:
    Call(entry, op).read(op.list).write(op.operation.results[0]).run("burn_lib_list_length")


@emits("list_at")
def _list_at(entry: EntryBuilder, op: Op) -> None:
    call = _position(_site(entry, op).read(op.list), op).number(DTYPES.index(op.dtype), len(op.sizes))
    _take(call, "burn_lib_list_at")


@emits("list_concat")
def _list_concat(entry: EntryBuilder, op: Op) -> None:
    call = _site(entry, op).read(op.list).number(int(op.stack), op.axis, DTYPES.index(op.dtype), len(op.sizes))
    _take(call, "burn_lib_list_concat")


@emits("list_split")
def _list_split(entry: EntryBuilder, op: Op) -> None:
    x = type_of(op.x)
    slices, alike = -2, -1  # as in lib_list.c
    parts: Dim = slices if op.parts is None else type_of(op.parts).shape[0] if type_of(op.parts).rank else alike
    call = (
        _site(entry, op)
        .number(dtype_code(op, op.x), x.rank)
        .words(x.shape)
        .number(op.axis % x.rank, int(op.keep), parts)
    )
    call.read(op.x if op.parts is None else op.parts).read(op.x).write(op.operation.results[0]).run(
        "burn_lib_list_split"
    )


# ---- debugging ---------------------------------------------------------------------------------------------------------


def _tensors(call: Call, values: Sequence[ir.Value]) -> Call:
    """How many values there are, and the words that describe them (lib_debug.c)."""
    entry = call.entry
    addresses = [entry.operand(value) for value in values]
    first = word = call._reserve(sum(3 + type_of(value).rank for value in values))
    for value, address in zip(values, addresses, strict=True):
        described = (address, DTYPES.index(type_of(value).dtype), type_of(value).rank)
        for each in (*described, *map(entry.sizes.dim, type_of(value).shape)):
            entry.set_word(word, each)
            word += 1
    call.operands += [len(values), entry.code.gep(entry.words, first, "i64")]
    return call


@emits("debug_print")
def _debug_print(entry: EntryBuilder, op: Op) -> None:
    text = op.text.encode()
    call = _site(entry, op).number(len(text))
    call.operands.append(entry.text(text))
    _tensors(call, op.values).run("burn_lib_debug_print")


@emits("debug_call")
def _debug_call(entry: EntryBuilder, op: Op) -> None:
    _tensors(_site(entry, op).number(op.function), op.values).run("burn_lib_debug_call")


@emits("check_finite")
def _check_finite(entry: EntryBuilder, op: Op) -> None:
    _tensors(_site(entry, op).number(int(op.infinite), op.made), op.values).run("burn_lib_check_finite")


# ---- images ------------------------------------------------------------------------------------------------------------


@emits("image_decode")
def _image_decode(entry: EntryBuilder, op: Op) -> None:
    call = _site(entry, op).number(list(PIXEL_FORMATS).index(op.form), type_of(op.x).elements).read(op.x).words((0, 0))
    pixels = call.run("burn_lib_image_decode")
    for i, name in enumerate(op.symbols):
        entry.bind(name, entry.code.load(entry.words, i, "i64"))
    entry.adopt(op.operation.results[0], pixels)
