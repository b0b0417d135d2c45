"""Chains of pointwise ops with constants, on the numbers at which algebra goes wrong.

These are zeros of both signs, infinities, NaN, subnormals, ties, the ends of integers, shifts by the width and more, division by
zero, and numbers that round.

Each chain runs as it stands, its constants as inputs and without the laws of `simplify`; as a program with constants; and folded,
with all operands constant. All must give the same bits, and numpy's where numpy has the function. BURN_SWEEP=300 adds so many
programs of fresh chains, from BURN_SWEEP_SEED on."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from burn.compiler import executable
from burn.dialect import ops
from burn.dialect.mlir import ir
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.options import Options
from burn.passes.constants import full
from tests.passes.cases import PLAIN

FLOATS = ("float16", "bfloat16", "float32", "float64")
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
DTYPES = (*FLOATS, *SIGNED, *UNSIGNED, "bool")
CHAINS = 10
SEED = int(os.environ.get("BURN_SWEEP_SEED", random.SystemRandom().randrange(1 << 32)))
FRESH = int(os.environ.get("BURN_SWEEP", "0"))
PROGRAMS = [
    *((dtype, 1, exact) for dtype in DTYPES[:6] + DTYPES[7:9] + DTYPES[11:] for exact in {False, dtype == "float32"}),
    *((DTYPES[n % len(DTYPES)], n, bool(n & 16)) for n in range(SEED, SEED + FRESH)),
]

FLOAT_UNARY = ("neg", "abs", "sign", "floor", "ceil", "round", "trunc", "sqrt", "relu", "reciprocal", "rsqrt", "exp")
UNARY = {
    **dict.fromkeys(FLOATS, FLOAT_UNARY),
    **dict.fromkeys(SIGNED, ("neg", "abs", "sign", "not", "relu")),
    **dict.fromkeys(UNSIGNED, ("neg", "not", "abs", "sign")),
    "bool": ("not",),
}
INTEGER_BINARY = (
    *("add", "sub", "mul", "div", "floordiv", "mod", "fmod", "min", "max", "and", "or", "xor"),
    *("shift_left", "shift_right", "pow"),
)
BINARY = {
    **dict.fromkeys(FLOATS, ("add", "sub", "mul", "div", "min", "max", "pow", "add", "sub", "mul", "div")),
    **dict.fromkeys((*SIGNED, *UNSIGNED), INTEGER_BINARY),
    "bool": ("and", "or", "xor", "min", "max"),
}
ROUNDED = ("rsqrt", "pow", "exp")
"""Functions with an accuracy of their own: laws may give a neighbour."""

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def numpy_type(dtype: str) -> np.dtype[Any]:
    return np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)


def specials(dtype: str) -> list[Any]:
    if dtype == "bool":
        return [False, True]
    kind = numpy_type(dtype)
    if dtype not in FLOATS:
        low, high, bits = np.iinfo(kind).min, np.iinfo(kind).max, np.iinfo(kind).bits
        small = [0, 1, 2, 3, 7, 8, bits - 1, bits, bits + 1, high - 1, high, high // 2 + 1, 100]
        return small + ([low, low + 1, -1, -2, -7, -100] if low else [])
    info = ml_dtypes.finfo(kind)
    digits = info.nmant
    found = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -2.0, 3.0, 2.5, -3.2, 0.1, 100.4, np.inf, -np.inf, np.nan]
    found += [1.5 * 2.0**digits, 2.0**digits, float(info.smallest_subnormal), float(info.tiny), float(info.max)]
    return [
        *found,
        -float(info.max),
        float(info.tiny) * 3,
        float(info.max) ** 0.5 * 3,
        1 / (float(info.max) ** 0.5 * 3),
    ]


@dataclass(frozen=True)
class Step:
    """A function of the current value: alone, with a constant on either side, or with itself."""

    name: str
    side: str = "alone"  # "left", "right", "itself"
    number: Any = None


def draw(rng: random.Random, dtype: str) -> list[Step]:
    steps: list[Step] = []
    for _ in range(rng.randint(2, 4)):
        if rng.random() < 0.3:
            steps.append(Step(rng.choice(UNARY[dtype])))
            continue
        name = rng.choice(BINARY[dtype])
        number = rng.choice(specials(dtype))
        if name in ("min", "max") and number == 0 and dtype in FLOATS:
            number = 1.0  # which of two zeros comes out is not defined
        if name == "pow" and dtype not in FLOATS:
            number = rng.choice([0, 1, 2, 3])
        if name == "pow" and dtype in FLOATS:
            number = rng.choice([0.0, 1.0, 2.0, 3.0, 4.0, 0.5, -0.5, -1.0])
        side = "right" if name == "pow" else rng.choice(["left", "right", "right", "itself"])
        again = steps and steps[-1].side in ("left", "right") and rng.random() < 0.3
        if again and dtype in FLOATS and name != "pow" and steps[-1].name != "pow":  # undone, or nearly so
            undoing = {"add": "sub", "sub": "add", "mul": "div", "div": "mul"}
            name, side, number = undoing.get(steps[-1].name, name), "right", steps[-1].number
        steps.append(Step(name, side, number))
    return steps


def built(steps: list[Step], x: ir.Value, constant: Callable[[Any], ir.Value]) -> ir.Value:
    for step in steps:
        function = getattr(ops, f"{step.name}_" if step.name in ("and", "or", "not") else step.name)
        if step.side == "alone":
            x = function(x)
        elif step.side == "itself":
            x = function(x, x)
        else:
            c = constant(step.number)
            x = function(x, c) if step.side == "right" else function(c, x)
    return x


def program(chains: list[list[Step]], dtype: str, array: np.ndarray, constant: str) -> tuple[Program, list[Any]]:
    """The chains of one operand. constant: "input", "number" or "all", if the operand is also a constant."""
    numbers = [s.number for steps in chains for s in steps if s.side in ("left", "right")]
    inputs = [("x", TensorType(dtype, array.shape))] if constant != "all" else [("unread", TensorType(dtype, (1,)))]
    if constant == "input":
        inputs += [(f"c{i}", TensorType(dtype, ())) for i in range(len(numbers))]
    made = Program.create(inputs)
    with made.building("node"):
        given = list(made.inputs)[1:]
        x = made.inputs[0]
        if constant == "all":
            x = ops.weight(key=made.weights.add_array(array, "x"), shape=array.shape, dtype=dtype)
        scalar = TensorType(dtype, ())
        values = [
            built(steps, x, lambda n: given.pop(0) if constant == "input" else full(_python(n, dtype), scalar))
            for steps in chains
        ]
    outputs = [(f"y{i}", value) for i, value in enumerate(values)]
    return made.finish(outputs), numbers if constant == "input" else []


def _python(number: Any, dtype: str) -> Any:
    """A number that the element type holds."""
    return numpy_type(dtype).type(number).item()


@pytest.mark.parametrize(("dtype", "seed", "exact"), PROGRAMS)
def test_chains(dtype: str, seed: int, exact: bool) -> None:
    rng, kind = random.Random(f"{dtype} {seed}"), numpy_type(dtype)
    array = np.array(specials(dtype)).astype(kind) if dtype != "uint64" else np.array(specials(dtype), kind)
    chains = [draw(rng, dtype) for _ in range(CHAINS)]
    plain, numbers = program(chains, dtype, array, "input")
    feeds = [array, *(np.asarray(_python(n, dtype)).astype(kind) for n in numbers)]
    wanted = executable(plain, Options(passes=PLAIN))(*feeds)
    for constant in ("number", "all"):
        made, _ = program(chains, dtype, array, constant)
        got = executable(made, Options(exact=exact))(array if constant == "number" else array[:1])
        for steps, mine, want in zip(chains, got, wanted, strict=True):
            told = f"{dtype}, seed {seed}, constants: {constant}\n{steps}\n{array}\n{mine}\n{want}"
            assert same(mine, want, steps, dtype), told
    for steps, want in zip(chains, wanted, strict=True):
        reference = by_numpy(steps, array, dtype)
        if reference is not None:
            assert same(want, reference, steps, dtype), (
                f"{dtype}, seed {seed}, numpy\n{steps}\n{array}\n{want}\n{reference}"
            )


def test_sums_of_a_value_with_itself_keep_the_sign_of_zero() -> None:
    """0 is left out of `x + 0.0` where an addend hides the zero's sign. A sum of that value with itself, or with its view, does
    not hide it."""
    x = np.array([-0.0, 0.0, 1.0, -1.0], np.float32)
    made = Program.create([("x", TensorType("float32", x.shape))])
    with made.building("node"):
        (value,) = made.inputs
        y = ops.add(value, full(0.0, TensorType("float32", ())))
        view = ops.reshape(y, shape=(2, 2))
        outputs = [("itself", ops.add(y, y)), ("view", ops.add(view, ops.reshape(ops.neg(ops.neg(y)), shape=(2, 2))))]
    for got in executable(made.finish(outputs))(x):
        assert not np.signbit(got.ravel()[:2]).any()


@pytest.mark.parametrize("exact", [False, True])
def test_what_rounds_overflows_or_vanishes_between_two_constants(exact: bool) -> None:
    """Rounding by a magic number, lost digits, an overflow, an underflow, and the error of a sum."""
    x = np.array([0.3, 1.7, 2.5, -3.2, 100.4, 1e30, 1e-10], np.float32)
    magic, large, small, huge = np.float32(12582912.0), np.float32(1e20), np.float32(1e-20), np.float32(3e38)
    program = Program.create([("x", TensorType("float32", x.shape))])
    with program.building("node"):
        (value,) = program.inputs
        m, big, s, h, one = (full(float(n), TensorType("float32", ())) for n in (magic, large, small, huge, 1))
        made = [
            ops.sub(ops.add(value, m), m),
            ops.add(ops.add(value, h), ops.neg(h)),
            ops.mul(ops.mul(value, big), s),
            ops.mul(ops.div(value, h), h),
            ops.sub(value, ops.sub(ops.add(value, one), one)),
        ]
    got = executable(program.finish([(f"y{i}", y) for i, y in enumerate(made)]), Options(exact=exact))(x)
    want = ((x + magic) - magic, (x + huge) - huge, (x * large) * small, (x / huge) * huge, x - ((x + 1) - 1))
    for mine, theirs in zip(got, want, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def same(a: np.ndarray, b: np.ndarray, steps: list[Step], dtype: str) -> bool:
    """Equal bits, but for those of NaN; where a function has an accuracy, neighbours as it allows."""
    if dtype not in FLOATS:
        return bool(np.array_equal(a, b))
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    equal = (wide_a == wide_b) & ((wide_a != 0) | (np.signbit(wide_a) == np.signbit(wide_b)))
    equal |= np.isnan(wide_a) & np.isnan(wide_b)
    if _first_rounded(steps) is not None:
        return True if _amplifies(steps) else bool((equal | _near(wide_a, wide_b, dtype)).all())
    return bool(equal.all())


def _first_rounded(steps: list[Step]) -> int | None:
    """The first step with an accuracy of its own. `sqrt`, then `reciprocal` is `rsqrt`."""
    names = [s.name for s in steps]
    rounded = [name in ROUNDED or names[i : i + 2] == ["sqrt", "reciprocal"] for i, name in enumerate(names)]
    return rounded.index(True) if any(rounded) else None


def _near(a: np.ndarray, b: np.ndarray, dtype: str) -> np.ndarray:
    info = ml_dtypes.finfo(numpy_type(dtype))
    return np.abs(a - b) <= 16 * float(info.eps) * np.abs(b) + 4 * float(info.smallest_subnormal)


def _amplifies(steps: list[Step]) -> bool:
    """True where what follows an inexact function makes much of a last bit: differences, and steps of roundings."""
    first = _first_rounded(steps)
    assert first is not None
    jumps = ("floor", "ceil", "round", "trunc", "add", "sub", "sign", "exp", "pow", "div", "mul")
    return any(s.name in jumps for s in steps[first + 1 :])


def _truncated(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Towards zero; 0 for a division by 0."""
    quotients = [
        0 if y == 0 else abs(int(x)) // abs(int(y)) * (1 if (x < 0) == (y < 0) else -1)
        for x, y in zip(a, b, strict=True)
    ]
    return np.array([q % (1 << a.itemsize * 8) for q in quotients], np.uint64).astype(f"u{a.itemsize}").view(a.dtype)


