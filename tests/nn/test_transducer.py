"""The transducer's loss beside the sum over every alignment, one after another, in float64; CTC's edges."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

import burn
from burn import nn
from burn.errors import TypeMismatch
from burn.nn.loss.base import Reduction


def every_alignment(log_p: np.ndarray, labels: np.ndarray, blank: int) -> float:
    """-log of the sum over all orders of T blanks and U labels, the last a blank. log_p [T, U + 1, C]."""
    steps, emitted = log_p.shape[0], len(labels)
    total = -np.inf
    for emissions in combinations(range(steps + emitted - 1), emitted):
        time = spoken = 0
        path = 0.0
        for step in range(steps + emitted):
            if step in emissions:
                path += log_p[time, spoken, labels[spoken]]
                spoken += 1
            else:
                path += log_p[time, spoken, blank]
                time += 1
        total = np.logaddexp(total, path)
    return -total


def samples(seed: int) -> tuple[list[np.ndarray], np.ndarray]:
    rng = np.random.default_rng(seed)
    batch, steps, most, classes = rng.integers(1, 4), rng.integers(1, 6), rng.integers(0, 4), rng.integers(2, 6)
    logits = rng.standard_normal((batch, steps, most + 1, classes)).astype(np.float32)
    targets = rng.integers(0, classes - 1, (batch, most))
    lengths = [rng.integers(1, steps + 1, batch), rng.integers(0, most + 1, batch)]
    wide = logits.astype(np.float64)
    log_p = wide - np.log(np.exp(wide).sum(-1, keepdims=True))
    want = [
        every_alignment(p[:t, : u + 1], y[:u], classes - 1) for p, y, t, u in zip(log_p, targets, *lengths, strict=True)
    ]
    return [logits, targets, *lengths], np.array(want)


@pytest.mark.parametrize("seed", range(4))
def test_the_transducer_adds_up_every_alignment(seed: int) -> None:
    inputs, want = samples(seed)
    means: dict[Reduction, np.ndarray] = {"none": want, "mean": want.mean(), "sum": want.sum()}
    for reduction, expected in list(means.items())[: 1 + 2 * (seed == 0)]:
        got = nn.RNNTLoss(reduction=reduction)(*map(burn.constant, inputs))
        np.testing.assert_allclose(got.numpy(), expected, rtol=1e-5, atol=1e-5)


def test_compiled_sequence_losses_take_every_size() -> None:
    types = ("float32[n, t, u + 1, 5]", "int64[n, u]", "int64[n]", "int64[n]")
    loss = burn.compile(nn.RNNTLoss(blank=4, reduction="none"), types)
    for seed in (10, 11, 12):
        inputs, _ = samples(seed)
        wide = np.zeros((*inputs[0].shape[:3], 5), np.float32)
        wide[..., :4] = np.random.default_rng(seed).standard_normal(wide.shape)[..., :4]
        inputs[0], inputs[1] = wide, inputs[1] % 4
        want = nn.RNNTLoss(reduction="none")(*map(burn.constant, inputs)).numpy()
        np.testing.assert_allclose(loss(*inputs), want, rtol=1e-5, atol=1e-5)
    torch = pytest.importorskip("torch")
    compiled = burn.compile(nn.CTCLoss(reduction="none"), ("float32[t, n, 4]", "int64[n, s]", "int64[n]", "int64[n]"))
    for batch, steps, most in ((1, 3, 1), (3, 11, 5), (2, 1, 0)):
        scores = torch.randn(steps, batch, 4).log_softmax(2)
        targets = torch.randint(1, 4, (batch, most))
        lengths = [torch.full((batch,), steps), torch.randint(0, most + 1, (batch,))]
        want = torch.nn.functional.ctc_loss(scores.double(), targets, *lengths, reduction="none")
        got = compiled(scores.numpy(), targets.numpy(), *(n.numpy() for n in lengths))
        np.testing.assert_allclose(got, want.numpy(), rtol=1e-5, atol=1e-5)


def test_wrong_ranks_are_named() -> None:
    x = burn.constant(np.zeros((2, 3), np.float32))
    with pytest.raises(TypeMismatch, match=r"RNNTLoss takes logits \[N, T, U \+ 1, C\]"):
        nn.RNNTLoss()(x, x, x, x)
    with pytest.raises(TypeMismatch, match="CTCLoss takes"):
        nn.CTCLoss()(burn.constant(np.zeros((2, 3, 4, 5), np.float32)), x, x, x)
