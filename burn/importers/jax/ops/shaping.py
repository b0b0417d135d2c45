"""Views and arrangements of elements. Typed keys have further axes, of their words, that stay the last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from burn.dialect import ops
from burn.dialect.compose import dim_value, reshape, transpose
from burn.dialect.deferred import Value
from burn.dialect.types import type_of
from burn.importers.jax.dtypes import dtype_name
from burn.importers.jax.equation import Equation, primitive
from burn.importers.jax.ops.layers import transposed
from burn.importers.lax import shaping
from burn.importers.lax.scalars import full


def further(eqn: Equation, count: int) -> tuple[int, ...]:
    """The numbers of the axes of keys, which follow `count` axes."""
    return tuple(range(count, count + len(eqn.key_axes())))


@primitive("broadcast_in_dim")
def broadcast_in_dim(
    eqn: Equation, x: Value, *sizes: Value, shape: Any, broadcast_dimensions: Sequence[int], sharding: Any
) -> Value:
    axes = (*broadcast_dimensions, *further(eqn, len(shape)))
    return shaping.broadcast_in_dim(x, (*eqn.sizes(shape), *eqn.key_axes()), axes)


@primitive("reshape")
def reshape_(eqn: Equation, x: Value, *sizes: Value, new_sizes: Any, dimensions: Any, sharding: Any) -> Value:
    if dimensions is not None:
        x = transpose(x, tuple(dimensions))
    return reshape(x, eqn.shape)


@primitive("squeeze")
def squeeze(eqn: Equation, x: Value, *, dimensions: Sequence[int]) -> Value:
    return reshape(x, eqn.shape)


@primitive("expand_dims")
def expand_dims(eqn: Equation, x: Value, *, dimensions: Sequence[int]) -> Value:
    return reshape(x, eqn.shape)


@primitive("transpose")
def transpose_(eqn: Equation, x: Value, *, permutation: Sequence[int]) -> Value:
    return transposed(x, (*permutation, *further(eqn, len(permutation))))


@primitive("rev")
def rev(eqn: Equation, x: Value, *, dimensions: Sequence[int]) -> Value:
    return shaping.rev(x, dimensions)


@primitive("concatenate")
def concatenate(eqn: Equation, *xs: Value, dimension: int) -> Value:
    return shaping.concatenate(xs, dimension)


@primitive("stack")
def stack(eqn: Equation, *xs: Value, **params: Any) -> Value:
    axis = params.pop("axis", params.pop("dimension", 0))
    if params:
        eqn.fail(f"the parameters {', '.join(params)} are not supported")
    return shaping.concatenate([shaping.expand_dims(x, (axis,)) for x in xs], axis)


@primitive("unstack")
def unstack(eqn: Equation, x: Value, **params: Any) -> list[Value]:
    axis = params.pop("axis", params.pop("dimension", 0))
    if params:
        eqn.fail(f"the parameters {', '.join(params)} are not supported")
    shape = type_of(x).shape
    found = []
    for i in range(len(eqn.eqn.outvars)):
        starts = tuple(i if a == axis else 0 for a in range(len(shape)))
        limits = tuple(i + 1 if a == axis else d for a, d in enumerate(shape))
        found.append(shaping.squeeze(shaping.slice_(x, starts, limits), (axis,)))
    return found


@primitive("split")
def split(eqn: Equation, x: Value, *, sizes: Sequence[Any], axis: int) -> list[Value]:
    shape = type_of(x).shape
    found, start = [], eqn.sizes((0,))[0]
    for size in eqn.sizes(sizes):
        starts = tuple(start if a == axis else 0 for a in range(len(shape)))
        limits = tuple(start + size if a == axis else d for a, d in enumerate(shape))
        found.append(shaping.slice_(x, starts, limits))
        start = start + size
    return found


@primitive("tile")
def tile(eqn: Equation, x: Value, *, reps: Sequence[int]) -> Value:
    return shaping.tile(x, (*reps, *(1 for _ in eqn.key_axes())))


@primitive("slice")
def slice_(eqn: Equation, x: Value, *, start_indices: Any, limit_indices: Any, strides: Any) -> Value:
    words = eqn.key_axes()
    starts = (*eqn.sizes(start_indices), *(0 for _ in words))
    limits = (*eqn.sizes(limit_indices), *words)
    steps = None if strides is None else (*strides, *(1 for _ in words))
    return shaping.slice_(x, starts, limits, steps)


@primitive("pad")
def pad(eqn: Equation, x: Value, value: Value, *, padding_config: Any) -> Value:
    if eqn.key_axes():
        eqn.fail("keys are not padded")
    low, high, interior = zip(*padding_config, strict=True) if padding_config else ((), (), ())
    return shaping.pad(x, value, eqn.sizes(low), eqn.sizes(high), interior)


@primitive("iota")
def iota(eqn: Equation, *sizes: Value, dtype: Any, shape: Any, dimension: int, sharding: Any) -> Value:
    return shaping.iota(eqn.sizes(shape), dimension, dtype_name(dtype))


@primitive("empty", "empty2", "zeros_like")
def zeros(eqn: Equation, *operands: Value, **params: Any) -> Value:
    return full(eqn.type_of(eqn.aval()), 0)


@primitive("dim_as_value")
def dim_as_value(eqn: Equation, *, dim: Any) -> Value:
    return dim_value(eqn.sizes((dim,))[0], eqn.dtype)


@primitive("dimension_size")
def dimension_size(eqn: Equation, x: Value, *, dimension: int) -> Value:
    return dim_value(type_of(x).shape[dimension], eqn.dtype)


@primitive("broadcast_to")
def broadcast_to(eqn: Equation, x: Value, **params: Any) -> Value:
    return ops.broadcast_to(x, shape=eqn.shape) if type_of(x).shape != eqn.shape else x
