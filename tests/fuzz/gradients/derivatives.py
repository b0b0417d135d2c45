"""The derivatives that are compared, in burn and in torch: each a list of tensors with names.

The kinds are:

    first    the values, and the derivatives of a weighted sum of them and their squares
    second   those, and the derivatives of such a sum of the first ones
    vjp      the values, and the pullback of a cotangent
    jvp      the values, and their derivatives in a direction
    hvp      the first derivatives, and their derivatives in a direction
    slope    the derivatives of such a sum of a jvp

Each is computed in both libraries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

import burn

KINDS = ("first", "second", "second", "second", "vjp", "jvp", "hvp", "slope")

Named = list[tuple[str, Any]]
Function = Callable[..., list[Any]]


# ---- burn ------------------------------------------------------------------------------------------------------------------
def _weights(y: burn.Tensor, phase: float) -> burn.Tensor:
    """No two elements count alike."""
    return (burn.arange(y.size, dtype="float64") * 0.7 + phase).sin().reshape(y.shape)


def _weighted(ys: Sequence[burn.Tensor], phase: float = 1.0) -> burn.Tensor:
    total = burn.constant(0.0, "float64")
    for y in ys:
        wide = y.astype("float64")
        total = total + ((wide + 0.25 * wide * wide) * _weights(y, phase)).sum()
    return total


def in_burn(
    kind: str, function: Function, names: Sequence[str], by: Sequence[str], xs: Mapping[str, burn.Tensor]
) -> Named:
    """`function` of all inputs gives the values called `names`; `by` names the inputs that are differentiated by."""

    def at(given: Sequence[burn.Tensor]) -> list[burn.Tensor]:
        return function(**{**xs, **dict(zip(by, given, strict=True))})

    own = [xs[n] for n in by]
    numbers = tuple(range(len(by)))

    def first(*given: burn.Tensor) -> tuple[burn.Tensor, ...]:
        return burn.grad(lambda *g: _weighted(at(g)), numbers)(*given)

    values = [(f"value of {n}", y) for n, y in zip(names, at(own), strict=True)]
    if kind == "first":
        return values + _named("derivative", by, first(*own))
    if kind == "second":
        second = burn.grad(lambda *g: _weighted(first(*g), 2.0), numbers)(*own)
        return values + _named("derivative", by, first(*own)) + _named("second derivative", by, second)
    if kind == "vjp":
        result, back = burn.vjp(lambda *g: at(g), *own)
        values = [(f"value of {n}", y) for n, y in zip(names, result, strict=True)]
        return values + _named("vjp", by, back([_weights(y, 1.0).astype(y.dtype) for y in result]))
    tangents = [_weights(x, 3.0).astype(x.dtype) for x in own]
    if kind == "jvp":
        result, forward = burn.jvp(lambda *g: at(g), own, tangents)
        values = [(f"value of {n}", y) for n, y in zip(names, result, strict=True)]
        return values + [(f"jvp of {n}", y) for n, y in zip(names, forward, strict=True)]
    if kind == "hvp":
        given, forward = burn.jvp(first, own, tangents)
        return _named("derivative", by, given) + _named("hvp", by, forward)
    slope = burn.grad(lambda *g: _weighted(burn.jvp(lambda *a: at(a), list(g), tangents)[1], 2.0), numbers)
    return values + _named("slope of the jvp", by, slope(*own))


def _named(what: str, by: Sequence[str], found: Sequence[Any]) -> Named:
    return [(f"{what} by {n}", g) for n, g in zip(by, found, strict=True)]


# ---- torch -----------------------------------------------------------------------------------------------------------------
def _theirs(y: torch.Tensor, phase: float) -> torch.Tensor:
    return (torch.arange(y.numel(), dtype=torch.float64) * 0.7 + phase).sin().reshape(y.shape)


def _sum(ys: Sequence[torch.Tensor], phase: float = 1.0) -> torch.Tensor:
    total = torch.zeros((), dtype=torch.float64)
    for y in ys:
        total = total + ((y + 0.25 * y * y) * _theirs(y, phase)).sum()
    return total


def _slopes(
    ys: Sequence[torch.Tensor], by: Sequence[torch.Tensor], given: Sequence[torch.Tensor]
) -> list[torch.Tensor]:
    pairs = [(y, g) for y, g in zip(ys, given, strict=True) if y.requires_grad]
    if not pairs:
        return [torch.zeros_like(x) for x in by]
    return list(
        torch.autograd.grad(
            [y for y, _ in pairs],
            by,
            [g for _, g in pairs],
            create_graph=True,
            allow_unused=True,
            materialize_grads=True,
        )
    )


def _forward(
    ys: Sequence[torch.Tensor], by: Sequence[torch.Tensor], tangents: Sequence[torch.Tensor]
) -> list[torch.Tensor]:
    """The pullback is linear in its cotangents; its own pullback is the pushforward."""
    starts = [torch.zeros_like(y).requires_grad_() for y in ys]
    return _slopes(_slopes(ys, by, starts), starts, tangents)


def in_torch(
    kind: str, function: Function, names: Sequence[str], by: Sequence[str], xs: Mapping[str, torch.Tensor]
) -> Named:
    """The same. Raises RuntimeError or NotImplementedError where torch lacks a derivative."""
    own = [xs[n].detach().requires_grad_() for n in by]
    ys = function(**{**xs, **dict(zip(by, own, strict=True))})
    values = [(f"value of {n}", y) for n, y in zip(names, ys, strict=True)]
    tangents = [_theirs(x, 3.0) for x in own]
    if kind == "vjp":
        found = values + _named("vjp", by, _slopes(ys, own, [_theirs(y, 1.0) for y in ys]))
    elif kind == "jvp":
        found = values + [(f"jvp of {n}", y) for n, y in zip(names, _forward(ys, own, tangents), strict=True)]
    elif kind == "slope":
        slopes = _slopes([_sum(_forward(ys, own, tangents), 2.0)], own, [torch.ones((), dtype=torch.float64)])
        found = values + _named("slope of the jvp", by, slopes)
    else:
        first = _slopes([_sum(ys)], own, [torch.ones((), dtype=torch.float64)])
        if kind == "hvp":
            found = _named("derivative", by, first) + _named("hvp", by, _forward(first, own, tangents))
        else:
            found = values + _named("derivative", by, first)
            if kind == "second":
                second = _slopes([_sum(first, 2.0)], own, [torch.ones((), dtype=torch.float64)])
                found += _named("second derivative", by, second)
    return [(name, t.detach().numpy()) for name, t in found]
