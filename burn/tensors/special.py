"""Special functions: error functions, and the gamma function's logarithm and its derivatives. Of floats; integers become float32.

They are computed in float64 and rounded once (burn/dialect/special.py), and have derivatives of any order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from burn.dialect import inverse_error, special
from burn.dialect.deferred import Value
from burn.errors import TypeMismatch
from burn.tensors.base import made
from burn.tensors.gradients import with_derivative
from burn.tensors.promotion import constant
from burn.tensors.tensor import Tensor

Slope = Callable[[Tensor, Tensor], Tensor]
"""The derivative, given the operand and the result."""


def _computed(function: Callable[[Value], Value], slope: Slope, x: Any) -> Tensor:
    operand = constant(x)._floating()
    (result,) = with_derivative(
        lambda v: (made(special.rounded(function)(v.value)),),
        lambda operands, results, cotangents: (cotangents[0] * slope(operands[0], results[0]),),  # type: ignore[operator]
        operand,
    )
    return result


def erfc(x: Any) -> Tensor:
    """1 - erf(x), without cancellation."""
    return _computed(special.erfc, lambda x, y: (-x.square()).exp() * (-2.0 / math.sqrt(math.pi)), x)


def erfinv(x: Any) -> Tensor:
    """The y with erf(y) = x: infinite at -1 and 1, NaN beyond."""
    return _computed(inverse_error.erfinv, lambda x, y: y.square().exp() * (math.sqrt(math.pi) / 2.0), x)


def lgamma(x: Any) -> Tensor:
    """log|gamma(x)|: infinite at 0, -1, -2 and so on."""
    return _computed(special.lgamma, lambda x, y: digamma(x), x)


def digamma(x: Any) -> Tensor:
    """The derivative of log gamma(x): an infinity of the other sign at zeros, NaN at -1, -2 and so on."""
    return _computed(special.digamma, lambda x, y: polygamma(1, x), x)


def polygamma(n: int, x: Any) -> Tensor:
    """The derivative of `digamma` of order n, from 0 on. Raises TypeMismatch for a negative n."""
    if n < 0:
        raise TypeMismatch("polygamma has an order from 0 on", [f"not {n}"])
    return _computed(lambda v: special.polygamma(n, v), lambda x, y: polygamma(n + 1, x), x)
