"""Derivatives of functions inside of functions: checkpoints, own derivatives, loops, branches and derivatives, one in another,
with tensors captured at every depth. Each is compared with the same arithmetic without any of them, in float64.

BURN_SWEEP=300 draws so many pairs and triples, from BURN_SWEEP_SEED on."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import burn
from burn import Tensor, nn
from burn.errors import BurnError
from burn.tensors.gradients import with_derivative
from tests.fuzz.runner import Outcome, sweep

Inner = Callable[[Tensor, Sequence[Tensor]], Tensor]
"""(e, the tensors in scope) -> a tensor, all of them float64[]."""
Nesting = Callable[[Inner, Tensor, Sequence[Tensor], bool], Tensor]
"""The inner function, its argument, the tensors in scope, and a flag: nest, or write the same arithmetic without nesting."""

ROWS = np.array([0.7, -0.4])


def _bent(t: Tensor) -> Tensor:
    return t * (0.7 + 0.2 * t)


def recomputed(inner: Inner, e: Tensor, around: Sequence[Tensor], nested: bool) -> Tensor:
    h = e * around[-1]
    f = lambda a, b: inner(_bent(a), [*around, h, b]) + a * h  # noqa: E731
    return (burn.checkpoint(f) if nested else f)(e, _bent(h))


def recomputed_without_arguments(inner: Inner, e: Tensor, around: Sequence[Tensor], nested: bool) -> Tensor:
    h = _bent(e)
    f = lambda: inner(e, [*around, h]) * h  # noqa: E731
    return (burn.checkpoint(f) if nested else f)()


def own(inner: Inner, e: Tensor, around: Sequence[Tensor], nested: bool) -> Tensor:
    """A derivative of its own, which is the true one."""
    f = lambda a, *rest: _bent(inner(a, rest)) * rest[0]  # noqa: E731
    if not nested:
        return f(e, *around)
    custom = burn.custom_vjp(f)
    custom.defvjp(lambda *args: (f(*args), args), lambda args, g: burn.vjp(f, *args)[1](g))
    return custom(e, *around)


def own_with_captured(inner: Inner, e: Tensor, around: Sequence[Tensor], nested: bool) -> Tensor:
    """The backward function captures tensors; the forward function does not use one of them."""
    y, k, c = inner(e, around), burn.stop_gradient(_bent(e)), burn.stop_gradient(around[-1] * 0.3)
    if not nested:
        return y * k + c * y - burn.stop_gradient(c * y)
    custom = burn.custom_vjp(lambda a: a * k)
    custom.defvjp(lambda a: (a * k, None), lambda _, g: g * (k + c))
    return custom(y)


def ruled(inner: Inner, e: Tensor, around: Sequence[Tensor], nested: bool) -> Tensor:
    y = inner(e, around)
    if not nested:
        return 1.0 / (y + 3.0)
    function = lambda t: (1.0 / (t + 3.0),)  # noqa: E731
    return with_derivative(function, lambda _, results, cotangents: (-cotangents[0] * results[0] * results[0],), y)[0]


def scanned(inner: Inner, e: Tensor, around: Sequence[Tensor], nested: bool) -> Tensor:
    rows = burn.tensor(ROWS) * around[0]
    body = lambda c, s: (inner(c * 0.5 + s, [*around, c, s]), c * s)  # noqa: E731
    if nested:
        last, ys = burn.scan(body, e, rows)
        return last + ys.sum()
    total = e * 0.0
    for k in range(len(ROWS)):
        e, y = body(e, rows[k])
        total = total + y
    return e + total


def counted(inner: Inner, e: Tensor, around: Sequence[Tensor], nested: bool) -> Tensor:
    """A loop that takes the rows of a tensor from around by its iteration."""
    rows = burn.tensor(ROWS) * around[-1]
    body = lambda i, c: inner(c + rows[i], [*around, c * 0.5])  # noqa: E731
    if nested:
        return burn.fori_loop(0, 2, body, e)
    for k in range(2):
        e = body(k, e)
    return e


def chosen(inner: Inner, e: Tensor, around: Sequence[Tensor], nested: bool) -> Tensor:
    h = e * 0.9
    then = lambda a: inner(a, [*around, h, a * 2.0])  # noqa: E731
    return burn.cond(e * e > -1.0, then, lambda a: a * around[0], e) if nested else then(e)


def differentiated(inner: Inner, e: Tensor, around: Sequence[Tensor], nested: bool) -> Tensor:
    return burn.grad(lambda a: inner(a, [*around, a * e]))(e) + e


NESTINGS: tuple[Nesting, ...] = (
    recomputed, recomputed_without_arguments, own, own_with_captured, ruled, scanned, counted, chosen, differentiated,
)  # fmt: skip


def _innermost(e: Tensor, around: Sequence[Tensor]) -> Tensor:
    total = e * e * 0.5
    for k, t in enumerate(around):
        total = total + _bent(t) * (0.02 * e * e + (0.1 + 0.02 * k) * e)
    return total


def _function(nestings: Sequence[Nesting], nested: bool) -> Inner:
    if not nestings:
        return _innermost
    inner = _function(nestings[1:], nested)
    return lambda e, around: nestings[0](inner, e, around, nested)


class Scale(nn.Module):
    def __init__(self) -> None:
        self.scale = nn.Parameter(np.array(0.8))


def _first(value: Any, model: Scale, x: Tensor) -> list[Tensor]:
    y, (by_model, slope) = burn.value_and_grad(value, (0, 1))(model, x)
    return [y, by_model["scale"], slope]


def _mixed(value: Any, model: Scale, x: Tensor) -> list[Tensor]:
    return [burn.grad(lambda m: burn.grad(value, 1)(m, x))(model)["scale"]]


def _vjp_of_vjp(value: Any, model: Scale, x: Tensor) -> list[Tensor]:
    one = burn.constant(1.0, "float64")
    return [*burn.vjp(lambda v: burn.vjp(lambda w: value(model, w), v)[1](one)[0], x)[1](one)]


def _jvp_of_grad(value: Any, model: Scale, x: Tensor) -> list[Tensor]:
    return [*burn.jvp(burn.grad(lambda v: value(model, v)), (x,), (burn.constant(1.0, "float64"),))]


def _third(value: Any, model: Scale, x: Tensor) -> list[Tensor]:
    return [burn.grad(burn.grad(burn.grad(lambda v: value(model, v))))(x)]


KINDS = (_first, _mixed, _vjp_of_vjp, _jvp_of_grad, _third)


def run(nestings: Sequence[Nesting], kind: Any, way: str) -> tuple[list[float], list[float]]:
    """The derivatives of a kind, of nested functions and of the same arithmetic without nesting. way: "jit" or "recorded"."""
    model, x = Scale(), burn.tensor(np.array(0.6))

    def found(nested: bool) -> list[float]:
        f = _function(nestings, nested)

        def value(model: Scale, x: Tensor) -> Tensor:
            return f(_bent(x), [x, x * 2.0, model.scale]) * x

        derivatives = lambda model, x: kind(value, model, x)  # noqa: E731
        return [float(t) for t in (burn.jit(derivatives) if way == "jit" else derivatives)(model, x)]

    return found(True), found(False)


def case(seed: int) -> Outcome:
    """Two or three nestings, derivatives of one kind."""
    chance = random.Random(seed)
    nestings = chance.choices(NESTINGS, (4, 4, 2, 2, 1, 2, 2, 2, 1), k=chance.choice((2, 2, 3)))
    kind, way = chance.choice(KINDS), chance.choice(("jit", "jit", "recorded"))
    label = f"{'/'.join(f.__name__ for f in nestings)}, {kind.__name__[1:]}, {way}"
    try:
        found, want = run(nestings, kind, way)
    except BurnError as error:
        return Outcome("refusal", f"{label}: {error}")
    return Outcome(
        "ok" if np.allclose(found, want, rtol=1e-9, atol=1e-11) else "different", f"{label}: {found}, not {want}"
    )


@pytest.mark.parametrize(
    ("nestings", "kind", "way"),
    [
        ((recomputed, recomputed_without_arguments), _jvp_of_grad, "jit"),
        ((recomputed, recomputed), _mixed, "recorded"),
        ((recomputed, own_with_captured), _vjp_of_vjp, "jit"),
        ((chosen, recomputed), _mixed, "jit"),
        ((counted, own_with_captured), _first, "jit"),
        ((scanned, recomputed, own_with_captured), _first, "jit"),
    ],
)
def test_functions_in_functions(nestings: Sequence[Nesting], kind: Any, way: str) -> None:
    found, want = run(nestings, kind, way)
    np.testing.assert_allclose(found, want, rtol=1e-9, atol=1e-11)


test_more_functions_in_functions = sweep(case, 300)
