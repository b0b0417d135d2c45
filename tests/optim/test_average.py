"""Averages of weights against torch.optim.swa_utils, in steps, Learners and checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burn
from burn import nn, optim
from burn.errors import ModelError, TypeMismatch

torch = pytest.importorskip("torch")
from torch.optim import swa_utils  # noqa: E402


class Net(nn.Module):
    def __init__(self) -> None:
        self.a = nn.Linear(5, 3, bias=False)  # the next layer subtracts one
        self.norm = nn.BatchNorm1d(3)
        self.b = nn.Linear(3, 1)

    def forward(self, x: burn.Tensor) -> burn.Tensor:
        return self.b(self.norm(self.a(x)))


def batch(seed: int, rows: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((rows, 5)).astype(np.float32), rng.standard_normal((rows, 1)).astype(np.float32)


def loss(model: nn.Module, x: burn.Tensor, y: burn.Tensor) -> burn.Tensor:
    return ((model(x) - y) ** 2).mean()


def twins() -> tuple[Net, Any]:
    burn.manual_seed(0)
    ours = Net()
    theirs = torch.nn.Sequential(
        torch.nn.Linear(5, 3, bias=False), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 1)
    ).double()
    with torch.no_grad():
        for p, q in zip(theirs.parameters(), ours.parameters(), strict=True):
            p.copy_(torch.from_numpy(q.numpy().copy()))
    return ours, theirs


def warm(n: Any) -> Any:
    return (1.0 + n) / (10.0 + n)


ROWS = {
    "ema": (lambda o: optim.EMA(o, 0.8), swa_utils.get_ema_multi_avg_fn(0.8), 0, 1),
    "ema, later": (lambda o: optim.EMA(o, 0.5, start=2, every=2), swa_utils.get_ema_multi_avg_fn(0.5), 2, 2),
    "swa": (lambda o: optim.SWA(o, start=1, every=3), swa_utils.get_swa_multi_avg_fn(), 1, 3),
}


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n == "swa" else pytest.mark.slow) for n in ROWS])
def test_the_numbers_are_torchs(name: str) -> None:
    make, average, start, every = ROWS[name]
    ours, theirs = twins()
    optimizer = make(optim.AdamW(ours, lr=0.05))
    step = burn.train.step(ours, loss, optimizer, clip_norm=10.0)
    adamw = torch.optim.AdamW(theirs.parameters(), lr=0.05)
    averaged = swa_utils.AveragedModel(theirs, multi_avg_fn=average)
    for i in range(7):
        x, y = batch(i)
        adamw.zero_grad()
        ((theirs(torch.from_numpy(x).double()) - torch.from_numpy(y)) ** 2).mean().backward()
        adamw.step()
        if i >= start and (i - start) % every == 0:
            averaged.update_parameters(theirs)
        step(x, y)
    assert step.programs == 1
    raw = [p.numpy().copy() for p in ours.parameters()]
    for p, q in zip(theirs.parameters(), ours.parameters(), strict=True):
        np.testing.assert_allclose(q.numpy(), p.detach().numpy(), rtol=1e-4, atol=1e-4)
    loader = [(torch.from_numpy(batch(i, 3 + i)[0]).double(),) for i in range(3)]
    swa_utils.update_bn(loader, averaged.train())
    with optimizer.swapped():
        burn.train.update_statistics(ours, [batch(i, 3 + i) for i in range(3)])
        for p, q in zip(averaged.module.parameters(), ours.parameters(), strict=True):
            np.testing.assert_allclose(q.numpy(), p.detach().numpy(), rtol=1e-4, atol=1e-4)
        for name in ("running_mean", "running_var"):
            # pyrefly: ignore  # narrower than what is passed
            want = getattr(averaged.module[1], name).numpy()
            np.testing.assert_allclose(getattr(ours.norm, name).numpy(), want, rtol=1e-4, atol=1e-4)
        assert ours.norm.momentum == 0.1
        with pytest.raises(TypeMismatch, match="averages of its weights"):
            step(*batch(0))
    for p, q in zip(ours.parameters(), raw, strict=True):
        assert np.array_equal(p.numpy(), q)
    step(*batch(8))
    optimizer.apply()
    assert np.array_equal(ours.a.weight.numpy(), optimizer.state_dict()["state.a.weight.mean"])


def test_outside_of_a_compiled_step_and_a_decay_that_changes() -> None:
    ours, _ = twins()
    optimizer = optim.EMA(optim.SGD(ours, lr=0.1), warm)
    means = ours.b.bias.numpy().astype(np.float64)
    for i in range(5):
        optimizer.update(burn.grad(loss)(ours, *map(burn.tensor, batch(i))))
        now = ours.b.bias.numpy().astype(np.float64)
        means = now if i == 0 else means + (now - means) * (1 - warm(i))
    np.testing.assert_allclose(optimizer.state_dict()["state.b.bias.mean"], means, rtol=1e-6)


def test_a_learner_validates_with_averages_and_resumes(tmp_path: Path) -> None:
    batches, held = [batch(i) for i in range(3)], [batch(9, 6)]

    def learner(folder: str) -> burn.train.Learner:
        burn.manual_seed(1)
        net = Net()
        parts = [("weight", optim.AdamW.Config(lr=0.05)), ("", optim.SGD.Config(lr=0.1))]
        optimizer = optim.EMA(optim.Combined(net, parts), 0.9)
        options: dict[str, Any] = {"accumulate": 2, "precision": "float16", "progress": False}
        return burn.train.Learner(net, loss, optimizer, folder=tmp_path / folder, **options)

    whole, parts = learner("a"), learner("b")
    summary = whole.fit(batches, held, epochs=3)
    parts.fit(batches, held, epochs=1)
    parts = learner("b")
    assert parts.fit(batches, held, epochs=3, resume=True).history == summary.history
    for (path, p), (_, q) in zip(whole.model.named_parameters(), parts.model.named_parameters(), strict=True):
        assert np.array_equal(p.numpy(), q.numpy()), path
    a, b = (one.optimizers[""].state_dict() for one in (whole, parts))
    assert a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)
    raw = float(loss(whole.model.eval(), *map(burn.tensor, held[0])))
    with whole.optimizers[""].swapped():  # type: ignore[attr-defined]
        mean = float(loss(whole.model, *map(burn.tensor, held[0])))
    assert abs(summary.valid["loss"] - mean) < 1e-6 < abs(raw - mean)


def test_frozen_parameters_and_what_is_refused() -> None:
    net = Net()
    net.freeze("a")
    optimizer = optim.SWA(optim.SGD(net, lr=0.1))
    step = burn.train.step(net, loss, optimizer)
    step(*batch(0))
    net.unfreeze("a")
    step(*batch(1))
    net.freeze("b")
    step(*batch(2))
    state = optimizer.state_dict()
    assert int(state["averaged"]) == 3 and {"state.a.weight.mean", "state.b.bias.mean"} <= state.keys()
    optimizer.load_state_dict(state)
    with pytest.raises(ModelError, match=r"'averaged' is missing"):
        optimizer.load_state_dict({name: array for name, array in state.items() if name != "averaged"})
    with pytest.raises(ModelError, match=r"'other' is unknown"):
        optimizer.load_state_dict({**state, "other": np.zeros(1)})
    # pyrefly: ignore  # narrower than what is passed
    for wrong in (lambda: optim.EMA(net), lambda: optim.EMA(optimizer), lambda: optim.SWA(optim.LBFGS(net))):
        with pytest.raises(TypeMismatch, match="an average is of an optimizer's steps"):
            wrong()
    with pytest.raises(TypeMismatch, match="decay"):
        optim.EMA(optim.SGD(net, lr=0.1), 1.0)
    with pytest.raises(TypeMismatch, match="every"):
        optim.SWA(optim.SGD(net, lr=0.1), every=0)
    with pytest.raises(TypeMismatch, match="BatchNorm"):
        burn.train.update_statistics(nn.Linear(2, 2), [])
    with pytest.raises(TypeMismatch, match="no batch"):
        burn.train.update_statistics(net, [])


def small(wrap: Any, seed: int, folder: Path | None = None) -> burn.train.Learner:
    burn.manual_seed(seed)
    net = nn.Sequential(nn.Linear(5, 1))
    return burn.train.Learner(net, loss, wrap(optim.SGD(net, lr=0.05)), folder=folder, progress=False)


def test_a_learner_evaluates_what_it_loaded(tmp_path: Path) -> None:
    """A checkpoint's averages; the weights of a checkpoint without averages; weights loaded before the first step that counts."""

    def ema(o: Any) -> Any:
        return optim.EMA(o, 0.9)

    held = [batch(9, 6)]
    averaged, plain = small(ema, 1, tmp_path / "a"), small(lambda o: o, 2, tmp_path / "b")
    first = averaged.fit([batch(0), batch(1)], held, epochs=2)
    second = plain.fit([batch(2)], held, epochs=1)
    assert first.checkpoint is not None and second.checkpoint is not None
    other = small(ema, 3)
    other.load(first.checkpoint)
    assert other.evaluate(held)["loss"] == pytest.approx(first.valid["loss"], rel=1e-6)
    mine, theirs = (one.optimizers[""].state_dict() for one in (other, averaged))
    assert int(mine["averaged"]) == 4 and int(mine["steps"]) == 0
    assert np.array_equal(mine["state.0.weight.mean"], theirs["state.0.weight.mean"])
    other.load(second.checkpoint)
    assert other.evaluate(held)["loss"] == pytest.approx(second.valid["loss"], rel=1e-6)
    assert int(other.optimizers[""].state_dict()["averaged"]) == 0
    other = small(lambda o: optim.SWA(o, start=9), 4)
    other.model.load_state_dict(plain.model.state_dict())
    assert other.evaluate(held)["loss"] == pytest.approx(second.valid["loss"], rel=1e-6)
    other.optimizers[""].apply()  # type: ignore[attr-defined]
    assert np.array_equal(other.model.state_dict()["0.weight"], plain.model.state_dict()["0.weight"])


