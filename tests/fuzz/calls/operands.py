"""Operands in the forms that callers have them: the same elements, with other strides, flags and types of object."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

import numpy as np

import burn

FORMS: Mapping[str, Callable[[np.ndarray], object]] = {}
"""By name. A form returns a new object with the array's elements."""


def _form(make: Callable[[np.ndarray], object]) -> Callable[[np.ndarray], object]:
    assert isinstance(FORMS, dict)
    FORMS[make.__name__] = make
    return make


@_form
def plain(array: np.ndarray) -> np.ndarray:
    return array.copy()


@_form
def fortran(array: np.ndarray) -> np.ndarray:
    return np.array(array, order="F")


@_form
def strided(array: np.ndarray) -> np.ndarray:
    """Every second element along the last axis; garbage lies between."""
    if not array.ndim:
        return array.copy()
    wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1] + 1), array.dtype)
    wide[..., 1::2] = array
    return wide[..., 1::2]


@_form
def reversed_(array: np.ndarray) -> np.ndarray:
    """Negative strides along all axes."""
    back = tuple(slice(None, None, -1) for _ in range(array.ndim))
    return array[back].copy()[back]


@_form
def transposed(array: np.ndarray) -> np.ndarray:
    return array.T.copy().T


@_form
def read_only(array: np.ndarray) -> np.ndarray:
    copy = array.copy()
    copy.flags.writeable = False
    return copy


@_form
def unaligned(array: np.ndarray) -> np.ndarray:
    """At an odd address."""
    room = np.zeros(array.nbytes + 1, np.uint8)
    found = room[1:].view(array.dtype) if array.itemsize == 1 else np.frombuffer(room.data, array.dtype, array.size, 1)
    found = found.reshape(array.shape)
    found[...] = array
    return found


@_form
def tensor(array: np.ndarray) -> burn.Tensor:
    return burn.constant(array.copy())


@_form
def recorded(array: np.ndarray) -> burn.Tensor:
    """A tensor whose elements are computed when they are read."""
    return burn.where(True, burn.constant(array.copy()), burn.constant(array.copy()))


def presented(array: np.ndarray, chance: random.Random) -> tuple[str, object]:
    """The name of a drawn form, and the operand in it."""
    name = chance.choice(list(FORMS))
    return name, FORMS[name](array)
