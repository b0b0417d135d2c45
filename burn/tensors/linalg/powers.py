"""Powers and exponentials of matrices, and chains of matmuls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from burn.tensors import Tensor, constant
from burn.tensors.algorithms import algorithm
from burn.tensors.concatenation import concat
from burn.tensors.creation import eye, zeros
from burn.tensors.gradients import with_derivative
from burn.tensors.linalg import exponential
from burn.tensors.linalg.matrices import as_matrices, restored
from burn.tensors.linalg.triangular import inv, solve


def matrix_power(x: Any, n: int) -> Tensor:
    """Square matrices multiplied n times; their inverses for negative n."""
    given = constant(x)
    as_matrices("matrix_power", given, square=True)
    if n < 0:
        return matrix_power(inv(given), -n)
    size = given.type.shape[-1]
    result: Tensor = eye(size, dtype=given.dtype).broadcast_to(*given.type.shape)
    power, first = given, True
    while n:
        if n & 1:
            result, first = (power if first else result.matmul(power)), False
        n >>= 1
        power = power.matmul(power) if n else power
    return result


@algorithm("batch, n, n")
def _exponential(x: Tensor) -> Tensor:
    return exponential.exponential(x, solve)


def _exponential_gradient(
    operands: tuple[Tensor], results: tuple[Tensor], cotangents: Sequence[Tensor | None]
) -> tuple[Tensor]:
    """The derivative of the adjoint in the cotangent's direction: a block of the exponential of a matrix of twice the size.

    Source: Mathias, "A chain rule for matrix functions" (1996)."""
    (x,), (g,) = operands, cotangents
    assert g is not None
    n = x.type.shape[1]
    first = concat([x.mH, g], 2)
    second = concat([zeros(x.type.shape, dtype=x.dtype), x.mH], 2)
    return (_exponentials(concat([first, second], 1))._cut(1, 0, n)._cut(2, n, n),)


def _exponentials(x: Tensor) -> Tensor:
    return with_derivative(lambda x: (_exponential(x),), _exponential_gradient, x)[0]


def matrix_exp(x: Any) -> Tensor:
    """The exponentials of square matrices [.., n, n]: 1 + x + x @ x / 2 + x @ x @ x / 6 + .."""
    given = constant(x)
    return restored(_exponentials(as_matrices("matrix_exp", given, square=True)), given, *given.type.shape[-2:])


def multi_dot(matrices: Sequence[Any]) -> Tensor:
    """The matmul of several matrices, from left to right."""
    result, *rest = map(constant, matrices)
    for matrix in rest:
        result = result.matmul(matrix)
    return result
