"""The CPU back end's pointwise functions: accuracy in ULP against wider arithmetic, edge cases, integers against
Python's.

`BOUNDS` is the promise: the largest error in ULP of the true value, over samples of every exponent, for float32 and
float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from lanewise import Compiled, Lanewise
from mpmath import mp, mpf
from symbols import symbols

from burn.codegen.cpu.math import FUNCTIONS, apply
from burn.codegen.host.emit import Function, Value
from burn.codegen.triton.functions import FUNCTIONS as TRITON
from burn.dialect.functions import BY_NAME
from burn.dialect.types import numpy_dtype
from burn.errors import CompileError

Array = np.ndarray[Any, Any]
Reference = Callable[..., Any]
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NaN and overflow are the subject

# name: (float32 bound, float64 bound), in ULP
BOUNDS = {
    "exp": (1.1, 1.0),
    "exp2": (1.1, 1.1),
    "expm1": (1.6, 1.8),
    "log": (0.9, 0.9),
    "log2": (1.6, 1.6),
    "log1p": (0.9, 0.9),
    "sigmoid": (1.6, 2.0),
    "erf": (1.5, 1.1),
    "sin": (1.6, 2.0),
    "cos": (1.6, 2.0),
    "tan": (0.6, 4.0),
    "asin": (2.4, 2.2),
    "acos": (1.2, 1.2),
    "atan": (2.1, 1.6),
    "sinh": (1.8, 1.7),
    "cosh": (1.6, 1.6),
    "tanh": (1.6, 1.4),
    "asinh": (1.9, 1.8),
    "acosh": (2.3, 1.8),
    "atanh": (2.0, 1.8),
    "sqrt": (0.5, 0.5),
    "rsqrt": (1.6, 1.6),
    "reciprocal": (0.5, 0.5),
    "atan2": (2.3, 2.1),
    "pow": (0.6, 1.0),
}
LANES = {"float64": 8, "float32": 16, "float16": 16, "bfloat16": 16}
PREDICATES = {"isnan", "isinf", "eq", "ne", "lt", "le", "gt", "ge"}
FLOAT_FUNCTIONS = [name for name, rule in FUNCTIONS.items() if rule.floats and name != "select"]
SIGNED, UNSIGNED = ("int8", "int16", "int32", "int64"), ("uint8", "uint16", "uint32", "uint64")


def kernel(name: str, dtype: str, lanes: int = 16) -> Lanewise:
    def emit(code: Function, *values: Value) -> Value:
        return apply(code, name, dtype, *values)

    operands = [dtype] * FUNCTIONS[name].arity
    if name == "select":
        operands[0] = "bool"
    return Lanewise(emit, operands, "bool" if name in PREDICATES else dtype, lanes)


@pytest.fixture(scope="module")
def floats(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    kernels = {f"{n}_{d}": kernel(n, d, lanes) for n in FLOAT_FUNCTIONS for d, lanes in LANES.items()}
    kernels |= {f"{n}_{d}_scalar": kernel(n, d, 1) for n in FLOAT_FUNCTIONS for d in ("float32", "float64")}
    kernels |= {f"select_{d}": kernel("select", d) for d in LANES}
    return Compiled(kernels, str(tmp_path_factory.mktemp("objects") / "floats.o"))


@pytest.fixture(scope="module")
def integers() -> Compiled:
    kernels = {
        f"{name}_{dtype}": kernel(name, dtype)
        for name, rule in FUNCTIONS.items()
        for dtypes, emit in ((SIGNED, rule.signed), (UNSIGNED, rule.unsigned), (("bool",), rule.boolean))
        for dtype in dtypes
        if emit
    }
    return Compiled(kernels)


# ---- accuracy --------------------------------------------------------------------------------------------------------
def samples(name: str, dtype: str, per_exponent: int) -> Array:
    """Random mantissas at every exponent and both signs, and where the functions bend."""
    rng = np.random.default_rng(len(name))
    mantissa, exponents = (23, 255) if dtype == "float32" else (52, 2047)
    word = np.uint32 if dtype == "float32" else np.uint64
    fields = np.repeat(np.arange(2 * exponents + 2, dtype=word), per_exponent)
    every = ((fields << word(mantissa)) | rng.integers(0, 1 << mantissa, fields.size, word)).view(dtype)
    dense = [rng.uniform(-b, b, 40 * per_exponent) for b in (1, 4, 20, 90, 800)]
    x = np.concatenate([every, *dense, rng.uniform(0.5, 2, 100 * per_exponent)]).astype(dtype)
    if name in ("sin", "cos", "tan"):
        x = np.concatenate([x, (np.arange(-3000, 3000) * np.pi / 2).astype(dtype)])
    x = x[np.isfinite(x)]
    if dtype == "float64":
        x = x[(np.abs(x) > 1e-290) | (x == 0)]  # mpmath's float() of denormals is what would be tested
    if name.startswith("log") or name in ("rsqrt", "pow", "sqrt"):
        return x[x > 0] if name != "log1p" else x[x > -1]
    if name in ("asin", "acos", "atanh"):
        return x[np.abs(x) < 1]
    return x[x >= 1] if name == "acosh" else x


def operands(name: str, x: Array) -> list[Array]:
    rng = np.random.default_rng(11)
    if name == "atan2":
        return [x, (x * np.exp2(rng.uniform(-6, 6, x.size))).astype(x.dtype)]
    if name == "pow":  # exponents that use the whole range of results
        reach = 80.0 if x.dtype == np.float32 else 700.0
        log = np.maximum(np.abs(np.log(x.astype(np.float64))), 1e-6)
        return [x, (rng.uniform(-1, 1, x.size) * np.minimum(reach / log, 1e6)).astype(x.dtype)]
    return [x] * FUNCTIONS[name].arity


def in_double(name: str) -> Reference:
    """The function in float64, good to an ULP or so of that: exact enough for float32."""
    return {
        "sigmoid": lambda x: np.where(x < 0, np.exp(x), 1) / (1 + np.exp(-np.abs(x))),
        "erf": lambda x: np.array([math.erf(v) for v in x]),
        "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2,
        "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
        "rsqrt": lambda x: 1 / np.sqrt(x), "reciprocal": lambda x: 1 / x, "pow": np.power,
    }.get(name) or getattr(np, name)  # fmt: skip


def exactly(name: str) -> Reference:
    return {
        "sigmoid": lambda x: 1 / (1 + mp.exp(-x)),
        "exp2": lambda x: mpf(2) ** x, "log2": lambda x: mp.log(x) / mp.log(2),
        "rsqrt": lambda x: 1 / mp.sqrt(x), "reciprocal": lambda x: 1 / x, "pow": lambda x, y: x**y,
    }.get(name) or getattr(mp, name)  # fmt: skip


def check_ulps(name: str, errors: Array, bound: float, arguments: list[Array]) -> None:
    """The largest error, and the histogram behind it: errors beyond an ULP are rare, the typical one is rounding."""
    worst = int(errors.argmax())
    assert errors[worst] <= bound, (name, float(errors[worst]), [float(a[worst]) for a in arguments])
    assert np.mean(errors > 1.0) < 0.08
    assert np.median(errors) < 0.5


@pytest.mark.parametrize("name", BOUNDS)
def test_float32_accuracy(floats: Compiled, name: str) -> None:
    arguments = operands(name, samples(name, "float32", 300))
    want = in_double(name)(*(a.astype(np.float64) for a in arguments))
    got = floats(f"{name}_float32", *arguments)
    rounded = want.astype(np.float32)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(rounded))
    finite = np.isfinite(rounded) & np.isfinite(got)
    # An overflow may happen within the bound of the largest number, no earlier.
    assert (np.abs(want[~finite & ~np.isnan(want)]) > np.finfo(np.float32).max * (1 - 2.0**-23)).all()
    step = np.spacing(np.abs(rounded[finite])).astype(np.float64)
    errors = np.abs(got[finite].astype(np.float64) - want[finite]) / step
    check_ulps(name, errors, BOUNDS[name][0], [a[finite] for a in arguments])


@pytest.mark.parametrize("name", BOUNDS)
def test_float64_accuracy(floats: Compiled, name: str) -> None:
    x = samples(name, "float64", 1)
    arguments = operands(name, x[:: max(1, x.size // 3000)])
    got = floats(f"{name}_float64", *arguments)
    function = exactly(name)
    errors = np.zeros(got.size)
    with mp.workprec(160):
        for i, values in enumerate(zip(*arguments, strict=True)):
            want = function(*(mpf(float(v)) for v in values))
            nearest = float(want) if abs(want) < mpf(2) ** 1024 else math.copysign(math.inf, want)
            if math.isinf(nearest) or nearest == 0:
                assert got[i] == nearest, (name, values)
            elif math.isfinite(got[i]):
                errors[i] = float(abs(mpf(float(got[i])) - want) / mpf(math.ulp(nearest)))
            else:
                assert abs(nearest) > 1.7976931348623e308, (name, values, got[i])
    check_ulps(name, errors, BOUNDS[name][1], arguments)


def test_worst_known_argument_of_the_reduction(floats: Compiled) -> None:
    """The double nearest to a multiple of pi/2, and float32's."""
    x = np.array([6381956970095103 * 2.0**797])
    with mp.workprec(1300):
        want = float(mp.cos(mpf(float(x[0]))))
    assert abs(floats("cos_float64", x)[0] - want) <= 2 * math.ulp(want)
    single = np.array([16367173.0 * 2.0**72], np.float32)
    with mp.workprec(300):
        want = float(mp.cos(mpf(float(single[0]))))
    assert abs(float(floats("cos_float32", single)[0]) - want) <= 1.0 * float(np.spacing(np.float32(abs(want))))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", [n for n in BOUNDS if FUNCTIONS[n].arity == 1])
