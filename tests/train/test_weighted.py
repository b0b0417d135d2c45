"""Losses whose targets do not all count: parts of a batch and batches of an epoch come to what all rows at once come to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import burn
from burn import nn, optim
from burn.data import Loader
from burn.errors import TypeMismatch
from burn.nn.loss.reductions import collecting
from burn.train import Learner, TrainingError
from burn.train.metrics import Accuracy

rng = np.random.default_rng(0)
X = rng.standard_normal((22, 4)).astype(np.float32)
Y = rng.integers(0, 4, 22)
Y[::3] = -100
Y[8:12] = -100  # no target among them counts


def classes(model: Any, x: Any, y: Any) -> Any:
    return nn.CrossEntropyLoss()(model(x), y)


def several(model: Any, x: Any, y: Any) -> Any:
    """Means of different weights, a sum, a mean over rows and a penalty."""
    scores = model(x)
    weighted = nn.CrossEntropyLoss(weight=[1.0, 2.0, 3.0, 0.5])(scores, y) * 0.3
    summed = nn.L1Loss(reduction="sum")(scores, scores * 0.5) * 0.01
    return weighted + nn.MSELoss()(scores, scores * 0) * 2 + summed + (scores**2).mean() + (model[0].weight ** 2).sum()


def _stepped(loss: Any, rows: slice, **options: Any) -> tuple[list[float], dict[str, np.ndarray], burn.train.Step]:
    burn.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 4))
    step = burn.train.step(model, loss, optim.SGD(model, lr=0.5), **options)
    return [float(step(X[rows], Y[rows])) for _ in range(2)], model.state_dict(), step


@pytest.mark.covering
@pytest.mark.parametrize("loss", [classes, several])
@pytest.mark.parametrize("rows", [slice(4, 12), slice(0, 11), slice(5, 8), slice(0, 1)])
def test_parts_are_the_batch(loss: Any, rows: slice) -> None:
    """8 rows in 4 parts, two of them without a target; 11 rows, in parts of two sizes; fewer rows than parts."""
    rows = slice(1, 2) if rows == slice(0, 1) else rows
    losses, state, _ = _stepped(loss, rows)
    found, after, step = _stepped(loss, rows, accumulate=4)
    np.testing.assert_allclose(found, losses, rtol=1e-6)
    for path, array in state.items():
        np.testing.assert_allclose(after[path], array, rtol=1e-5, atol=1e-7, err_msg=path)
    assert step.programs == 1


def test_a_part_draws_what_it_would_without_weights_being_added_up() -> None:
    """Dropout and running statistics are those of one pass."""

    def trained(loss: Any) -> dict[str, np.ndarray]:
        burn.manual_seed(3)
        model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.5), nn.Linear(6, 4))
        burn.manual_seed(4)
        step = burn.train.step(model, loss, optim.SGD(model, lr=0.1), accumulate=2)
        for _ in range(2):
            step(X[:8], np.abs(Y[:8]) % 4)
        return model.state_dict()

    def plain(model: Any, x: Any, y: Any) -> Any:
        scores = model(x).log_softmax(1)
        return -scores.take_along_axis(y.reshape(-1, 1), 1).mean()

    for (path, one), other in zip(trained(classes).items(), trained(plain).values(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6, err_msg=path)


@pytest.mark.covering(of=lambda loss, parts: (loss is several, parts > 1))
@pytest.mark.parametrize("loss", [nn.CrossEntropyLoss(), several])
@pytest.mark.parametrize(("size", "parts"), [(22, 1), (6, 1), (4, 1), (1, 1), (6, 4), (22, 3)])
def test_an_epochs_loss_does_not_depend_on_the_batch_size(size: int, parts: int, loss: Any) -> None:
    burn.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4))
    summed = loss is not several
    want = float((classes if summed else _without_sum)(model, burn.tensor(X), burn.tensor(Y)))
    if not summed:
        loss = _without_sum
    learner = Learner(model, loss, optim.SGD(model, lr=0.0), progress=False, accumulate=parts)
    data = Loader((X, Y), size)
    assert learner.evaluate(data)["loss"] == pytest.approx(want, rel=1e-5)
    if size > 4:
        assert learner.fit(data, epochs=1).train["loss"] == pytest.approx(want, rel=1e-5)


def _without_sum(model: Any, x: Any, y: Any) -> Any:
    scores = model(x)
    return nn.CrossEntropyLoss()(scores, y) * 0.3 + nn.MSELoss()(scores, scores * 0) * 2 + (scores**2).mean() + 1.0


def test_the_last_batch_of_an_epoch_is_smaller() -> None:
    found = []
    for parts in (1, 4):
        burn.manual_seed(0)
        model = nn.Linear(4, 4)
        learner = Learner(
            model, nn.CrossEntropyLoss(), optim.AdamW(model), metrics=[Accuracy(ignore_index=-100)],
            progress=False, accumulate=parts,
        )  # fmt: skip
        summary = learner.fit(Loader((X[:19], np.abs(Y[:19]) % 4), 8), epochs=2)
        assert summary.steps == 6
        found.append((summary.train, model.state_dict()))
    (one, state), (other, state_in_parts) = found
    assert one == pytest.approx(other, rel=1e-6)
    for path, array in state.items():
        np.testing.assert_allclose(state_in_parts[path], array, rtol=1e-5, atol=1e-7, err_msg=path)


def test_what_does_not_stack_is_told() -> None:
    model = nn.Linear(4, 4)
    step = burn.train.step(
        model, lambda m, x: ((m(x) ** 2).mean(), {"y": m(x)}), optim.SGD(model), has_aux=True, accumulate=3
    )
    assert np.asarray(step(X[:6])[1]["y"]).shape == (3, 2, 4)
    with pytest.raises(TypeMismatch, match=r"do not stack\n.*y is float32\[.*sum over the rows"):
        step(X[:7])


def test_a_batch_without_targets_ends_training_by_name() -> None:
    model = nn.Linear(4, 4)
    learner = Learner(model, nn.CrossEntropyLoss(), optim.SGD(model), progress=False)
    with pytest.raises(TrainingError, match=r"no target of the batch does \(ignore_index\)"):
        learner.fit([(X[8:12], Y[8:12])], epochs=1)


def test_losses_say_their_sums_and_weights() -> None:
    x, y = burn.tensor(X), burn.tensor(Y)
    with collecting() as means:
        nn.CrossEntropyLoss()(x, y)
        nn.MSELoss()(x, x * 0)
        nn.L1Loss(reduction="sum")(x, x)
        nn.KLDivLoss(reduction="batchmean")(x.log_softmax(1), x.softmax(1))
        burn.jit(lambda x: burn.scan(lambda c, row: (c, nn.MSELoss()(row, row * 0)), 0.0, x)[1])(x)
    assert [float(m.weight) for m in means.found] == [float((Y >= 0).sum()), 88.0, 22.0]
    assert [m.sized for m in means.found] == [False, True, True]
    for mean in means.found:
        np.testing.assert_allclose(float(mean.total) / float(mean.weight), float(mean.value), rtol=1e-6)


class Two(nn.Module):
    def __init__(self) -> None:
        self.used, self.unused, self.dead = nn.Linear(4, 1), nn.Linear(4, 1), nn.Linear(4, 1)

    def forward(self, x: Any) -> Any:
        return self.used(x) + self.dead(x) * 0.0


@pytest.mark.parametrize("parts", [1, 2])
def test_what_the_loss_does_not_use_is_not_decayed(parts: int) -> None:
    """A gradient that is computed and comes to zero is one, as in PyTorch."""
    model = Two()
    before = model.state_dict()
    step = burn.train.step(
        model,
        lambda m, x: m(x).square().mean(),
        optim.AdamW(model, lr=0.1, weight_decay=0.1),
        clip_norm=1.0,
        accumulate=parts,
    )
    for _ in range(3):
        step(X[:4])
    after = model.state_dict()
    same = {path for path in before if np.array_equal(before[path], after[path])}
    assert same == {"unused.weight", "unused.bias"}
    np.testing.assert_allclose(after["dead.weight"], before["dead.weight"] * (1 - 0.1 * 0.1) ** 3, rtol=1e-5)


def test_a_step_of_ones_own_leaves_them_alone_too() -> None:
    model = Two()
    before = model.unused.weight.numpy().copy()
    optimizer = optim.AdamW(model, lr=0.1, weight_decay=0.1)
    _, gradients = burn.value_and_grad(lambda m, x: m(x).square().mean())(model, burn.tensor(X))
    assert gradients.unused == {"unused.weight", "unused.bias"}
    assert not gradients["unused.weight"].numpy().any()
    optimizer.update(optim.clip_by_norm(gradients, 1.0))
    np.testing.assert_array_equal(model.unused.weight.numpy(), before)
