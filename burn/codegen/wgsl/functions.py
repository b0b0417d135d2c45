"""The pointwise functions of the dialect as WGSL expressions.

`FUNCTIONS` is the table: for each name the text for floats, signed and unsigned integers of 32 bits, pairs of words, and bool.
`{0}`, `{1}` and `{2}` are the operands. Narrow integers wrap, and half precision is rounded, after the operation.
"""

from __future__ import annotations

from dataclasses import dataclass

from burn.codegen.printing.code import Unprintable
from burn.codegen.wgsl.elements import LONG, REGISTERS
from burn.dialect.types import DTYPES


@dataclass(frozen=True)
class Rule:
    """The text of a function for each kind of element; None if it is not defined. predicate: the result is a bool. exact: the
    result is a number of the type without rounding or wrapping."""

    floats: str | None = None
    signed: str | None = None
    unsigned: str | None = None
    long_signed: str | None = None
    long_unsigned: str | None = None
    boolean: str | None = None
    predicate: bool = False
    exact: bool = False


def apply(name: str, dtype: str, *operands: str) -> str:
    """A pointwise function of operands of that type (for `select`, of the two after the condition). Raises Unprintable if the
    function is not defined for the type."""
    rule = FUNCTIONS.get(name)
    text = None if rule is None else _text(rule, name, dtype)
    if rule is None or text is None:
        raise Unprintable(f"WGSL kernels have no '{name}' of elements of type {dtype}")
    bits = DTYPES[dtype].bits
    result = text.format(*operands, width=f"{bits}u")
    return f"({result})" if rule.predicate or rule.exact else rounded(f"({result})", dtype)


def _text(rule: Rule, name: str, dtype: str) -> str | None:
    kind, type_ = DTYPES[dtype].kind, REGISTERS.get(dtype)
    if name == "select" and type_ is not None:
        return rule.floats
    if type_ == LONG:
        return {"int": rule.long_signed, "uint": rule.long_unsigned}.get(kind)
    if kind in ("int", "uint") and DTYPES[dtype].bits < 8:
        return None
    return {"float": rule.floats, "int": rule.signed, "uint": rule.unsigned, "bool": rule.boolean}.get(kind)


def rounded(text: str, dtype: str) -> str:
    """A result of 32 bits as a number of a narrower type."""
    bits = DTYPES[dtype].bits
    match DTYPES[dtype].kind:
        case "float" if dtype == "float16":
            return f"rounded_half({text})"
        case "float" if dtype == "bfloat16":
            return f"rounded_brain({text})"
        case "int" if bits < 32:
            return f"extractBits({text}, 0u, {bits}u)"
        case "uint" if bits < 32:
            return f"({text} & {(1 << bits) - 1}u)"
    return text


def _infix(sign: str, long: str, boolean: str | None = None) -> Rule:
    text = f"{{0}} {sign} {{1}}"
    return Rule(text, text, text, f"{long}({{0}}, {{1}})", f"{long}({{0}}, {{1}})", boolean)


def _compare(text: str, floats: str, long: str) -> Rule:
    """floats: a test that is right for NaN; long: the test of pairs, with TYPE for the kind of number."""
    boolean = text if "==" in text else text.format("u32({0})", "u32({1})")
    signed, unsigned = long.replace("TYPE", "i64"), long.replace("TYPE", "u64")
    return Rule(floats, text, text, signed, unsigned, boolean, predicate=True)


def _bits(sign: str, boolean: str) -> Rule:
    text = f"{{0}} {sign} {{1}}"
    return Rule(None, text, text, text, text, boolean, exact=True)


def _float(name: str) -> Rule:
    return Rule(f"{name}({{0}})")


def _divide(name: str, floats: str) -> Rule:
    call = f"{name}_{{}}({{{{0}}}}, {{{{1}}}})"
    unsigned = {"floordiv": "quotient", "mod": "rest"}.get(name, name)
    wide = f"{unsigned}_{{}}({{{{0}}}}, {{{{1}}}})"
    return Rule(floats, call.format("i32"), wide.format("u32"), call.format("i64"), wide.format("u64"))


SELECT = Rule("select({2}, {1}, {0})", exact=True)

