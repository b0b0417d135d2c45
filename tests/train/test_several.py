"""Steps over several batches: as one batch with all rows, whatever their sizes and numbers of targets that count."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import burn
from burn import nn, optim
from burn.errors import BurnError, TypeMismatch


class Net(nn.Module):
    def __init__(self) -> None:
        self.embed = nn.Embedding(9, 6)
        self.drop = nn.Dropout(0.0)
        self.head = nn.Linear(6, 9)
        self.idle = nn.Linear(2, 2)

    def forward(self, x: burn.Tensor) -> burn.Tensor:
        return self.head(self.drop(burn.tanh(self.embed(x))))


def loss(model: nn.Module, x: burn.Tensor, y: burn.Tensor) -> burn.Tensor:
    scores = model(x).reshape(-1, 9)
    return nn.CrossEntropyLoss(ignore_index=0)(scores, y.reshape(-1)) + 0.1 * nn.CrossEntropyLoss()(
        scores, y.reshape(-1)
    )


def rows(rng: np.random.Generator, count: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Ids and targets. About half of the targets are 0, which does not count."""
    y = rng.integers(1, 9, (count, length)) * rng.integers(0, 2, (count, length))
    return rng.integers(0, 9, (count, length)), y


def made(**options: Any) -> tuple[Net, burn.train.Step]:
    burn.manual_seed(0)
    net = Net()
    return net, burn.train.step(net, loss, optim.AdamW(net, lr=0.05, weight_decay=0.1), **options)


