"""`burn.jacrev`, `burn.jacfwd` and `burn.hessian`: all derivatives of a function, by mapping a derivative over a basis."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from burn.dialect import ops
from burn.dialect.adjoint import gradients
from burn.dialect.adjoint.reverse import Customs
from burn.dialect.batching.rules import Item, moved
from burn.dialect.compose import reshape, zeros_like
from burn.dialect.copies import Copies
from burn.dialect.deferred import Value, make_kin
from burn.dialect.types import TensorType, type_of
from burn.errors import TypeMismatch
from burn.tensors.base import made
from burn.tensors.gradients import _differentiating, _is_tensor, _or_zeros, _Part, _tensors, numbered
from burn.tensors.promotion import constant
from burn.tensors.trees import flatten, paths, unflatten
from burn.transforms.program import in_program
from burn.transforms.region import batched

Columns = Callable[[Sequence[Value], Sequence[Value], Customs], "list[list[Value]]"]
"""The Jacobian of each output by each input."""


def jacrev(function: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that returns the Jacobian of `function` by reverse-mode differentiation: one backward pass, mapped over the
    elements of the result. For functions with fewer results than arguments.

    function: of tensors, containers of them or modules, to a float tensor or a container of them. With `has_aux` it returns a
    pair of that and anything else, which is passed on. The Jacobian has the structure of the function's result, and each leaf of
    it has that of the argument. For a module that is a dictionary by path, for several argnums a tuple.

    Shapes: for a result [r..] and an argument [a..], [r.., a..]. Raises TypeMismatch for what is not differentiable."""
    return _jacobian(function, argnums, has_aux, _backward)


def jacfwd(function: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """As `jacrev`, by forward-mode differentiation: one derivative in a direction, mapped over the elements of the arguments. For
    functions with fewer arguments than results."""
    return _jacobian(function, argnums, has_aux, _forward)


def hessian(
    function: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that returns the second derivatives of `function`: the Jacobian (`jacfwd`) of the Jacobian (`jacrev`).

    Shapes: for a result [r..] and arguments [a..] and [b..], [r.., a.., b..], in the structure that the two transforms give."""
    return jacfwd(jacrev(function, argnums, has_aux), argnums, has_aux)


def _jacobian(
    function: Callable[..., Any], argnums: int | Sequence[int], has_aux: bool, columns: Columns
) -> Callable[..., Any]:
    single, numbers = numbered(function, argnums)

    def differentiated(*args: Any, **kwargs: Any) -> Any:
        if any(not -len(args) <= n < len(args) for n in numbers):
            raise TypeMismatch("argnums name positional arguments", [f"{list(numbers)}; {len(args)} were given"])
        seen: list[Any] = []

        def build() -> list[Value]:
            with _differentiating() as customs:
                given = list(args)
                parts = [_Part.of(args[n], f"argument {n}") for n in numbers]
                for n, part in zip(numbers, parts, strict=True):
                    given[n] = part.argument
                result = function(*given, **kwargs)
                rest: Any = None
                if has_aux:
                    if not isinstance(result, tuple) or len(result) != 2:
                        found = type(result).__name__
                        raise TypeMismatch("with has_aux the function returns (value, anything else)", [f"not {found}"])
                    result, rest = result
                leaves, structure = _tensors(result, "the function's result")
                inputs = [v for part in parts for v in part.values]
                rows = columns([leaf.value for leaf in leaves], inputs, customs)
                extra, of_extra = flatten(rest, _is_tensor)
                seen[:] = [parts, structure, len(extra), of_extra]
                return [*(v for row in rows for v in row), *(constant(t).value for t in extra)]

        values = in_program(build)
        parts, structure, count, of_extra = seen
        make_kin(values)
        tensors = iter(map(made, values[: len(values) - count]))
        trees = [_of_output(parts, tensors, single) for _ in paths(structure)]
        jacobian = unflatten(structure, trees)
        return (jacobian, unflatten(of_extra, map(made, values[len(values) - count :]))) if has_aux else jacobian

    return functools.update_wrapper(differentiated, function, updated=())


def _of_output(parts: Sequence[_Part], tensors: Any, single: bool) -> Any:
    """The derivatives of one output, in the structure of the arguments."""
    found = tuple(part.result([next(tensors) for _ in part.values]) for part in parts)
    return found[0] if single else found


def _basis(type_: TensorType) -> Value:
    """All unit tensors of a type: [elements, *shape]."""
    n = type_.elements
    here, there = (ops.iota(shape=(n, n), axis=axis) for axis in (0, 1))
    return reshape(ops.cast(ops.eq(here, there), dtype=type_.dtype), (n, *type_.shape))


def _backward(outputs: Sequence[Value], inputs: Sequence[Value], customs: Customs) -> list[list[Value]]:
    rows = []
    for output in outputs:
        type_ = type_of(output)

        def one(values: Sequence[Any], copies: Copies, output: Value = output) -> list[Value]:
            found = gradients([output], [values[0]], inputs, customs)
            return [_or_zeros(g, v).value for g, v in zip(found, inputs, strict=True)]

        results = batched(one, [Item(_basis(type_), True)], type_.elements)
        row = []
        for item, v in zip(results, inputs, strict=True):
            row.append(reshape(item.all(type_.elements), (*type_.shape, *type_of(v).shape)))
        rows.append(row)
    return rows


def _forward(outputs: Sequence[Value], inputs: Sequence[Value], customs: Customs) -> list[list[Value]]:
    """The transpose of the backward pass, which is linear in its cotangents."""
    starts = [zeros_like(v) for v in outputs]
    back = gradients(outputs, starts, inputs, customs)
    columns = []
    for v, g in zip(inputs, back, strict=True):
        type_ = type_of(v)

        def one(values: Sequence[Any], copies: Copies, g: Value | None = g) -> list[Value]:
            found = [None] * len(starts) if g is None else gradients([g], [values[0]], starts, customs)
            return [_or_zeros(t, start).value for t, start in zip(found, starts, strict=True)]

        results = batched(one, [Item(_basis(type_), True)], type_.elements)
        column = []
        for item, output in zip(results, outputs, strict=True):
            last = moved(item.all(type_.elements), 0, item.type.rank)
            column.append(reshape(last, (*type_of(output).shape, *type_.shape)))
        columns.append(column)
    return [[column[i] for column in columns] for i in range(len(outputs))]