def test_averages_that_do_not_fit_change_nothing(tmp_path: Path) -> None:
    given = small(optim.SWA, 1, tmp_path).fit([batch(0)], epochs=1)
    assert given.checkpoint is not None
    learner = small(optim.SWA, 2)
    learner.model.freeze("bias")
    before = learner.model.state_dict()
    with pytest.raises(ModelError, match=r"'0\.bias' has an average, and is not trained here"):
        learner.load(given.checkpoint)
    assert all(np.array_equal(before[path], p.numpy()) for path, p in learner.model.named_parameters())
    with learner.optimizers[""].swapped(), pytest.raises(TypeMismatch, match="outside of swapped"):  # type: ignore[attr-defined]
        learner.load(given.checkpoint)


def test_frozen_parameters_are_not_replaced_and_a_new_decay_counts() -> None:
    burn.manual_seed(0)
    net = nn.Sequential(nn.Linear(5, 1))
    optimizer = optim.EMA(optim.SGD(net, lr=0.05), 0.9)
    step = burn.train.step(net, loss, optimizer)
    step(*batch(0))
    step(*batch(1))
    mean = optimizer.state_dict()["state.0.weight.mean"].copy()
    optimizer.decay = 0.0
    step(*batch(2))
    now = optimizer.state_dict()["state.0.weight.mean"]
    assert not np.allclose(mean, now) and np.allclose(now, net[0].weight.numpy(), rtol=1e-6)
    optimizer.decay = 0.9
    step(*batch(3))
    raw, bias = net[0].weight.numpy().copy(), net[0].bias.numpy().copy()
    net.freeze("weight")
    with optimizer.swapped():
        assert np.array_equal(net[0].weight.numpy(), raw)
        assert not np.array_equal(net[0].bias.numpy(), bias)
        net.freeze("bias")
    assert np.array_equal(net[0].bias.numpy(), bias)  # also those frozen inside are restored
    net.unfreeze("bias")
    optimizer.apply()
    assert np.array_equal(net[0].weight.numpy(), raw) and not np.array_equal(net[0].bias.numpy(), bias)
