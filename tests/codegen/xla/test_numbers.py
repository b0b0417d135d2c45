"""XLA's numbers: every pointwise function and conversion on special values, against the dialect's arithmetic on numbers."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from burn.compiler import executable
from burn.dialect import ops
from burn.dialect.functions import FUNCTIONS, Function
from burn.dialect.program import Program
from burn.dialect.types import DTYPES, TensorType, numpy_dtype
from burn.kernels.numbers import apply, convert
from burn.options import Options
from burn.runtime.device import device
from burn.runtime.executable import Executable

pytest.importorskip("jax")

ULP = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
REAL = [n for n, d in DTYPES.items() if d.kind in ("float", "int", "uint", "bool")]
NUMBERS = [*REAL, *(n for n, d in DTYPES.items() if d.kind == "small")]
SOURCES = ("float64", "int4")
"""Those that are always converted."""
COMPUTED = ("float32", "uint8", "bool")
"""Those that functions are always computed in."""
APPROXIMATE = {"tan": 64, "sinh": 32, "cosh": 32, "acosh": 32, "asinh": 32, "atanh": 32, "pow": 64, "erf": 16}
"""Functions that XLA computes with larger errors, in ULP; 8 for others."""


def compiled(types: list[TensorType], build: Any) -> Executable:
    program = Program.create([(f"x{i}", t) for i, t in enumerate(types)])
    with program.building("node"):
        made = build(*program.inputs)
    return executable(program.finish([(f"y{i}", v) for i, v in enumerate(made)]), Options(device=device("xla")))


def samples(dtype: str) -> np.ndarray:
    """Special values and ordinary ones of a type."""
    kind, bits = DTYPES[dtype].kind, DTYPES[dtype].bits
    to = numpy_dtype(dtype)
    if kind == "bool":
        return np.array([False, True])
    if kind == "small":
        return np.arange(1 << bits, dtype=np.uint8).view(to)
    if kind in ("int", "uint"):
        low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if kind == "int" else (0, (1 << bits) - 1)
        near = (low, low + 1, -7, -3, -2, -1, 0, 1, 2, 3, 5, 31, 32, 63, 64, high - 1, high)
        whole = np.int64 if kind == "int" else np.uint64
        return np.array(sorted({n for n in near if low <= n <= high}), whole).astype(to)
    with np.errstate(all="ignore"):
        wide = [0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 3, -7.25, 0.1, -0.9, 1e-3, 20.5, -88.5, 1e4, 3e4, -1e9]
        wide += [2**31, -(2**31), 2**32, 2**63, -(2**63), 2**64, 1e18, np.inf, -np.inf, np.nan, 1e-20, 448, 500, 60000]
        return np.array(wide).astype(np.float32 if bits < 64 else np.float64).astype(to)


def operands(row: Function, dtype: str) -> list[np.ndarray]:
    values = samples(dtype)
    if row.arity == 1:
        return [values]
    some = range(len(values)) if len(values) < 16 else range(0, len(values), 2)
    pairs = [*itertools.product(some, repeat=2), *itertools.pairwise(range(len(values)))]
    return [values[[a for a, _ in pairs]], values[[b for _, b in pairs]]]


@pytest.mark.parametrize("dtype", [d if d in COMPUTED else pytest.param(d, marks=pytest.mark.slow) for d in REAL])
def test_functions(dtype: str) -> None:
    rows = [row for row in FUNCTIONS if DTYPES[dtype].kind in row.kinds]
    given = [operands(row, dtype) for row in rows]
    every = [array for arrays in given for array in arrays]

    def build(*xs: Any) -> list[Any]:
        rest = list(xs)
        return [getattr(ops, _attribute(row.name))(*(rest.pop(0) for _ in range(row.arity))) for row in rows]

    made = compiled([TensorType(dtype, array.shape) for array in every], build)(*every)
    for row, arrays, got in zip(rows, given, made if isinstance(made, tuple) else (made,), strict=True):
        want = [_meaning(row.name, dtype, *(a.item() for a in numbers)) for numbers in zip(*arrays, strict=True)]
        for numbers, a, b in zip(zip(*arrays, strict=True), got.tolist(), want, strict=True):
            assert close(row.name, dtype, a, b), f"{row.name}{tuple(map(str, numbers))} in {dtype} is {a}, not {b}"


def _attribute(name: str) -> str:
    return f"{name}_" if name in ("and", "or", "not") else name


def _meaning(name: str, dtype: str, *numbers: Any) -> Any:
    if name == "pow" and numbers == (-np.inf, 0.5):  # numpy takes a square root
        return np.inf
    return apply(name, dtype, *numbers)


def close(name: str, dtype: str, a: Any, b: Any) -> bool:
    if a != a or b != b:
        return bool(a != a and b != b)
    if a == b or dtype not in ULP:
        return bool(a == b)
    least = float(np.finfo(np.float32 if dtype == "bfloat16" else dtype).tiny)  # XLA may flush denormals
    if abs(a) <= least and abs(b) <= least:
        return True
    return bool(abs(a - b) <= APPROXIMATE.get(name, 8) * ULP[dtype] * max(abs(b), least))


@pytest.mark.parametrize("saturate", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize("source", [n if n in SOURCES else pytest.param(n, marks=pytest.mark.slow) for n in NUMBERS])
def test_conversions(source: str, saturate: bool) -> None:
    """Bit for bit."""
    x = samples(source)
    targets = [t for t in NUMBERS if t != source and (saturate or DTYPES[t].kind == "small")]
    if not targets:
        return
    made = compiled(
        [TensorType(source, x.shape)], lambda x: [ops.cast(x, dtype=t, saturate=saturate) for t in targets]
    )(x)
    for target, got in zip(targets, made, strict=True):
        numbers = [float(n) if DTYPES[source].kind in ("float", "small") else n.item() for n in x]
        want = [convert(n, source, target, saturate) for n in numbers]
        for number, a, b in zip(numbers, got.astype(object), want, strict=True):
            a = float(a) if isinstance(b, float) else int(a)
            assert a == b or (a != a and b != b), f"{number} of {source} as {target} is {a}, not {b}"
