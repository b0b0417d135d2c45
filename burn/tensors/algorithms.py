"""Algorithms: compiled functions of tensors whose derivatives are algorithms again. Enter at `algorithm`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from burn.dialect.types import CONTINUOUS
from burn.evaluation import compile
from burn.tensors import trees
from burn.tensors.gradients import custom_vjp, vjp
from burn.tensors.promotion import constant
from burn.tensors.tensor import Tensor
from burn.tensors.tracer import active


class Algorithm:
    """A function of tensors [batch, rows, columns]; `shapes` names its operands' sizes, one name an axis.

    Outside of a traced function it is computed at once by a program of its own, compiled once for an element type. Its derivative
    is another such algorithm, so that what is recorded around it can be differentiated as often as anyone likes."""

    def __init__(self, function: Callable[..., Any], shapes: Sequence[str]) -> None:
        self._function, self._shapes = function, shapes
        self._programs: dict[str, Any] = {}
        self._pullbacks: dict[tuple[tuple[int, str], ...], Algorithm] = {}
        self._recorded = custom_vjp(self._computed)
        self._recorded.defvjp(self._forward, self._backward)

    def __call__(self, *operands: Tensor) -> Any:
        return self._function(*operands) if active() is not None else self._recorded(*operands)

    def _computed(self, *operands: Tensor) -> Any:
        dtypes = ",".join(t.dtype for t in operands)
        if dtypes not in self._programs:
            types = tuple(f"{t.dtype}[{s}]" for t, s in zip(operands, self._shapes, strict=True))
            self._programs[dtypes] = compile(self._function, types)
        return self._programs[dtypes](*operands)

    def _forward(self, *operands: Tensor) -> tuple[Any, Any]:
        """The results, and the operands that the backward pass needs."""
        return self._computed(*(constant(t.numpy()) for t in operands)), operands

    def _backward(self, operands: Any, cotangent: Any) -> tuple[Any, ...]:
        """The operands' cotangents."""
        cotangents = [t for t in trees.flatten(cotangent)[0] if t.dtype in CONTINUOUS]
        given = self._pullback(tuple((t.ndim, t.dtype) for t in cotangents))(*operands, *cotangents)
        return given if isinstance(given, tuple) else (given,)

    def _floats(self, *operands: Tensor) -> tuple[Tensor, ...]:
        return tuple(t for t in trees.flatten(self._function(*operands))[0] if t.dtype in CONTINUOUS)

    def _pullback(self, cotangents: tuple[tuple[int, str], ...]) -> Algorithm:
        """The backward algorithm of operands and float cotangents. cotangents: their ranks and element types."""
        if cotangents not in self._pullbacks:
            count = len(self._shapes)

            def pulled(*tensors: Tensor) -> tuple[Any, ...]:
                results, back = vjp(self._floats, *tensors[:count])
                # results have sizes of the operands'; a program's further operands have sizes of their own
                return back(tuple(g.reshape(*t.type.shape) for t, g in zip(results, tensors[count:], strict=True)))

            shapes = [
                ", ".join(f"operand_{count + i}_{axis}" for axis in range(rank))
                for i, (rank, _) in enumerate(cotangents)
            ]
            self._pullbacks[cotangents] = Algorithm(pulled, (*self._shapes, *shapes))
        return self._pullbacks[cotangents]


def algorithm(*shapes: str) -> Callable[[Callable[..., Any]], Algorithm]:
    return lambda function: Algorithm(function, shapes)
