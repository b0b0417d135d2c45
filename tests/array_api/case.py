"""One drawn call of a function of the array API standard: burn's result against array-api-strict's. Enter at `case`.

Element types and shapes are those of array-api-strict. Numbers are compared with its results for float64 operands, because it
computes float32 with rounding of its own. Factorisations are compared after multiplying the factors.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from typing import Any

import numpy as np

import burn
from tests.array_api.draw import Draw, Dtype
from tests.array_api.rows import RULES
from tests.fuzz.runner import Outcome

NAMES = tuple(RULES)

ROUNDING = {"float32": 2e-6, "float64": 1e-13, "complex64": 4e-6, "complex128": 2e-13}
"""Relative tolerance of elementwise functions."""
LOOSE = ("linalg.", "fft.")
"""Families whose errors grow with the condition of a matrix, or with sizes."""
UNSPECIFIED_ZEROS = frozenset(
    {
        "maximum", "minimum", "max", "min", "sort", "remainder", "clip", "unique_all", "unique_values", "unique_counts",
        "unique_inverse",
    }
)  # fmt: skip
"""Functions for which the standard does not say which zero results of zeros of both signs are."""


def function_of(namespace: Any, name: str) -> Any:
    for part in name.split("."):
        namespace = getattr(namespace, part)
    return namespace


def given_to(value: Any, xp: Any, wide: bool = False) -> Any:
    """An argument as a namespace takes it."""
    if isinstance(value, np.ndarray):
        if wide and value.dtype.kind in "fc":
            value = value.astype("complex128" if value.dtype.kind == "c" else "float64")
        return xp.asarray(value)
    if isinstance(value, Dtype):
        widened = {"float32": "float64", "complex64": "complex128"}.get(value.name, value.name) if wide else value.name
        return getattr(xp, widened)
    if isinstance(value, list) and value and isinstance(value[0], np.ndarray):
        return [given_to(v, xp, wide) for v in value]
    if isinstance(value, tuple) and value and isinstance(value[0], Dtype):
        return tuple(given_to(v, xp, wide) for v in value)
    return value


def called(xp: Any, name: str, args: list[Any], options: dict[str, Any], wide: bool = False) -> Any:
    """The result, with arrays as numpy's."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        result = function_of(xp, name)(
            *(given_to(a, xp, wide) for a in args), **{k: given_to(v, xp, wide) for k, v in options.items()}
        )
        return plain(result)


def traced(name: str, args: list[Any], options: dict[str, Any]) -> Any:
    """burn's result of a compiled function whose arguments are the arrays."""
    xp = burn.array_api
    arrays = [xp.asarray(a) for a in args if isinstance(a, np.ndarray)]

    def function(*tensors: Any) -> Any:
        left = iter(tensors)
        given = [next(left) if isinstance(a, np.ndarray) else given_to(a, xp) for a in args]
        return function_of(xp, name)(*given, **{k: given_to(v, xp) for k, v in options.items()})

    return plain(burn.jit(function)(*arrays))


def plain(result: Any) -> Any:
    if isinstance(result, burn.Tensor) or hasattr(result, "__array_namespace__"):
        return np.asarray(result)
    if isinstance(result, tuple):
        each = [plain(r) for r in result]
        return type(result)(*each) if hasattr(result, "_fields") else tuple(each)
    return result


def case(seed: int) -> Outcome:
    """The function number seed modulo their count, with arguments that the seed draws."""
    return attempt(NAMES[seed % len(NAMES)], seed)


def attempt(name: str, seed: int) -> Outcome:
    import array_api_strict as strict

    if name in UNSUPPORTED:
        return Outcome("refused", f"{name}: {UNSUPPORTED[name]}")
    draw = Draw(seed)
    args, options = RULES[name](draw)
    text = f"{name}({', '.join(map(shown, args))}, {', '.join(f'{k}={shown(v)}' for k, v in options.items())})"
    try:
        want, exact = called(strict, name, args, options), called(strict, name, args, options, wide=True)
    except Exception as error:
        return Outcome("skipped", f"{text}: array-api-strict: {error}")
    by_trace = draw.chance(0.15) and any(isinstance(a, np.ndarray) for a in args) and name not in NOT_TRACED
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            found = traced(name, args, options) if by_trace else called(burn.array_api, name, args, options)
    except Exception as error:
        return Outcome("error", f"{text}{' traced' if by_trace else ''}: {type(error).__name__}: {error}")
    problem = difference(name, args, options, found, want, exact)
    return Outcome("different", f"{text}{' traced' if by_trace else ''}: {problem}") if problem else Outcome("ok")


