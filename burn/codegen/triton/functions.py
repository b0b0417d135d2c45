"""The pointwise functions of the dialect as expressions of Triton's language.

`FUNCTIONS` is the table: for each name the text for floats, signed and unsigned integers and bool. `{0}`, `{1}` and `{2}` are
the operands. float16 and bfloat16 are computed in float32 and rounded once.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from burn.codegen.formats import EXPONENT, INTEGERS, SMALL
from burn.codegen.printing.code import Unprintable
from burn.dialect.types import DTYPES, HALF_DTYPES
from burn.kernels.body import Const, Convert, Scalar, Where

TYPES = {
    "float64": "tl.float64", "float32": "tl.float32", "float16": "tl.float16", "bfloat16": "tl.bfloat16",
    **dict.fromkeys([*SMALL, EXPONENT, "uint2", "uint4"], "tl.uint8"), "int2": "tl.int8", "int4": "tl.int8",
    **{f"{sign}int{bits}": f"tl.{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "bool": "tl.int1",
}  # fmt: skip
"""Triton's name of an element type in registers; types without arithmetic are bit patterns."""


EIGHTS = {"float8_e4m3fn": "tl.float8e4nv", "float8_e5m2": "tl.float8e5"}
"""8-bit floats that NVIDIA's tensor cores multiply, with Triton's names of the float types."""

QUOTIENT = re.compile(r"tl\.div_rn\(([^,]*), (.*)\)$")
QUOTIENTS = ("div", "reciprocal", "sqrt", "rsqrt")
"""Functions that cost much less without exact rounding."""


def triton_type(dtype: str) -> str:
    """Raises CompileError for a type that Triton has none for."""
    if dtype not in TYPES:
        raise Unprintable(f"Triton kernels do not compute with elements of type {dtype}")
    return TYPES[dtype]


def dot(left: str, right: str, total: str, dtype: str, float32: str) -> str:
    """A matmul of blocks of one float type, `dtype`, with a float32 accumulator. float32: see `Abilities`."""
    if dtype == "float32" and float32 == "tf32":
        left, right = f"rounded_tf32({left})", f"rounded_tf32({right})"
    return f'tl.dot({left}, {right}, {total}, input_precision="{float32 if dtype == "float32" else "ieee"}")'


def narrowed(operands: Sequence[Scalar], total: str, narrow: Collection[str] = HALF_DTYPES) -> list[Scalar] | None:
    """The operands in the type of `narrow` from which all were widened, for a float32 accumulator: multiplications stay
    exact. None for other operands."""
    found = [_narrow(operand, narrow) for operand in operands] if total == "float32" else []
    kinds = {operand.dtype for operand in found if operand is not None}
    if not found or len(kinds) != 1 or None in found:
        return None
    return [operand for operand in found if operand is not None]


def narrowed_bytes(operands: Sequence[Scalar], total: str) -> list[Scalar] | None:
    """The operands as int8 for an int32 accumulator, as tensor cores multiply them. None for other operands."""
    found = [_int8(operand) for operand in operands] if total == "int32" else [None]
    return None if None in found else [operand for operand in found if operand is not None]


def _int8(operand: Scalar) -> Scalar | None:
    match operand:
        case Convert(arg=arg) if arg.dtype == "int8":
            return arg
        case Where(ranges=ranges, then=then, otherwise=Const(value=value)):  # padding
            inside = _int8(then)
            return inside and Where("int8", ranges, inside, Const("int8", value))
    return operand if operand.dtype == "int8" else None


def _narrow(operand: Scalar, narrow: Collection[str]) -> Scalar | None:
    match operand:
        case Convert(arg=arg) if arg.dtype in narrow:
            return arg
        case Where(ranges=ranges, then=then, otherwise=Const(value=0)):  # zero padding
            inside = _narrow(then, narrow)
            return inside and Where(inside.dtype, ranges, inside, Const(inside.dtype, 0.0))
    return operand if operand.dtype in narrow else None


@dataclass(frozen=True)
class Rule:
    """The text of a function for each kind of element; None if it is not defined. `predicate`: the result is a bool."""

    floats: str | None = None
    signed: str | None = None
    unsigned: str | None = None
    boolean: str | None = None
    predicate: bool = False
    any_width: bool = False  # no arithmetic: half precision needs no float32


def apply(name: str, dtype: str, *operands: str, rough: bool = False) -> str:
    """A pointwise function of operands of that type (for `select`, of the two after the condition). `rough`: the last bits do
    not matter. Raises CompileError if the function is not defined for the type."""
    rule, text = _rule(name, dtype)
    half = dtype in HALF_DTYPES and not rule.any_width
    if half:
        operands = tuple(f"{x}.to(tl.float32)" for x in operands)
    if half or rough or dtype == "float64":
        text = _plain(text)
    bits, type_ = DTYPES[dtype].bits, TYPES[dtype]
    ones = f"tl.full((), {-1 if DTYPES[dtype].kind == 'int' else (1 << bits) - 1}, {type_})"
    result = text.format(*operands, width=bits, ones=ones, unsigned=f"tl.uint{bits}", type=type_)
    return f"({result}).to({type_})" if half and not rule.predicate else result


def _plain(text: str) -> str:
    """Division and roots in Triton: exact for doubles, and within two ULPs for floats, which suffices for
    half-precision results."""
    return QUOTIENT.sub(r"(\1 / \2)", text).replace("tl.sqrt_rn(", "tl.sqrt(")


