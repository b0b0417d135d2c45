"""Conversions against ml_dtypes and numpy: every bit pattern of the types up to 16 bits, boundaries and samples of
the rest."""

from __future__ import annotations

import itertools
import platform
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from lanewise import Compiled, Lanewise

from burn.codegen.cpu.convert import convert, rounded
from burn.codegen.cpu.target import host_targets
from burn.codegen.host.emit import Function, Value
from burn.dialect.types import DTYPES, numpy_dtype
from burn.errors import CompileError
from burn.runtime.host import features

Array = np.ndarray[Any, Any]
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NaN and overflow are the subject
DTYPE_NAMES = [name for name, dtype in DTYPES.items() if dtype.kind not in ("complex", "string", "list")]
INTEGERS = [name for name in DTYPE_NAMES if DTYPES[name].kind in ("int", "uint")]
SMALL = [name for name in DTYPE_NAMES if DTYPES[name].kind == "small"]
EIGHT_BIT = [name for name in SMALL if DTYPES[name].bits == 8 and name != "float8_e8m0fnu"]
FLOATS = ["float64", "float32", "float16", "bfloat16"]


def kernel(source: str, target: str, lanes: int = 16, **options: Any) -> Lanewise:
    def emit(code: Function, value: Value) -> Value:
        return convert(code, value, source, target, **options)

    return Lanewise(emit, [source], target, lanes)


def by_integers(source: str, target: str) -> Lanewise:
    """The conversion as targets whose compiler cannot compare float16 make it."""

    def emit(code: Function, value: Value) -> Value:
        code.soft_float16 = True
        return convert(code, value, source, target)

    return Lanewise(emit, [source], target)


@pytest.fixture(scope="module")
def compiled() -> Compiled:
    kernels = {f"{s}_{t}": kernel(s, t) for s in DTYPE_NAMES for t in DTYPE_NAMES}
    kernels |= {f"{s}_{t}_free": kernel(s, t, saturate=False) for s in FLOATS for t in SMALL}
    kernels |= {f"float32_{t}_scalar": kernel("float32", t, lanes=1) for t in DTYPE_NAMES}
    kernels |= {f"{s}_float16_integers": by_integers(s, "float16") for s in FLOATS}
    kernels |= {f"float16_{t}_integers": by_integers("float16", t) for t in FLOATS}
    for mode in ("down", "nearest"):
        kernels[f"exponent_{mode}"] = kernel("float32", "float8_e8m0fnu", round_mode=mode)
        kernels[f"exponent_{mode}_free"] = kernel("float32", "float8_e8m0fnu", round_mode=mode, saturate=False)
    return Compiled(kernels)


def patterns(dtype: str) -> Array:
    """Every value of a type of up to 16 bits; for wider ones all exponents, ties of the narrower types, and the
    integers' boundaries."""
    bits = DTYPES[dtype].bits
    if dtype == "bool":
        return np.array([False, True])
    if bits <= 16:
        return np.arange(1 << bits, dtype=f"u{DTYPES[dtype].size}").view(numpy_dtype(dtype))
    rng = np.random.default_rng(7)
    edges = [s * 2**e + d for e in range(bits) for d in (-1, 0, 1) for s in (1, -1)]
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        values = [e for e in edges if info.min <= e <= info.max]
        return np.concatenate([np.array(values, dtype), rng.integers(info.min, info.max, 5000, dtype, True)])
    word = f"u{DTYPES[dtype].size}"
    random = rng.integers(0, 2**bits - 1, 50_000, word, True).view(dtype)
    # Every float16 and bfloat16, the points half way to the next, and the neighbours of those.
    small_floats = np.concatenate([patterns(t).astype(dtype) for t in ("float16", "bfloat16")])
    between = small_floats[:-1] / 2 + small_floats[1:] / 2
    near = [np.nextafter(between, dtype_edge) for dtype_edge in (np.array(np.inf, dtype), np.array(-np.inf, dtype))]
    exact = np.array([float(e) for e in edges] + [e + 0.5 for e in range(-300, 300)], dtype)
    return np.concatenate([random, small_floats, between, *near, exact, np.nextafter(exact, np.array(0, dtype))])


def same(got: Array, want: Array) -> Array:
    """Equal bits, or both NaN."""
    kind = np.dtype(f"u{got.dtype.itemsize}")
    equal = got.view(kind) == want.view(kind)
    if got.dtype.kind in "iub" or "int" in got.dtype.name:
        return equal
    return equal | (np.isnan(got.astype(np.float32)) & np.isnan(want.astype(np.float32)))


def check(got: Array, want: Array, x: Array) -> None:
    wrong = ~same(got, want)
    assert not wrong.any(), [(x[i], got[i], want[i]) for i in np.flatnonzero(wrong)[:5]]


