"""Drawn programs of one StableHLO op each: `draw(seed)`. Each has operands with special values, and the types of its results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import ml_dtypes
import numpy as np

Rng = np.random.Generator
T = TypeVar("T")

MLIR = {
    "float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "int8": "i8", "int16": "i16", "int32": "i32",
    "int64": "i64", "uint8": "ui8", "uint16": "ui16", "uint32": "ui32", "uint64": "ui64", "bool": "i1",
    "complex64": "complex<f32>", "complex128": "complex<f64>",
}  # fmt: skip
FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1.5, np.inf, -np.inf, np.nan, 1e-3, 100.0, 3.0)


@dataclass
class Case:
    """A function of one op. lines: its body, over %a0, %a1 ..; gives: the values that it returns, and their types. loose:
    times the usual tolerance. twin: a body that means the same, for XLA, which takes no sizes that a program computes."""

    op: str
    args: list[np.ndarray]
    lines: list[str]
    gives: list[tuple[str, str]]
    loose: float = 1.0
    twin: list[str] | None = None

    @property
    def gives_types(self) -> list[str]:
        return [type_ for _, type_ in self.gives]

    def text(self, name: str, twin: bool = False) -> str:
        takes = ", ".join(f"%a{i}: {type_of(a)}" for i, a in enumerate(self.args))
        values, types = ", ".join(v for v, _ in self.gives), ", ".join(t for _, t in self.gives)
        lines = self.twin if twin and self.twin is not None else self.lines
        body = "\n    ".join([*lines, f'"func.return"({values}) : ({types}) -> ()'])
        return f"  func.func private @{name}({takes}) -> ({types}) {{\n    {body}\n  }}"


def dtype(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name, name))


def tensor(name: str, shape: Sequence[int | str]) -> str:
    return f"tensor<{''.join(f'{d}x' for d in shape)}{MLIR[name]}>"


def type_of(array: np.ndarray) -> str:
    return tensor(array.dtype.name, array.shape)


def array(rng: Rng, name: str, shape: Sequence[int], special: bool = True) -> np.ndarray:
    """Elements of a type: for floats with infinities, NaN and zeros, for integers with extremes."""
    if name == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if name in INTEGERS:
        info = np.iinfo(name)
        small = rng.integers(0 if info.min == 0 else -9, 10, shape)
        extremes = rng.choice(np.array([info.min, info.max, 0, 1], name), shape)
        return np.where(rng.random(shape) < (0.2 if special else 0), extremes, small.astype(name)).astype(name)
    if name.startswith("complex"):
        return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(name)
    plain = rng.standard_normal(shape) * 2
    return np.where(rng.random(shape) < (0.3 if special else 0), rng.choice(SPECIAL, shape), plain).astype(dtype(name))


def shape_of(rng: Rng, most: int = 3, least: int = 0) -> tuple[int, ...]:
    sizes = (0, 1, 2, 3, 5, 7)
    return tuple(
        int(rng.choice(sizes, p=[0.04, 0.16, 0.2, 0.2, 0.2, 0.2])) for _ in range(int(rng.integers(least, most + 1)))
    )


def pick(rng: Rng, values: Sequence[T]) -> T:
    return values[int(rng.integers(len(values)))]


def ints(values: Sequence[int]) -> str:
    return f"array<i64{': ' if len(values) else ''}{', '.join(map(str, values))}>"


def pairs(values: Sequence[Sequence[int]]) -> str:
    body = ", ".join(f"[{a}, {b}]" for a, b in values)
    return f"dense<{f'[{body}]' if values else ''}> : tensor<{len(values)}x2xi64>"


def simple(
    op: str,
    args: list[np.ndarray],
    results: Sequence[str],
    attributes: str = "",
    regions: Sequence[str] = (),
    loose: float = 1.0,
    before: Sequence[str] = (),
    operands: Sequence[tuple[str, str]] | None = None,
) -> Case:
    """One op on all arguments, or on the given operands."""
    given = [(f"%a{i}", type_of(a)) for i, a in enumerate(args)] if operands is None else list(operands)
    names, types = ", ".join(n for n, _ in given), ", ".join(t for _, t in given)
    outs = [f"%r{i}" for i in range(len(results))]
    attributes = f" <{{{attributes}}}>" if attributes else ""
    body = f" ({', '.join(regions)})" if regions else ""
    line = f'{", ".join(outs)} = "{op}"({names}){attributes}{body} : ({types}) -> ({", ".join(results)})'
    return Case(op, args, [*before, line], list(zip(outs, results, strict=True)), loose)


Family = Callable[[Rng], Case]
FAMILIES: dict[str, Family] = {}


def family(function: Family) -> Family:
    FAMILIES[function.__name__] = function
    return function


# ---- elements ------------------------------------------------------------------------------------------------------------
FLOAT_UNARY = [
    "cbrt",
    "ceil",
    "cosine",
    "exponential",
    "exponential_minus_one",
    "floor",
    "log",
    "log_plus_one",
    "logistic",
    "round_nearest_afz",
    "round_nearest_even",
    "rsqrt",
    "sine",
    "sqrt",
    "tan",
    "tanh",
    "negate",
    "abs",
    "sign",
    "is_finite",
]
INTEGER_UNARY = ["not", "popcnt", "count_leading_zeros", "negate", "abs", "sign"]
CHLO_UNARY = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "bessel_i1e",
    "conj",
    "cosh",
    "digamma",
    "erf",
    "erf_inv",
    "erfc",
    "is_inf",
    "is_neg_inf",
    "is_pos_inf",
    "lgamma",
    "sinh",
    "square",
    "tan",
]
SIGNED = tuple(t for t in INTEGERS if t.startswith("i"))


@family
def unary(rng: Rng) -> Case:
    if rng.random() < 0.6:
        name, op = pick(rng, FLOATS), pick(rng, FLOAT_UNARY)
    else:
        op = pick(rng, INTEGER_UNARY)
        name = pick(rng, SIGNED if op in ("abs", "sign") else INTEGERS)
        name = "bool" if op == "not" and rng.random() < 0.2 else name
    x = array(rng, name, shape_of(rng))
    return simple(f"stablehlo.{op}", [x], [tensor("bool", x.shape) if op == "is_finite" else type_of(x)])


@family
def chlo_unary(rng: Rng) -> Case:
    op = pick(rng, CHLO_UNARY)
    if op == "conj":
        op = "square"
    x = array(rng, pick(rng, FLOATS), shape_of(rng))
    result = tensor("bool", x.shape) if op.startswith("is_") else type_of(x)
    return simple(f"chlo.{op}", [x], [result], loose=4.0)


FLOAT_BINARY = ["add", "atan2", "divide", "maximum", "minimum", "multiply", "power", "remainder", "subtract"]
INTEGER_BINARY = [
    "add",
    "and",
    "divide",
    "maximum",
    "minimum",
    "multiply",
    "or",
    "power",
    "remainder",
    "shift_left",
    "shift_right_arithmetic",
    "shift_right_logical",
    "subtract",
    "xor",
]


@family
def binary(rng: Rng) -> Case:
    if rng.random() < 0.5:
        name, op = pick(rng, FLOATS), pick(rng, FLOAT_BINARY)
    else:
        name, op = pick(rng, INTEGERS), pick(rng, INTEGER_BINARY)
        if rng.random() < 0.15:
            name, op = "bool", pick(rng, ["add", "and", "or", "xor", "multiply", "maximum", "minimum"])
    shape = shape_of(rng)
    # XLA takes an unsigned exponent of 2^63 and more for a negative one
    second = array(rng, name, shape, special=not (op == "power" and name in INTEGERS))
    return simple(f"stablehlo.{op}", [array(rng, name, shape), second], [tensor(name, shape)])


@family
def chlo_binary(rng: Rng) -> Case:
    name, shape = pick(rng, FLOATS[:2]), shape_of(rng)
    op = pick(rng, ["next_after", "zeta", "polygamma", "mulhi"])
    if op == "mulhi":
        name = pick(rng, ["int32", "uint32", "int64", "uint8"])
        return simple("chlo.mulhi", [array(rng, name, shape), array(rng, name, shape)], [tensor(name, shape)])
    a, b = array(rng, name, shape), array(rng, name, shape)
    if op in ("zeta", "polygamma"):
        a = rng.integers(1 if op == "zeta" else 0, 5, shape).astype(name) + (op == "zeta")
        b = (np.abs(array(rng, name, shape, special=False)) + 0.5).astype(name)
    return simple(f"chlo.{op}", [a, b], [tensor(name, shape)], loose=20.0)


@family
def broadcasting(rng: Rng) -> Case:
    op = pick(rng, ["add", "subtract", "multiply", "divide", "maximum", "minimum", "power", "remainder", "atan2"])
    name = pick(rng, FLOATS[:2])
    shape = shape_of(rng)
    a = array(rng, name, shape)
    b = array(rng, name, tuple(1 if rng.random() < 0.4 else d for d in shape[int(rng.integers(0, len(shape) + 1)) :]))
    return simple(f"chlo.broadcast_{op}", [a, b], [tensor(name, shape)])


@family
def compare(rng: Rng) -> Case:
    name = pick(rng, (*FLOATS, *INTEGERS, "bool"))
    shape, direction = shape_of(rng), pick(rng, ["EQ", "NE", "LT", "LE", "GT", "GE"])
    kind = "FLOAT" if name in FLOATS else "SIGNED" if name in SIGNED else "UNSIGNED"
    kind = "TOTALORDER" if kind == "FLOAT" and rng.random() < 0.4 else kind
    words = {"comparison_direction": direction, "compare_type": kind}
    names = {"comparison_direction": "comparison_direction", "compare_type": "comparison_type"}
    attributes = ", ".join(f"{key} = #stablehlo<{names[key]} {word}>" for key, word in words.items())
    return simple("stablehlo.compare", [array(rng, name, shape) for _ in "ab"], [tensor("bool", shape)], attributes)


@family
def select(rng: Rng) -> Case:
    name, shape = pick(rng, (*FLOATS, *INTEGERS, "bool")), shape_of(rng)
    flag = array(rng, "bool", shape if rng.random() < 0.7 else ())
    return simple("stablehlo.select", [flag, array(rng, name, shape), array(rng, name, shape)], [tensor(name, shape)])


@family
def clamp(rng: Rng) -> Case:
    name, shape = pick(rng, (*FLOATS, *INTEGERS)), shape_of(rng)
    bounds = [array(rng, name, shape if rng.random() < 0.5 else (), special=False) for _ in "ab"]
    return simple("stablehlo.clamp", [bounds[0], array(rng, name, shape), bounds[1]], [tensor(name, shape)])


@family
def convert(rng: Rng) -> Case:
    names = (*FLOATS, *INTEGERS, "bool")
    source, target, shape = pick(rng, names), pick(rng, names), shape_of(rng)
    x = array(rng, source, shape)
    if source in FLOATS and target in INTEGERS:  # XLA leaves what does not fit open
        low = 0 if target.startswith("u") else -9
        x = rng.uniform(low, 9, shape).astype(dtype(source))
    return simple("stablehlo.convert", [x], [tensor(target, shape)])


@family
def bitcast_convert(rng: Rng) -> Case:
    source, target = pick(rng, (*FLOATS, *INTEGERS)), pick(rng, (*FLOATS, *INTEGERS))
    shape = shape_of(rng)
    have, want = dtype(source).itemsize, dtype(target).itemsize
    given = (*shape, want // have) if want > have else shape
    result = (*shape, have // want) if have > want else shape
    return simple("stablehlo.bitcast_convert", [array(rng, source, given, special=False)], [tensor(target, result)])


@family
def reduce_precision(rng: Rng) -> Case:
    x = array(rng, pick(rng, FLOATS), shape_of(rng))
    exponent, mantissa = (int(rng.integers(2, 9)), int(rng.integers(0, 24)))
    attributes = f"exponent_bits = {exponent} : i32, mantissa_bits = {mantissa} : i32"
    return simple("stablehlo.reduce_precision", [x], [type_of(x)], attributes)


# ---- shapes --------------------------------------------------------------------------------------------------------------
ANY = (*FLOATS, *INTEGERS, "bool")


@family
def broadcast_in_dim(rng: Rng) -> Case:
    shape = shape_of(rng, 4)
    axes = [a for a in range(len(shape)) if rng.random() < 0.6]
    x = array(rng, pick(rng, ANY), tuple(1 if rng.random() < 0.3 else shape[a] for a in axes))
    if rng.random() < 0.3:
        axes = [int(a) for a in rng.permutation(axes)]
        x = array(rng, x.dtype.name, tuple(1 if rng.random() < 0.3 else shape[a] for a in axes))
    attributes = f"broadcast_dimensions = {ints(axes)}"
    return _maybe_dynamic(rng, "broadcast_in_dim", [x], shape, x.dtype.name, attributes)


def _maybe_dynamic(
    rng: Rng, op: str, args: list[np.ndarray], shape: Sequence[int], name: str, attributes: str = ""
) -> Case:
    """The op, or its form with the shape as an operand: an argument, or a constant."""
    draw = rng.random()
    static = simple(f"stablehlo.{op}", args, [tensor(name, shape)], attributes)
    if draw < 0.5:
        return static
    sizes = np.array(shape, "int64" if rng.random() < 0.5 else "int32")
    if draw < 0.75:
        return twinned(simple(f"stablehlo.dynamic_{op}", [*args, sizes], [tensor(name, shape)], attributes), static)
    line = constant("%s", sizes)
    given = [*((f"%a{i}", type_of(a)) for i, a in enumerate(args)), ("%s", type_of(sizes))]
    dynamic = simple(f"stablehlo.dynamic_{op}", args, [tensor(name, shape)], attributes, before=[line], operands=given)
    return twinned(dynamic, static)


def constant(name: str, vector: np.ndarray) -> str:
    """A line that defines a vector of integers."""
    elements = [int(n) for n in vector]
    return f'{name} = "stablehlo.constant"() <{{value = dense<{elements or ""}> : {type_of(vector)}}}> : () -> {type_of(vector)}'


def twinned(case: Case, static: Case) -> Case:
    """The case with the body of another, over the first of its arguments."""
    case.twin = static.lines
    return case


@family
def broadcast(rng: Rng) -> Case:
    x, sizes = array(rng, pick(rng, ANY), shape_of(rng)), shape_of(rng, 2)
    result = tensor(x.dtype.name, (*sizes, *x.shape))
    return simple("stablehlo.broadcast", [x], [result], f"broadcast_sizes = {ints(sizes)}")


@family
def reshape(rng: Rng) -> Case:
    x = array(rng, pick(rng, ANY), shape_of(rng))
    shape = list(x.shape)
    for _ in range(2):
        if len(shape) > 1 and rng.random() < 0.5:
            shape = [shape[0] * shape[1], *shape[2:]]
        else:
            shape.insert(int(rng.integers(0, len(shape) + 1)), 1)
    return _maybe_dynamic(rng, "reshape", [x], shape, x.dtype.name)


@family
def iota(rng: Rng) -> Case:
    shape, name = shape_of(rng, 3, 1), pick(rng, (*FLOATS, *INTEGERS))
    return _maybe_dynamic(rng, "iota", [], shape, name, f"iota_dimension = {int(rng.integers(len(shape)))} : i64")


@family
def transpose(rng: Rng) -> Case:
    x = array(rng, pick(rng, ANY), shape_of(rng, 4))
    order = [int(a) for a in rng.permutation(x.ndim)]
    result = tensor(x.dtype.name, [x.shape[a] for a in order])
    return simple("stablehlo.transpose", [x], [result], f"permutation = {ints(order)}")


@family
def reverse(rng: Rng) -> Case:
    x = array(rng, pick(rng, ANY), shape_of(rng))
    axes = [a for a in range(x.ndim) if rng.random() < 0.5]
    return simple("stablehlo.reverse", [x], [type_of(x)], f"dimensions = {ints(axes)}")


@family
def slice_(rng: Rng) -> Case:
    x = array(rng, pick(rng, ANY), shape_of(rng))
    starts = [int(rng.integers(0, d + 1)) for d in x.shape]
    limits = [int(rng.integers(s, d + 1)) for s, d in zip(starts, x.shape, strict=True)]
    steps = [int(rng.integers(1, 4)) for _ in x.shape]
    shape = [max(0, -(-(b - a) // s)) for a, b, s in zip(starts, limits, steps, strict=True)]
    attributes = f"start_indices = {ints(starts)}, limit_indices = {ints(limits)}, strides = {ints(steps)}"
    static = simple("stablehlo.slice", [x], [tensor(x.dtype.name, shape)], attributes)
    if rng.random() < 0.3:
        edges = [np.array(v, "int64") for v in (starts, limits, steps)]
        step = constant("%s", edges[2])
        given = [("%a0", type_of(x)), ("%a1", type_of(edges[0])), ("%a2", type_of(edges[1])), ("%s", type_of(edges[2]))]
        dynamic = simple(
            "stablehlo.real_dynamic_slice", [x, *edges[:2]], static.gives_types, before=[step], operands=given
        )
        return twinned(dynamic, static)
    return static


@family
def concatenate(rng: Rng) -> Case:
    shape, name = shape_of(rng, 3, 1), pick(rng, ANY)
    axis = int(rng.integers(len(shape)))
    sizes = [int(rng.integers(0, 4)) for _ in range(int(rng.integers(1, 4)))]
    xs = [array(rng, name, [s if a == axis else d for a, d in enumerate(shape)]) for s in sizes]
    result = [sum(sizes) if a == axis else d for a, d in enumerate(shape)]
    return simple("stablehlo.concatenate", xs, [tensor(name, result)], f"dimension = {axis} : i64")


@family
def pad(rng: Rng) -> Case:
    x = array(rng, pick(rng, ANY), shape_of(rng))
    inner = [int(rng.integers(0, 3)) for _ in x.shape]
    low = [int(rng.integers(-2, 4)) for _ in x.shape]
    grown = [d + max(d - 1, 0) * i for d, i in zip(x.shape, inner, strict=True)]
    high = [int(rng.integers(max(-2, -(g + a)), 4)) for g, a in zip(grown, low, strict=True)]
    shape = [a + g + b for a, g, b in zip(low, grown, high, strict=True)]
    if any(d < 0 for d in shape):
        return pad(rng)
    value = array(rng, x.dtype.name, ())
    rows = {"edge_padding_low": low, "edge_padding_high": high, "interior_padding": inner}
    attributes = ", ".join(f"{k} = {ints(v)}" for k, v in rows.items())
    static = simple("stablehlo.pad", [x, value], [tensor(x.dtype.name, shape)], attributes)
    if rng.random() < 0.3:
        lists = [np.array(v, "int64") for v in (low, high, inner)]
        last = constant("%s", lists[2])
        given = [("%a0", type_of(x)), ("%a1", type_of(value)), ("%a2", type_of(lists[0])), ("%a3", type_of(lists[1]))]
        given.append(("%s", type_of(lists[2])))
        args = [x, value, *lists[:2]]
        return twinned(simple("stablehlo.dynamic_pad", args, static.gives_types, before=[last], operands=given), static)
    return static


@family
def get_dimension_size(rng: Rng) -> Case:
    x = array(rng, "float32", shape_of(rng, 3, 1))
    return simple(
        "stablehlo.get_dimension_size", [x], ["tensor<i32>"], f"dimension = {int(rng.integers(x.ndim))} : i64"
    )
