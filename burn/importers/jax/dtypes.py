"""Element types: burn's names for JAX's, and keys of random numbers, which are arrays of words here."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from burn.dialect.types import DTYPES, dtype_of_numpy
from burn.errors import ModelError


def is_key(dtype: Any) -> bool:
    """True for the element type of typed keys, `key<fry>`."""
    return jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key)


def key_shape(dtype: Any) -> tuple[int, ...]:
    """The shape of one key's words: (2,) for Threefry."""
    return tuple(dtype._impl.key_shape)


def dtype_name(dtype: Any) -> str:
    """burn's name of an element type. Raises ModelError for one that burn does not have."""
    if is_key(dtype):
        return "uint32"
    name = np.dtype(dtype).name
    try:
        found = dtype_of_numpy(np.dtype(dtype))
    except KeyError:
        raise ModelError("the JAX program cannot be imported", [f"there is no element type {name} in burn"]) from None
    if DTYPES[found].kind == "complex":
        raise ModelError("the JAX program cannot be imported", [COMPLEX])
    return found


COMPLEX = "complex numbers are not supported: compute with their real and imaginary parts"