def test_half_precision_is_rounded_once(floats: Compiled, name: str, dtype: str) -> None:
    """Every bit pattern. The float32 result is far better than half an ULP, so that only near ties may differ by
    one."""
    x = np.arange(65536, dtype=np.uint16).view(numpy_dtype(dtype))
    got = floats(f"{name}_{dtype}", x).astype(np.float64)
    want = in_double(name)(x.astype(np.float64))
    rounded = want.astype(np.float32).astype(x.dtype).astype(np.float64)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(rounded))
    differs = (got != rounded) & ~np.isnan(got)
    assert differs.mean() < 1e-3
    up = np.nextafter(rounded.astype(x.dtype), np.array(np.inf, x.dtype)).astype(np.float64)
    down = np.nextafter(rounded.astype(x.dtype), np.array(-np.inf, x.dtype)).astype(np.float64)
    assert ((got == up) | (got == down))[differs].all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", FLOAT_FUNCTIONS)
def test_scalar_and_vector_agree(floats: Compiled, name: str, dtype: str) -> None:
    rng = np.random.default_rng(5)
    arguments = [(rng.standard_normal(203) * 3).astype(dtype) for _ in range(FUNCTIONS[name].arity)]
    arguments[0][:4] = [1e30, -1e7, 0, np.inf]
    vector, scalar = floats(f"{name}_{dtype}", *arguments), floats(f"{name}_{dtype}_scalar", *arguments)
    np.testing.assert_array_equal(vector, scalar)


