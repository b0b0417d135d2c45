"""Every pointwise primitive in every element type: ONNX Runtime's answer to the export is burn's own."""

from __future__ import annotations

import numpy as np
import pytest

from burn.dialect import ops
from burn.dialect.pointwise import FUNCTIONS, Function
from burn.dialect.types import DTYPES, numpy_dtype
from tests.exporters.onnx.building import burn, exported, ort, program

TYPES = tuple(n for n, d in DTYPES.items() if d.kind in ("float", "int", "uint", "bool") and d.bits not in (2, 4))
TOLERANCE = {"float64": 1e-12, "float32": 1e-5, "float16": 2e-3, "bfloat16": 1.6e-2}
NO_KERNEL = {"atan2", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "erf"}
"""Functions that ONNX Runtime does not compute in float64."""


def drawn(dtype: str, seed: int) -> np.ndarray:
    """Numbers among which are all that functions treat apart."""
    random, kind, numpy_type = np.random.default_rng(seed), DTYPES[dtype].kind, numpy_dtype(dtype)
    if kind == "float":
        special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.5, -0.5, 2.5, 1e-3]
        return np.concatenate([special, random.standard_normal(26) * 3]).astype(numpy_type)
    if kind == "bool":
        return random.integers(0, 2, 37).astype(bool)
    limits = np.iinfo(numpy_type)
    special = np.array([limits.min, limits.max, 0, 1, 2, 3, limits.max // 2], numpy_type)
    return np.concatenate(
        [special, random.integers(max(limits.min, -100), min(limits.max, 100), 30).astype(numpy_type)]
    )


def operands(row: Function, dtype: str) -> list[np.ndarray]:
    """All pairs for a function of two; distances of shifts and exponents of integers stay small."""
    a, b = drawn(dtype, 1), drawn(dtype, 2)
    if row.name.startswith("shift"):
        b = np.arange(37).astype(b.dtype) % (DTYPES[dtype].bits + 3)
    if row.name == "pow" and a.dtype.kind in "iu":
        a, b = a[2:6], np.arange(4).astype(b.dtype)
    return [np.repeat(a, len(b)), np.tile(b, len(a))] if row.arity == 2 else [a]


@pytest.mark.parametrize("dtype", TYPES)
def test_functions(dtype: str) -> None:
    rows = [r for r in FUNCTIONS if DTYPES[dtype].kind in r.kinds and not (dtype == "float64" and r.name in NO_KERNEL)]
    wrong = []
    for row in rows:
        builder = getattr(ops, row.name + "_" * (row.name in ("and", "or", "not")))
        feeds = operands(row, dtype)
        made = program(builder, **{f"x{i}": f"{dtype}[{len(a)}]" for i, a in enumerate(feeds)})
        (got,), (want,) = ort(exported(made), feeds), burn(made, feeds)
        assert got.dtype == want.dtype, row.name
        a, b = got.astype(np.float64), want.astype(np.float64)
        tolerance = 0 if row.predicate else TOLERANCE.get(dtype, 0)
        with np.errstate(invalid="ignore"):
            same = (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= tolerance * np.maximum(np.abs(b), 1e-2))
        if not same.all():
            index = int(np.flatnonzero(~same)[0])
            wrong.append(f"{row.name}{[f[index] for f in feeds]} is {got[index]}, not {want[index]}")
    assert not wrong


def test_select_takes_every_type() -> None:
    condition = np.array([True, False, True])
    for dtype in TYPES:
        a, b = drawn(dtype, 1)[:3], drawn(dtype, 2)[-3:]
        made = program(ops.select, c="bool[3]", a=f"{dtype}[3]", b=f"{dtype}[3]")
        (got,) = ort(exported(made), [condition, a, b])
        assert got.tobytes() == np.where(condition, a, b).tobytes(), dtype


@pytest.mark.parametrize("to", ["float64", "float32", "float16", "int64", "int32", "int8", "uint8", "uint32", "bool"])
def test_cast(to: str) -> None:
    for dtype in ("float32", "float16", "int64", "int8", "uint16", "bool"):
        x = np.arange(5).astype(numpy_dtype(dtype))
        made = program(lambda x: ops.cast(x, dtype=to), x=f"{dtype}[5]")
        (got,) = ort(exported(made), [x])
        assert got.dtype == numpy_dtype(to) and (got == x.astype(numpy_dtype(to))).all(), dtype