def once(x: Array, target: str) -> Array:
    """float64 to a type narrower than float32, rounded once: ml_dtypes goes through float32 for some. The float32
    that is cut towards zero with its last bit set for what is lost rounds as the double does."""
    if x.dtype != np.float64 or DTYPES[target].kind not in ("float", "small") or target in ("float64", "float32"):
        return x.astype(numpy_dtype(target))
    cut = x.astype(np.float32)
    cut = np.where(np.abs(cut.astype(np.float64)) > np.abs(x), np.nextafter(cut, np.float32(0)), cut)
    odd = np.where((cut != x) & ~np.isnan(x), cut.view(np.uint32) | 1, cut.view(np.uint32)).astype(np.uint32)
    return odd.view(np.float32).astype(numpy_dtype(target))


@pytest.mark.parametrize("source", FLOATS + SMALL)
@pytest.mark.parametrize("target", [*FLOATS, "float4_e2m1fn"])
def test_float_to_float(compiled: Compiled, source: str, target: str) -> None:
    x = patterns(source)
    wide = x if source in ("float64", "float32") else x.astype(np.float32)
    check(compiled(f"{source}_{target}", x), once(wide, target) if source != target else x, x)


@pytest.mark.parametrize(("source", "target"), [*((s, "float16") for s in FLOATS), *(("float16", t) for t in FLOATS)])
def test_soft_float16(compiled: Compiled, source: str, target: str) -> None:
    x = patterns(source)
    wide = x if source in ("float64", "float32") else x.astype(np.float32)
    check(compiled(f"{source}_{target}_integers", x), once(wide, target) if source != target else x, x)


@pytest.mark.parametrize("source", FLOATS)
@pytest.mark.parametrize("target", EIGHT_BIT)
def test_eight_bit_floats(compiled: Compiled, source: str, target: str) -> None:
    """ONNX's tables for Cast: with saturation everything but NaN is clipped to the largest magnitude; without,
    ml_dtypes."""
    x = patterns(source)
    wide = x if source in ("float64", "float32") else x.astype(np.float32)
    check(compiled(f"{source}_{target}_free", x), once(wide, target), x)
    limit = float(ml_dtypes.finfo(target).max)
    check(compiled(f"{source}_{target}", x), once(np.clip(wide, -limit, limit), target), x)


@pytest.mark.parametrize("target", EIGHT_BIT)
def test_eight_bit_specials(compiled: Compiled, target: str) -> None:
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e30, -1e30], np.float32)
    limit = float(ml_dtypes.finfo(target).max)
    got = compiled(f"float32_{target}", x).astype(np.float32)
    np.testing.assert_array_equal(got, [0, 0, limit, -limit, np.nan, limit, -limit])
    assert np.signbit(got[1]) == (not target.endswith("uz"))
    free = compiled(f"float32_{target}_free", x).astype(np.float32)
    beyond = np.inf if target == "float8_e5m2" else np.nan
    np.testing.assert_array_equal(free, [0, 0, beyond, -beyond, np.nan, beyond, -beyond])


def test_exponent_only(compiled: Compiled) -> None:
    """float8_e8m0fnu in each rounding mode, against the definition."""
    rng = np.random.default_rng(3)
    x = np.concatenate([
        np.abs(rng.integers(0, 2**31, 20_000).astype(np.uint32).view(np.float32)),
        np.exp2(np.arange(-149, 128)).astype(np.float32),
        (1.5 * np.exp2(np.arange(-148, 127))).astype(np.float32),
    ])  # fmt: skip
    x = x[np.isfinite(x)]
    log = np.log2(np.maximum(x.astype(np.float64), 2.0**-150))
    down = np.floor(log)
    middle = x.astype(np.float64) >= 1.5 * np.exp2(down)
    modes = {"up": np.ceil(log), "down": down, "nearest": down + middle}
    for mode, exponent in modes.items():
        names = ("float32_float8_e8m0fnu", "float32_float8_e8m0fnu_free")
        if mode != "up":
            names = (f"exponent_{mode}", f"exponent_{mode}_free")
        clipped = np.clip(exponent, -127, 127)
        np.testing.assert_array_equal(compiled(names[0], x).astype(np.float64), np.exp2(clipped))
        free = np.where((exponent > 127) | (x < 2.0**-127), np.nan, np.exp2(clipped))
        np.testing.assert_array_equal(compiled(names[1], x).astype(np.float64), free)
    special = np.array([0.0, np.inf, np.nan, -1.0], np.float32)
    got = compiled("float32_float8_e8m0fnu", special).astype(np.float64)
    np.testing.assert_array_equal(got, [2.0**-127, 2.0**127, np.nan, np.nan])
    free = compiled("exponent_nearest_free", special).astype(np.float64)
    assert np.isnan(free).all()


@pytest.mark.parametrize("source", INTEGERS)
@pytest.mark.parametrize("target", INTEGERS)
def test_integers_wrap(compiled: Compiled, source: str, target: str) -> None:
    x = patterns(source)
    numbers = np.array([int(v) for v in x], dtype=object)
    bits = DTYPES[target].bits
    low = numbers % (1 << bits)
    word = np.array(low, dtype=np.uint64).astype(f"u{DTYPES[target].size}")
    check(compiled(f"{source}_{target}", x), word.view(numpy_dtype(target)), x)


