"""Every name of the tensor API against numpy, on random sizes: the rows of `rows.py`, traced and lazy.

Traced, a row is one program with named sizes for several element types, run on sizes that hypothesis draws, 0 and 1 among
them. Lazy, the sizes are known when the program is made. The slow tests take every element type of every row.
"""

from __future__ import annotations

import functools
import inspect
import random
import warnings
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import burn
from burn.lazy import evaluate
from burn.tensors.functions import NAMES, methods
from tests.api import (
    test_attention_function,
    test_creation,
    test_eig,
    test_linalg,
    test_random,
    test_samples,
    test_tensor_objects,
)
from tests.api.rows import BOOL, CONVERSIONS, FLOATS, INTS, ROWS, UINTS, Row
from tests.complex import test_fft, test_tensors
from tests.complex import test_functions as test_complex_functions

EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
SIZES = (0, 1, 2, 3, 5, 7)
EXAMPLES = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None)
ONCE = settings(EXAMPLES, max_examples=1)

ELSEWHERE = {
    **dict.fromkeys(("random." + n for n in burn.random.__all__), test_random),
    **dict.fromkeys(
        ("linalg.lu", "linalg.qr", "linalg.lstsq", "linalg.svd", "linalg.eigh", "linalg.matrix_exp"), test_linalg
    ),
    **dict.fromkeys(("linalg.eig", "linalg.eigvals"), test_eig),
    **dict.fromkeys(("from_dlpack",), test_creation),
    "scaled_dot_product_attention": test_attention_function,
    **dict.fromkeys(
        ("Tensor." + n for n in ("numpy", "item", "tolist", "evaluate", "to", "to_device", "cpu", *CONVERSIONS)),
        test_tensor_objects,
    ),
    "Tensor.trace": test_tensor_objects,
    **dict.fromkeys(
        (
            "erfc",
            "erfinv",
            "lgamma",
            "digamma",
            "polygamma",
            "var_mean",
            "cov",
            "corrcoef",
            "histogram",
            "interp",
            "convolve",
            "cdist",
            "segment_sum",
            "grid_sample",
            "affine_grid",
        ),
        test_samples,
    ),
    **dict.fromkeys(
        ("complex", "real", "imag", "conj", "polar", "is_complex", "view_as_complex", "view_as_real"), test_tensors
    ),
    **dict.fromkeys(("angle", "conjugate"), test_complex_functions),
    **dict.fromkeys(
        (
            f"fft.{name}"
            for name in (
                *("fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn"),
                *("hfft", "ihfft", "istft"),
            )
        ),
        test_fft,
    ),
}
"""Names that need tests of their own, and the module that has them."""


# ---- what a row is given -----------------------------------------------------------------------------------------------
def numpy_type(dtype: str) -> np.dtype:
    return np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def chosen(row: Row) -> list[str]:
    """Some of the element types that the row takes, others in each row: one of each kind, float32 always. Where elements
    only move, one beside float32 will do."""
    turn = zlib.crc32(row.key.encode())
    kinds = [[d for d in row.dtypes if d in kind] for kind in (FLOATS, (*INTS, *UINTS), BOOL)]
    picked = [kind[turn % len(kind)] for kind in kinds if kind]
    picked = [row.dtypes[turn % len(row.dtypes)]] if row.exact else picked
    return list(dict.fromkeys([*(["float32"] if "float32" in row.dtypes else []), *picked]))


DRAWS: dict[str, Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]] = {
    "any": lambda r, s: r.standard_normal(s) * 2,
    "small": lambda r, s: r.uniform(-4, 4, s),
    "unit": lambda r, s: r.uniform(-0.95, 0.95, s),
    "above one": lambda r, s: r.uniform(1.01, 5, s),
    "positive": lambda r, s: r.uniform(0.3, 3, s),
    "not zero": lambda r, s: r.uniform(0.5, 4, s) * r.choice([-1, 1], s),
    "halves": lambda r, s: r.integers(-9, 9, s) / 2,
    "special": lambda r, s: r.choice([0.0, -0.0, 1.5, -2.25, np.nan, np.inf, -np.inf], s),
    "few": lambda r, s: r.integers(-1, 3, s).astype(float),
    "near one": lambda r, s: r.uniform(0.8, 1.25, s),
    "gaps": lambda r, s: np.where(r.random(s) < 0.3, np.nan, r.standard_normal(s)),
    "index 7": lambda r, s: r.integers(0, 7, s).astype(float),
}
"""How floats are drawn; other element types take their integral parts, in their own range."""


def draw(row: Row, dtype: str, seed: int, sizes: dict[str, int]) -> list[np.ndarray]:
    generator = np.random.default_rng(seed)
    arrays = []
    for letters in row.inputs:
        array = np.asarray(DRAWS[row.domain](generator, tuple(sizes[c] if c in sizes else int(c) for c in letters)))
        if dtype not in FLOATS:
            array = np.nan_to_num(
                np.ceil(array) if row.domain in ("positive", "above one", "near one") else np.trunc(array),
                posinf=9,
                neginf=-9,
            )
            array = np.where(array == 0, 1, array) if row.domain == "not zero" else array
            array = np.abs(array) if dtype in UINTS else array != 0 if dtype == "bool" else array
        arrays.append(np.ascontiguousarray(array.astype(numpy_type(dtype))).reshape(array.shape))
    return arrays


