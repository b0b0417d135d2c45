"""Errors for functions of another framework's arrays, which cannot be traced, with hints. Start at `explained`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType, TracebackType
from typing import Any

from burn.errors import BurnError, Problem, TypeMismatch

_HINTS = {
    "jax": ("JAX", "give burn.from_jax(function), or a jitted one: burn.compile(jax.jit(function), ..)"),
    "tensorflow": ("TensorFlow", "convert it to ONNX (tf2onnx) and burn.load the file"),
}
_PACKAGES = {"jax": "jax", "jaxlib": "jax", "flax": "jax", "equinox": "jax"}
_PACKAGES |= {"tensorflow": "tensorflow", "keras": "tensorflow"}


@contextmanager
def explained(function: Callable[..., Any]) -> Iterator[None]:
    """Around the call of a function that is traced. Raises TypeMismatch if it fails on burn's tensors in another framework."""
    if (found := _framework(type(function).__module__)) and not isinstance(function, type):
        raise _refusal(function, found)
    try:
        yield
    except BurnError:
        raise
    except (TypeError, ValueError, AttributeError, NotImplementedError) as error:
        found = _raised_in(error.__traceback__) or _called_by(function)
        if found is None:
            raise
        raise _refusal(function, found, f"{type(error).__name__}: {error}") from error


def _refusal(function: Callable[..., Any], found: str, said: str = "") -> TypeMismatch:
    framework, hint = _HINTS[found]
    name = getattr(function, "__name__", type(function).__name__)
    first = [said.splitlines()[0]] if said else []
    return TypeMismatch(
        f"'{name}' is a function of {framework}'s arrays, and burn traces functions of its own tensors",
        [*(Problem(f"{framework} said: {text}") for text in first), Problem("it cannot be traced", hint=hint)],
    )


def _framework(module: str | None) -> str | None:
    return _PACKAGES.get((module or "").partition(".")[0])


def _raised_in(traceback: TracebackType | None) -> str | None:
    """The framework whose code raised an error: that of its last frame."""
    last = None
    while traceback is not None:
        last, traceback = traceback, traceback.tb_next
    return None if last is None else _framework(last.tb_frame.f_globals.get("__name__"))


def is_plain_jax(function: Any) -> bool:
    """True for a Python function whose source names JAX."""
    return _called_by(function) == "jax"


def _called_by(function: Callable[..., Any]) -> str | None:
    """The framework that a function's own source names: its code may be native, and show no frame."""
    code = getattr(function, "__code__", None)
    if code is None:
        return None
    names = getattr(function, "__globals__", {})
    for name in code.co_names:
        value = names.get(name)
        module = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
        found = _framework(module) if isinstance(module, str) and module.partition(".")[0] in sys.modules else None
        if found:
            return found
    return None
