"""Calls of jaxprs with JAX's derivatives, of any order. Enter at `Differentiable`.

The first derivative is JAX's pair of programs: a forward pass that also returns residuals, and a backward pass. Both are
differentiated by JAX again (`Replayed`), so that second derivatives have JAX's rules and the user's, and not the rules of the ops
that the programs become.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from burn.dialect import ops
from burn.dialect.deferred import Value
from burn.importers.jax.evaluate import Evaluator
from burn.importers.jax.tracing import Derivative, Program, Pullback, differentiated, is_float, pullback
from burn.tensors import Tensor
from burn.tensors.base import made
from burn.tensors.gradients import with_derivative

Cotangents = Sequence[Tensor | None]


class Replayed:
    """A jaxpr as a function of tensors. Its backward pass computes the forward pass again."""

    def __init__(self, evaluator: Evaluator, jaxpr: Any, name: str) -> None:
        self.evaluator, self.jaxpr, self.name = evaluator, jaxpr, name
        self._backs: dict[tuple[bool, ...], tuple[Pullback, Replayed]] = {}

    def __call__(self, values: Sequence[Tensor]) -> list[Tensor]:
        return list(with_derivative(self.run, self.back, *values, plain=self.run))

    def run(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(map(made, self.evaluator.run(self.jaxpr, [t.value for t in tensors])))

    def back(self, operands: Sequence[Tensor], results: Sequence[Tensor], cotangents: Cotangents) -> Cotangents:
        """Cotangents of the operands; None for those that are no floats. Results without a cotangent are left out: zeros would
        give NaN where a derivative is infinite. Raises ModelError if JAX has no derivative."""
        kinds = (is_float(t.dtype) for t in self.jaxpr.out_avals)
        given = tuple(f and c is not None for f, c in zip(kinds, cotangents, strict=True))
        if not any(given):
            return [None] * len(operands)
        if given not in self._backs:
            own = pullback(self.jaxpr, given, self.name)
            self._backs[given] = own, Replayed(self.evaluator, own.jaxpr, self.name)
        own, function = self._backs[given]
        floats = [c for c, used in zip(cotangents, given, strict=True) if used and c is not None]
        found = dict(zip(own.wanted, function([*operands, *floats]), strict=True))
        return [found.get(i) for i in range(len(operands))]


class Differentiable:
    """One call of a program. types: JAX's, of the operands."""

    def __init__(self, evaluator: Evaluator, program: Program, types: Sequence[Any], name: str) -> None:
        self.evaluator, self.program, self.types, self.name = evaluator, program, types, name
        self._derivative: Derivative | None = None

    def __call__(self, values: Sequence[Value]) -> list[Tensor]:
        found = with_derivative(self._forward, self._backward, *map(made, values), plain=self._plain)
        if self._derivative is None:
            return list(found)
        first, end = self._bounds(len(found))
        own, rest = iter(found[:first]), iter(found[end:])
        return [next(own) if f else next(rest) for f in self.derivative.floats]

    @property
    def derivative(self) -> Derivative:
        if self._derivative is None:
            self._derivative = differentiated(self.program, self.types, self.name)
        return self._derivative

    def _bounds(self, count: int) -> tuple[int, int]:
        """Of the residuals among the results of the forward pass: floats come before them, other results after them."""
        floats = self.derivative.floats
        return sum(floats), count - (len(floats) - sum(floats))

    def _plain(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(map(made, self.evaluator.run(self.program.jaxpr, [t.value for t in tensors])))

    def _forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        return Replayed(self.evaluator, self.derivative.forward, self.name).run(*tensors)

    def _backward(self, operands: Sequence[Tensor], results: Sequence[Tensor], cotangents: Cotangents) -> Cotangents:
        first, end = self._bounds(len(results))
        if any(c is not None for c in cotangents[first:end]):  # a second derivative
            return Replayed(self.evaluator, self.derivative.forward, self.name).back(operands, results, cotangents)
        given = [_or_zeros(c, r) for c, r in zip(cotangents[:first], results[:first], strict=True)]
        backward = Replayed(self.evaluator, self.derivative.backward, self.name)
        found = dict(zip(self.derivative.wanted, backward([*results[first:end], *given]), strict=True))
        return [found.get(i) for i in range(len(self.types))]


def _or_zeros(cotangent: Tensor | None, like: Tensor) -> Tensor:
    if cotangent is not None:
        return cotangent
    return made(ops.full(shape=like.type.shape, dtype=like.type.dtype, value=0.0))