def needs_tensors(name: str, dtype: str) -> bool:
    """True if operands cannot be Python numbers: the text calls a library function, or a method of an operand."""
    return re.search(r"(?<![\w.])[a-z]\w*\(|libdevice|\}\.to\(", _rule(name, dtype)[1]) is not None


def _rule(name: str, dtype: str) -> tuple[Rule, str]:
    rule = FUNCTIONS.get(name)
    kind = DTYPES[dtype].kind if dtype in TYPES and INTEGERS.get(dtype, 8) >= 8 else ""
    by_kind = {"float": rule.floats, "int": rule.signed, "uint": rule.unsigned, "bool": rule.boolean} if rule else {}
    text = by_kind.get(kind)
    if rule is None or text is None:
        raise Unprintable(f"Triton kernels have no '{name}' of elements of type {dtype}")
    return rule, text


def _same(text: str, boolean: str | None = None, floats: str | None = None) -> Rule:
    """A rule that is the same for signed and unsigned integers."""
    return Rule(floats, text, text, boolean)


def _compare(sign: str) -> Rule:
    text = f"{{0}} {sign} {{1}}"
    return Rule(text, text, text, text, predicate=True)


def _device(name: str) -> Rule:
    return Rule(f"libdevice.{name}({{0}})")


def _predicate(text: str) -> Rule:
    return Rule(text, predicate=True)


INFINITY = 'float("inf")'
SELECT = "tl.where({0}, {1}, {2})"

FUNCTIONS: dict[str, Rule] = {
    # arithmetic
    "add": _same("{0} + {1}", floats="{0} + {1}"),
    "sub": _same("{0} - {1}", floats="{0} - {1}"),
    "mul": _same("{0} * {1}", floats="{0} * {1}"),
    "div": Rule("tl.div_rn({0}, {1})", "signed_quotient({0}, {1})", "quotient({0}, {1})"),
    "floordiv": Rule("float_floordiv({0}, {1})", "integer_floordiv({0}, {1})", "quotient({0}, {1})"),
    "fmod": Rule("libdevice.fmod({0}, {1})", "signed_rest({0}, {1})", "rest({0}, {1})"),
    "mod": Rule("float_mod({0}, {1})", "integer_mod({0}, {1})", "rest({0}, {1})"),
    "pow": Rule(
        "libdevice.pow({0}, {1})", "signed_power({0}, {1}, {width})", "integer_power({0}, {1}, {width})"
    ),
    "min": Rule("least({0}, {1})", "tl.minimum({0}, {1})", "tl.minimum({0}, {1})", "{0} & {1}"),
    "max": Rule("greatest({0}, {1})", "tl.maximum({0}, {1})", "tl.maximum({0}, {1})", "{0} | {1}"),
    "fma": _same("{0} * {1} + {2}", floats="tl.fma({0}, {1}, {2})"),
    "neg": _same("0 - {0}", floats="-{0}"),
    "abs": Rule("tl.abs({0})", "tl.where({0} < 0, 0 - {0}, {0})", "{0}", "{0}"),
    "sign": Rule("signum({0})", "signum({0})", "({0} != 0).to({type})"),
    "reciprocal": Rule("tl.div_rn(1.0, {0})"),
    "sqrt": Rule("tl.sqrt_rn({0})"),
    "rsqrt": Rule("tl.div_rn(1.0, tl.sqrt_rn({0}))"),
    # rounding
    "floor": Rule("tl.floor({0})"),
    "ceil": Rule("tl.ceil({0})"),
    "round": _device("nearbyint"),
    "trunc": _device("trunc"),
    # exponentials and logarithms
    "exp": Rule("tl.exp({0})"),
    "exp2": Rule("tl.exp2({0})"),
    "expm1": _device("expm1"),
    "log": Rule("tl.log({0})"),
    "log2": Rule("tl.log2({0})"),
    "log1p": _device("log1p"),
    "sigmoid": Rule("1.0 / (1.0 + tl.exp(-{0}))"),
    "erf": Rule("tl.erf({0})"),
    # trigonometric and hyperbolic
    "sin": Rule("tl.sin({0})"),
    "cos": Rule("tl.cos({0})"),
    **{name: _device(name) for name in ("tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh")},
    "atan2": Rule("libdevice.atan2({0}, {1})"),
    # predicates
    "isnan": _predicate("{0} != {0}"),
    "isinf": _predicate(f"tl.abs({{0}}) == {INFINITY}"),
    "eq": _compare("=="),
    "ne": _compare("!="),
    "lt": _compare("<"),
    "le": _compare("<="),
    "gt": _compare(">"),
    "ge": _compare(">="),
    # bits and choice
    "and": _same("{0} & {1}", "{0} & {1}"),
    "or": _same("{0} | {1}", "{0} | {1}"),
    "xor": _same("{0} ^ {1}", "{0} ^ {1}"),
    "not": _same("{0} ^ {ones}", "{0} == 0"),
    "shift_left": _same("tl.where({1}.to({unsigned}) < {width}, {0} << ({1} & ({width} - 1)), 0).to({type})"),
    "shift_right": _same(
        "tl.where({1}.to({unsigned}) < {width}, "
        "({0}.to({unsigned}, bitcast=True) >> ({1} & ({width} - 1)).to({unsigned})), 0).to({type}, bitcast=True)"
    ),
    "select": Rule(SELECT, SELECT, SELECT, SELECT, any_width=True),
}  # fmt: skip
