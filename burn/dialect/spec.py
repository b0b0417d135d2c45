"""Types as text, for describing inputs: `spec("float32[batch, 3, 224, 224]")`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from burn.dialect.dims import Dim, parse, plain
from burn.dialect.types import DTYPES, TensorType, dtype_of_numpy
from burn.errors import TypeMismatch


def spec(text: TensorType | str, shape: Sequence[int | str | Any] | None = None) -> TensorType:
    """A type from its text, or from an element type and a shape of numbers and named sizes. Raises TypeMismatch."""
    if isinstance(text, TensorType):
        return text
    dims: list[Any]
    dtype = text
    if shape is None:
        match = re.fullmatch(r"\s*(\w+)\s*\[(.*)\]\s*", text, re.DOTALL)
        if match is None:
            known = text.strip() in DTYPES
            hint = (
                f"of a number it is {text.strip()}[]" if known else "a type is written as float32[batch, 3, 224, 224]"
            )
            raise TypeMismatch(f"'{text}' is not a type", [hint])
        dtype, inner = match.groups()
        dims = _split(inner)
        if re.search(r"^\s*,|,\s*,", inner):
            raise TypeMismatch("malformed shape", [f"an empty size in '{text}'"])
    else:
        dims = list(shape)
    dtype = element_type(dtype)
    try:
        sizes = tuple(parse(d) if isinstance(d, str) else plain(d) for d in dims)
    except ValueError as error:
        raise TypeMismatch("malformed shape", [str(error)]) from None
    if wrong := [d for d in sizes if isinstance(d, int) and not 0 <= d < 1 << 60]:
        raise TypeMismatch(f"{wrong[0]} is no size", [f"in {dtype}[{', '.join(map(str, sizes))}]"])
    return TensorType(dtype, sizes)


_PYTHON = {float: "float32", int: "int64", bool: "bool", complex: "complex64"}


def element_type(dtype: Any) -> str:
    """The name of an element type, given by name, as one of Python's number types, or as numpy's or torch's. Raises
    TypeMismatch."""
    if isinstance(dtype, str) and dtype in DTYPES:
        return DTYPES[dtype].name  # the name itself, if `x.dtype` was given: its equality is costly
    if isinstance(dtype, type) and dtype in _PYTHON:
        return _PYTHON[dtype]
    name = str(dtype).removeprefix("torch.")  # torch's dtypes have the same names
    if isinstance(dtype, np.dtype) or (isinstance(dtype, type) and issubclass(dtype, np.generic)):
        name = np.dtype(dtype).name
    if name not in DTYPES:
        raise TypeMismatch(f"there is no element type {dtype!r}", [f"there are {', '.join(DTYPES)}"])
    return name


def _split(text: str) -> list[str]:
    """Splits at the commas outside of brackets: "n, min(a, b)"."""
    parts, depth = [""], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [p for p in map(str.strip, parts) if p]


def as_array(number: Any) -> np.ndarray:
    """A Python number, or nested lists of them, as an array: floats are float32 and integers int64."""
    array = np.asarray(number)
    narrow = {"f": np.float32, "c": np.complex64}.get(array.dtype.kind)
    return array if narrow is None else array.astype(narrow)


def spec_of(example: Any, dynamic: Mapping[int, str | Dim] | None = None) -> TensorType:
    """The type of an example: an array (anything with `shape` and `dtype`), a number, or a type itself.

    dynamic: names for the axes whose size varies."""
    if isinstance(example, (TensorType, str)):
        type_ = spec(example)
    else:
        array = example if hasattr(example, "shape") and hasattr(example, "dtype") else as_array(example)
        name = str(array.dtype).removeprefix("torch.")
        with suppress(KeyError, TypeError):  # not a numpy type: torch's dtypes have the same names
            name = dtype_of_numpy(np.dtype(array.dtype)) if not isinstance(array.dtype, str) else name
        if name not in DTYPES:
            raise TypeMismatch("an example has an element type that burn does not know", [name])
        type_ = TensorType(name, tuple(int(d) for d in array.shape))
    shape: list[Dim] = list(type_.shape)
    for axis, size in (dynamic or {}).items():
        if not -len(shape) <= axis < len(shape):
            raise TypeMismatch(f"there is no axis {axis} to be dynamic", [str(type_)])
        try:
            shape[axis] = parse(size) if isinstance(size, str) else plain(size)
        except ValueError as error:
            raise TypeMismatch(f"{size!r} is no size", [str(error)]) from None
    return type_.with_shape(tuple(shape))
