"""numpy's functions called with tensors: np.exp(x), np.sum(x, axis=0), array += x. One rule for all of them.

A function that burn has under the same name with the same arguments computes a tensor (`_RENAMED` and `_BY_POSITION` hold the
exceptions). A function that queries properties or writes into another array gets arrays (`_OF_ARRAYS`). All others are refused
by name: their result would not be a tensor, and a traced function could not compute it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from burn.dialect.functions import FUNCTIONS
from burn.errors import TypeMismatch
from burn.evaluation import family
from burn.tensors.base import Base

_BINARY = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "truediv", "floor_divide": "floordiv",
    "remainder": "mod", "power": "pow", "matmul": "matmul", "bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor",
}  # fmt: skip
_COMPARED = {
    "equal": ("eq", "eq"), "not_equal": ("ne", "ne"), "less": ("lt", "gt"), "less_equal": ("le", "ge"),
    "greater": ("gt", "lt"), "greater_equal": ("ge", "le"),
}  # fmt: skip
_UFUNCS = {
    **{row.numpy.__name__: row.name for row in FUNCTIONS if isinstance(row.numpy, np.ufunc)},
    **{ufunc: f"__{name}__" for ufunc, name in _BINARY.items()},
    **{ufunc: f"__{name}__" for ufunc, (name, _) in _COMPARED.items()},
}  # fmt: skip
"""numpy's ufuncs that have another name here, or are an operator."""
_REFLECTED = {
    **{f"__{name}__": f"__r{name}__" for name in _BINARY.values()},
    **{f"__{a}__": f"__{b}__" for a, b in _COMPARED.values()},
}
"""The reflected operator of the right operand."""

_RENAMED = {"transpose": "permute", "around": "round", "copy": "clone"}
_BY_POSITION: dict[str, Callable[..., Any]] = {
    "squeeze": lambda f, x, axis=None: f(x) if axis is None else f(x, *_several(axis)),
    "transpose": lambda f, x, axes=None: f(x) if axes is None else f(x, *axes),
    "broadcast_to": lambda f, x, shape: f(x, *_several(shape)),
    "reshape": lambda f, x, shape: f(x, *_several(shape)),
    "tile": lambda f, x, reps: f(x, *_several(reps)),
    "pad": lambda f, x, widths, mode="constant", constant_values=0: f(x, widths, mode, constant_values),
    "clip": lambda f, x, a_min=None, a_max=None: f(x, a_min, a_max),
}
"""Functions whose arguments differ from numpy's."""
_OF_ARRAYS = frozenset({
    "shape", "ndim", "size", "copyto", "save", "savez", "savez_compressed", "savetxt", "array2string", "array_repr", "array_str",
    "may_share_memory", "shares_memory", "result_type", "can_cast", "iscomplexobj", "isrealobj", "common_type", "min_scalar_type",
})  # fmt: skip
"""Functions that query properties, or write into another array."""
_HOMES = {"numpy": "", "numpy.linalg": "linalg", "numpy.fft": "fft"}
"""numpy's modules, and burn's."""


def of_elements(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """numpy's ufuncs, and operators with an array as lhs. `out` receives the result."""
    from burn.tensors import functions

    out = options.pop("out", None)
    name = _UFUNCS.get(ufunc.__name__) or str(ufunc.__name__)
    if method != "__call__" or options or not (name.startswith("__") or name in functions.NAMES):
        hint = f"there is burn.{name}" if name in functions.NAMES else "call functions of burn"
        raise TypeMismatch(f"numpy's {ufunc.__name__} does not compute with tensors so", [hint])
    if name.startswith("__"):
        left, right = inputs
        result = getattr(left, name)(right) if isinstance(left, Base) else getattr(right, _REFLECTED[name])(left)
    else:
        result = getattr(functions, name)(*inputs)
    return result if out is None else _written(result, out)


def _written(result: Any, out: tuple[Any, ...]) -> np.ndarray:
    """`array += x`: writes the elements to numpy's `out`."""
    (target,) = out
    if not isinstance(target, np.ndarray):
        raise TypeMismatch("numpy does not write into tensors", ["omit `out`, and use the result, or x[:] = result"])
    np.copyto(target, result.numpy(), casting="same_kind")
    return target


def of_arrays(function: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """All other functions of numpy."""
    name, home = function.__name__, _HOMES.get(function.__module__ or "")
    if name in _OF_ARRAYS:
        return function(*map(_array, args), **{key: _array(value) for key, value in options.items()})
    ours = None if home is None else _function(home, _RENAMED.get(name, name))
    if ours is None:
        raise TypeMismatch(
            f"numpy's {name} does not compute with tensors", [f"call functions of burn, or np.{name}(x.numpy())"]
        )
    given = {key: value for key, value in options.items() if value is not None and value is not np._NoValue}  # type: ignore[attr-defined]
    dtype = given.pop("dtype", None)
    if dtype is not None and args and isinstance(args[0], Base):
        args = (args[0].astype(dtype), *args[1:])  # type: ignore[attr-defined]
    through = _BY_POSITION.get(name)
    try:
        inspect.signature(through if through is not None else ours).bind(
            *([ours] if through is not None else []), *args, **given
        )
    except TypeError as error:
        raise TypeMismatch(
            f"numpy's {name} takes other arguments than burn's", [f"{error}; there is burn.{_RENAMED.get(name, name)}"]
        ) from None
    return ours(*args, **given) if through is None else through(ours, *args, **given)


def _function(home: str, name: str) -> Callable[..., Any] | None:
    from burn.tensors import functions

    home = "linalg" if name == "trace" else home
    if home:
        module = family(home)
        return getattr(module, name) if name in module.__all__ else None
    return getattr(functions, name) if name in functions.NAMES else None


def _array(value: Any) -> Any:
    return value.numpy() if isinstance(value, Base) else value  # type: ignore[attr-defined]


def _several(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)
