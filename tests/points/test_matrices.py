"""Functions of matrices and their derivatives at special matrices, against PyTorch in float64. Differences are in `matrices.py`
with a reason. If PyTorch refuses a matrix, burn gives NaN or infinity.

A test run takes two functions, and other ones by BURN_SWEEP_SEED; BURN_SWEEP=1 takes all."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import burn
from tests.points.explained import Reason
from tests.points.matrices import EXPLAINED, MATRICES, STACK, TABLE
from tests.points.run import PARTS, in_burn, weights

ALL = "BURN_SWEEP" in os.environ
NAMES = list(TABLE)
PART = int(os.environ.get("BURN_SWEEP_SEED", "0"))
PICKED = NAMES if ALL else [NAMES[(2 * PART + i) % len(NAMES)] for i in range(2)]
ENDLESS = 1e10
"""Larger numbers are divisions by rounding errors: no derivative exists, as where the result is infinite or NaN."""


def _theirs(name: str, matrix: np.ndarray) -> list[np.ndarray]:
    """Value and derivatives, as far as PyTorch gives them."""
    x = torch.tensor(matrix[None], requires_grad=True)
    found = []
    every: dict[str, Any] = {"allow_unused": True, "materialize_grads": True}
    try:
        y = TABLE[name].torch(x).reshape(1, -1)
        found.append(y)
        (first,) = torch.autograd.grad((y * torch.tensor(weights(y.shape[1]))).sum(), x, create_graph=True, **every)
        found.append(first)
        found += torch.autograd.grad((first * torch.tensor(weights(3))).sum(), x, **every)
    except torch.linalg.LinAlgError:  # type: ignore[attr-defined]
        pass
    return [v[0].detach().numpy() for v in found]


def _ended(x: np.ndarray) -> np.ndarray:
    return np.where(np.abs(x) < ENDLESS, x, np.nan)


def _reason(name: str, matrix: str, part: str) -> Reason | None:
    return next((r for r in EXPLAINED if r.covers(name, matrix, part)), None)


def _differing(name: str) -> Iterator[tuple[str, str, str]]:
    function = TABLE[name].burn
    ours = [np.asarray(r) for r in burn.jit(lambda x: in_burn(function, x))(STACK)]
    for number, (label, matrix) in enumerate(MATRICES.items()):
        theirs = _theirs(name, matrix)
        for part, b in zip(PARTS, theirs, strict=False):
            a = ours[PARTS.index(part)][number]
            if not np.allclose(_ended(a), _ended(b), rtol=1e-8, atol=1e-8, equal_nan=True):
                yield label, part, f"burn {a.tolist()}, PyTorch {b.tolist()}"
        if len(theirs) < 3:
            refused = ours[len(theirs)][number]
            assert not np.isfinite(refused).all(), (
                f"{label}: PyTorch has no {PARTS[len(theirs)]}, burn {refused.tolist()}"
            )


@pytest.mark.parametrize("name", PICKED)
def test_matrices(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [row for row in _differing(name) if _reason(name, *row[:2]) is None]
    assert not found, "\n".join(map(": ".join, found))


@pytest.mark.skipif(not ALL, reason="BURN_SWEEP: all functions have to be run")
def test_every_reason_is_needed() -> None:
    needed = {_reason(name, label, part) for name in NAMES for label, part, _ in _differing(name)}
    assert not [r for r in EXPLAINED if r not in needed and not r.rounding]


def test_recorded() -> None:
    """Outside of traced functions the algorithm is computed at once, and differentiated all the same."""
    x = burn.constant(STACK[:4])
    function = TABLE["exp by eigh"].burn

    def first(x: burn.Tensor) -> burn.Tensor:
        return burn.grad(lambda v: function(v).sin().sum())(x)

    np.testing.assert_allclose(first(x).numpy(), burn.jit(first)(STACK[:4]), rtol=1e-9, atol=1e-9)