FUNCTIONS: dict[str, Rule] = {
    # arithmetic
    "add": _infix("+", "add_64"),
    "sub": _infix("-", "sub_64"),
    "mul": _infix("*", "mul_64"),
    "div": _divide("quotient", "{0} / {1}"),
    "floordiv": _divide("floordiv", "floordiv_f32({0}, {1})"),
    "fmod": _divide("rest", "fmod_f32({0}, {1})"),
    "mod": _divide("mod", "mod_f32({0}, {1})"),
    "pow": Rule(
        "power_f32({0}, {1})", "power_i32({0}, {1})", "power_u32({0}, {1})", "power_i64({0}, {1})", "power_u64({0}, {1})"
    ),
    "min": Rule(
        "least({0}, {1})", "min({0}, {1})", "min({0}, {1})", "select({0}, {1}, lt_i64({1}, {0}))",
        "select({0}, {1}, lt_u64({1}, {0}))", "{0} && {1}", exact=True,
    ),
    "max": Rule(
        "greatest({0}, {1})", "max({0}, {1})", "max({0}, {1})", "select({0}, {1}, lt_i64({0}, {1}))",
        "select({0}, {1}, lt_u64({0}, {1}))", "{0} || {1}", exact=True,
    ),
    "fma": Rule(
        "fma({0}, {1}, {2})", "{0} * {1} + {2}", "{0} * {1} + {2}", "fma_64({0}, {1}, {2})", "fma_64({0}, {1}, {2})"
    ),
    "neg": Rule("-{0}", "0 - {0}", "0u - {0}", "neg_64({0})", "neg_64({0})"),
    "abs": Rule("abs({0})", "select({0}, 0 - {0}, {0} < 0)", "{0}", "abs_64({0})", "{0}", "{0}"),
    "sign": Rule(
        "sign_f32({0})", "sign_i32({0})", "select(0u, 1u, {0} != 0u)", "sign_i64({0})",
        "select(vec2<u32>(), vec2<u32>(1u, 0u), ({0}.x | {0}.y) != 0u)", exact=True,
    ),
    "reciprocal": Rule("1.0 / {0}"),
    "sqrt": _float("sqrt"),
    "rsqrt": Rule("1.0 / sqrt({0})"),
    # rounding
    **{name: _float(name) for name in ("floor", "ceil", "round", "trunc")},
    # exponentials, logarithms, trigonometric and hyperbolic functions
    **{
        name: _float(f"{name}_f32")
        for name in (
            "exp", "exp2", "expm1", "log", "log2", "log1p", "sigmoid", "erf", "sin", "cos", "tan", "asin", "acos", "atan", "sinh",
            "cosh", "tanh", "asinh", "acosh", "atanh",
        )
    },
    "atan2": Rule("atan2_f32({0}, {1})"),
    # predicates
    "isnan": Rule("is_nan({0})", predicate=True),
    "isinf": Rule("is_inf({0})", predicate=True),
    "eq": _compare("{0} == {1}", "eq_f32({0}, {1})", "eq_64({0}, {1})"),
    "ne": _compare("!({0} == {1})", "!eq_f32({0}, {1})", "!eq_64({0}, {1})"),
    "lt": _compare("{0} < {1}", "lt_f32({0}, {1})", "lt_TYPE({0}, {1})"),
    "le": _compare("{0} <= {1}", "le_f32({0}, {1})", "!lt_TYPE({1}, {0})"),
    "gt": _compare("{0} > {1}", "lt_f32({1}, {0})", "lt_TYPE({1}, {0})"),
    "ge": _compare("{0} >= {1}", "le_f32({1}, {0})", "!lt_TYPE({0}, {1})"),
    # bits and choice
    "and": _bits("&", "{0} && {1}"),
    "or": _bits("|", "{0} || {1}"),
    "xor": _bits("^", "{0} != {1}"),
    "not": Rule(None, "~{0}", "~{0}", "~{0}", "~{0}", "!{0}"),
    "shift_left": Rule(
        None, "bitcast<i32>(shifted_left(bitcast<u32>({0}), bitcast<u32>({1}), {width}))", "shifted_left({0}, {1}, {width})",
        "shifted_left_64({0}, {1})", "shifted_left_64({0}, {1})",
    ),
    "shift_right": Rule(
        None, "bitcast<i32>(shifted_right(extractBits(bitcast<u32>({0}), 0u, {width}), bitcast<u32>({1}), {width}))",
        "shifted_right({0}, {1}, {width})", "shifted_right_64({0}, {1})", "shifted_right_64({0}, {1})",
    ),
    "select": SELECT,
}  # fmt: skip
