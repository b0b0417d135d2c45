"""The meaning of `m` in numpy: the functions of burn's API table, in burn's documented element types.

Floats are computed in float64 and rounded after every step. A side with noise rounds worse than any computer: a difference
between two such runs is due to rounding, and is not compared.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from tests.api.rows import ROWS, Row
from tests.fuzz.tensors.shared import Side, words

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
NOISE = {"float64": 1e-13, "float32": 3e-6, "float16": 2e-3, "bfloat16": 1.6e-2}
"""How far off a step may be, relative to what it gives."""

BY_KEY = {row.key: row for row in ROWS}
CHOSEN = frozenset(
    words(
        "floor ceil trunc round frac sign abs neg negative relu relu6 maximum minimum clip clamp max min amax amin nanmax nanmin "
        "cummax cummin where full_like zeros_like ones_like eye tri one_hot zeros ones full arange"
    )
)
"""Functions whose results are among their operands, or whole numbers: they do not round."""
MIXED = frozenset(
    words(
        "sum prod mean nansum nanprod nanmean cumsum cumprod var std median quantile percentile average logsumexp norm matmul mm "
        "bmm dot vdot inner outer kron matvec tensordot cross cosine_similarity einsum softmax log_softmax diff lerp"
    )
)
"""Functions that add elements up: they are as exact as their largest element lets them."""
INDEXED = frozenset(
    words("take gather take_along_axis index_select put_along_axis scatter masked_select masked_fill one_hot bincount")
)
"""Functions whose other operands are indices, and which keep the first one's element type."""

FINITE = frozenset(words("linalg fft einsum"))
"""Modules and functions of finite numbers alone. Elimination and transforms leave the treatment of infinities to the algorithm.
The function einsum sums letters of one operand before it multiplies, as torch does: infinities may cancel, and an empty sum
times NaN is not 0."""

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": operator.pow, "&": operator.and_, "|": operator.or_, "^": operator.xor,
    "<<": operator.lshift, ">>": operator.rshift, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
COMPARISONS = frozenset(("<", "<=", ">", ">=", "==", "!="))


def is_float(dtype: np.dtype) -> bool:
    return dtype.name in NOISE


def is_finite(array: np.ndarray) -> bool:
    return not is_float(array.dtype) or bool(np.isfinite(array.astype(np.float64)).all())


def common(arrays: Sequence[np.ndarray], numbers: Sequence[Any] = ()) -> np.dtype:
    """burn's promotion: a float type wins over integers whatever their width; numbers are weak."""
    dtypes = {a.dtype for a in arrays}
    floats = {d for d in dtypes if is_float(d)}
    if BFLOAT16 in floats and len(floats) > 1:
        floats = floats - {BFLOAT16} | {np.dtype("float32")}
    if floats:
        return np.result_type(*floats) if BFLOAT16 not in floats else BFLOAT16
    if any(isinstance(n, float) for n in numbers):
        return np.dtype("float32")
    dtype = np.result_type(*dtypes)
    return np.dtype("int64") if dtype.kind == "b" and any(type(n) is int for n in numbers) else dtype


def arrays_in(values: Any) -> list[np.ndarray]:
    if isinstance(values, np.ndarray):
        return [values]
    return [a for v in values for a in arrays_in(v)] if isinstance(values, (list, tuple)) else []


def mapped(values: Any, function: Callable[[np.ndarray], Any]) -> Any:
    """Containers with every array replaced."""
    if isinstance(values, np.ndarray):
        return function(values)
    return type(values)(mapped(v, function) for v in values) if isinstance(values, (list, tuple)) else values


