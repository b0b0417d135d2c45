"""`burn.linearize`, and `burn.custom_jvp`: functions that state their derivative in a direction."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from burn.dialect.adjoint import gradients
from burn.dialect.adjoint.sections import alias
from burn.dialect.compose import zeros_like
from burn.dialect.deferred import Value
from burn.dialect.types import CONTINUOUS, type_of
from burn.errors import TypeMismatch
from burn.tensors.base import made
from burn.tensors.gradients import (
    _differentiating,
    _enter,
    _is_tensor,
    _like,
    _Part,
    _pulled,
    _tensors,
    registered,
)  # fmt: skip
from burn.tensors.promotion import constant
from burn.tensors.trees import flatten, paths, unflatten


def linearize(function: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """(function(*primals), a function that maps tangents of the primals to the derivative in their direction).

    Like `jvp`, but `function` is called once for any number of directions. Tangents have the primals' structures, and the
    derivative has the result's. Raises TypeMismatch for tangents of other structures or shapes."""
    with _differentiating(keep=True) as customs:
        parts = [_Part.of(primal, f"primal {i}") for i, primal in enumerate(primals)]
        values = [v for part in parts for v in part.values]
        result = function(*(part.argument for part in parts))
        leaves, structure = _tensors(result, "the function's result")
        starts = [zeros_like(leaf.value) for leaf in leaves]
        back = [None if g is None else made(g) for g in gradients([t.value for t in leaves], starts, values, customs)]
    types = [(leaf.type.shape, leaf.type.dtype) for leaf in leaves]
    primal_types = [type_of(v) for v in values]

    def forward(*tangents: Any) -> Any:
        given = [leaf for tangent in tangents for leaf in flatten(tangent)[0]]
        if len(tangents) != len(primals) or len(given) != len(values):
            text = f"{len(given)} tensors in {len(tangents)} tangents, for {len(values)} in {len(primals)} primals"
            raise TypeMismatch("tangents have the primals' structure", [text])
        from burn.tensors.creation import zeros

        known = []
        for t, g, type_ in zip(given, back, primal_types, strict=True):
            direction = _like(t, zeros(*type_.shape, dtype=type_.dtype))
            if g is not None:
                known.append((g, direction))
        with _differentiating(keep=True):
            found = _pulled([g for g, _ in known], [t for _, t in known], starts, customs)
            results = [
                zeros(*shape, dtype=dtype) if g is None else made(g)
                for g, (shape, dtype) in zip(found, types, strict=True)
            ]
        return unflatten(structure, results)

    return result, forward


class custom_jvp:  # named as it is used: a decorator
    """A function that states its derivative in a direction.

        @burn.custom_jvp
        def f(x, y): ...

        @f.defjvp
        def f_jvp(primals, tangents):
            (x, y), (dx, dy) = primals, tangents
            return f(x, y), ...                             # the result, and its derivative

    `defjvp` takes a function of the tuple of all arguments and of that of their tangents. It returns (result, derivative of the
    result), in one structure. The derivative must be linear in the tangents: its transpose is the backward pass, and `grad`,
    `vjp`, `jvp` and `vmap` all follow from it. Arguments without floats are their own tangents. Arguments of `nondiff_argnums`
    come first, as they are: `rule(*nondiff, primals, tangents)`. Keyword arguments are passed by position. Raises TypeMismatch if
    the rule returns anything else."""

    def __init__(self, function: Callable[..., Any], nondiff_argnums: Sequence[int] = ()) -> None:
        functools.update_wrapper(self, function)
        self._function, self._nondiff = function, tuple(nondiff_argnums)
        self._rule: Callable[..., Any] | None = None

    def defjvp(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """States the derivative; returns `rule`."""
        self._rule = rule
        return rule

    @property
    def _name(self) -> str:
        return getattr(self._function, "__name__", "the function")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        customs = registered()
        rule = self._rule
        if rule is None:
            raise TypeMismatch(f"{self._name} has no derivative", ["call .defjvp(rule)"])
        if customs is None:
            return self._function(*args, **kwargs)
        bound = inspect.signature(self._function).bind(*args, **kwargs)
        bound.apply_defaults()
        if bound.kwargs:
            raise TypeMismatch(f"{self._name} has keyword-only arguments", [", ".join(bound.kwargs)])
        fixed = [bound.args[i] for i in self._nondiff]
        primals = tuple(a for i, a in enumerate(bound.args) if i not in self._nondiff)
        leaves, structure = flatten(primals, _is_tensor)
        operands = [constant(leaf).value for leaf in leaves]
        outputs, of_result = flatten(self._function(*bound.args), _is_tensor)
        results = [alias(constant(t).value) for t in outputs]

        def backward(
            values: Sequence[Value],
            residuals: Sequence[Value],
            of_results: Sequence[Value | None],
            wanted: Sequence[bool],
        ) -> list[Value | None]:
            tangents = [alias(zeros_like(v)) if type_of(v).dtype in CONTINUOUS else v for v in values]
            given = unflatten(structure, map(made, values))
            directions = unflatten(structure, map(made, tangents))
            with _differentiating() as inner:
                derivative = self._derivative(rule(*fixed, given, directions), of_result)
                present = [(t, g) for t, g in zip(derivative, of_results, strict=True) if g is not None]
                floats = [t for v, t in zip(values, tangents, strict=True) if type_of(v).dtype in CONTINUOUS]
                found = iter(gradients([t for t, _ in present], [g for _, g in present], floats, inner))
            return [next(found) if type_of(v).dtype in CONTINUOUS else None for v in values]

        _enter(customs, results, map(alias, operands), (), backward)
        return unflatten(of_result, map(made, results))

    def _derivative(self, pair: Any, of_result: Any) -> list[Value]:
        """The derivative of each tensor of the result."""
        who = f"the derivative of {self._name}"
        if not isinstance(pair, tuple) or len(pair) != 2:
            text = f"not {f'{len(pair)} values' if isinstance(pair, tuple) else f'a {type(pair).__name__}'}"
            raise TypeMismatch(f"{who} is a pair: the result and its derivative", [text])
        primal, found = (flatten(part, _is_tensor) for part in pair)
        if found[1] != of_result or primal[1] != of_result:
            raise TypeMismatch(f"{who} has another structure than the result", [f"{found[1]}, not {of_result}"])
        values = []
        for path, value, given in zip(paths(of_result), primal[0], found[0], strict=True):
            want, have = constant(value).type, constant(given)
            if have.type.shape != want.shape or (have.dtype not in CONTINUOUS and want.dtype in CONTINUOUS):
                raise TypeMismatch(
                    f"{who} has the result's type", [f"{path and f'at {path}: '}{have.type}, not {want}"]
                )
            values.append(have.value)
        return values