# ---- edges -----------------------------------------------------------------------------------------------------------
EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 2.5, math.inf, -math.inf, math.nan]
NUMPY_NAMES = {
    "neg": "negative", "min": "minimum", "max": "maximum", "div": "divide", "sub": "subtract", "mul": "multiply",
    "round": "rint", "mod": "remainder", "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal",
    "gt": "greater", "ge": "greater_equal", "floordiv": "floor_divide", "and": "bitwise_and", "or": "bitwise_or",
    "xor": "bitwise_xor", "not": "invert",
}  # fmt: skip


def in_numpy(name: str) -> Reference:
    special: dict[str, Reference] = {
        "isinf_positive": np.isposinf,
        "isinf_negative": np.isneginf,
        "fma": lambda a, b, c: a * b + c,
    }
    if name in special or name in BOUNDS:
        return special.get(name) or in_double(name)
    return getattr(np, NUMPY_NAMES.get(name, name))


@pytest.mark.parametrize("dtype", LANES)
@pytest.mark.parametrize("name", FLOAT_FUNCTIONS)
def test_edges(floats: Compiled, name: str, dtype: str) -> None:
    """NaN, infinities, zeros and their signs, for all combinations of operands, as numpy has them (and C, for pow)."""
    kind = numpy_dtype(dtype)
    tiny = [2.0**-149, -(2.0**-149)] if dtype in ("float32", "float64") else []
    values = np.array([*EDGES, *tiny, 1e-3, 3e4, -3e4], kind)
    grid = np.meshgrid(*[values] * FUNCTIONS[name].arity)
    arguments = [g.ravel() for g in grid]
    want = in_numpy(name)(*(a.astype(np.float64) for a in arguments))
    got = floats(f"{name}_{dtype}", *arguments)
    if want.dtype == bool:
        np.testing.assert_array_equal(got, want)
        return
    want = want.astype(np.float32).astype(kind) if dtype == "bfloat16" else want.astype(kind)
    tolerance = {"float64": 1e-15, "float32": 3e-7, "float16": 1e-3, "bfloat16": 8e-3}[dtype]
    a, b = got.astype(np.float64), want.astype(np.float64)
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=2.0**-149 if dtype != "float64" else 0)
    zeros = (b == 0) & (a == 0)
    signless = {"min", "max", "fma"}  # numpy leaves the sign of their zeros open, or computes it otherwise
    if name not in signless:
        np.testing.assert_array_equal(np.signbit(a[zeros]), np.signbit(b[zeros]))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["fmod", "mod", "floordiv"])
