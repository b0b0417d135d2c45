"""Gradients of scans with contractions: the forward loop keeps their results, and sums over iterations are outside of loops."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

import burn
from burn import Tensor
from burn.dialect.text import to_text
from burn.tracing.trace import trace

STEPS, BATCH, HIDDEN = 5, 3, 9


def last_states(w: Tensor, b: Tensor, xs: Tensor, section: bool = False) -> Tensor:
    """The sum of squares of all states. b is added after the contraction; it is also a factor."""

    def cell(h: Tensor, x: Tensor) -> Tensor:
        return burn.tanh(x + (h @ w + b) * b)

    step = burn.checkpoint(cell) if section else cell

    def body(h: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        new = step(h, x)
        return new, new

    _, ys = burn.scan(body, burn.zeros((BATCH, HIDDEN)), xs)
    return (ys * ys).sum()


def of_torch(w: torch.Tensor, b: torch.Tensor, xs: torch.Tensor) -> torch.Tensor:
    h, total = torch.zeros(BATCH, HIDDEN, dtype=w.dtype), torch.zeros((), dtype=w.dtype)
    for x in xs:
        h = torch.tanh(x + (h @ w + b) * b)
        total = total + (h * h).sum()
    return total


def given(seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes = ((HIDDEN, HIDDEN), (HIDDEN,), (STEPS, BATCH, HIDDEN))
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


@pytest.mark.parametrize("section", [False, True])
def test_first_and_second_derivatives(section: bool) -> None:
    def first(w: Tensor, b: Tensor, xs: Tensor) -> tuple[Tensor, ...]:
        return burn.grad(lambda *v: last_states(*v, section=section), argnums=(0, 1, 2))(w, b, xs)

    def second(w: Tensor, b: Tensor, xs: Tensor) -> tuple[Tensor, ...]:
        return burn.grad(lambda *v: sum((g * g).sum() for g in first(*v)), argnums=(0, 1, 2))(w, b, xs)

    arrays = given()
    inputs = [torch.tensor(a, dtype=torch.float64, requires_grad=True) for a in arrays]
    want = torch.autograd.grad(of_torch(*inputs), inputs, create_graph=True)
    further = torch.autograd.grad(sum((g * g).sum() for g in want), inputs)
    for function, expected in ((first, want), (second, further)):
        for mine, theirs in zip(burn.jit(function)(*arrays), (t.detach().numpy() for t in expected), strict=True):
            largest = float(np.abs(theirs).max())
            np.testing.assert_allclose(mine, theirs, rtol=2e-4, atol=2e-5 * largest)


@pytest.mark.parametrize(("section", "stacks"), [(False, 3), (True, 2)])
def test_contractions_are_kept_except_those_of_checkpoints(section: bool, stacks: int) -> None:
    """The forward loop stacks the states, the states before each iteration, and the sum with the contraction."""
    shapes = {name: f"float32[{', '.join(map(str, a.shape))}]" for name, a in zip("wbx", given(), strict=True)}
    gradients = burn.grad(lambda *v: last_states(*v, section=section), argnums=(0, 1, 2))
    text = to_text(trace(gradients, shapes))
    assert max(map(int, re.findall(r"scans = (\d+)", text))) == stacks


def test_any_number_of_iterations() -> None:
    """One program for all lengths, none among them."""
    gradients = burn.jit(burn.grad(last_states, argnums=(0, 1, 2)), dynamic={2: {0: "n"}})
    w, b, _ = given()
    for n in (4, 0, 1, 7):
        xs = np.random.default_rng(n).standard_normal((n, BATCH, HIDDEN)).astype(np.float32)
        inputs = [torch.tensor(a, dtype=torch.float64, requires_grad=True) for a in (w, b, xs)]
        want = torch.autograd.grad(of_torch(*inputs), inputs) if n else [torch.zeros_like(v) for v in inputs]
        for mine, theirs in zip(gradients(w, b, xs), want, strict=True):
            assert tuple(mine.shape) == tuple(theirs.shape)
            np.testing.assert_allclose(mine, theirs.detach().numpy(), rtol=2e-4, atol=1e-4)
