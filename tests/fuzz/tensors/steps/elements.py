"""Steps on each element: functions, operators with tensors and with numbers, comparisons, choices, conversions."""

from __future__ import annotations

import numpy as np

from tests.fuzz.tensors.draft import DTYPES, Draft, Unfit, Value
from tests.fuzz.tensors.shared import words
from tests.fuzz.tensors.steps.registry import step

UNARY = words(
    "exp sin cos tanh sinh cosh asinh atan expm1 abs neg floor ceil round trunc sign square sqrt log log1p reciprocal relu relu6 "
    "sigmoid silu gelu softplus softsign mish elu selu hard_sigmoid hard_swish log_sigmoid erf leaky_relu celu isnan isinf "
    "isfinite frac"
)
WHOLE = words("abs neg sign square bitwise_not relu floor round sqrt exp sigmoid isnan")
NUMBERS = (2, 3, -1, 0.5, 1, 0, -2, 7, 1.5, -0.25)


@step(8)
def function(d: Draft) -> None:
    v = d.floats()
    d.add(f"m.{d.random.choice(UNARY)}({v.name})")


@step(2)
def function_of_whole_numbers(d: Draft) -> None:
    v = d.pick(lambda v: v.is_int)
    name = d.random.choice(WHOLE)
    if name == "neg" and v.dtype.startswith("u"):
        raise Unfit
    d.add(f"m.{name}({v.name})")


def _meets(v: Value, w: Value) -> bool:
    """True if the two have a common element type."""
    kinds = {v.dtype, w.dtype}
    signed = any(k.startswith("int") for k in kinds)
    return not ("uint64" in kinds and signed) and not (kinds & {"float16", "float64"} and "bfloat16" in kinds)


@step(10)
def operator(d: Draft) -> None:
    v = d.numbers()
    w = d.like(v) if d.random.random() < 0.75 else d.pick(lambda w: w.dtype != "bool" and _meets(v, w))
    whole = v.is_int and w.is_int
    symbol = d.random.choice(words("+ - * & | ^ // %") if whole else words("+ - * / // %"))
    if symbol in ("/", "//", "%") and (d.named or (w.array == 0).any()):  # other sizes have other numbers
        w = d.add(f"m.domain('not zero', {w.name})")[0]
    d.add(f"m.op({symbol!r}, {v.name}, {w.name})")


@step(3)
def larger_or_smaller(d: Draft) -> None:
    v = d.any()
    w = d.pick(lambda w: _meets(v, w))
    d.add(f"m.{d.random.choice(['maximum', 'minimum'])}({v.name}, {w.name})")


@step(1.5)
def function_of_two(d: Draft) -> None:
    v = d.floats()
    w = d.like(v)
    name = d.random.choice(words("hypot atan2 fmod copysign"))
    if name == "fmod":
        w = d.add(f"m.domain('not zero', {w.name})")[0]
    if name in ("copysign", "atan2"):
        v, w = (d.add(f"m.domain('signed', {o.name})")[0] for o in (v, w))
    d.add(f"m.{name}({v.name}, {w.name})")


@step(7)
def operator_with_a_number(d: Draft) -> None:
    v = d.numbers()
    if v.is_float:
        symbol, number = d.random.choice(words("+ - * / ** // % < >")), d.random.choice(NUMBERS)
        reverse = symbol in "+ - * /" and d.random.random() < 0.4
        if (symbol in ("/", "//", "%") and number == 0) or (
            symbol == "/" and reverse and (d.named or (v.array == 0).any())
        ):
            raise Unfit
    else:
        symbol = d.random.choice(words("+ - * // % << >> & | ^ ** / < =="))
        reverse = symbol in "+ - * & | ^" and d.random.random() < 0.4
        number = d.random.randint(1, 3) if symbol in ("<<", ">>", "**", "//", "%", "/") else d.random.randint(0, 9)
        if v.dtype.startswith("int") and symbol in "+ - * // %" and d.random.random() < 0.3:
            number = -max(number, 1)
        if symbol in "+ - *" and d.random.random() < 0.1:
            number += 0.5  # a float beside integers makes float32
    left, right = (number, v.name) if reverse else (v.name, number)
    d.add(f"m.op({symbol!r}, {left}, {right})")


@step(4)
def comparison(d: Draft) -> None:
    v = d.any()
    w = d.like(v)
    symbols = "== !=" if v.dtype == "bool" else "< <= > >= == !="
    d.add(f"m.op({d.random.choice(symbols.split())!r}, {v.name}, {w.name})")


@step(2)
def logic(d: Draft) -> None:
    v = d.pick(lambda v: v.dtype == "bool")
    w = d.like(v)
    if d.random.random() < 0.3:
        d.add(f"m.logical_not({v.name})")
    else:
        d.add(f"m.op({d.random.choice('&|^')!r}, {v.name}, {w.name})")


@step(4)
def choice(d: Draft) -> None:
    c = d.pick(lambda v: v.dtype == "bool")
    v = d.numbers()
    w = d.like(v).name if d.random.random() < 0.8 else d.random.choice(["0", "1"])
    d.add(f"m.where({c.name}, {v.name}, {w})")


@step(2)
def bounds(d: Draft) -> None:
    v = d.numbers()
    low, high = (0, 2) if v.dtype.startswith("u") else d.random.choice([(-1, 2), (0, 3), (-2, -1), (1, 1)])
    d.add(f"m.clip({v.name}, {d.random.choice([low, low, None])}, {high})")


@step(3)
def conversion(d: Draft) -> None:
    v = d.any()
    to = d.random.choices(list(DTYPES), list(DTYPES.values()))[0]
    if v.is_float and to.startswith(("int", "uint")) and v.size:  # what C leaves open
        wide = v.array.astype(np.float64)
        if not v.is_finite or np.abs(wide).max() > 120 or (to.startswith("u") and wide.min() < 0):
            raise Unfit
    d.add(f"m.astype({v.name}, {to!r})")
