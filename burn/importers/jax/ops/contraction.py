"""Contractions and convolutions."""

from __future__ import annotations

from typing import Any

from burn.dialect.compose import transpose
from burn.dialect.deferred import Value
from burn.dialect.types import type_of
from burn.importers.jax.equation import Equation, primitive
from burn.importers.jax.ops.layers import is_stored, linear
from burn.importers.lax import contraction
from burn.importers.lax.convolution import Layout, conv_general_dilated


@primitive("dot_general")
def dot_general(
    eqn: Equation,
    lhs: Value,
    rhs: Value,
    *,
    dimension_numbers: Any,
    precision: Any,
    preferred_element_type: Any,
    out_sharding: Any,
) -> Value:
    contract, batch = dimension_numbers
    if is_stored(lhs) and not is_stored(rhs) and not batch[0]:  # weights go last
        y = linear(rhs, lhs, (contract[1], contract[0]), eqn.dtype)
        own, other = (type_of(v).rank - len(contract[0]) for v in (lhs, rhs))
        return transpose(y, (*range(other, other + own), *range(other)))
    if is_stored(rhs) and not is_stored(lhs) and not batch[0] and contract[0]:
        return linear(lhs, rhs, contract, eqn.dtype)
    return contraction.dot_general(lhs, rhs, contract, batch, eqn.dtype)


@primitive("conv_general_dilated")
def convolution(
    eqn: Equation,
    lhs: Value,
    rhs: Value,
    *,
    window_strides: Any,
    padding: Any,
    lhs_dilation: Any,
    rhs_dilation: Any,
    dimension_numbers: Any,
    feature_group_count: int,
    batch_group_count: int,
    precision: Any,
    preferred_element_type: Any,
) -> Value:
    layout = Layout(
        tuple(dimension_numbers.lhs_spec), tuple(dimension_numbers.rhs_spec), tuple(dimension_numbers.out_spec)
    )
    pads = tuple((low, high) for low, high in map(eqn.sizes, padding))
    return conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        pads,
        lhs_dilation,
        rhs_dilation,
        layout,
        feature_group_count,
        batch_group_count,
        eqn.dtype,
    )


@primitive("scaled_dot")
def scaled_dot(eqn: Equation, *operands: Value, **params: Any) -> Any:
    from jax._src.lax import scaled_dot

    return eqn.expand(lambda *xs: scaled_dot._scaled_dot_impl(*xs, **params), *operands)


@primitive("ragged_dot_general")
def ragged_dot_general(eqn: Equation, *operands: Value, **params: Any) -> Any:
    from jax._src.lax import lax

    return eqn.expand(lambda *xs: lax._ragged_dot_general_impl(*xs, **params), *operands)