def test_float_remainders(floats: Compiled, name: str, dtype: str) -> None:
    rng = np.random.default_rng(2)
    reach = 100 if dtype == "float32" else 1000
    x = (rng.standard_normal(4000) * np.exp2(rng.uniform(-reach, reach, 4000))).astype(dtype)
    y = (rng.standard_normal(4000) * np.exp2(rng.uniform(-reach, reach, 4000))).astype(dtype)
    y[:2000] = (x[:2000] / rng.uniform(-50, 50, 2000)).astype(dtype)
    x[100], y[100] = 1.0, 0.1
    np.testing.assert_array_equal(floats(f"{name}_{dtype}", x, y), in_numpy(name)(x, y))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["fmod", "mod"])
def test_float_remainders_of_nearly_whole_quotients(floats: Compiled, name: str, dtype: str) -> None:
    """Quotients that round to an integer, up to those without digits behind the point, of normal and denormal numbers."""
    rng, digits = np.random.default_rng(3), np.finfo(dtype).nmant
    y = rng.uniform(1, 2, 8000).astype(dtype)
    x = (y * np.floor(np.exp2(rng.uniform(0, digits + 3, 8000))).astype(dtype)).astype(dtype)
    for factor in (1.0, np.finfo(dtype).tiny / 16, np.finfo(dtype).max / 2.0 ** (digits + 6)):
        a, b = (x * np.asarray(factor, dtype)).astype(dtype), (y * np.asarray(factor, dtype)).astype(dtype)
        for moved in (a, np.nextafter(a, 0), np.nextafter(a, np.inf), -a):
            want = in_numpy(name)(moved, b)
            got = floats(f"{name}_{dtype}", moved, b)
            np.testing.assert_array_equal(got, want)
            np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


@pytest.mark.parametrize("dtype", LANES)
def test_select(floats: Compiled, dtype: str) -> None:
    """NaN payloads and signs go through."""
    a = np.arange(0x7F00, 0x8100, dtype=np.uint16).view(np.float16).astype(numpy_dtype(dtype))
    b = a[::-1].copy()
    condition = np.arange(a.size) % 3 == 0
    got = floats(f"select_{dtype}", condition, a, b)
    assert got.tobytes() == np.where(condition, a, b).tobytes()


def test_nothing_calls_libm(floats: Compiled, tmp_path: Any) -> None:
    """The object names no C function: neither those of libm nor compiler-rt's conversions."""
    path = tmp_path / "f.o"
    names = [n for n in FLOAT_FUNCTIONS if n != "select"]
    Compiled({f"k_{n}_{d}": kernel(n, d, lanes) for n in names for d, lanes in LANES.items()}, str(path))
    found = symbols(path.read_bytes())
    assert found["_mlir_k_exp_float32"]
    assert [name for name, defined in found.items() if not defined] == []


# ---- integers --------------------------------------------------------------------------------------------------------
def python_divide(a: int, b: int) -> int:
    return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def python_power(a: int, b: int) -> int:
    if b >= 0:
        return pow(a, b, 1 << 64)
    return {1: 1, -1: -1 if b % 2 else 1}.get(a, 0)


