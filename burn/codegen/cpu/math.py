"""The pointwise functions of the CPU code generator: `apply` writes one, lane-wise, by its name in the burn dialect.

`FUNCTIONS` is the table: for each name, how it is printed for floats, signed and unsigned integers and bool. MLIR
integers are signless, so the operands' dtype selects. Functions that need more than a few instructions are in
`elementary/`. float16 and bfloat16 are computed in float32 and rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from burn.codegen.cpu.convert import convert, element_type
from burn.codegen.cpu.elementary import (
    error_function,
    exponential,
    inverse_trigonometric,
    logarithm,
    power,
    remainder,
    trigonometric,
)
from burn.codegen.cpu.lanes import Lanes
from burn.codegen.formats import EXPONENT, SMALL
from burn.codegen.host.emit import Function, Value
from burn.dialect.types import HALF_DTYPES
from burn.errors import CompileError

Emit = Callable[..., Lanes]


@dataclass(frozen=True)
class Rule:
    """How a function of `arity` operands is printed for each kind of element; None if it is not defined."""

    arity: int
    floats: Emit | None = None
    signed: Emit | None = None
    unsigned: Emit | None = None
    boolean: Emit | None = None
    small: Emit | None = None  # bytes: nothing computes with floats of 8 and 4 bits
    any_width: bool = False  # no arithmetic: float16 and bfloat16 need no float32


def apply(code: Function, name: str, dtype: str, *values: Value) -> Value:
    """Function `name` of operands of burn dtype `dtype` (for `select`, of the two after the i1 condition). The result
    has the same type, or is i1 for a predicate. Raises `CompileError` if the function is not defined for the type."""
    rule = FUNCTIONS.get(name)
    if rule is None:
        raise CompileError(f"the CPU back end has no pointwise function '{name}'")
    if len(values) != rule.arity:
        raise CompileError(f"'{name}' takes {rule.arity} operands, not {len(values)}")
    kind = _KINDS.get(dtype)
    emit = getattr(rule, kind) if kind else None
    if emit is None:
        raise CompileError(f"'{name}' is not defined for elements of type {dtype}")
    half = dtype in HALF_DTYPES and not rule.any_width
    if half:
        values = tuple(convert(code, v, dtype, "float32") for v in values)
    lanes = [Lanes(code, v) for v in values]
    expected = "f32" if half else element_type(dtype)
    if any(x.element != expected for x in lanes[rule.arity == 3 and name == "select" :]):
        raise CompileError(f"'{name}' of {dtype} was given {', '.join(v.type for v in values)}")
    result = emit(*lanes)
    if half and result.element == "f32":
        return convert(code, result.value, "float32", dtype)
    return result.value


_KINDS = {
    **dict.fromkeys(("float64", "float32", "float16", "bfloat16"), "floats"),
    **{f"int{bits}": "signed" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": "unsigned" for bits in (8, 16, 32, 64)},
    "bool": "boolean",
    "string": "unsigned",
    **dict.fromkeys((*SMALL, EXPONENT), "small"),
}


def _op(name: str) -> Emit:
    return lambda *operands: operands[0].op(name, *operands[1:])


# ---- floats ----------------------------------------------------------------------------------------------------------
def _minimum(a: Lanes, b: Lanes) -> Lanes:
    """The first select yields `a` if either is NaN, so only a NaN of b remains to be checked: no cost if b is a
    constant, as in a ReLU."""
    return b.is_nan().where(b, (b < a).where(b, a))


def _maximum(a: Lanes, b: Lanes) -> Lanes:
    return b.is_nan().where(b, (b > a).where(b, a))


def _float_sign(x: Lanes) -> Lanes:
    return (x > 0.0).where(1.0, (x < 0.0).where(-1.0, x + 0.0))  # 0, not -0, of a zero of either sign


def _float_mod(x: Lanes, y: Lanes) -> Lanes:
    rest = remainder.fmod(x, y)
    moved = ((rest < 0.0) ^ (y < 0.0)).where(rest + y, rest)
    return rest.equals(0.0).where(rest.with_sign_of(y), moved)


def _float_floordiv(x: Lanes, y: Lanes) -> Lanes:
    """Python's //: the floor of the exact quotient; floor(x / y) would be wrong if x / y rounds up to an integer."""
    rest = remainder.fmod(x, y)
    down = rest.differs(0.0) & ((rest < 0.0) ^ (y < 0.0))
    quotient = (x - rest) / y
    quotient = down.where(quotient - 1.0, quotient)
    floor = quotient.op("math.floor")
    quotient = floor + (quotient - floor > 0.5).where(x.const(1.0), 0.0)  # an integer, except for its rounding
    return y.equals(0.0).where(x / y, quotient.equals(0.0).where(quotient.with_sign_of(x / y), quotient))


