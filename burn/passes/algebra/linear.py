"""Indices as linear functions of loop variables: `linear_index`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from burn.dialect.constants import known_array
from burn.dialect.dims import Dim, LoopVar, atoms, coefficient, substitute
from burn.dialect.types import DTYPES
from burn.dialect.weights import WeightStore
from burn.kernels.body import Apply, Const, Convert, Index, Load, Scalar, Where
from burn.kernels.lower import Lowering, delinear

MOST_NUMBERS = 1 << 20
"""The most elements of a constant that is compared with a linear function."""


@dataclass(frozen=True)
class Linear:
    """first + the sum of each variable times its step, for variables of known extents. No step is 0."""

    first: int
    steps: Mapping[LoopVar, int]

    @property
    def least(self) -> int:
        return self.first + sum(min(0, step * (_extent(v) - 1)) for v, step in self.steps.items())

    @property
    def last(self) -> int:
        """The greatest value."""
        return self.first + sum(max(0, step * (_extent(v) - 1)) for v, step in self.steps.items())

    def plus(self, other: Linear, factor: int = 1) -> Linear:
        sums = dict(self.steps)
        for v, step in other.steps.items():
            sums[v] = sums.get(v, 0) + factor * step
        return Linear(self.first + factor * other.first, {v: step for v, step in sums.items() if step})

    def times(self, factor: int) -> Linear:
        return Linear(0, {}).plus(self, factor)


def _extent(variable: LoopVar) -> int:
    assert isinstance(variable.extent, int)
    return variable.extent


def linear_index(scalar: Scalar, low: Lowering, weights: WeightStore) -> Linear | None:
    """An integer scalar as a linear function; None if it is none, or if that is not known. low: the scalar's lowering. weights:
    constants that it may read."""
    found = _found(scalar, low, weights)
    if found is None:
        return None
    kind, bits = DTYPES[scalar.dtype].kind, DTYPES[scalar.dtype].bits
    least, last = (0, 2**bits - 1) if kind == "uint" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return found if least <= found.least and found.last <= last else None  # else it may have wrapped around


def _found(scalar: Scalar, low: Lowering, weights: WeightStore) -> Linear | None:
    if DTYPES[scalar.dtype].kind not in ("int", "uint"):
        return None
    match scalar:
        case Const(value=value):
            return Linear(int(value), {})
        case Index(dim=dim):
            return _of_dim(dim)
        case Convert(arg=arg):
            return linear_index(arg, low, weights)
        case Load(buffer=buffer, offset=offset):
            return _of_constant(low, buffer, offset, weights)
        case Where(ranges=ranges, then=then, otherwise=otherwise):
            inside = [0 <= e < n if isinstance(e, int) and isinstance(n, int) else None for e, n in ranges]
            if False in inside:
                return linear_index(otherwise, low, weights)
            return None if None in inside else linear_index(then, low, weights)
        case Apply(function="select", args=(Apply(function=relation, args=(a, b)), then, otherwise)):
            holds = _decided(relation, linear_index(a, low, weights), linear_index(b, low, weights))
            return None if holds is None else linear_index(then if holds else otherwise, low, weights)
        case Apply(function=("add" | "sub" | "mul") as function, args=(a, b)):
            lhs, rhs = (linear_index(each, low, weights) for each in (a, b))
            if lhs is None or rhs is None:
                return None
            if function != "mul":
                return lhs.plus(rhs, 1 if function == "add" else -1)
            scaled, number = (lhs, rhs) if not rhs.steps else (rhs, lhs)
            return None if number.steps else scaled.times(number.first)
    return None


def _decided(relation: str, a: Linear | None, b: Linear | None) -> bool | None:
    """The result of a comparison, if it is the same everywhere."""
    if a is None or b is None:
        return None
    difference = a.plus(b, -1)
    if relation == "lt":
        return True if difference.last < 0 else False if difference.least >= 0 else None
    if relation == "ge":
        return True if difference.least >= 0 else False if difference.last < 0 else None
    return None


def _of_dim(dim: Dim) -> Linear | None:
    variables = _variables(dim)
    first = substitute(dim, dict.fromkeys(variables, 0)) if variables else dim
    steps: dict[LoopVar, int] = {}
    for v in variables:
        step = coefficient(dim, v)
        if not isinstance(step, int) or not isinstance(v.extent, int):
            return None
        steps[v] = step
    return Linear(first, steps) if isinstance(first, int) else None


def _variables(dim: Dim) -> list[LoopVar]:
    return [a for a in atoms(dim) if type(a) is LoopVar]


def _of_constant(low: Lowering, buffer: int, offset: Dim, weights: WeightStore) -> Linear | None:
    """An element of a constant whose elements are linear in their index."""
    value = low.leaves[buffer]
    numbers = None if value is None else known_array(value, weights)
    if numbers is None or not 0 < numbers.size <= MOST_NUMBERS:
        return None
    numbers = numbers.astype(np.int64)
    origin = (0,) * numbers.ndim
    first = int(numbers[origin])
    steps = []
    for axis in range(numbers.ndim):
        step = int(numbers[(*origin[:axis], 1, *origin[axis + 1 :])]) - first if numbers.shape[axis] > 1 else 0
        shape = tuple(-1 if i == axis else 1 for i in range(numbers.ndim))
        numbers = numbers - step * np.arange(numbers.shape[axis]).reshape(shape)
        steps.append(step)
    if (numbers != first).any():
        return None
    total = Linear(first, {})
    for position, step in zip(delinear(offset, numbers.shape), steps, strict=True):
        at = _of_dim(position)
        if at is None:
            return None
        total = total.plus(at, step)
    return total
