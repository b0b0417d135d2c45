"""Creation functions of the array API standard.

`device` is a name such as "cpu" or "cuda:0"; by default tensors are compatible with every device."""

from __future__ import annotations

from typing import Any

import numpy as np

from burn.array_api.dtypes import DEFAULTS
from burn.tensors import Tensor, constant, creation, from_numpy, promotion
from burn.tensors.base import Base


def _on(x: Tensor, device: Any) -> Tensor:
    return x if device is None else x.to_device(device)


def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None) -> Tensor:
    """Converts numbers, nested lists, arrays, tensors and objects with DLPack. A numpy array is copied unless `copy` is false,
    others if `copy` is true or the type or device changes. Raises ValueError if `copy` is false and a copy is necessary."""
    if copy is False and isinstance(obj, np.ndarray):
        if not obj.flags.c_contiguous:
            raise ValueError("this array is copied: burn's tensors are row-major")
        result = from_numpy(obj)
    elif copy is False and not (isinstance(obj, Base) or hasattr(obj, "__dlpack__")):
        raise ValueError(f"a {type(obj).__name__} is always copied")
    elif isinstance(obj, Base):
        result = obj.clone() if copy else constant(obj)  # type: ignore[attr-defined]
    else:
        result = creation.asarray(obj)
        if copy and hasattr(obj, "__dlpack__") and not isinstance(obj, (np.ndarray, np.generic)):
            result = constant(result.numpy().copy())
    moved = device is not None and str(device) != result.device
    if copy is False and (moved or (dtype is not None and result.dtype != dtype)):
        raise ValueError("another element type or device needs a copy")
    if dtype is not None and result.dtype != dtype:
        literal = not hasattr(obj, "dtype")  # numbers are checked: they must fit the element type
        result = constant(obj, dtype) if literal and not hasattr(obj, "__dlpack__") else result.astype(dtype)
    return _on(result, device)


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor over the memory of an object with DLPack. Raises ValueError if `copy` is false and a copy is necessary."""
    if isinstance(x, Tensor):
        result = x.clone()
    else:
        result = from_numpy(x) if isinstance(x, np.ndarray) else promotion.from_dlpack(x)
    if copy is False and device is not None and str(device) != result.device:
        raise ValueError("another device needs a copy")
    if copy:
        result = constant(result.numpy().copy()).to_device(result.device) if not result.is_traced else result
    return _on(result, device)


def zeros(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Zeros; float32 by default."""
    return _on(creation.zeros(shape, dtype=dtype or "float32"), device)


def ones(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Ones; float32 by default."""
    return _on(creation.ones(shape, dtype=dtype or "float32"), device)


def empty(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Zeros: tensors have no elements that were never set."""
    return zeros(shape, dtype=dtype, device=device)


def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """`fill_value` everywhere, by default in the type of the number: bool, int64, float32 or complex64."""
    return _on(creation.full(shape, fill_value, dtype), device)


def zeros_like(x: Tensor, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Zeros in the shape of x, and its element type by default."""
    return _on(creation.zeros_like(x, dtype), device)


def ones_like(x: Tensor, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Ones in the shape of x, and its element type by default."""
    return _on(creation.ones_like(x, dtype), device)


def empty_like(x: Tensor, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Zeros in the shape of x, and its element type by default."""
    return zeros_like(x, dtype=dtype, device=device)


def full_like(x: Tensor, /, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """`fill_value` in the shape of x, and its element type by default."""
    return _on(creation.full_like(x, fill_value, dtype), device)


def arange(start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None) -> Tensor:
    """start, start + step, ... before stop; int64 unless a number is a float."""
    return _on(creation.arange(start, stop, step, dtype), device)


def linspace(
    start: Any, stop: Any, /, num: Any, *, dtype: Any = None, device: Any = None, endpoint: bool = True
) -> Tensor:
    """`num` numbers evenly spaced from start to stop, the last of them stop itself unless endpoint is false."""
    return _on(creation.linspace(start, stop, num, endpoint, dtype or DEFAULTS["real floating"]), device)


def eye(n_rows: Any, n_cols: Any = None, /, *, k: int = 0, dtype: Any = None, device: Any = None) -> Tensor:
    """Ones on diagonal k, zeros elsewhere; float32 by default."""
    return _on(creation.eye(n_rows, n_cols, k, dtype or "float32"), device)


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> tuple[Tensor, ...]:
    """Vectors as grids of one shape; "xy" exchanges the first two axes, "ij" does not."""
    return tuple(creation.meshgrid(*arrays, indexing=indexing))


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The elements on and below diagonal k of the last two axes; the others are zero."""
    return constant(x).tril(k)


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The elements on and above diagonal k of the last two axes; the others are zero."""
    return constant(x).triu(k)
