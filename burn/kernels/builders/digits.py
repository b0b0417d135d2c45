"""Stable sorting of long rows by digits, the lowest first: radix sort.

A row is divided into tiles, which are as long as a block of a kernel. A pass sorts by one digit. One kernel counts, for each tile
and each digit, the elements of the tile with smaller digits. From these counts follows where the elements of a tile with
that digit go. The last kernel of a pass ranks the elements of each tile by digit, and moves them.

A row that fits one tile is ranked by its whole key. The last tile of a row is padded with the largest key, whose elements stay
last. No launch depends on the elements, and no result on timing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from burn.dialect.control import Group
from burn.dialect.dims import Dim, LoopVar, ceildiv, dim_min, floordiv, mod, product
from burn.kernels.body import (
    Apply,
    ColumnReduction,
    Const,
    Convert,
    Index,
    LoopKernel,
    Reduced,
    Reduction,
    Reinterpret,
    Scalar,
    Stage,
    Where,
    Write,
)
from burn.kernels.builders.builder import Builder, Call, convert, loop_index, loops
from burn.kernels.builders.ranks import ORDER, KeyAt, Keys, Ranked, Ranks, Writes
from burn.kernels.lower import Indices, linear
from burn.kernels.preferences import Sorting

WIDE = 62
"""The most bits of a key and of a position together, by which a tile is ranked."""

SHIFTED = 65
"""Added to shifts. Kernels take numbers of more than 16 as arguments, and are not compiled apart for odd ones: one kernel serves
several passes."""


@dataclass(frozen=True)
class Digit:
    """`width` bits of a key from bit `low` on."""

    low: int
    width: int

    @property
    def count(self) -> int:
        return 1 << self.width


def ranks_of(group: Group, lines: tuple[Dim, ...], count: Dim, keys: Keys, sorting: Sorting, first: int = 0) -> Ranks:
    """The kernels that sort rows of this length, see `Ranks`."""
    compared = isinstance(count, int) and count <= sorting.compared
    return (DigitRanks if sorting.block and not compared else Ranks)(group, lines, count, keys, sorting, first)


class DigitRanks(Ranks):
    """See `Ranks`. The buffers of the keys and positions are padded rows, and follow those of the counts."""

    @property
    def is_whole(self) -> bool:
        """True if a row fits one tile."""
        whole = self.sorting.whole
        fits = isinstance(self.count, int) and self.count <= whole
        return fits and self.keys.bits + whole.bit_length() <= WIDE

    @property
    def block(self) -> int:
        if self.is_whole:
            assert isinstance(self.count, int)
            return 1 << max(4, (self.count - 1).bit_length())
        return self.sorting.block

    @property
    def tiles(self) -> Dim:
        return ceildiv(self.count, self.block)

    @property
    def length(self) -> Dim:
        return self.tiles * self.block

    @property
    def digits(self) -> list[Digit]:
        """All of one width, so that passes share kernels. Above its bits a key has zeros."""
        passes = ceildiv(self.keys.bits, self.sorting.digit)
        assert isinstance(passes, int)
        width = -(-self.keys.bits // passes)
        return [Digit(width * number, width) for number in range(passes)]

    @property
    def is_chunked(self) -> bool:
        """True if chunks of tiles are counted together."""
        return not isinstance(self.tiles, int) or self.tiles > 2 * self.sorting.chunk

    def calls(self, key: KeyAt, writes: Writes | None = None) -> list[Call]:
        if self.is_whole:
            calls = [self._moved_tiles(key, 0, None)]
        else:
            calls = []
            for number, digit in enumerate(self.digits):
                calls.append(self._counts(key, number, digit))
                calls += [self._sums(digit)] if self.is_chunked else []
                calls += [self._offsets(digit), self._moved_tiles(key, number, digit)]
        return [*calls, self._written(writes)] if writes else calls

    @property
    def sorted_buffers(self) -> tuple[int, int]:
        return self._pair_of(1 if self.is_whole else len(self.digits))

    def load(self, builder: Builder, buffer: int, dtype: str, line: Indices, position: Dim) -> Scalar:
        shared = builder.shared(buffer, dtype, product((*self.lines, self.length)), "read")
        return builder.low.load(shared, linear((*line, position), (*self.lines, self.length)))

    # ---- buffers -------------------------------------------------------------------------------------------------------
    def _pair_of(self, passes: int) -> tuple[int, int]:
        """The buffers of keys and positions after so many passes. The counts, offsets and sums of chunks are before them."""
        tables = 0 if self.is_whole else 3 if self.is_chunked else 2
        first = self.first + tables + 2 * ((passes - 1) % 2)
        return first, first + 1

    def _table(self, builder: Builder, number: int, digit: Digit, access: str = "read") -> int:
        rows = ceildiv(self.tiles, self.sorting.chunk) if number == 2 else self.tiles
        elements = product((*self.lines, rows, digit.count))
        return builder.shared(self.first + number, ORDER, elements, "read" if access == "read" else "write")

    def _entry(self, builder: Builder, number: int, digit: Digit, line: Indices, row: Dim, column: Dim) -> Scalar:
        rows = ceildiv(self.tiles, self.sorting.chunk) if number == 2 else self.tiles
        index = linear((*line, row, column), (*self.lines, rows, digit.count))
        return builder.low.load(self._table(builder, number, digit), index)

    # ---- keys ----------------------------------------------------------------------------------------------------------
    def _key(self, builder: Builder, key: KeyAt, number: int, line: Indices, position: Dim) -> Scalar:
        """The key of an element before a pass as bits whose unsigned order is that of the elements."""
        keys, dtype = self.keys, self.keys.dtype
        if number:
            return self.load(builder, self._pair_of(number)[0], dtype, line, position)
        bits, width = key(builder, line, position), 64 if dtype == "int64" else 32
        if keys.shift:
            bits = Apply(dtype, "shift_right", (bits, Const(dtype, keys.shift)))
        if keys.signed:
            sign = 1 << (keys.bits - 1)
            bits = Apply(dtype, "xor", (bits, Const(dtype, sign if keys.bits < width else -sign)))
        if keys.bits < width:
            bits = Apply(dtype, "and", (bits, Const(dtype, (1 << keys.bits) - 1)))
        if self.count == self.length:
            return bits
        last = Const(dtype, (1 << keys.bits) - 1 if keys.bits < width else -1)
        return Where(dtype, ((position, self.count),), bits, last)

    def _of_key(self, key: Scalar, digit: Digit | None) -> Scalar:
        """A digit as an int32, or the whole key as a number that is not negative."""
        dtype = self.keys.dtype
        if digit is None:
            if self.keys.bits + self.block.bit_length() <= 32:
                return key
            return Convert("int64", Reinterpret("uint32", key)) if dtype == "int32" else key
        if digit.low:
            shift = Apply(dtype, "sub", (Convert(dtype, Index("int64", digit.low + SHIFTED)), Const(dtype, SHIFTED)))
            key = Apply(dtype, "shift_right", (key, shift))
        return convert(Apply(dtype, "and", (key, Const(dtype, digit.count - 1))), ORDER)

    # ---- kernels -------------------------------------------------------------------------------------------------------
    def _loops(self) -> tuple[tuple[LoopVar, ...], Indices, Dim, Dim]:
        """Loops over the elements of all tiles: with the index of the line, the tile's number, and the position in the row."""
        variables = loops((*self.lines, self.length))
        *line, position = loop_index(variables)
        return variables, tuple(line), floordiv(position, self.block), position

    def _counts(self, key: KeyAt, number: int, digit: Digit) -> Call:
        """Counts, for each tile and digit, the elements with smaller digits."""
        builder, bound = Builder(self.group), LoopVar("digit", digit.count)
        variables, line, _, position = self._loops()
        (than,) = loop_index((bound,))
        mine = self._of_key(self._key(builder, key, number, line, position), digit)
        smaller = Convert(ORDER, Apply("bool", "lt", (mine, Convert(ORDER, Index("int64", than)))))
        counted = ColumnReduction(
            (bound,), Reduction("smaller", "sum", ORDER, smaller), self._table(builder, 0, digit, "write")
        )
        return builder.call(lambda buffers: LoopKernel(variables, (), buffers, (counted,), self.block))

    def _sums(self, digit: Digit) -> Call:
        """Sums the counts of each chunk of tiles."""
        builder, size = Builder(self.group), self.sorting.chunk
        variables = loops((*self.lines, ceildiv(self.tiles, size), digit.count))
        step = LoopVar("step", size)
        *line, chunk, column = loop_index(variables)
        tile = chunk * size + loop_index((step,))[0]
        body = Where(
            ORDER, ((tile, self.tiles),), self._entry(builder, 0, digit, tuple(line), tile, column), Const(ORDER, 0)
        )
        stage = Stage((step,), (Reduction("total", "sum", ORDER, body),))
        offset = linear((*line, chunk, column), tuple(v.extent for v in variables))
        write = Stage((), (), (Write(self._table(builder, 2, digit, "write"), offset, Reduced(ORDER, "total")),))
        return builder.call(lambda buffers: LoopKernel(variables, (stage, write), buffers))

    def _offsets(self, digit: Digit) -> Call:
        """Computes what is added to the rank of an element in its tile, for each tile and digit."""
        builder, size = Builder(self.group), self.sorting.chunk
        variables = loops((*self.lines, self.tiles, digit.count))
        *head, tile, column = loop_index(variables)
        line = tuple(head)

        def smaller(number: int, row: Dim, all_: Dim) -> tuple[Scalar, Scalar]:
            """The elements of a tile or a chunk with smaller digits than this one, and than the next one."""
            own = self._entry(builder, number, digit, line, row, column)
            following = self._entry(builder, number, digit, line, row, column + 1)
            whole = Convert(ORDER, Index("int64", all_))
            return own, Where(ORDER, ((column + 1, digit.count),), following, whole)

        stages = []
        if not self.is_chunked:
            other = LoopVar("other", self.tiles)
            (theirs,) = loop_index((other,))
            own, following = smaller(0, theirs, self.block)
            body = Where(ORDER, ((tile - theirs - 1, self.tiles),), following, own)
            stages.append(Stage((other,), (Reduction("before", "sum", ORDER, body),)))
            before: Scalar = Reduced(ORDER, "before")
        else:
            chunks = ceildiv(self.tiles, size)
            chunk, within = floordiv(tile, size), mod(tile, size)
            other, step = LoopVar("other", chunks), LoopVar("step", size)
            (theirs,), (near,) = loop_index((other,)), loop_index((step,))
            own, following = smaller(2, theirs, dim_min(self.tiles - theirs * size, size) * self.block)
            body = Where(ORDER, ((chunk - theirs - 1, chunks),), following, own)
            stages.append(Stage((other,), (Reduction("chunks", "sum", ORDER, body),)))
            own, following = smaller(0, chunk * size + near, self.block)
            mine = Apply(ORDER, "sub", (following, own))
            body = Where(ORDER, ((within - near - 1, size),), mine, Const(ORDER, 0))
            stages.append(Stage((step,), (Reduction("tiles", "sum", ORDER, body),)))
            before = Apply(ORDER, "add", (Reduced(ORDER, "chunks"), Reduced(ORDER, "tiles")))
        value = Apply(ORDER, "sub", (before, self._entry(builder, 0, digit, line, tile, column)))
        offset = linear((*line, tile, column), tuple(v.extent for v in variables))
        write = Stage((), (), (Write(self._table(builder, 1, digit, "write"), offset, value),))
        return builder.call(lambda buffers: LoopKernel(variables, (*stages, write), buffers))

    def _moved_tiles(self, key: KeyAt, number: int, digit: Digit | None) -> Call:
        """Ranks the elements of each tile by a digit, or by the whole key, and moves keys and positions to their ranks."""
        builder = Builder(self.group)
        variables, line, tile, position = self._loops()
        mine = self._key(builder, key, number, line, position)
        body = self._of_key(mine, digit)
        bits = self.keys.bits if digit is None else digit.width
        builder.scratch(ORDER if bits + self.block.bit_length() <= 32 else "int64", 2)
        ranked = Stage((), (Reduction("rank", "rank", ORDER, body, 1 << bits),))
        rank: Scalar = Reduced(ORDER, "rank")
        if digit is not None:
            column = builder.low.position(body, digit.count)
            rank = Apply(ORDER, "add", (rank, self._entry(builder, 1, digit, line, tile, column)))
        order: Scalar = Convert(ORDER, Index("int64", position))
        if number:
            order = self.load(builder, self._pair_of(number)[1], ORDER, line, position)
        target = linear((*line, builder.low.position(rank, self.length)), (*self.lines, self.length))
        writes = []
        for buffer, value in zip(self._pair_of(number + 1), (mine, order), strict=True):
            shared = builder.shared(buffer, value.dtype, product((*self.lines, self.length)), "write")
            writes.append(Write(shared, target, value))
        return builder.call(
            lambda buffers: LoopKernel(variables, (ranked, Stage((), (), tuple(writes))), buffers, (), self.block)
        )

    def _written(self, writes: Writes) -> Call:
        """Writes the results in order."""
        builder, variables = Builder(self.group), loops((*self.lines, self.count))
        *head, rank = loop_index(variables)
        keys, orders = self.sorted_buffers
        order = self.load(builder, orders, ORDER, tuple(head), rank)
        key = self.load(builder, keys, self.keys.dtype, tuple(head), rank)
        made: Sequence = writes(builder, Ranked(tuple(head), rank, builder.low.position(order, self.count), order, key))
        return builder.call(lambda buffers: LoopKernel(variables, (Stage((), (), tuple(made)),), buffers))
