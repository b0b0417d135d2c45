"""The digest of a Python function: of its code, and of everything that the code refers to."""

from __future__ import annotations

import dis
import functools
import hashlib
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from burn.tensors import Tensor

DEEPEST = 12
"""Functions that call each other are followed so far."""

_PLAIN = (type(None), bool, int, float, complex, str, bytes)
_GLOBALS = ("LOAD_GLOBAL", "LOAD_NAME")
_LIBRARIES = ("burn.", "numpy.", "torch.", "jax.", "triton.")


def of_function(function: Callable[..., Any]) -> str:
    """The digest of a function: its code, defaults and closure, and the globals that it names, functions among them. Functions of
    libraries count by their names. Equal in every process for equal code."""
    digest = hashlib.sha256()
    for part in _parts(function, set(), DEEPEST):
        digest.update(part.encode())
        digest.update(b"\0")
    return digest.hexdigest()


def _parts(value: Any, seen: set[int], depth: int) -> Iterator[str]:
    if isinstance(value, _PLAIN):
        yield f"{type(value).__name__} {value!r}"
    elif isinstance(value, types.FunctionType):
        yield from _function(value, seen, depth)
    elif isinstance(value, types.MethodType):
        yield from _parts(value.__func__, seen, depth)
        yield from _parts(value.__self__, seen, depth)
    elif isinstance(value, functools.partial):
        yield from _parts((value.func, value.args, dict(value.keywords)), seen, depth)
    elif isinstance(value, (list, tuple, set, frozenset)):
        items = sorted(value, key=repr) if isinstance(value, (set, frozenset)) else value
        yield f"{type(value).__name__} {len(items)}"
        for item in items:
            yield from _parts(item, seen, depth)
    elif isinstance(value, dict):
        yield f"dict {len(value)}"
        for key, item in value.items():
            yield from _parts(key, seen, depth)
            yield from _parts(item, seen, depth)
    elif isinstance(value, Tensor):
        yield from _parts(np.asarray(value.numpy()) if not value.is_traced else str(value.type), seen, depth)
    elif isinstance(value, np.ndarray):
        yield f"array {value.dtype} {value.shape} {hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()}"
    elif hasattr(value, "custom_digest"):  # another custom op
        yield value.custom_digest()
    elif callable(getattr(value, "fn", None)) and isinstance(value.fn, types.FunctionType):  # a kernel of Triton's
        yield from _parts(value.fn, seen, depth)
    else:
        kind = value if isinstance(value, (type, types.ModuleType)) else type(value)
        yield f"{getattr(kind, '__module__', '')}.{getattr(kind, '__qualname__', kind.__name__)}"


def _function(function: types.FunctionType, seen: set[int], depth: int) -> Iterator[str]:
    module = f"{function.__module__ or ''}."
    if id(function) in seen or depth == 0 or module.startswith(_LIBRARIES):
        yield f"function {module}{function.__qualname__}"
        return
    seen.add(id(function))
    names: dict[str, None] = {}
    for code in _codes(function.__code__):
        constants = [c for c in code.co_consts if not isinstance(c, types.CodeType)]
        yield f"{code.co_code.hex()} {constants!r} {code.co_names} {code.co_varnames} {code.co_freevars}"
        names.update(dict.fromkeys(i.argval for i in dis.get_instructions(code) if i.opname in _GLOBALS))
    yield from _parts((function.__defaults__, function.__kwdefaults__), seen, depth - 1)
    for cell in function.__closure__ or ():
        try:
            yield from _parts(cell.cell_contents, seen, depth - 1)
        except ValueError:  # it is not filled yet
            yield "empty"
    for name in names:
        if name in function.__globals__:
            yield name
            yield from _parts(function.__globals__[name], seen, depth - 1)


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """A function's code, and that of the functions inside of it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)
