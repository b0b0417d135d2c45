"""The Python side of `burn.debug`: functions that programs call, printing, and the mode of `burn.debug.nans`.

The C runtime calls `called` while a program runs (`burn_set_debug_host`). A number stands for a function in compiled code: it
is valid in this process alone, so programs with callbacks are neither cached nor saved.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

import numpy as np

from burn.runtime import _native
from burn.runtime.dtypes import CODES, numpy_dtype
from burn.variables import variable

PRINT = -1
"""The number that stands for printing."""

_FIELD = "\1(\\d+)\2([^\3]*)\3"
_functions: list[Callable[..., Any]] = []
_numbers: dict[Callable[..., Any], int] = {}
_silent: ContextVar[bool] = ContextVar("silent", default=False)
_nans: ContextVar[str | None] = ContextVar("nans", default=None)

Tensor = tuple[int, tuple[int, ...], bytes]
"""An element type's number, sizes, and the elements."""


def number_of(function: Callable[..., Any]) -> int:
    """The number of a function in compiled code. One function has one number."""
    try:
        known = _numbers.get(function)
    except TypeError:  # it has no hash
        known = None
    if known is None:
        known = len(_functions)
        _functions.append(function)
        with suppress(TypeError):
            _numbers[function] = known
    return known


def called(function: int, text: bytes, tensors: Sequence[Tensor]) -> None:
    """Prints, or calls a function, for a running program, unless it is `silenced`. An exception ends the run."""
    if is_silent():
        return
    arrays = [_array(*tensor) for tensor in tensors]
    if function == PRINT:
        print(formatted(text.decode(), arrays), flush=True)
    else:
        _functions[function](*arrays)


def _array(code: int, shape: tuple[int, ...], data: bytes) -> np.ndarray:
    return np.frombuffer(bytearray(data), numpy_dtype(CODES[code])).reshape(shape)


def formatted(text: str, arrays: Sequence[np.ndarray]) -> str:
    """A text with its fields filled in, arrays as numpy prints them."""
    return re.sub(_FIELD, lambda match: _shown(arrays[int(match[1])], match[2]), text)


def _shown(array: np.ndarray, conversion: str) -> str:
    if not conversion:
        return str(array) if array.ndim else str(array[()])

    def write(value: Any) -> str:
        return conversion % float(value)

    return write(array[()]) if not array.ndim else np.array2string(array.astype(object), formatter={"all": write})


@contextmanager
def silenced() -> Iterator[None]:
    """Inside, `burn.debug.print` and `callback` do nothing, also in programs that run: the user's function is called once
    more, for something else, or autotuning times its program."""
    token = _silent.set(True)
    try:
        yield
    finally:
        _silent.reset(token)


def is_silent() -> bool:
    return _silent.get()


@contextmanager
def checking(kind: str) -> Iterator[None]:
    """Inside, programs are compiled with checks for "nan", or "inf": NaN and infinity; "" for none."""
    token = _nans.set(kind)
    try:
        yield
    finally:
        _nans.reset(token)


_bounded = 0
_bounds_lock = threading.Lock()


@contextmanager
def bounded() -> Iterator[None]:
    """Inside, custom ops in C are checked for writes outside of their tensors (lib_custom.c)."""
    global _bounded
    with _bounds_lock:
        _bounded += 1
        _native.custom_check(True)
    try:
        yield
    finally:
        with _bounds_lock:
            _bounded -= 1
            if not _bounded:
                _native.custom_check(bool(variable("BURN_DEBUG_BOUNDS") not in (None, "0")))


def checked() -> str:
    """The checks of programs that are compiled now: "nan", "inf" or "". Outside of `checking`, BURN_DEBUG_NANS decides."""
    kind = _nans.get()
    if kind is None:
        kind = _native.environment("BURN_DEBUG_NANS") or ""  # at every call of a jitted function: os.environ takes 1 us
    return {"": "", "0": "", "1": "nan"}.get(kind, kind)
