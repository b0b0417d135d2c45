"""Sizes as Python expressions have the value of the size, for every value of its symbols."""

from __future__ import annotations

import random
from typing import Any

import pytest

from burn.dialect.dims import Dim, dim_max, dim_min, evaluate, symbol
from burn.exporters.python.text import size

N, M = symbol("n"), symbol("m")


def drawn(draw: random.Random, depth: int) -> Any:
    """A random size over n and m."""
    if depth == 0:
        return draw.choice((N, M, draw.randint(-4, 5)))
    left, right = drawn(draw, depth - 1), drawn(draw, depth - 1)
    kind = draw.choice(("+", "-", "*", "//", "%", "min", "max"))
    if kind in ("//", "%"):
        divisor = draw.randint(2, 4)
        return left // divisor if kind == "//" else left % divisor
    if kind in ("min", "max"):
        return (dim_min if kind == "min" else dim_max)(left, right)
    return {"+": left + right, "-": left - right, "*": left * right}[kind]


def value(dim: Dim, **sizes: int) -> int:
    names = {str(symbol(name)): name for name in sizes}
    code = size(dim, lambda e: names.get(str(e))).code
    return eval(code.replace("burn.Dim.", ""), {"min": min, "max": max}, dict(sizes))


def test_a_quotient_of_a_negative_size_is_added() -> None:
    half = (N + 1) // 2
    assert value((half + 1) // 2 + (-half) // 2, n=6) == 0
    assert value((half + 1) // 2 + (-half) % 3, n=7) == 4


@pytest.mark.parametrize("part", range(4))
def test_every_size(part: int) -> None:
    for seed in range(part, 200, 4):
        draw = random.Random(seed)
        dim = drawn(draw, 3)
        for n, m in ((0, 0), (1, 4), (7, 2), (13, 11)):
            assert value(dim, n=n, m=m) == evaluate(dim, {"n": n, "m": m}), (seed, str(dim))
