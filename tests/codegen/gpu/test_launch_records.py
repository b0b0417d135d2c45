"""Floating-point operations and bytes in the records of a group's launches: each kernel's own, not those of the group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import burn
from burn import ops
from burn.dialect.dims import evaluate, parse


def records(function: Callable[..., Any], *shapes: tuple[int, ...], device: str = "cpu") -> list[tuple[int, ...]]:
    """(operations, bytes) of each launch."""
    arrays = [np.zeros(shape, np.float32) for shape in shapes]
    made = burn.compile(function, arrays, cache=False, device=device)
    return [tuple(evaluate(parse(text), {}) for text in (k.flops, k.bytes)) for k in made.artefact.kernels]


def test_a_split_reduction() -> None:
    """The second kernel reads the sums of blocks alone."""
    n = 1 << 20
    first, second = records(lambda x: x.sum(), (n,))
    blocks = first[1] // 4 - n
    assert first[0] == second[0] == 0
    assert 1 < blocks < n // 1000 and second[1] == 4 * (blocks + 1)


def test_parts_of_a_concat() -> None:
    """One group, whose matmuls and loop are sections with operands and results of their own."""
    m, k, n = 16, 48, 80

    def function(x: Any, w: Any, v: Any) -> Any:
        return burn.concat([x @ w, burn.tanh(x), x @ v], axis=1)

    made = sorted(records(function, (m, k), (k, n), (k, 3)))
    assert [flops for flops, _ in made] == [0, 2 * m * k * 3, 2 * m * k * n]
    assert made[0][1] < made[2][1]


def test_one_kernel_moves_all_of_its_group() -> None:
    m, k, n = 33, 48, 80
    (only,) = records(lambda x, w, b: burn.tanh(x @ w + b), (m, k), (k, n), (n,))
    assert only == (2 * m * k * n, 4 * (m * k + k * n + n + m * n))


@pytest.mark.usefixtures("gpu")
def test_split_keys_on_a_gpu() -> None:
    """Attention of few rows has a kernel for parts of the keys, and one that combines them."""
    heads, keys, depth = 2, 4096, 32
    query, rest = (1, heads, 1, depth), (1, heads, keys, depth)
    made = records(lambda q, k, v: ops.attention(q, k, v, scale=0.3), query, rest, rest, device="cuda")
    parts, combined = made
    assert parts[0] == 2 * 2 * heads * keys * depth and combined[0] == 0
    assert combined[1] < parts[1] // 10