def shown(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)} {np.array2string(value, threshold=20)}"
    return repr(value)


def difference(name: str, args: list[Any], options: dict[str, Any], found: Any, want: Any, exact: Any) -> str:
    """The first difference; "" if there is none."""
    if name in FACTORS:
        return FACTORS[name](args, options, found, want)
    if name in ("finfo", "iinfo"):
        fields = ("bits", "max", "min", *(("eps", "smallest_normal") if name == "finfo" else ()))
        wrong = [f for f in fields if getattr(found, f) != getattr(want, f)]
        return f"{wrong[0]}: {found} for {want}" if wrong else ""
    if name in ("result_type",):
        return "" if str(found) == str(want).rpartition(".")[2] else f"{found} for {want}"
    if name == "isin" and options["invert"]:
        want = exact = np.asarray(~want)  # array-api-strict 2.6 ignores `invert`
    if isinstance(want, tuple):
        if not isinstance(found, tuple) or len(found) != len(want):
            return f"{found!r} for {want!r}"
        wrong = [difference(name, args, options, *each) for each in zip(found, want, exact, strict=True)]
        fields = getattr(type(want), "_fields", None)
        return next(filter(None, wrong), "") or ("" if fields == getattr(type(found), "_fields", None) else "names")
    if not isinstance(want, np.ndarray):
        return "" if type(found) is type(want) and found == want else f"{found!r} for {want!r}"
    ours = {"float64": "float32", "complex128": "complex64"}  # burn's defaults, which the standard leaves open
    default = name in DEFAULTS and "dtype" not in options and not any(isinstance(a, np.ndarray) for a in args)
    dtype = ours.get(str(want.dtype), str(want.dtype)) if default else str(want.dtype)
    if str(found.dtype) != dtype or found.shape != want.shape:
        return f"{found.dtype}{list(found.shape)} for {dtype}{list(want.shape)}"
    return "" if name.startswith("empty") else numbers(name, args, found, np.asarray(exact), dtype)


def numbers(name: str, args: list[Any], found: np.ndarray, exact: np.ndarray, dtype: str) -> str:
    if dtype not in ROUNDING:
        same = np.array_equal(found, exact)
        return "" if same else f"{found.tolist()} for {exact.tolist()}"
    with np.errstate(all="ignore"):
        wanted = exact.astype(dtype)
        scale = 1.0
        if name.startswith(LOOSE) or name in SUMS:
            scale = 64 * max(
                [1.0, *(float(np.max(np.abs(a))) ** 2 for a in args if isinstance(a, np.ndarray) and a.size)]
            )
        bound = ROUNDING[dtype] * (np.abs(wanted) + (scale if name.startswith(LOOSE) or name in SUMS else 0)) + tiny(
            dtype
        )
        if np.iscomplexobj(wanted):
            parts = [(f, w) for f, w in ((found.real, wanted.real), (found.imag, wanted.imag))]
            close = np.all(
                [(np.abs(f - w) <= bound) | (f == w) | (np.isnan(f) & np.isnan(w)) for f, w in parts], axis=0
            )
        else:
            close = (found == wanted) | (np.abs(found - wanted) <= bound) | (np.isnan(found) & np.isnan(wanted))
            top = np.finfo(dtype).max  # results that float32 holds hardly or not
            close |= (np.abs(exact) > top * 0.999) & (np.abs(found) > top * 0.99) & (np.sign(found) == np.sign(exact))
    if not np.all(close):
        at = tuple(np.argwhere(~close)[0])
        return f"{found[at]!r} for {exact[at]!r} at {list(map(int, at))}"
    if dtype.startswith("float") and name not in UNSPECIFIED_ZEROS and not name.startswith(LOOSE) and name not in SUMS:
        wrong = (found == 0) & (wanted == 0) & (np.signbit(found) != np.signbit(wanted))
        if np.any(wrong):
            return f"the sign of 0 at {np.argwhere(wrong)[0].tolist()}"
    return ""


def tiny(dtype: str) -> float:
    """Subnormal numbers count as 0."""
    return float(np.finfo(dtype).tiny) if dtype.startswith("float") else 0.0


