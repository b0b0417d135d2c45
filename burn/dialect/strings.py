"""Strings: joining, splitting, letter case, matching, and numbers as text. What moves or compares elements (gather, concat,
eq ...) works on strings as on numbers; these need the characters. They are computed by the runtime's library.
"""

from __future__ import annotations

from burn.dialect.dims import symbol
from burn.dialect.op import DTypeName, Op, Operand
from burn.dialect.types import DTYPES, TensorType

WRITTEN = ("float64", "int64", "uint64", "bool")
"""The element types that can be written as text; others are converted first."""

PRECISIONS = ("float64", "float32", "float16", "bfloat16")


def check_strings(cls: type[Op], *types_: TensorType) -> None:
    for type_ in types_:
        if type_.dtype != "string":
            cls.fail(f"takes strings, not {type_}")


class StringConcat(Op, name="string_concat"):
    """Each string of lhs with that of rhs behind it. Shapes: lhs, rhs [...] -> [...]."""

    lhs: Operand
    rhs: Operand

    @classmethod
    def infer(cls, lhs: TensorType, rhs: TensorType) -> TensorType:
        check_strings(cls, lhs, rhs)
        if lhs.shape != rhs.shape:
            cls.fail(f"the operands must have one shape, not {lhs} and {rhs}")
        return lhs


class StringCase(Op, name="string_case"):
    """Each string with its characters replaced as the table says: upper or lower case.

    Shapes: x [...], table [n, 4] int32, rows sorted by a code point and the up to three that take its place -> [...]."""

    x: Operand
    table: Operand

    @classmethod
    def infer(cls, x: TensorType, table: TensorType) -> TensorType:
        check_strings(cls, x)
        if table.dtype != "int32" or table.rank != 2 or table.shape[1] != 4:
            cls.fail(f"the table must be int32[n, 4], not {table}")
        return x


class StringSplit(Op, name="string_split"):
    """Each string's pieces between delimiters (without any: between runs of white space), at most `maximum` + 1 of them
    unless it is negative; rows are filled up with empty strings.

    Shapes: x [...], delimiter [] -> [.., count] strings, [...] int64, how many pieces each has; `count` is a new symbol."""

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


class StringMatch(Op, name="string_match"):
    """Whether a regular expression matches each whole string. Shapes: x [...], program [n, 3] int64, what `regex.compile`
    makes of the expression -> [...] bool."""

    x: Operand
    program: Operand

    @classmethod
    def infer(cls, x: TensorType, program: TensorType) -> TensorType:
        check_strings(cls, x)
        if program.dtype != "int64" or program.rank != 2 or program.shape[1] != 3:
            cls.fail(f"the program must be int64[n, 3], not {program}")
        return x.with_dtype("bool")


class StringTokens(Op, name="string_tokens"):
    """The parts of each string that a regular expression finds one after another, or with `between` what lies between those, if
    they have `least` characters; rows are filled up with empty strings. Of the parts that begin at one place the longest counts.

    Shapes: x [...], program [n, 3] int64 (`regex.compile`) -> [.., count] strings, [...] int64, how many parts each has; `count`
    is a new symbol."""

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


class StringFind(Op, name="string_find"):
    """The first place among the keys where each string is, or -1. Shapes: x [...], keys [n] -> [...] int64."""

    x: Operand
    keys: Operand

    @classmethod
    def infer(cls, x: TensorType, keys: TensorType) -> TensorType:
        check_strings(cls, x, keys)
        if keys.rank != 1:
            cls.fail(f"the keys must be a vector, not {keys}")
        return x.with_dtype("int64")


class StringRank(Op, name="string_rank"):
    """How many elements come before each string in the order of their code points. Shapes: x [...] -> [...] int64."""

    x: Operand

    @classmethod
    def infer(cls, x: TensorType) -> TensorType:
        check_strings(cls, x)
        return x.with_dtype("int64")


class NumberToString(Op, name="number_to_string"):
    """Numbers as text, floats with the fewest digits that give them again in the element type `precision`.
    Shapes: x [...] float64, int64, uint64 or bool -> [...]."""

    x: Operand
    precision: DTypeName = "float64"

    @classmethod
    def infer(cls, x: TensorType, precision: str) -> TensorType:
        if x.dtype not in WRITTEN:
            cls.fail(f"takes {', '.join(WRITTEN)}, not {x}")
        if precision not in PRECISIONS:
            cls.fail(f"'{precision}' is none of {', '.join(PRECISIONS)}", "precision")
        return x.with_dtype("string")


class StringToNumber(Op, name="string_to_number"):
    """The numbers that strings spell, in decimal digits; blanks around them are passed over. A string that is no number ends
    the run. Shapes: x [...] -> [...] of `dtype`: float64, int64 or uint64."""

    x: Operand
    dtype: DTypeName = "float64"

    @classmethod
    def infer(cls, x: TensorType, dtype: str) -> TensorType:
        check_strings(cls, x)
        if dtype not in WRITTEN or DTYPES[dtype].kind == "bool":
            cls.fail(f"'{dtype}' is none of float64, int64, uint64", "dtype")
        return x.with_dtype(dtype)
