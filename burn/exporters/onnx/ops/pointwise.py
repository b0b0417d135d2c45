"""Pointwise primitives. Most are an ONNX operator under another name; the rest are written out of a few."""

from __future__ import annotations

import math

import numpy as np

from burn.dialect.functions import FUNCTIONS
from burn.dialect.op import Op
from burn.dialect.pointwise import ShiftLeft
from burn.dialect.types import DTYPES, numpy_dtype, type_of
from burn.exporters.onnx.emitters import Site, emits
from burn.exporters.onnx.graph import CODES

OPERATORS = {row.name: row.onnx for row in FUNCTIONS if row.onnx}

LOGICAL = {"and": "And", "or": "Or", "xor": "Xor", "not": "Not", "min": "And", "max": "Or"}
BITWISE = {"and": "BitwiseAnd", "or": "BitwiseOr", "xor": "BitwiseXor", "not": "BitwiseNot"}

_UNSIGNED = {"int8": "uint8", "int16": "uint16", "int32": "uint32", "int64": "uint64"}


def kind_of(op: Op) -> str:
    return DTYPES[type_of(op.operation.operands[0]).dtype].kind


def _kind_is(*kinds: str):
    return lambda op: kind_of(op) in kinds


@emits(*LOGICAL, when=_kind_is("bool"))
def logical(site: Site) -> str:
    return site.node(LOGICAL[site.op.OP_NAME], *site.inputs)


@emits(*BITWISE)
def bitwise(site: Site) -> str:
    return site.node(BITWISE[site.op.OP_NAME], *site.inputs)


@emits("lt", "le", "gt", "ge", when=_kind_is("bool"))
def compare_bools(site: Site) -> str:
    return site.node(OPERATORS[site.op.OP_NAME], *[site.cast(n, "int32") for n in site.inputs])


@emits("neg", when=_kind_is("uint"))
def negate_unsigned(site: Site) -> str:
    return site.node("Sub", site.like(0, site.inputs[0]), site.inputs[0])


@emits("pow", when=_kind_is("int", "uint"))
def integer_power(site: Site) -> str:
    """Exact up to 2^53, the range in which runtimes compute it."""
    result = site.node("Pow", *[site.cast(n, "int64") for n in site.inputs])
    return site.cast(result, site.types[0].dtype)


@emits(*OPERATORS)
def plain(site: Site) -> str:
    return site.node(OPERATORS[site.op.OP_NAME], *site.inputs)


@emits("ne")
def not_equal(site: Site) -> str:
    return site.node("Not", site.node("Equal", *site.inputs))


# ---- division ----------------------------------------------------------------------------------------------------------


@emits("div", when=_kind_is("float", "complex"))
def divide(site: Site) -> str:
    return site.node("Div", *site.inputs)


@emits("div", "floordiv", "mod", "fmod", when=_kind_is("int", "uint"))
def divide_integers(site: Site) -> str:
    """Integer division with burn's results for undefined cases of ONNX: division by zero gives 0, and the least number divided by
    -1 wraps to itself. A CPU would trap."""
    name, (a, b) = site.op.OP_NAME, site.inputs
    if _harmless(site, b):
        return _quotient(site, name, a, b)
    zero, signed = site.node("Equal", b, site.like(0, b)), kind_of(site.op) == "int"
    minus = site.node("Equal", b, site.like(-1, b)) if signed else zero
    result = _quotient(
        site, name, a, site.node("Where", site.node("Or", zero, minus) if signed else zero, site.like(1, b), b)
    )
    if signed and name in ("div", "floordiv"):
        result = site.node("Where", minus, site.node("Neg", a), result)
    return site.node("Where", zero, site.like(0, a), result)


def _harmless(site: Site, name: str) -> bool:
    """True if a divisor is a constant without 0 and -1."""
    weight = site.graph.initializers.get(name)
    if weight is None or weight.nbytes > 4096:
        return False
    elements = weight.array().astype(np.float64)
    return not np.any((elements == 0) | (elements == -1))


def _quotient(site: Site, name: str, a: str, b: str) -> str:
    """Without the intermediate results that would wrap around at the type's ends."""
    dtype = site.dtype(a)
    if name == "div" or (name == "floordiv" and DTYPES[dtype].kind == "uint"):
        return site.node("Div", a, b)
    if name == "mod" or (name == "fmod" and DTYPES[dtype].bits < 64):
        return site.node("Mod", a, b, fmod=1 if name == "fmod" else None)
    truncated = site.node("Div", a, b)
    rest = site.node("Sub", a, site.node("Mul", truncated, b))  # runtimes take fmod of 64 bits in float64
    return rest if name == "fmod" else _floored(site, truncated, rest, b)