class Numpy(Side):
    """numpy as a side. noise: where it comes from, None for none; scale: how much more than usual."""

    def __init__(self, noise: np.random.Generator | None = None, scale: float = 1.0) -> None:
        self._noise, self._scale = noise, scale

    def __getattr__(self, name: str) -> Callable[..., Any]:
        row = BY_KEY.get(name)
        if row is None:
            raise AttributeError(name)
        return lambda *args, **options: self._call(row, lambda f, *a: f(*a, **options), args)

    def row(self, key: str, *args: Any) -> list[Any]:
        """A row of the table, used as it says."""
        row = BY_KEY[key]
        result = self._call(row, row.use, args)
        return list(result) if isinstance(result, (list, tuple)) else [result]

    def _call(self, row: Row, use: Callable[..., Any], args: Sequence[Any]) -> Any:
        given = arrays_in(args[:1] if row.name in INDEXED else args)
        if FINITE & {row.where, row.name} and not all(map(is_finite, given)):
            raise ValueError(f"{row.key} takes finite numbers")
        dtype = common(given)
        due = self._due(row, dtype)
        wide = not row.exact and (is_float(dtype) or row.result == "float")
        working = np.dtype("float64" if wide else "float32") if wide or dtype == BFLOAT16 else dtype
        converted = args if row.name in INDEXED else mapped(tuple(args), lambda a: a.astype(working))
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            result = use(row.reference, *converted)
            typed = mapped(_as_arrays(result), lambda a: a.astype(due))
        if row.exact or row.name in CHOSEN:
            return typed
        mixed = row.name in MIXED or row.where in ("linalg", "fft")
        return mapped(typed, lambda a: self._rounded(a, given if mixed else None))

    @staticmethod
    def _due(row: Row, dtype: np.dtype) -> np.dtype:
        if row.result == "float":
            return dtype if is_float(dtype) else np.dtype("float32")
        if row.result == "sum" and dtype.kind in "iub":
            return np.dtype("uint64" if dtype.kind == "u" else "int64")
        return dtype if row.result in ("same", "sum") else np.dtype(row.result)

    def _rounded(self, array: np.ndarray, operands: Sequence[np.ndarray] | None) -> np.ndarray:
        """With noise: of each element's own size, and of the largest one's where elements were mixed; what is smaller than the
        noise may come out as 0."""
        if self._noise is None or not is_float(array.dtype):
            return array
        with np.errstate(all="ignore"):
            wide = array.astype(np.float64)
            size = np.abs(wide)
            if operands is not None:
                tops = [_top(a) for a in operands if is_float(a.dtype)]
                size = 0.5 * size + 0.3 * max([_top(array), *tops, float(np.prod(tops or [0.0])) * 4])
            most = NOISE[array.dtype.name] * self._scale * size
            moved = wide + most * self._noise.uniform(-1, 1, array.shape)
            moved = np.where((np.abs(wide) < most) & (self._noise.random(array.shape) < 0.3), 0, moved)
            return np.asarray(np.where(np.isfinite(wide), moved, wide)).astype(array.dtype)

    # ---- what is no row ----------------------------------------------------------------------------------------------
    def op(self, symbol: str, left: Any, right: Any) -> np.ndarray:
        """A Python operator; one side may be a number."""
        arrays = arrays_in((left, right))
        dtype = common(arrays, [n for n in (left, right) if not isinstance(n, np.ndarray)])
        if symbol == "/" and not is_float(dtype):
            dtype = np.dtype("float32")
        exact = symbol in ("//", "%") or not is_float(dtype)
        working = dtype if exact else np.dtype("float64")
        if working == BFLOAT16:
            working = np.dtype("float32")
        sides = [np.asarray(v).astype(dtype).astype(working) for v in (left, right)]
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            result = np.asarray(OPERATORS[symbol](*sides))
        if symbol in COMPARISONS:
            return result
        return self._rounded(result.astype(dtype), None) if not exact else result.astype(dtype)

    def where(self, condition: np.ndarray, left: Any, right: Any) -> np.ndarray:
        dtype = common(arrays_in((left, right)), [n for n in (left, right) if not isinstance(n, np.ndarray)])
        return np.where(condition, np.asarray(left).astype(dtype), np.asarray(right).astype(dtype))

    def astype(self, x: np.ndarray, dtype: str) -> np.ndarray:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return x.astype(BFLOAT16 if dtype == "bfloat16" else dtype)

    def get(self, x: np.ndarray, index: Any) -> np.ndarray:
        return np.asarray(x[index])

    def at(self, x: np.ndarray, index: Any, how: str, values: Any) -> np.ndarray:
        out = x.copy()
        with np.errstate(all="ignore"):
            values = np.asarray(values).astype(x.dtype)
            if how == "set":
                out[index] = values
            else:
                function = {"add": np.add, "multiply": np.multiply, "max": np.maximum, "min": np.minimum}[how]
                function.at(out, index, values)
        return self._rounded(out, [x]) if how in ("add", "multiply") else out

    def topk(self, x: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """NaN counts as the greatest, as in torch and at the end of numpy's sort."""
        if k > x.shape[-1]:
            raise ValueError("there are not so many elements")
        wide = x.astype(np.float64 if is_float(x.dtype) else np.int64)
        order = np.lexsort((-wide, ~np.isnan(wide)), axis=-1)[..., :k]
        return np.take_along_axis(x, order, -1), order

    def softmax_by_hand(self, x: np.ndarray, axis: int) -> np.ndarray:
        return self.softmax(x, axis)

    def ints(self, values: Any) -> np.ndarray:
        return np.array(values, np.int64)

    held = ints

    def bools(self, values: Any) -> np.ndarray:
        return np.array(values, bool)


def _as_arrays(result: Any) -> Any:
    if isinstance(result, (list, tuple)):
        return [_as_arrays(r) for r in result]
    return np.asarray(result)


def _top(array: np.ndarray) -> float:
    wide = array.astype(np.float64)
    return float(np.abs(wide[np.isfinite(wide)]).max(initial=0))
