"""Compares a model's outputs with the expected ones by the rules of the ONNX project's own test runner."""

from __future__ import annotations

from typing import Any

import numpy as np

BFLOAT16_RTOL = 2**-6  # two ulps, as upstream allows


class Mismatch(Exception):
    """An output differs: in number, type, shape or value (`kind`)."""

    def __init__(self, kind: str, message: str) -> None:
        self.kind = kind
        super().__init__(message)


def compare(expected: list[Any], actual: list[Any] | tuple[Any, ...], rtol: float, atol: float) -> None:
    """Raises Mismatch at the first output that differs."""
    if len(actual) != len(expected):
        raise Mismatch("count", f"{len(actual)} outputs instead of {len(expected)}")
    for index, (want, got) in enumerate(zip(expected, actual, strict=True)):
        _compare(f"output {index}", want, got, rtol, atol)


def _compare(where: str, want: Any, got: Any, rtol: float, atol: float) -> None:
    if want is None or got is None:
        if want is not got:
            raise Mismatch("type", f"{where}: {_kind(got)} instead of {_kind(want)}")
        return
    if isinstance(want, list) or isinstance(got, (list, tuple)):
        if not isinstance(want, list) or not isinstance(got, (list, tuple)):
            raise Mismatch("type", f"{where}: {_kind(got)} instead of {_kind(want)}")
        if len(got) != len(want):
            raise Mismatch("shape", f"{where}: a sequence of {len(got)} instead of {len(want)}")
        for index, (one, other) in enumerate(zip(want, got, strict=True)):
            _compare(f"{where}[{index}]", one, other, rtol, atol)
        return
    if not isinstance(got, (np.ndarray, np.generic)):
        raise Mismatch("type", f"{where}: {_kind(got)} instead of {_kind(want)}")
    if want.dtype.kind in "OSUT":
        if got.dtype.kind not in "OSUT":
            raise Mismatch("type", f"{where}: {got.dtype} instead of strings")
    elif want.dtype != got.dtype:
        raise Mismatch("type", f"{where}: {got.dtype} instead of {want.dtype}")
    if want.shape != got.shape:
        raise Mismatch("shape", f"{where}: shape {list(got.shape)} instead of {list(want.shape)}")
    if want.dtype.kind in "OSUT":
        if _words(want) != _words(got):
            raise Mismatch("value", f"{where}: strings differ: {_words(got)[:4]} instead of {_words(want)[:4]}")
        return
    if want.dtype.name == "bfloat16":
        rtol = max(rtol, BFLOAT16_RTOL)
    if want.dtype.kind not in "fciub":  # a type of ml_dtypes, which numpy cannot compare with a Python float
        want, got = want.astype(np.float32), got.astype(np.float32)
    try:
        np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)
    except AssertionError as error:
        summary = [line.strip() for line in str(error).splitlines() if line.strip()]
        kept = [line for line in summary if line.startswith(("Mismatched", "Max absolute", "nan", "inf", "x and y"))]
        text = f"{want.dtype} values differ: {'; '.join(kept or summary[:2])}"
        raise Mismatch("value", f"{where}: {text}; got {_head(got)} instead of {_head(want)}") from error


def _words(array: Any) -> list[str]:
    return [word.decode() if isinstance(word, bytes) else str(word) for word in np.asarray(array).reshape(-1).tolist()]


def _head(array: Any) -> str:
    return np.array2string(array.reshape(-1)[:4], precision=5, separator=", ")


def _kind(value: Any) -> str:
    return "nothing" if value is None else "a sequence" if isinstance(value, (list, tuple)) else type(value).__name__