def _floored(site: Site, truncated: str, rest: str, b: str) -> str:
    """The quotient rounded down: one less where something is left over whose sign is not b's."""
    return site.node("Sub", truncated, site.cast(_signs_differ(site, rest, b), site.dtype(truncated)))


def _signs_differ(site: Site, rest: str, b: str) -> str:
    zero = site.like(0, b)
    signs = site.node("Xor", site.node("Less", rest, zero), site.node("Less", b, zero))
    return site.node("And", signs, site.node("Not", site.node("Equal", rest, zero)))


@emits("floordiv", when=_kind_is("float"))
def floor_divide(site: Site) -> str:
    """The floor of the exact quotient, which a rounded one may lie above (1 // 0.1 is 9): without the remainder the
    division is exact."""
    a, b = site.inputs
    rest = site.node("Mod", a, b, fmod=1)
    truncated = site.node("Round", site.node("Div", site.node("Sub", a, rest), b))
    by_zero = site.node("Equal", b, site.like(0, b))
    return site.node("Where", by_zero, site.node("Div", a, b), _floored(site, truncated, rest, b))


@emits("fmod", when=_kind_is("float"))
def remainder(site: Site) -> str:
    return site.node("Mod", *site.inputs, fmod=1)


@emits("mod", when=_kind_is("float"))
def modulo(site: Site) -> str:
    """The remainder, moved by b where its sign is not b's."""
    a, b = site.inputs
    rest = site.node("Mod", a, b, fmod=1)
    return site.node("Where", _signs_differ(site, rest, b), site.node("Add", rest, b), rest)


# ---- bits --------------------------------------------------------------------------------------------------------------


@emits("shift_left", "shift_right")
def shift(site: Site) -> str:
    """ONNX shifts unsigned numbers, by less than their width: signed ones are shifted as their bits, and further is 0."""
    dtype: str = site.types[0].dtype
    bits = DTYPES[dtype].bits
    unsigned = _UNSIGNED.get(dtype, dtype)
    x, by = (site.cast(n, unsigned) for n in site.inputs)
    limit = site.number(bits, unsigned)
    far = None
    weight = site.graph.initializers.get(site.inputs[1])
    if weight is None or not np.all((weight.array().astype(np.int64) >= 0) & (weight.array().astype(np.int64) < bits)):
        far = site.node("GreaterOrEqual", by, limit)
        by = site.node("Where", far, site.number(0, unsigned), by)
    direction = "LEFT" if isinstance(site.op, ShiftLeft) else "RIGHT"
    result = site.node("BitShift", x, by, direction=direction)
    if far is not None:
        result = site.node("Where", far, site.number(0, unsigned), result)
    return site.cast(result, dtype)


@emits("bitcast")
def bitcast(site: Site) -> str:
    """Between integers of one width Cast keeps the bits."""
    have, want = site.types[0].dtype, site.op.dtype
    if {DTYPES[have].kind, DTYPES[want].kind} <= {"int", "uint"}:
        return site.cast(site.inputs[0], want)
    return site.node("BitCast", site.inputs[0], to=want, to_=CODES[want])


# ---- functions that ONNX lacks -----------------------------------------------------------------------------------------


@emits("rsqrt")
def reciprocal_root(site: Site) -> str:
    return site.node("Reciprocal", site.node("Sqrt", *site.inputs))


@emits("trunc")
def truncate(site: Site) -> str:
    (x,) = site.inputs
    below = site.node("Less", x, site.like(0, x))
    return site.node("Where", below, site.node("Ceil", x), site.node("Floor", x))


@emits("expm1")
def exponential_minus_one(site: Site) -> str:
    """(u - 1) * x / log(u) with u = exp(x): the rounding of u cancels (Kahan; Higham, "Accuracy and Stability", 1.14.1). If
    the quotient is not selected, it is computed for 1/2: both branches of a select must be finite for differentiation."""
    dtype = site.types[0].dtype
    x = site.cast(site.inputs[0], _wide(dtype))
    one = site.like(1, x)
    u = site.node("Exp", x)
    difference = site.node("Sub", u, one)
    tiny = site.node("Equal", u, one)
    usual = site.node("And", site.node("Less", site.node("Abs", x), one), site.node("Not", tiny))
    held = site.node("Where", usual, x, site.like(0.5, x))
    power = site.node("Exp", held)
    scaled = site.node("Mul", site.node("Sub", power, one), held)
    quotient = site.node("Div", scaled, site.node("Log", power))
    result = site.node("Where", usual, quotient, site.node("Where", tiny, _series(site, x, tiny, 0.5), difference))
    return site.cast(result, dtype)