@pytest.mark.parametrize(
    ("sizes", "options"),
    [((1, 4, 2), {}),
     pytest.param((3, 3), {"clip_norm": 0.1, "precision": "bfloat16"}, marks=pytest.mark.slow),
     pytest.param((5, 0), {"precision": "float16"}, marks=pytest.mark.slow),
     pytest.param((2, 1, 7, 1), {"memory": "1 MB"}, marks=pytest.mark.slow)],
    ids=["unequal", "bfloat16", "one, float16", "memory"],
)  # fmt: skip
def test_as_one_batch(sizes: tuple[int, ...], options: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    parts = [[rows(rng, n, 3) for n in sizes] for _ in range(3)]
    net, step = made(**options)
    other, whole = made(**options)
    for batches in parts:
        joined = [np.concatenate(arrays) for arrays in zip(*batches, strict=True)]
        near = 1e-5 if "precision" not in options else 1e-2
        np.testing.assert_allclose(float(step.over(batches)), float(whole(*joined)), rtol=near)
    limits: dict[str, float] = {"rtol": 1e-4, "atol": 1e-4} if "precision" not in options else {"atol": 0.02}
    for (path, p), (_, q) in zip(net.named_parameters(), other.named_parameters(), strict=True):
        np.testing.assert_allclose(p.numpy(), q.numpy(), **limits, err_msg=path)
    assert np.array_equal(net.idle.weight.numpy(), other.idle.weight.numpy())  # unused: not even decayed


def test_other_lengths_in_float64() -> None:
    """Sequences of other lengths: the loss is the mean over all targets that count, not the mean of the batches' means."""
    rng = np.random.default_rng(1)
    batches = [rows(rng, 2, 5), rows(rng, 3, 2), (np.ones((1, 4), np.int64), np.zeros((1, 4), np.int64))]
    net, step = made()
    table, w, b = (p.numpy().astype(np.float64) for p in (net.embed.weight, net.head.weight, net.head.bias))
    surprises = []
    for x, y in batches:
        scores = np.tanh(table[x]) @ w.T + b
        logs = scores - np.log(np.exp(scores).sum(-1, keepdims=True))
        surprises.append((-np.take_along_axis(logs, y[..., None], -1)[..., 0], y))
    counted = np.concatenate([s[y != 0] for s, y in surprises])
    every = np.concatenate([s.reshape(-1) for s, _ in surprises])
    np.testing.assert_allclose(float(step.over(batches)), counted.mean() + 0.1 * every.mean(), rtol=1e-5)
    assert float(step.over(batches)) < counted.mean() + 0.1 * every.mean()


def test_statistics_and_random_numbers_move_once() -> None:
    def spread(model: nn.Module, x: burn.Tensor) -> burn.Tensor:
        return (model(x) ** 2).mean()

    burn.manual_seed(0)
    net = nn.Sequential(nn.BatchNorm1d(3), nn.Dropout(0.5))
    step = burn.train.step(net, spread, optim.SGD(net, lr=0.0))
    batches = [(np.random.default_rng(i).standard_normal((4 + i, 3)).astype(np.float32),) for i in range(2)]
    before = burn.runtime.random.process.position
    step.over(batches)
    want = np.zeros(3)
    for (x,) in batches:
        want = 0.9 * want + 0.1 * x.astype(np.float64).mean(0)
    np.testing.assert_allclose(net[0].running_mean.numpy(), want, rtol=1e-5, atol=1e-6)
    between = burn.runtime.random.process.position
    step.over(batches)
    after = burn.runtime.random.process.position
    assert between[1] - before[1] == after[1] - between[1] > 0
    addresses = []
    for _ in range(2):
        step.over(batches)
        addresses.append(np.asarray(net[0].running_mean.elements).ctypes.data)
    assert addresses[0] == addresses[1]  # updated in place


def test_what_is_refused() -> None:
    net, step = made()
    batches = [rows(np.random.default_rng(0), 2, 3), (np.ones((1, 3), np.int64), np.full((1, 3), 99))]
    state = {path: p.numpy().copy() for path, p in net.named_parameters()}
    with pytest.raises(BurnError, match=r"99|range"):
        step.over(batches)
    assert all(np.array_equal(p.numpy(), state[path]) for path, p in net.named_parameters())
    assert float(step.over(batches[:1])) == float(made()[1](*batches[0]))  # the failed batches left nothing
    with pytest.raises(TypeMismatch, match="at least one batch"):
        step.over([])
    with pytest.raises(TypeMismatch, match="accumulate is 2"):
        made(accumulate=2)[1].over(batches)
    with pytest.raises(TypeMismatch, match="LBFGS"):
        burn.train.step(net, loss, optim.LBFGS(net)).over(batches)


class Late(nn.Module):
    """`late` takes part for long sequences only."""

    def __init__(self) -> None:
        self.first, self.late = nn.Linear(2, 2), nn.Linear(2, 2)

    def forward(self, x: burn.Tensor) -> burn.Tensor:
        x = self.first(x)
        return self.late(x) if x.shape[1] > 3 else x


def test_parameters_that_some_batches_do_not_use() -> None:
    """In float64: a parameter moves in the steps that use it, and is not even decayed in the others."""
    burn.manual_seed(0)
    net = Late().to("float64")
    step = burn.train.step(net, lambda m, x: (m(x) ** 2).mean(), optim.SGD(net, lr=0.1, weight_decay=0.5))
    rng = np.random.default_rng(0)
    short, long = ((rng.standard_normal((2, n, 2)),) for n in (3, 4))
    for batches, moves in (([short], False), ([short, long], True), ([short], False), ([long], True)):
        late, first = net.late.weight.numpy().copy(), net.first.weight.numpy().copy()
        x, (w, b) = short[0], (p.numpy().copy() for p in (net.first.weight, net.first.bias))
        value = step.over(batches)
        assert np.array_equal(late, net.late.weight.numpy()) is not moves
        assert not np.array_equal(first, net.first.weight.numpy())
        if not moves:
            assert str(value.dtype) == "float64"
            np.testing.assert_allclose(float(value), ((x @ w.T + b) ** 2).mean(), rtol=1e-13)
    assert step.programs == 6  # to weigh and to add batches of two lengths, and updates with and without `late`