def truncated(x: float, target: str) -> int:
    """As C on x86-64 converts: in 32 bits, for uint32 and int64 in 64, for uint64 in 64 with the top bit apart."""
    dtype = DTYPES[target]
    width = 64 if dtype.bits == 64 or target == "uint32" else 32
    least = -(1 << (width - 1))
    top = 0
    if target == "uint64" and x >= 2.0**63:
        x, top = x - 2.0**63, 1 << 63
    value = int(x) if -least > x >= least else least
    return (value ^ top) % (1 << dtype.bits)


@pytest.mark.parametrize("source", FLOATS + SMALL)
@pytest.mark.parametrize("target", INTEGERS)
def test_float_to_integer(compiled: Compiled, source: str, target: str) -> None:
    x = patterns(source)
    if x.size > 65536:
        x = x[:: x.size // 20_000]
    x = np.concatenate([x, patterns("float64")[-1100:].astype(x.dtype)]) if source in ("float64", "float32") else x
    numbers = x.astype(np.float64)
    want = np.array([truncated(float(v), target) for v in numbers], np.uint64).astype(f"u{DTYPES[target].size}")
    check(compiled(f"{source}_{target}", x), want.view(numpy_dtype(target)), x)


@pytest.mark.parametrize("source", INTEGERS)
@pytest.mark.parametrize("target", FLOATS + EIGHT_BIT)
def test_integer_to_float(compiled: Compiled, source: str, target: str) -> None:
    """An integer above 2^53 is rounded to a double first, as `convert` says."""
    x = patterns(source)
    wide = np.array([float(int(v)) for v in x])
    limit = np.inf if target in FLOATS else float(ml_dtypes.finfo(target).max)
    check(compiled(f"{source}_{target}", x), once(np.clip(wide, -limit, limit), target), x)


@pytest.mark.parametrize("name", DTYPE_NAMES)
def test_bool(compiled: Compiled, name: str) -> None:
    x = patterns(name)
    numbers = x.astype(np.float64) if name in FLOATS + SMALL else np.array([int(v) for v in x])
    np.testing.assert_array_equal(compiled(f"{name}_bool", x), numbers != 0)
    got = compiled(f"bool_{name}", np.array([False, True]))
    want = [2.0**-127, 1.0] if name == "float8_e8m0fnu" else [0, 1]
    np.testing.assert_array_equal(got.astype(np.float64), want)


def test_scalar_and_vector_agree(compiled: Compiled) -> None:
    x = patterns("float32")[::31]
    for target in DTYPE_NAMES:
        check(compiled(f"float32_{target}_scalar", x), compiled(f"float32_{target}", x), x)


def test_every_pair_is_compiled(compiled: Compiled) -> None:
    assert all(f"{s}_{t}" in compiled.kernels for s, t in itertools.product(DTYPE_NAMES, repeat=2))


def test_types_without_lanes_are_refused() -> None:
    code = Function("f", [("x", "f32")])
    with pytest.raises(CompileError, match="complex64"):
        convert(code, code.arguments[0], "float32", "complex64")
    with pytest.raises(CompileError, match="held as f16"):
        convert(code, code.arguments[0], "float16", "float32")
    with pytest.raises(CompileError, match="sideways"):
        convert(code, code.arguments[0], "float32", "float8_e8m0fnu", round_mode="sideways")


def by_instruction(target: str, lanes: int, x86_bits: int, rounds: bool) -> Lanewise:
    """float32 to an integer as on x86 CPUs whose vectors have this width."""

    def emit(code: Function, value: Value) -> Value:
        code.x86_bits = x86_bits
        made = rounded(code, value, target) if rounds else convert(code, value, "float32", target)
        assert made is not None
        return made

    return Lanewise(emit, ["float32"], target, lanes)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="instructions of x86")
def test_instructions_of_x86() -> None:
    """Truncation and rounding by one instruction, for vectors of one and of several registers. A number out of range, or NaN,
    becomes the least int32."""
    cases = [(lanes, width) for width in host_widths() for lanes in (width // 32, width // 8)]
    targets = ("int32", "uint8", "int8")
    kernels = {
        f"{target}_{lanes}_{width}_{rounds}": by_instruction(target, lanes, width, rounds)
        for target, (lanes, width), rounds in itertools.product(targets, cases, (False, True))
    }
    compiled, x = Compiled(kernels), patterns("float32")
    for name in kernels:
        target, *_, rounds = name.split("_")
        whole = (np.rint if rounds == "True" else np.trunc)(x.astype(np.float64))
        inside = (whole >= -(2.0**31)) & (whole < 2.0**31)
        want = np.where(inside, whole, -(2.0**31)).astype(np.int32).astype(target)
        check(compiled(name, x), want, x)
    code = Function("f", [("x", "vector<16xf32>")])
    assert rounded(code, code.arguments[0], "uint8") is None  # other CPUs
    code.x86_bits = 512
    assert rounded(code, code.arguments[0], "uint32") is None and rounded(code, code.arguments[0], "int64") is None


def host_widths() -> list[int]:
    return sorted({target.x86_bits for target in host_targets(features())})