# ---- integers --------------------------------------------------------------------------------------------------------
def _quotient(a: Lanes, b: Lanes, signed: bool) -> Lanes:
    """Truncated; x / 0 is 0, and the least integer / -1 wraps to itself. Up to 32 bits through floats, which is exact
    (the quotient of n-bit integers is further than 2^-n, relatively, from the next one) and has vector
    instructions.

    The divisor of 64 bits is frozen. A shift by the width or more is poison before a select replaces it, and LLVM simplifies the
    divisor of a select's arm to that shift, which divides by zero."""
    if a.width == 64:
        b = b.op("llvm.freeze")
        zero = b.equals(0)
        divisor = zero.where(1, b)
        if not signed:
            return zero.where(0, a.op("arith.divui", divisor))
        minus = b.equals(-1)
        return zero.where(0, minus.where(-a, a.op("arith.divsi", minus.where(1, divisor))))
    zero = b.equals(0)
    wide = "f64" if a.width == 32 else "f32"
    to_float, to_int = ("arith.sitofp", "arith.fptosi") if signed else ("arith.uitofp", "arith.fptoui")
    quotient = (a.cast(to_float, wide) / b.cast(to_float, wide)).cast(to_int, a.element)
    if signed:
        quotient = b.equals(-1).where(-a, quotient)
    return zero.where(0, quotient)


def _rest(a: Lanes, b: Lanes, signed: bool) -> Lanes:
    """C's %; x % 0 is 0."""
    return b.equals(0).where(0, a - _quotient(a, b, signed) * b)


def _signed_floordiv(a: Lanes, b: Lanes) -> Lanes:
    rest = _rest(a, b, True)
    down = rest.differs(0) & (rest ^ b).negative()
    return _quotient(a, b, True) - down.where(a.const(1), 0)


def _signed_mod(a: Lanes, b: Lanes) -> Lanes:
    rest = _rest(a, b, True)
    return (rest.differs(0) & (rest ^ b).negative()).where(rest + b, rest)


def _integer_power(base: Lanes, exponent: Lanes, signed: bool) -> Lanes:
    """Exponentiation by squaring, modulo 2^width. A negative exponent gives the truncated reciprocal: 0 unless the base
    is 1 or -1."""
    code = base.code
    with code.for_(0, base.width, carried=(base.const(1).value, base.value, exponent.value)) as loop:
        result, square, left = (base.wrap(v) for v in loop.carried)
        result = (left & 1).differs(0).where(result * square, result)
        loop.yield_(result.value, (square * square).value, left.shift_right_logical(1).value)
    result = base.wrap(loop.results[0])
    if not signed:
        return result
    parity = (exponent & 1).equals(0).where(base.const(1), base)
    reciprocal = base.equals(-1).where(parity, base.equals(1).where(base.const(1), 0))
    return (exponent < 0).where(reciprocal, result)


def _shift(name: str) -> Emit:
    return lambda a, b: b.below(a.width).where(a.op(name, b), 0)


def _compare(floats: str, signed: str, unsigned: str) -> Rule:
    def integers(predicate: str) -> Emit:
        return lambda a, b: a.compare("", predicate, b)

    return Rule(
        2, lambda a, b: a.compare(floats, "", b), integers(signed), integers(unsigned), integers(unsigned)
    )  # fmt: skip


def _integers(arity: int, emit: Emit, floats: Emit | None = None, boolean: Emit | None = None) -> Rule:
    """A rule that is the same for signed and unsigned integers."""
    return Rule(arity, floats, emit, emit, boolean)


def _by_sign(arity: int, emit: Emit, floats: Emit) -> Rule:
    """A rule whose integer function takes `signed` as its last argument."""
    return Rule(arity, floats, lambda *x: emit(*x, True), lambda *x: emit(*x, False))


def _select(condition: Lanes, a: Lanes, b: Lanes) -> Lanes:
    return condition.where(a, b)


