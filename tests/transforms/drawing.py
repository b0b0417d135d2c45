"""Draws how the arguments of a function are mapped, and compares `burn.vmap` with a stack of single calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import burn
from burn.tensors import Tensor

SIZES = (3, 1, 0, 2)


@dataclass(frozen=True)
class Mapping:
    """axes: the mapped axis of each argument, or None; size: the number of examples; out: the mapped axis of the result."""

    axes: tuple[int | None, ...]
    size: int
    out: int

    @staticmethod
    def drawn(rng: np.random.Generator, ranks: Sequence[int], out_rank: int, size: int) -> Mapping:
        """Axes among the first, the middle, the last and none, with at least one mapped argument."""
        axes: list[int | None] = [None] * len(ranks)
        while all(axis is None for axis in axes):
            for i, rank in enumerate(ranks):
                choices = (None, 0, (rank + 1) // 2, -1, 0)
                axes[i] = choices[int(rng.integers(0, len(choices)))]
        out = int(rng.choice([0, -1, out_rank // 2]))
        return Mapping(tuple(axes), size, out)


def stacked(rows: Sequence[np.ndarray], axis: int | None) -> np.ndarray:
    """The examples' arguments along an axis; a shared argument is that of the first example."""
    return rows[0] if axis is None else np.stack(rows, axis)


def examples_of(
    mapping: Mapping, draw: Callable[[], list[np.ndarray]]
) -> tuple[list[np.ndarray], list[list[np.ndarray]]]:
    """The arguments of the mapped function, and those of each example."""
    rows = [draw() for _ in range(max(mapping.size, 1))]
    own = [[rows[0][i] if a is None else row[i] for i, a in enumerate(mapping.axes)] for row in rows[: mapping.size]]
    columns = list(zip(*rows, strict=True))
    given = [stacked(column, axis) for column, axis in zip(columns, mapping.axes, strict=True)]
    if not mapping.size:
        given = [a if axis is None else np.take(a, [], axis) for a, axis in zip(given, mapping.axes, strict=True)]
    return given, own


def assert_close(got: Any, want: Any, where: str, rtol: float = 1e-9, atol: float = 1e-10) -> None:
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape, f"{where}: shape {got.shape}, not {want.shape}"
    assert got.dtype == want.dtype, f"{where}: {got.dtype}, not {want.dtype}"
    np.testing.assert_allclose(got, want, rtol=rtol, atol=atol, err_msg=where)


def check(
    function: Callable[..., Tensor],
    given: Sequence[np.ndarray],
    examples: Sequence[Sequence[np.ndarray]],
    mapping: Mapping,
    rtol: float = 1e-9,
) -> None:
    """The mapped function against a stack of single calls."""
    got = burn.vmap(function, mapping.axes, mapping.out)(*given).numpy()
    if not examples:
        assert got.shape[mapping.out] == 0
        return
    want = np.stack([np.asarray(function(*map(burn.constant, own)).numpy()) for own in examples], mapping.out)
    assert_close(got, want, f"{mapping}", rtol, rtol / 10)


def weighted(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A scalar in which every element of the result counts differently."""

    def scalar(*xs: Tensor) -> Tensor:
        y = function(*xs)
        count = burn.arange(y.size, dtype=y.dtype).reshape(y.shape)
        return (y * (count * 0.7 + 1.0).sin()).sum()

    return scalar


def check_gradients(
    function: Callable[..., Tensor],
    given: Sequence[np.ndarray],
    examples: Sequence[Sequence[np.ndarray]],
    mapping: Mapping,
) -> None:
    """Gradients of each example, and the gradient of the sum over the examples, against gradients of single calls."""
    numbers = tuple(range(len(given)))
    scalar = weighted(function)
    single = [[g.numpy() for g in burn.grad(scalar, numbers)(*own)] for own in examples]
    each = burn.vmap(burn.grad(scalar, numbers), mapping.axes)(*given)
    for i, got in enumerate(each):
        want = np.stack([own[i] for own in single])
        assert_close(got.numpy(), want, f"{mapping}, gradient {i} of each example", 1e-7, 1e-8)
    total = burn.grad(lambda *xs: burn.vmap(scalar, mapping.axes)(*xs).sum(), numbers)(*given)
    for i, (got, axis) in enumerate(zip(total, mapping.axes, strict=True)):
        rows = [own[i] for own in single]
        want = np.sum(rows, 0) if axis is None else np.stack(rows, axis)
        assert_close(got.numpy(), want, f"{mapping}, gradient {i} of the sum", 1e-7, 1e-8)
