"""Strides of elementwise results, as eager mode has them. Start at `with_eager_strides`.

Eager mode's elementwise operators order the axes of a result by the strides of their operands, the first operand first. Some of
torch's decompositions and shape functions give the result other strides. They compute it in several steps, or from operands in
another order. torch.compile promises the strides of eager mode to the readers of a result. For instance, `.view(-1)` is a view in
both. Here a result with other strides becomes a transposed contiguous tensor, which costs no copy: burn computes its elements in
that order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

import torch
from torch import Tensor
from torch._prims_common import compute_elementwise_output_logical_to_physical_perm, invert_perm
from torch.fx.experimental.symbolic_shapes import statically_known_true

aten = torch.ops.aten

MISTAKEN = (
    aten.copysign.Tensor,
    aten.div.Tensor_mode,
    aten.floor_divide.default,
    aten.logical_and.default,
    aten.logical_or.default,
    aten.logical_xor.default,
    aten.pow.Scalar,
)
"""Operators with builders, whose shape functions in torch give other strides than their kernels."""
ALSO_ELEMENTWISE = (aten.floor_divide.default,)
"""Elementwise operators that torch does not tag as such."""


def _none(operands: Sequence[Tensor]) -> list[Tensor]:
    return []


ORDERED_BY: dict[Any, Callable[[Sequence[Tensor]], Sequence[Tensor]]] = {
    aten.ldexp.Tensor: lambda operands: [operands[0], operands[1].contiguous()],  # x * pow(2, other)
    aten.mvlgamma.default: _none,  # a sum
    aten.pow.Scalar: _none,
    aten.threshold_backward.default: lambda operands: operands[::-1],
}
"""Operator -> the operands that decide the order of its axes, if those are not all, in the order of its arguments. Without any
the result is contiguous."""


def is_elementwise(op: Any) -> bool:
    """True for an operator with a new tensor, elementwise in its operands. torch tags `equal`, too, whose result is a bool."""
    elementwise = torch.Tag.pointwise in op.tags or op in ALSO_ELEMENTWISE
    return elementwise and not op._schema.is_mutable and "Tensor" in str(op._schema.returns[0].type)


def with_eager_strides(op: Any, decomposition: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """A decomposition whose result has the strides of eager mode. decomposition: None if the operator stays whole."""
    inside = False

    @wraps(decomposition or op)
    def run(*args: Any, **kwargs: Any) -> Any:
        nonlocal inside
        if decomposition is not None:
            return _ordered(op, decomposition(*args, **kwargs), args, kwargs)
        if inside:
            return NotImplemented  # torch keeps the call as it is
        inside = True
        try:
            return _ordered(op, op(*args, **kwargs), args, kwargs)
        finally:
            inside = False

    return run


def _ordered(op: Any, result: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The result, or the results, in the order of eager mode."""
    if isinstance(result, (tuple, list)):
        return tuple(_ordered(op, r, args, kwargs) for r in result)
    if not isinstance(result, Tensor) or result.dim() < 2:
        return result
    operands = [a for a in (*args, *kwargs.values()) if isinstance(a, Tensor)]
    deciding = [a.expand(result.shape) for a in ORDERED_BY.get(op, list)(operands)]
    order = _order(deciding) if deciding else list(range(result.dim()))
    if _lies(result, order):
        return result
    return result.permute(order).clone(memory_format=torch.contiguous_format).permute(invert_perm(order))


def _order(operands: Sequence[Tensor]) -> list[int]:
    """The axes of an elementwise result of operands of one shape, as they lie in memory, the outermost first."""
    return compute_elementwise_output_logical_to_physical_perm(*operands, _skip_checks=True)[0]


def _lies(result: Tensor, order: list[int]) -> bool:
    """True if a tensor is contiguous with its axes in this order. The strides of axes of size 1, and of empty tensors, mean
    nothing."""
    expected: Any = 1
    for axis in reversed(order):
        size = result.shape[axis]
        if statically_known_true(size == 0):
            return True
        if statically_known_true(size == 1):
            continue
        if not statically_known_true(result.stride(axis) == expected):
            return False
        expected = expected * size
    return True