SUMS = frozenset({
    "sum", "prod", "mean", "var", "std", "cumulative_sum", "cumulative_prod", "matmul", "tensordot", "vecdot", "linspace",
    "diff", "arange",
})  # fmt: skip
"""Functions whose errors are relative to the operands, not to the result."""

DEFAULTS = frozenset(
    {"zeros", "ones", "empty", "full", "arange", "linspace", "eye", "asarray", "fft.fftfreq", "fft.rfftfreq"}
)
"""Functions whose results have the default element type of floats, which is float32 here and float64 there."""

NOT_TRACED = frozenset({"repeat", "from_dlpack", "asarray", "result_type", "finfo", "iinfo"})
"""Functions that need the elements of their arguments, or give no tensors."""

UNSUPPORTED: dict[str, str] = {}
"""Functions that burn does not have, with the reason."""


# ---- factorisations -------------------------------------------------------------------------------------------------------
def _near(found: np.ndarray, want: np.ndarray, dtype: str, what: str) -> str:
    scale = 200 * max(1.0, float(np.max(np.abs(want), initial=0)))
    return "" if np.all(np.abs(found - want) <= scale * ROUNDING[dtype]) else f"{what}: {found} for {want}"


def _alike(found: Any, want: Any) -> str:
    pairs = [(f"{f.dtype}{f.shape}", f"{w.dtype}{w.shape}") for f, w in zip(found, want, strict=True)]
    wrong = [f"{f} for {w}" for f, w in pairs if f != w]
    fields = [getattr(each, "_fields", ()) for each in (found, want)]
    return wrong[0] if wrong else "" if fields[0] == fields[1] else "names of the fields"


def _eigh(args: Any, options: Any, found: Any, want: Any) -> str:
    (x,), (values, vectors) = args, found
    return (
        _alike(found, want)
        or _near(values, want[0], str(x.dtype), "values")
        or _near(x @ vectors, vectors * values[..., None, :], str(x.dtype), "vectors")
        or _near(
            np.swapaxes(vectors.conj(), -1, -2) @ vectors,
            np.eye(x.shape[-1]) + 0 * vectors,
            str(x.dtype),
            "not orthonormal",
        )
    )


def _svd(args: Any, options: Any, found: Any, want: Any) -> str:
    (x,), (u, s, vh) = args, found
    k = s.shape[-1]
    return (
        _alike(found, want)
        or _near(s, want[1], str(x.dtype), "values")
        or _near(u[..., :k] * s[..., None, :] @ vh[..., :k, :], x, str(x.dtype), "the matrix")
        or _gram(u)
        or _gram(np.swapaxes(vh, -1, -2))
    )


def _qr(args: Any, options: Any, found: Any, want: Any) -> str:
    (x,), (q, r) = args, found
    return (
        _alike(found, want)
        or _near(q @ r, x, str(x.dtype), "the matrix")
        or _gram(q)
        or ("" if np.array_equal(r, np.triu(r)) else "r is not triangular")
    )


def _gram(q: np.ndarray) -> str:
    """ "" if the columns are orthonormal."""
    gram = np.swapaxes(q.conj(), -1, -2) @ q
    return _near(gram, np.broadcast_to(np.eye(q.shape[-1]), gram.shape), str(q.dtype), "not orthonormal")


def _matched(found: np.ndarray, want: np.ndarray) -> np.ndarray:
    """The eigenvalues found [..., n], ordered as the nearest of `want`: the standard leaves their order open."""
    result = found.reshape(-1, found.shape[-1]).copy()
    for row, wanted in zip(result, want.reshape(-1, want.shape[-1]), strict=True):
        left = list(row)
        row[:] = [left.pop(int(np.argmin(np.abs(np.array(left) - each)))) for each in wanted]
    return result.reshape(found.shape)


def _eigvals(args: Any, options: Any, found: Any, want: Any) -> str:
    return _alike([found], [want]) or _near(_matched(found, want), want, str(want.dtype), "values")


def _eig(args: Any, options: Any, found: Any, want: Any) -> str:
    (x,), (values, vectors) = args, found
    return (
        _alike(found, want)
        or _near(_matched(values, want[0]), want[0], str(want[0].dtype), "values")
        or _near(x @ vectors, vectors * values[..., None, :], str(want[0].dtype), "vectors")
    )


FACTORS = {"linalg.eigh": _eigh, "linalg.svd": _svd, "linalg.qr": _qr, "linalg.eig": _eig, "linalg.eigvals": _eigvals}