def reference(row: Row, dtype: str, arrays: Sequence[np.ndarray]) -> list[Any]:
    """numpy's result; floats are computed in float64 unless the row is exact."""
    if not row.exact and (dtype in FLOATS or row.result == "float"):
        arrays = [a.astype(np.float64) for a in arrays]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return as_list(row.use(row.reference, *arrays))


def as_list(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (list, tuple)) else [result]


def function_of(row: Row) -> Callable[..., Any]:
    return getattr(getattr(burn, row.where) if row.where else burn, row.name)


def result_type(row: Row, dtype: str) -> str:
    if row.result == "float":
        return dtype if dtype in FLOATS else "float32"
    wide = dtype if dtype in FLOATS else "uint64" if dtype in UINTS else "int64"
    return {"same": dtype, "sum": wide}.get(row.result, row.result)


def check(row: Row, dtype: str, got: Sequence[np.ndarray], want: Sequence[Any]) -> None:
    assert len(got) == len(want), row.key
    for i, (ours, theirs) in enumerate(zip(got, want, strict=True)):
        where = f"burn.{row.key}, result {i}, of {dtype}"
        theirs = np.asarray(theirs)
        assert ours.dtype == numpy_type(result_type(row, dtype)), f"{where}: {ours.dtype}"
        assert ours.shape == theirs.shape, f"{where}: {ours.shape} instead of {theirs.shape}"
        with np.errstate(all="ignore"):
            if ours.dtype.name not in EPSILON:
                np.testing.assert_array_equal(ours, theirs.astype(ours.dtype), where)
                continue
            wide, rounded = ours.astype(np.float64), theirs.astype(ours.dtype).astype(np.float64)
            near = 16 * EPSILON[ours.dtype.name] * row.tolerance
            np.testing.assert_allclose(wide, rounded, rtol=near, atol=near, err_msg=where)


# ---- traced ------------------------------------------------------------------------------------------------------------
@functools.cache
def compiled(index: int, dtypes: tuple[str, ...]) -> Any:
    row = ROWS[index]
    count = len(row.inputs)

    def function(*xs: burn.Tensor) -> list[burn.Tensor]:
        parts = [xs[i : i + count] for i in range(0, len(xs), count)]
        return [y for part in parts for y in as_list(row.use(function_of(row), *part))]

    specs = [f"{dtype}[{', '.join(letters)}]" for dtype in dtypes for letters in row.inputs]
    return burn.compile(function, specs)


def run_traced(index: int, dtypes: tuple[str, ...], seed: int, sizes: dict[str, int]) -> None:
    row = ROWS[index]
    inputs = [draw(row, dtype, seed, sizes) for dtype in dtypes]
    got = as_list(compiled(index, dtypes)(*(a for arrays in inputs for a in arrays)))
    each = len(got) // len(dtypes)
    for i, (dtype, arrays) in enumerate(zip(dtypes, inputs, strict=True)):
        check(row, dtype, got[i * each : (i + 1) * each], reference(row, dtype, arrays))


def sizes_for(row: Row) -> st.SearchStrategy[dict[str, int]]:
    letters = sorted(filter(str.isalpha, set("".join(row.inputs))))
    return st.fixed_dictionaries({c: st.sampled_from([s for s in SIZES if s >= row.least]) for c in letters})


TRACED = [i for i, row in enumerate(ROWS) if row.traced]


@pytest.mark.slow
@pytest.mark.parametrize("index", TRACED, ids=lambda i: ROWS[i].key)
def test_every_element_type(index: int) -> None:
    row = ROWS[index]

    @EXAMPLES
    @given(st.integers(0, 2**32 - 1), sizes_for(row))
    def examples(seed: int, sizes: dict[str, int]) -> None:
        run_traced(index, row.dtypes, seed, sizes)

    examples()


# ---- lazy --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("index", range(len(ROWS)), ids=lambda i: ROWS[i].key)
def test_lazy(index: int) -> None:
    row = ROWS[index]

    @ONCE
    @given(st.integers(0, 2**32 - 1), sizes_for(row), st.sampled_from(chosen(row)))
    def examples(seed: int, sizes: dict[str, int], dtype: str) -> None:
        arrays = draw(row, dtype, seed, sizes)
        results = as_list(row.use(function_of(row), *map(burn.constant, arrays)))
        evaluate(tensor.value for tensor in results)
        check(row, dtype, [tensor.numpy() for tensor in results], reference(row, dtype, arrays))

    examples()


# ---- nothing is left out -----------------------------------------------------------------------------------------------
def public_names() -> set[str]:
    names = set(NAMES)
    for module in ("linalg", "fft", "random"):
        names |= {
            f"{module}.{name}"
            for name in getattr(burn, module).__all__
            if not inspect.isclass(getattr(getattr(burn, module), name))
        }
    return names | {f"Tensor.{name}" for name in methods() if name not in NAMES}


def test_every_public_name_is_in_the_table() -> None:
    rows = {row.key for row in ROWS}
    assert len(rows) == len(ROWS), "a name has two rows"
    assert public_names() - rows - ELSEWHERE.keys() == set()
    assert rows - public_names() == set() and ELSEWHERE.keys() - public_names() == set()


@pytest.mark.parametrize("key", ELSEWHERE)
def test_names_tested_elsewhere_are(key: str) -> None:
    assert key.rpartition(".")[2] in inspect.getsource(ELSEWHERE[key]), key


@pytest.mark.parametrize("name", random.Random(3).sample(NAMES, 40))
def test_functions_are_documented(name: str) -> None:
    function = getattr(burn, name)
    assert function.__doc__ and inspect.signature(function).parameters