INTEGER_REFERENCE: dict[str, Callable[..., int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": python_divide,
    "floordiv": lambda a, b: a // b if b else 0,
    "fmod": lambda a, b: a - python_divide(a, b) * b if b else 0,
    "mod": lambda a, b: a % b if b else 0,
    "pow": python_power,
    "min": lambda a, b: min(a, b),
    "max": lambda a, b: max(a, b),
    "fma": lambda a, b, c: a * b + c,
    "neg": lambda a: -a,
    "abs": lambda a: abs(a),
    "sign": lambda a: (a > 0) - (a < 0),
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "not": lambda a: ~a,
}


def wrapped(values: list[int], dtype: str) -> Array:
    bits = np.iinfo(dtype).bits
    return np.array([v % (1 << bits) for v in values], np.uint64).astype(f"u{bits // 8}").view(dtype)


def integer_operands(dtype: str, arity: int) -> list[Array]:
    """All pairs of 8-bit numbers; for wider types the boundaries, small numbers and random ones, paired with each
    other."""
    info = np.iinfo(dtype)
    if info.bits == 8:
        values = np.arange(info.min, info.max + 1).astype(dtype)
    else:
        rng = np.random.default_rng(info.bits)
        near = [
            v for e in (0, 7, 8, 15, 16, 31, 32, 53, 63) for d in (-1, 0, 1) for s in (1, -1) if (v := s * 2**e + d)
        ]
        edges = [v for v in (*near, info.min, info.min + 1, info.max, 0, 3, 10, -7) if info.min <= v <= info.max]
        values = np.concatenate([np.array(edges, dtype), rng.integers(info.min, info.max, 60, dtype, True)])
    pairs = [g.ravel() for g in np.meshgrid(values, values)]
    return [pairs[0], pairs[1], pairs[0][::-1].copy()][:arity]


@pytest.mark.parametrize("dtype", SIGNED + UNSIGNED)
@pytest.mark.parametrize("name", INTEGER_REFERENCE)
def test_integers(integers: Compiled, name: str, dtype: str) -> None:
    arguments = integer_operands(dtype, FUNCTIONS[name].arity)
    rows = zip(*(a.tolist() for a in arguments), strict=True)
    want = [int(INTEGER_REFERENCE[name](*row)) for row in rows]
    got = integers(f"{name}_{dtype}", *arguments)
    np.testing.assert_array_equal(got, np.array(want, bool) if name in PREDICATES else wrapped(want, dtype))


@pytest.mark.parametrize("dtype", SIGNED + UNSIGNED)
def test_shifts(integers: Compiled, dtype: str) -> None:
    """Right shifts are logical; counts of the width and more give 0."""
    bits = np.iinfo(dtype).bits
    x = integer_operands(dtype, 1)[0][:200]
    for count in (0, 1, bits - 1, bits, bits + 1, 100):
        counts = np.full(x.size, count, dtype)
        unsigned = [int(v) % (1 << bits) for v in x]
        left, right = integers(f"shift_left_{dtype}", x, counts), integers(f"shift_right_{dtype}", x, counts)
        np.testing.assert_array_equal(left, wrapped([v << count for v in unsigned], dtype))
        np.testing.assert_array_equal(right, wrapped([v >> count for v in unsigned], dtype))


@pytest.mark.parametrize("name", ["and", "or", "xor", "not", "min", "max", "eq", "ne", "lt", "le", "gt", "ge"])
def test_bool(integers: Compiled, name: str) -> None:
    a, b = np.array([False, False, True, True]), np.array([False, True, False, True])
    reference = np.logical_not if name == "not" else in_numpy(name)
    arguments = [a, b][: FUNCTIONS[name].arity]
    np.testing.assert_array_equal(integers(f"{name}_bool", *arguments), reference(*arguments))


@pytest.mark.parametrize("dtype", [*SIGNED, *UNSIGNED, "bool"])
def test_integer_select(integers: Compiled, dtype: str) -> None:
    a = np.arange(64).astype(dtype)
    b = a[::-1].copy()
    condition = np.arange(64) % 5 < 2
    np.testing.assert_array_equal(integers(f"select_{dtype}", condition, a, b), np.where(condition, a, b))


# ---- the table -------------------------------------------------------------------------------------------------------
def test_every_function_of_the_dialect_is_there() -> None:
    from burn.dialect.pointwise import FUNCTIONS as rows

    assert {row.name for row in rows} <= set(FUNCTIONS)


@pytest.mark.parametrize(
    ("name", "dtype", "types", "message"),
    [
        ("frobnicate", "float32", ["f32"], "frobnicate"),
        ("exp", "int32", ["i32"], "'exp' is not defined for elements of type int32"),
        ("exp", "float8_e5m2", ["i8"], "float8_e5m2"),
        ("exp", "float32", ["f32", "f32"], "takes 1 operands, not 2"),
        ("add", "float32", ["f32", "f64"], "was given f32, f64"),
    ],
)
def test_refusals(name: str, dtype: str, types: list[str], message: str) -> None:
    code = Function("f", [(f"x{i}", type_) for i, type_ in enumerate(types)])
    with pytest.raises(CompileError, match=message):
        apply(code, name, dtype, *code.arguments)


def test_tables_hold_no_dead_rows() -> None:
    """Every row is a primitive of the dialect, or printers use it by name."""
    own = {"fma", "select", "exp2", "log2"}
    assert FUNCTIONS.keys() - BY_NAME.keys() == own == TRITON.keys() - BY_NAME.keys()
    assert BY_NAME.keys() - FUNCTIONS.keys() == BY_NAME.keys() - TRITON.keys() == set()
