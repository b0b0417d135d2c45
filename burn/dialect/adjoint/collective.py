"""Collectives. The derivative is that of the sum of all processes' results, as for XLA's collectives: a process that receives an
element sends its cotangent back."""

from __future__ import annotations

from typing import Any

from burn.dialect import ops
from burn.dialect.adjoint.rules import NoRule, rule
from burn.dialect.compose import number_like, reshape
from burn.dialect.deferred import Value
from burn.dialect.types import type_of


def _listed(values: Any) -> list[Value]:
    return list(values) if isinstance(values, list | tuple) else [values]


@rule("all_reduce")
def all_reduce(
    g: Any, y: Any, xs: list[Value], groups: tuple[int, ...], size: int, reduction: str
) -> list[list[Value]]:
    if reduction != "sum":
        raise NoRule(f"which process has the {reduction} is not followed; only sums have a derivative")
    return [_listed(ops.all_reduce(_listed(g), groups=groups, size=size))]


@rule("all_gather")
def all_gather(g: Any, y: Any, xs: list[Value], groups: tuple[int, ...], size: int) -> list[list[Value]]:
    return [_listed(ops.reduce_scatter(_listed(g), groups=groups, size=size))]


@rule("reduce_scatter")
def reduce_scatter(
    g: Any, y: Any, xs: list[Value], groups: tuple[int, ...], size: int, reduction: str
) -> list[list[Value]]:
    if reduction != "sum":
        raise NoRule(f"which process has the {reduction} is not followed; only sums have a derivative")
    return [_listed(ops.all_gather(_listed(g), groups=groups, size=size))]


@rule("collective_broadcast")
def collective_broadcast(
    g: Any, y: Any, xs: list[Value], groups: tuple[int, ...], size: int, root: int
) -> list[list[Value]]:
    """The sum of the cotangents for the process at the root, and zeros for the others. Each process scatters one block
    for each position, and only the block of the root is not zero."""
    blocks = []
    for each in _listed(g):
        shape = type_of(each).shape
        low, high = (root, *(0,) * len(shape)), (size - 1 - root, *(0,) * len(shape))
        blocks.append(ops.pad(reshape(each, (1, *shape)), number_like(0.0, each), low=low, high=high))
    summed = _listed(ops.reduce_scatter(blocks, groups=groups, size=size))
    return [[reshape(one, type_of(x).shape) for one, x in zip(summed, xs, strict=True)]]