NUMPY: dict[str, Callable[..., Any]] = {
    **{name: getattr(np, name) for name in ("abs", "sign", "floor", "ceil", "trunc", "sqrt")},
    "neg": np.negative,
    "round": np.rint,
    "reciprocal": lambda x: x.dtype.type(1) / x,
    "relu": lambda x: (
        np.where(x > 0, x, np.where(np.isnan(x), x, x.dtype.type(0))) if x.dtype.kind == "f" else np.maximum(x, 0)
    ),
    "not": np.invert,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "div": lambda a, b: a / b if a.dtype.kind == "f" else _truncated(a, b),
}


def by_numpy(steps: list[Step], x: np.ndarray, dtype: str) -> np.ndarray | None:
    """In numpy's arithmetic, one rounding a step; None where it has no such function, or another result by right."""
    if dtype == "bfloat16" or any(s.name not in NUMPY for s in steps):
        return None
    if dtype in FLOATS and any(s.name == "relu" for s in steps):
        return None  # which zero a maximum gives is not defined
    for step in steps:
        function = NUMPY[step.name]
        c = np.full_like(x, _python(step.number, dtype)) if step.side in ("left", "right") else x
        x = function(x) if step.side == "alone" else function(c, x) if step.side == "left" else function(x, c)
    return x
