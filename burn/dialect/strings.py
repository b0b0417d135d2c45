"""String ops: concatenation, splitting, letter case, matching, and conversion from and to numbers. Ops that move or
compare elements (gather, concat, eq ...) accept strings as well as numbers; these need the characters. The runtime's
library computes them."""

from __future__ import annotations

from burn.dialect.batching.rules import COUNTED, elementwise, looked_up, together
from burn.dialect.dims import symbol
from burn.dialect.op import DTypeName, Op, Operand
from burn.dialect.types import DTYPES, TensorType

WRITTEN = ("float64", "int64", "uint64", "bool")
"""The element types with a text form; others are converted first."""

PRECISIONS = ("float64", "float32", "float16", "bfloat16")


def check_strings(cls: type[Op], *types_: TensorType) -> None:
    for type_ in types_:
        if type_.dtype != "string":
            cls.fail(f"takes strings, not {type_}")


class StringConcat(Op, name="string_concat", batching=together):
    """Concatenates each string of lhs with that of rhs. Shapes: lhs, rhs [...] -> [...]."""

    lhs: Operand
    rhs: Operand

    @classmethod
    def infer(cls, lhs: TensorType, rhs: TensorType) -> TensorType:
        check_strings(cls, lhs, rhs)
        if lhs.shape != rhs.shape:
            cls.fail(f"the operands must have one shape, not {lhs} and {rhs}")
        return lhs


class StringCase(Op, name="string_case", batching=looked_up):
    """Each string with its characters mapped by the table: upper or lower case.

    Shapes: x [...], table [n, 4] int32, rows sorted by code point, each with up to three code points that replace it ->
    [...].
    """

    x: Operand
    table: Operand

    @classmethod
    def infer(cls, x: TensorType, table: TensorType) -> TensorType:
        check_strings(cls, x)
        if table.dtype != "int32" or table.rank != 2 or table.shape[1] != 4:
            cls.fail(f"the table must be int32[n, 4], not {table}")
        return x


class StringSplit(Op, name="string_split", batching=COUNTED):
    """Splits each string at delimiters (without a delimiter at runs of white space) into at most `maximum` + 1 pieces,
    unless it is negative. Rows are padded with empty strings.

    Shapes: x [...], delimiter [] -> [.., count] strings, [...] int64, the number of pieces of each; `count` is a new
    symbol.
    """

    x: Operand
    delimiter: Operand
    count: str
    maximum: int = -1

    @classmethod
    def infer(cls, x: TensorType, delimiter: TensorType, count: str, maximum: int) -> list[TensorType]:
        check_strings(cls, x, delimiter)
        if delimiter.rank:
            cls.fail(f"the delimiter must be one string, not {delimiter}")
        return [x.with_shape((*x.shape, symbol(count))), x.with_dtype("int64")]


class StringMatch(Op, name="string_match", batching=looked_up):
    """True if a regular expression matches the whole string. Shapes: x [...], program [n, 3] int64, from
    `regex.compile` -> [...] bool."""

    x: Operand
    program: Operand

    @classmethod
    def infer(cls, x: TensorType, program: TensorType) -> TensorType:
        check_strings(cls, x)
        if program.dtype != "int64" or program.rank != 2 or program.shape[1] != 3:
            cls.fail(f"the program must be int64[n, 3], not {program}")
        return x.with_dtype("bool")


class StringTokens(Op, name="string_tokens", batching=COUNTED):
    """The successive matches of a regular expression in each string; with `between` the substrings between those.
    Matches of fewer than `least` characters do not count; rows are padded with empty strings. Of the matches that begin
    at one character the longest counts.

    Shapes: x [...], program [n, 3] int64 (`regex.compile`) -> [.., count] strings, [...] int64, the number of matches
    of each; `count` is a new symbol.
    """

    x: Operand
    program: Operand
    count: str
    least: int = 1
    between: bool = False

    @classmethod
    def infer(cls, x: TensorType, program: TensorType, count: str, least: int, between: bool) -> list[TensorType]:
        check_strings(cls, x)
        if program.dtype != "int64" or program.rank != 2 or program.shape[1] != 3:
            cls.fail(f"the program must be int64[n, 3], not {program}")
        if least < 1:
            cls.fail(f"a part has at least one character, not {least}", "least")
        return [x.with_shape((*x.shape, symbol(count))), x.with_dtype("int64")]


class StringFind(Op, name="string_find", batching=looked_up):
    """The first index of each string among the keys, or -1. Shapes: x [...], keys [n] -> [...] int64."""

    x: Operand
    keys: Operand

    @classmethod
    def infer(cls, x: TensorType, keys: TensorType) -> TensorType:
        check_strings(cls, x, keys)
        if keys.rank != 1:
            cls.fail(f"the keys must be a vector, not {keys}")
        return x.with_dtype("int64")


class StringRank(Op, name="string_rank", batching="it ranks the strings of all examples together"):
    """The number of elements before each string in the order of their code points. Shapes: x [...] -> [...] int64."""

    x: Operand

    @classmethod
    def infer(cls, x: TensorType) -> TensorType:
        check_strings(cls, x)
        return x.with_dtype("int64")


class NumberToString(Op, name="number_to_string", batching=elementwise):
    """Numbers as text; floats have the fewest digits from which the element type `precision` reads them back. Shapes: x
    [...] float64, int64, uint64 or bool -> [...]."""

    x: Operand
    precision: DTypeName = "float64"

    @classmethod
    def infer(cls, x: TensorType, precision: str) -> TensorType:
        if x.dtype not in WRITTEN:
            cls.fail(f"takes {', '.join(WRITTEN)}, not {x}")
        if precision not in PRECISIONS:
            cls.fail(f"'{precision}' is none of {', '.join(PRECISIONS)}", "precision")
        return x.with_dtype("string")


class StringToNumber(Op, name="string_to_number", batching=elementwise):
    """Parses strings as decimal numbers, ignoring blanks around them. A string that is no number aborts the run.
    Shapes: x [...] -> [...] of `dtype`: float64, int64 or uint64."""

    x: Operand
    dtype: DTypeName = "float64"

    @classmethod
    def infer(cls, x: TensorType, dtype: str) -> TensorType:
        check_strings(cls, x)
        if dtype not in WRITTEN or DTYPES[dtype].kind == "bool":
            cls.fail(f"'{dtype}' is none of float64, int64, uint64", "dtype")
        return x.with_dtype(dtype)
