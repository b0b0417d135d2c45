"""Pointwise functions on WebGPU: floats against float64, integers against Python's, conversions against the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burn.codegen.printing.code import Unprintable
from burn.codegen.wgsl.convert import convert
from burn.codegen.wgsl.functions import FUNCTIONS
from burn.dialect import ops
from burn.dialect.functions import BY_NAME
from burn.dialect.types import DTYPES, TensorType, numpy_dtype
from burn.kernels import numbers
from tests.codegen.running import call, compiled

pytestmark = [pytest.mark.usefixtures("webgpu"), pytest.mark.filterwarnings("ignore::RuntimeWarning")]

BOUNDS = {
    "exp": 2, "exp2": 2, "expm1": 2.5, "log": 1.5, "log2": 2, "log1p": 2.5, "sigmoid": 3, "erf": 2, "sin": 2, "cos": 2, "tan": 4,
    "asin": 3, "acos": 2, "atan": 3, "sinh": 3, "cosh": 2.5, "tanh": 2.5, "asinh": 3, "acosh": 3.5, "atanh": 3, "sqrt": 1,
    "rsqrt": 2, "atan2": 3, "pow": 250, "div": 2.5,
    "reciprocal": 2.5, "floordiv": 2.5,
}  # fmt: skip
"""The largest error in ULP; of pow, whose logarithm is multiplied by the exponent, where the result is within 2^-60 and 2^60.
Divisions have the 2.5 that WGSL allows."""

FLOATS = [
    n
    for n, r in FUNCTIONS.items()
    if r.floats and n not in ("select", "eq", "ne", "lt", "le", "gt", "ge", "fma", "exp2", "log2")
]
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -2.5, 3.0, np.inf, -np.inf, np.nan, 1e30, -1e30, 1e-30, 88.5, -88.5, 104.0]


def _samples(count: int, seed: int) -> np.ndarray:
    """Numbers at every exponent but the least, whose results are denormal and may be flushed to zero."""
    rng = np.random.default_rng(seed)
    drawn = rng.uniform(1, 2, count) * 2.0 ** rng.uniform(-40, 40, count) * rng.choice([-1, 1], count)
    near = rng.normal(size=count) * 3
    return np.concatenate([drawn, near, SPECIAL]).astype(np.float32)


@pytest.fixture(scope="module")
def floats(webgpu: None) -> dict[str, tuple[list[np.ndarray], np.ndarray]]:
    """The operands and results of all functions of floats, from one program."""
    pairs = np.meshgrid(*(np.asarray(SPECIAL, np.float32),) * 2)
    x, y = (np.concatenate([_samples(400, 1 + i), pairs[i].ravel()]) for i in range(2))
    rows = TensorType("float32", (len(x),))

    def build(a: Any, b: Any) -> list[Any]:
        return [getattr(ops, name)(*(a, b)[: BY_NAME[name].arity]) for name in FLOATS]

    results = call(compiled([rows, rows], build, device="wgpu"), x, y)
    return {n: ([x, y][: BY_NAME[n].arity], r) for n, r in zip(FLOATS, results, strict=True)}


@pytest.mark.parametrize("name", FLOATS)
def test_floats(name: str, floats: dict[str, tuple[list[np.ndarray], np.ndarray]]) -> None:
    arguments, got = floats[name]
    if name == "pow":  # of C; numpy's power of scalars gives sqrt(x) for x^0.5, which is NaN at -inf
        wanted = np.float_power(*arguments)
    else:
        wanted = np.array([numbers.apply(name, "float64", *map(float, row)) for row in zip(*arguments, strict=True)])
    if got.dtype == bool:
        assert np.array_equal(got, wanted)
        return
    single = wanted.astype(np.float32)
    normal = np.isfinite(single) & (np.abs(single) > 1e-37) | (single == 0) & (wanted == 0)
    if name == "pow":
        normal &= (np.abs(np.log2(np.abs(wanted))) < 60) | (wanted == 0)
    special = np.isnan(wanted) | np.isinf(wanted)
    odd = np.isnan(got) != np.isnan(wanted)
    assert not odd.any(), np.stack([*arguments, got, wanted])[:, odd]
    assert np.array_equal(got[special & ~np.isnan(wanted)], wanted[special & ~np.isnan(wanted)].astype(np.float32))
    errors = np.abs(got[normal] - wanted[normal]) / np.spacing(np.abs(single[normal]))
    worst = int(np.argmax(errors))
    assert errors[worst] <= BOUNDS.get(name, 0.5), (
        errors[worst],
        [a[normal][worst] for a in arguments],
        got[normal][worst],
    )


def _integers(dtype: str, rng: np.random.Generator) -> list[int]:
    """Integers of every size."""
    info = np.iinfo(dtype)
    drawn = rng.integers(info.min, info.max, 90, dtype=dtype, endpoint=True).tolist()
    return [number >> int(rng.integers(0, info.bits)) for number in drawn]


TYPES = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]


@pytest.mark.parametrize("dtype", [*TYPES, "bool"])
def test_integers(dtype: str) -> None:
    rng = np.random.default_rng(3)
    if dtype == "bool":
        x, y = rng.random((2, 101)) < 0.5
    else:
        info = np.iinfo(dtype)
        edges = np.array([info.min, info.max, 0, 1, info.max - 1, info.min + 1, 2, 3, 7, 31, 32, 63], dtype=object)
        drawn = _integers(dtype, rng)
        x = np.array([*edges, *drawn], dtype=object).astype(dtype)
        y = np.array([*rng.permutation(edges), *rng.permutation(drawn)], dtype=object).astype(dtype)
    kind = {"int": "signed", "uint": "unsigned", "bool": "boolean"}[DTYPES[dtype].kind]
    skipped = ("select", "fma", *(["abs"] if dtype == "bool" else []))  # no ops of these types
    names = [n for n, r in FUNCTIONS.items() if getattr(r, kind) and n not in skipped]
    rows = TensorType(dtype, (len(x),))

    def build(a: Any, b: Any) -> list[Any]:
        return [getattr(ops, name)(*(a, b)[: BY_NAME[name].arity]) for name in names]

    results = call(compiled([rows, rows], build, device="wgpu"), x, y)
    for name, got in zip(names, results, strict=True):
        arguments = [[x, y][i].tolist() for i in range(BY_NAME[name].arity)]
        wanted = [numbers.apply(name, dtype, *row) for row in zip(*arguments, strict=True)]
        for row, a, b in zip(zip(*arguments, strict=True), got.tolist(), wanted, strict=True):
            assert a == b, (name, row)


CONVERTED = [
    *TYPES, "bool", "float16", "bfloat16", "float32", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz",
]  # fmt: skip


@pytest.mark.parametrize("source", CONVERTED)
def test_conversions(source: str) -> None:
    rng = np.random.default_rng(4)
    if DTYPES[source].kind in ("float", "small"):
        wide = np.concatenate(
            [_samples(60, 5), [65504, 65519, 65520, 448, 464, 57344, 3e9, 5e9, -1e19, 1e19, 2e19, 6e-8, 3e-8]]
        )
        x = wide.astype(np.float32).astype(numpy_dtype(source))
    elif source == "bool":
        x = rng.random(9) < 0.5
    else:
        info = np.iinfo(source)
        drawn = _integers(source, rng)
        x = np.array([info.min, info.max, 0, 1, *drawn], dtype=object).astype(source)

    def build(a: Any) -> list[Any]:
        return [ops.cast(a, dtype=dtype) for dtype in CONVERTED]

    results = call(compiled([TensorType(source, (len(x),))], build, device="wgpu"), x)
    floating = DTYPES[source].kind in ("float", "small")
    values = [float(v) for v in x] if floating else x.tolist()
    for target, got in zip(CONVERTED, results, strict=True):
        if target == source:  # no conversion, so nothing saturates
            continue
        for value, a in zip(values, got, strict=True):
            b = numbers.convert(value, source, target)
            a = float(a) if isinstance(b, float) else a.item()
            denormal = isinstance(b, float) and 0 < abs(b) < 2.0**-126
            assert a == b or (a != a and b != b) or denormal, (target, value, a, b)


def test_refused_types() -> None:
    with pytest.raises(Unprintable, match="float64"):
        convert("x", "float64", "float32")