def _series(site: Site, x: str, tiny: str, second: float) -> str:
    """x * (1 + second * x), which is x to the last bit where x is tiny, but not to derivatives; 0 elsewhere."""
    held = site.node("Where", tiny, x, site.like(0, x))
    return site.node("Mul", held, site.node("Add", site.node("Mul", held, site.like(second, x)), site.like(1, x)))


@emits("log1p")
def logarithm_of_one_plus(site: Site) -> str:
    """log(u) * x / (u - 1) with u = 1 + x, as for expm1."""
    dtype = site.types[0].dtype
    x = site.cast(site.inputs[0], _wide(dtype))
    one = site.like(1, x)
    u = site.node("Add", x, one)
    tiny = site.node("Equal", u, one)
    usual = site.node("And", site.node("Less", site.node("Abs", x), one), site.node("Not", tiny))
    held = site.node("Where", usual, x, site.like(0.5, x))
    sum_ = site.node("Add", held, one)
    scaled = site.node("Mul", site.node("Log", sum_), held)
    quotient = site.node("Div", scaled, site.node("Sub", sum_, one))
    result = site.node(
        "Where", usual, quotient, site.node("Where", tiny, _series(site, x, tiny, -0.5), site.node("Log", u))
    )
    return site.cast(result, dtype)


def _wide(dtype: str) -> str:
    return "float32" if DTYPES[dtype].bits == 16 else dtype


@emits("atan2")
def angle(site: Site) -> str:
    """atan(y / x), moved by pi to the side of y where x is negative. The sign of a zero is that of its reciprocal."""
    dtype = site.types[0].dtype
    y, x = (site.cast(n, _wide(dtype)) for n in site.inputs)
    zero = site.like(0, x)

    def negative(value: str) -> str:
        signed = site.node("Where", site.node("Equal", value, zero), site.node("Reciprocal", value), value)
        return site.node("Less", signed, zero)

    both = site.node("And", site.node("IsInf", y), site.node("IsInf", x))
    ratio = site.node(
        "Where", both, site.node("Mul", site.node("Sign", y), site.node("Sign", x)), site.node("Div", y, x)
    )
    none = site.node("And", site.node("Equal", y, zero), site.node("Equal", x, zero))
    base = site.node("Where", none, y, site.node("Atan", ratio))
    turn = site.node("Where", negative(y), site.like(-math.pi, x), site.like(math.pi, x))
    # at (0, -0) the quotient says nothing: the angle is the whole turn
    result = site.node("Where", negative(x), site.node("Where", none, turn, site.node("Add", base, turn)), base)
    return site.cast(result, dtype)


# ---- selection and conversion ------------------------------------------------------------------------------------------


@emits("select")
def select(site: Site) -> str:
    condition, a, b = site.inputs
    if site.types[1].dtype != "bool":
        return site.node("Where", condition, a, b)
    return site.node("Or", site.node("And", condition, a), site.node("And", site.node("Not", condition), b))


@emits("cast")
def cast(site: Site) -> str:
    have, want = site.types[0].dtype, site.op.dtype
    if have == want:
        return site.node("Identity", site.inputs[0])
    small = DTYPES[want].kind == "small" and DTYPES[want].bits == 8 and want != "float8_e8m0fnu"
    return site.graph.node(
        "Cast", site.inputs[0], to=want, to_=_code(site, want), saturate=0 if small and not site.op.saturate else None
    )


def _code(site: Site, dtype: str) -> int:
    if dtype not in CODES:
        site.refuse(f"ONNX has no element type {dtype}")
    return CODES[dtype]


def scalar_value(op: Op) -> np.ndarray:
    """The number that a `full` repeats, as an array of no axes."""
    dtype = numpy_dtype(op.attrs["dtype"])
    if op.attrs["bits"] is None:
        return np.array(op.attrs["value"], np.float64).astype(dtype)
    bits = np.array(op.attrs["bits"], np.int64)
    return (bits.view(np.uint64) if DTYPES[op.attrs["dtype"]].kind == "uint" else bits).astype(dtype)
