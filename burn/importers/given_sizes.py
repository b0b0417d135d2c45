"""Sizes as callers give them to loading functions, checked: `checked_sizes` for `dims=`, `checked_names` for `dynamic=`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from burn.errors import Problem, TypeMismatch

MOST = 2**63 - 1


def checked_sizes(dims: Any) -> dict[str, Any] | None:
    """`dims=` with Python's integers: sizes by name, None for a name that is dropped, or the sizes of an input. Raises
    TypeMismatch."""
    if dims is None:
        return None
    if not isinstance(dims, Mapping):
        raise TypeMismatch('dims= maps names to sizes, such as {"batch": 1}', [f"not {dims!r}"])
    problems: list[Problem] = []
    found = {name: _size(name, value, problems) for name, value in dims.items()}
    problems += [Problem(f"{name!r} is no name") for name in dims if not isinstance(name, str)]
    if problems:
        raise TypeMismatch('dims= maps names to sizes, such as {"batch": 1}', problems)
    return found


def _size(name: Any, value: Any, problems: list[Problem]) -> Any:
    if value is None:
        return None
    if isinstance(value, (tuple, list)):
        return tuple(one if isinstance(one, str) else _size(name, one, problems) for one in value)
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        problems.append(Problem(f"the size of {name!r} is {value!r}, which is no integer"))
    elif not 0 <= value <= MOST:
        problems.append(Problem(f"the size of {name!r} is {value}, which no axis has"))
    else:
        return int(value)
    return None


def checked_names(dynamic: Any) -> None:
    """Raises TypeMismatch unless `dynamic=` of a model's file maps inputs to axes, and these to names."""
    form = 'dynamic= maps inputs to axes and names, such as {"input": {0: "batch"}}'
    if not isinstance(dynamic, Mapping):
        raise TypeMismatch(form, [f"not {dynamic!r}"])
    problems = []
    for name, axes in dynamic.items():
        if not isinstance(axes, Mapping):
            problems.append(Problem(f"the axes of {name!r} are {axes!r}"))
            continue
        problems += [Problem(f"{axis!r} is no axis of {name!r}") for axis in axes if type(axis) is not int]
        problems += [
            Problem(f"the name of an axis of {name!r} is {label!r}") for label in axes.values() if not _named(label)
        ]
    if problems:
        raise TypeMismatch(form, problems)


def _named(label: Any) -> bool:
    return isinstance(label, str) and label.strip() != ""
