"""Lists of tensors with lengths and element sizes known only at run time: sequences, and optionals (lists of one tensor
or none).

A list is an immutable scalar of the element type `list`: inserting gives another list. So lists pass through `if` and
`loop` like other values. A tensor taken from one has sizes of its own, new symbols. The runtime's library computes
these ops.
"""

from __future__ import annotations

from burn.dialect.batching.rules import LISTS
from burn.dialect.dims import Dim, symbol
from burn.dialect.op import DTypeName, Op, Operand, normalize_axis
from burn.dialect.types import DTYPES, TensorType

LIST = TensorType("list", ())
POSITION = TensorType("int64", ())
ANY = -1


def check_list(cls: type[Op], list_: TensorType, position: TensorType | None = None) -> None:
    if list_ != LIST:
        cls.fail(f"takes a list, not {list_}")
    if position not in (None, POSITION):
        cls.fail(f"the position must be int64[], not {position}")


def found(cls: type[Op], dtype: str, sizes: tuple[int, ...], symbols: tuple[str, ...]) -> TensorType:
    """The type of a tensor taken from a list: its sizes, with the next symbol for each -1."""
    if dtype not in DTYPES:
        cls.fail(f"there is no element type '{dtype}'", "dtype")
    if sizes.count(ANY) != len(symbols):
        cls.fail(f"has {len(symbols)} symbols for {sizes.count(ANY)} sizes", "symbols")
    names = iter(symbols)
    shape: list[Dim] = [symbol(next(names)) if size == ANY else size for size in sizes]
    return TensorType(dtype, tuple(shape))


class ListEmpty(Op, name="list_empty"):
    """A list without elements. Shapes: -> list."""

    @classmethod
    def infer(cls) -> TensorType:
        return LIST


class ListInsert(Op, name="list_insert", batching=LISTS):
    """The list with a tensor inserted at a position (by default at the end; a negative one counts from the end).
    Shapes: list, x [...], position [] int64 -> list."""

    list: Operand
    x: Operand
    position: Operand | None

    @classmethod
    def infer(cls, list: TensorType, x: TensorType, position: TensorType | None) -> TensorType:
        check_list(cls, list, position)
        return LIST


class ListErase(Op, name="list_erase", batching=LISTS):
    """The list without the element at a position, by default the last. Shapes: list, position [] int64 -> list."""

    list: Operand
    position: Operand | None

    @classmethod
    def infer(cls, list: TensorType, position: TensorType | None) -> TensorType:
        check_list(cls, list, position)
        return LIST


class ListLength(Op, name="list_length", batching=LISTS):
    """The number of elements. Shapes: list -> [] int64."""

    list: Operand

    @classmethod
    def infer(cls, list: TensorType) -> TensorType:
        check_list(cls, list)
        return POSITION


class ListAt(Op, name="list_at", batching=LISTS):
    """The tensor at a position; without a position, that of an optional. It must have the given element type and sizes;
    each -1 is one of the new `symbols`. Shapes: list, position [] int64 -> sizes."""

    list: Operand
    position: Operand | None
    dtype: DTypeName
    sizes: tuple[int, ...]
    symbols: tuple[str, ...] = ()

    @classmethod
    def infer(
        cls, list: TensorType, position: TensorType | None, dtype: str, sizes: tuple[int, ...], symbols: tuple[str, ...]
    ) -> TensorType:
        check_list(cls, list, position)
        return found(cls, dtype, sizes, symbols)


class ListConcat(Op, name="list_concat", batching=LISTS):
    """Concatenates all tensors along an axis, a new one if `stack`. `sizes` are the result's; each -1 is one of the new
    `symbols`. Shapes: list -> sizes."""

    list: Operand
    axis: int
    dtype: DTypeName
    sizes: tuple[int, ...]
    symbols: tuple[str, ...] = ()
    stack: bool = False

    @classmethod
    def infer(
        cls, list: TensorType, axis: int, dtype: str, sizes: tuple[int, ...], symbols: tuple[str, ...], stack: bool
    ) -> TensorType:
        check_list(cls, list)
        if not 0 <= axis < len(sizes):
            cls.fail(f"axis {axis} is out of range for rank {len(sizes)}", "axis")
        return found(cls, dtype, sizes, symbols)


class ListSplit(Op, name="list_split", batching=LISTS):
    """Splits a tensor along an axis into parts of the lengths `parts`. If that is one number, all parts have that
    length (the last may be shorter). Without it the parts are slices, which lose the axis unless `keep`. Shapes: x
    [...], parts [n] or [] int64 -> list."""

    x: Operand
    parts: Operand | None
    axis: int = 0
    keep: bool = True

    @classmethod
    def infer(cls, x: TensorType, parts: TensorType | None, axis: int, keep: bool) -> TensorType:
        normalize_axis(cls, axis, x.rank)
        if parts is not None and (parts.dtype != "int64" or parts.rank > 1):
            cls.fail(f"the parts must be int64[n] or int64[], not {parts}")
        return LIST
