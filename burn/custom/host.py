"""Bodies of custom ops in Python: the runtime calls them with copies of their operands, and copies their results.

A number stands for a function in compiled code. It is valid in this process alone, so programs with such ops are neither cached
on disk nor saved.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from burn.custom.definition import Version
from burn.dialect.custom import decoded
from burn.errors import Problem, RunError
from burn.runtime import _native
from burn.runtime.dtypes import CODES, name_of, numpy_dtype

Seen = tuple[int, tuple[int, ...], memoryview]
"""A tensor of a running program: the number of its element type, its sizes, and its memory."""

_calls: list[tuple[Version, dict[str, Any]]] = []
_numbers: dict[tuple[str, str], int] = {}
_lock = threading.Lock()


def number_of(definition: Any, settings: str) -> int:
    """The number of a Python body with these attributes."""
    with _lock:
        key = (definition.key, settings)
        if key not in _numbers:
            _numbers[key] = len(_calls)
            _calls.append((definition, decoded(settings)))
        return _numbers[key]


def results_of(
    definition: Any,
    settings: dict[str, Any],
    operands: Sequence[np.ndarray],
    types: Sequence[tuple[str, tuple[int, ...]]],
) -> list[np.ndarray]:
    """The results of a Python body, whose element types and sizes are `types`. An exception gets a note that names the op. Raises
    RunError for results that are not of the types."""
    assert definition.python is not None
    try:
        made = definition.python(*definition.complete(operands), **settings, **definition.parameters)
    except Exception as error:
        if add_note := getattr(error, "add_note", None):  # from Python 3.11 on
            add_note(f"in the Python body of the custom op {definition.name}")
        raise
    results = list(made) if isinstance(made, (tuple, list)) else [made]
    if made is None or len(results) != len(types):
        found = "nothing" if made is None else f"{len(results)} results"
        raise _wrong(definition, f"returned {found}; its types say {len(types)}")
    arrays = [np.asarray(result) for result in results]
    for position, (array, (dtype, shape)) in enumerate(zip(arrays, types, strict=True)):
        if array.dtype != numpy_dtype(dtype) or array.shape != shape:
            have, want = (
                f"{name}[{', '.join(map(str, dims))}]"
                for name, dims in ((_name(array.dtype), array.shape), (dtype, shape))
            )
            raise _wrong(definition, f"returned {have} as result {position}; its types say {want}")
    return arrays


def _called(number: int, inputs: Sequence[Seen], outputs: Sequence[Seen]) -> None:
    """Runs a body for a program of the native runtime. An exception ends the run, and is raised by the call of the program."""
    definition, settings = _calls[number]
    types = [(CODES[code], shape) for code, shape, _ in outputs]
    made = results_of(definition, settings, [_array(each).copy() for each in inputs], types)
    for output, array in zip(outputs, made, strict=True):
        _array(output)[...] = array


def _array(seen: Seen) -> np.ndarray:
    code, shape, memory = seen
    return np.frombuffer(memory, numpy_dtype(CODES[code])).reshape(shape)


def _name(dtype: np.dtype[Any]) -> str:
    try:
        return name_of(dtype)
    except KeyError:
        return str(dtype)


def _wrong(definition: Version, message: str) -> RunError:
    function: Any = definition.python
    code = getattr(function, "__code__", None)
    line = f"{code.co_filename.rsplit('/', 1)[-1]}:{code.co_firstlineno}" if code else ""
    problem = Problem(f"its Python body {message}", op=definition.name, node=line)
    return RunError("a custom op gave a wrong result", [problem])


_native.set_custom_host(_called)