def _same(x: Lanes) -> Lanes:
    return x


FUNCTIONS: dict[str, Rule] = {
    # arithmetic
    "add": _integers(2, lambda a, b: a + b, lambda a, b: a + b),
    "sub": _integers(2, lambda a, b: a - b, lambda a, b: a - b),
    "mul": _integers(2, lambda a, b: a * b, lambda a, b: a * b),
    "div": _by_sign(2, _quotient, lambda a, b: a / b),
    "floordiv": Rule(2, _float_floordiv, _signed_floordiv, lambda a, b: _quotient(a, b, False)),
    "fmod": _by_sign(2, _rest, remainder.fmod),
    "mod": Rule(2, _float_mod, _signed_mod, lambda a, b: _rest(a, b, False)),
    "pow": _by_sign(2, _integer_power, power.power),
    "min": Rule(2, _minimum, _op("arith.minsi"), _op("arith.minui"), lambda a, b: a & b),
    "max": Rule(2, _maximum, _op("arith.maxsi"), _op("arith.maxui"), lambda a, b: a | b),
    "fma": _integers(3, lambda a, b, c: a * b + c, lambda a, b, c: a.mad(b, c)),
    "neg": _integers(1, lambda x: -x, lambda x: -x),
    "abs": Rule(1, Lanes.abs, lambda x: (x < 0).where(-x, x), _same),
    "sign": Rule(
        1, _float_sign,
        lambda x: (x > 0).where(x.const(1), x >> (x.width - 1)),
        lambda x: x.differs(0).where(x.const(1), 0),
    ),
    "reciprocal": Rule(1, lambda x: 1.0 / x),
    "sqrt": Rule(1, Lanes.sqrt),
    "rsqrt": Rule(1, lambda x: 1.0 / x.sqrt()),
    # rounding
    "floor": Rule(1, _op("math.floor")),
    "ceil": Rule(1, _op("math.ceil")),
    "round": Rule(1, _op("math.roundeven")),
    "trunc": Rule(1, _op("math.trunc")),
    # exponentials and logarithms
    "exp": Rule(1, exponential.exp),
    "exp2": Rule(1, exponential.exp2),
    "expm1": Rule(1, exponential.expm1),
    "log": Rule(1, logarithm.log),
    "log2": Rule(1, logarithm.log2),
    "log1p": Rule(1, logarithm.log1p),
    "sigmoid": Rule(1, exponential.sigmoid),
    "erf": Rule(1, error_function.erf),
    # trigonometric and hyperbolic
    "sin": Rule(1, trigonometric.sin),
    "cos": Rule(1, trigonometric.cos),
    "tan": Rule(1, trigonometric.tan),
    "asin": Rule(1, inverse_trigonometric.asin),
    "acos": Rule(1, inverse_trigonometric.acos),
    "atan": Rule(1, inverse_trigonometric.atan),
    "atan2": Rule(2, inverse_trigonometric.atan2),
    "sinh": Rule(1, exponential.sinh),
    "cosh": Rule(1, exponential.cosh),
    "tanh": Rule(1, exponential.tanh),
    "asinh": Rule(1, logarithm.asinh),
    "acosh": Rule(1, logarithm.acosh),
    "atanh": Rule(1, logarithm.atanh),
    # predicates
    "isnan": Rule(1, Lanes.is_nan),
    "isinf": Rule(1, lambda x: x.abs().equals(math.inf)),
    "eq": _compare("oeq", "eq", "eq"),
    "ne": _compare("une", "ne", "ne"),
    "lt": _compare("olt", "slt", "ult"),
    "le": _compare("ole", "sle", "ule"),
    "gt": _compare("ogt", "sgt", "ugt"),
    "ge": _compare("oge", "sge", "uge"),
    # bits and choice
    "and": _integers(2, lambda a, b: a & b, boolean=lambda a, b: a & b),
    "or": _integers(2, lambda a, b: a | b, boolean=lambda a, b: a | b),
    "xor": _integers(2, lambda a, b: a ^ b, boolean=lambda a, b: a ^ b),
    "not": _integers(1, lambda x: ~x, boolean=lambda x: ~x),
    "shift_left": _integers(2, _shift("arith.shli")),
    "shift_right": _integers(2, _shift("arith.shrui")),
    "select": Rule(3, _select, _select, _select, _select, _select, any_width=True),
}  # fmt: skip
