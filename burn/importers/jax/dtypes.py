"""Element types: burn's names for JAX's. Keys of random numbers are arrays of words here. Complex numbers are pairs of real
ones: two values in a program, and a last axis of two elements in its inputs and outputs."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from burn.dialect.types import PARTS, dtype_of_numpy
from burn.errors import ModelError


def is_key(dtype: Any) -> bool:
    """True for the element type of typed keys, `key<fry>`."""
    return jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key)


def is_complex(dtype: Any) -> bool:
    return dtype is not None and not is_key(dtype) and np.dtype(dtype).kind == "c"


def part_dtype(dtype: Any) -> Any:
    """numpy's type of a part of complex numbers: float32 for complex64."""
    return np.dtype(PARTS[np.dtype(dtype).name])


def further_shape(dtype: Any) -> tuple[int, ...]:
    """The last axes that an input or an output has beside JAX's: the words of a key, the parts of a complex number."""
    return key_shape(dtype) if is_key(dtype) else (2,) if is_complex(dtype) else ()


def key_shape(dtype: Any) -> tuple[int, ...]:
    """The shape of one key's words: (2,) for Threefry."""
    return tuple(dtype._impl.key_shape)


def dtype_name(dtype: Any) -> str:
    """burn's name of an element type, of a complex one that of its parts. Raises ModelError for one that burn does not have."""
    if is_key(dtype):
        return "uint32"
    if is_complex(dtype):
        return PARTS[np.dtype(dtype).name]
    name = np.dtype(dtype).name
    try:
        return dtype_of_numpy(np.dtype(dtype))
    except KeyError:
        raise ModelError("the JAX program cannot be imported", [f"there is no element type {name} in burn"]) from None
