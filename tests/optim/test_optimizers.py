"""Optimizers and schedules against PyTorch's, and what they keep, save and refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import burn
from burn import nn, optim
from burn.errors import ModelError, TypeMismatch

torch = pytest.importorskip("torch")

ROWS: dict[str, tuple[Any, str, dict[str, Any], dict[str, Any]]] = {
    "sgd": (optim.SGD, "SGD", {"lr": 0.1}, {}),
    "sgd momentum": (optim.SGD, "SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1, "dampening": 0.3}, {}),
    "sgd nesterov": (optim.SGD, "SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}, {}),
    "adam": (optim.Adam, "Adam", {"lr": 0.01, "weight_decay": 0.1}, {}),
    "amsgrad": (optim.Adam, "Adam", {"lr": 0.01, "amsgrad": True}, {}),
    "adamw": (optim.AdamW, "AdamW", {"lr": 0.01, "weight_decay": 0.2, "betas": (0.8, 0.95)}, {}),
    "adagrad": (optim.AdaGrad, "Adagrad", {"lr": 0.1, "lr_decay": 0.01, "weight_decay": 0.1}, {}),
    "rmsprop": (optim.RMSProp, "RMSprop", {"lr": 0.01, "alpha": 0.9}, {}),
    "rmsprop centered": (optim.RMSProp, "RMSprop", {"lr": 0.01, "centered": True, "momentum": 0.9}, {}),
}
STEPS = 6


def _pair(seed: int = 0) -> tuple[nn.Module, Any]:
    torch.manual_seed(seed)
    theirs = torch.nn.Linear(5, 3)
    ours = nn.Linear(5, 3)
    ours.load({k: v.detach().numpy().copy() for k, v in theirs.state_dict().items()}, adapter="torch")
    return ours, theirs


def _data(step: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(step)
    return rng.standard_normal((4, 5)).astype(np.float32), rng.standard_normal((4, 3)).astype(np.float32)


def _loss(model: nn.Module, x: burn.Tensor, y: burn.Tensor) -> burn.Tensor:
    return ((model(x) - y) ** 2).mean()


def _train_theirs(theirs: Any, optimizer: Any, scheduler: Any = None) -> None:
    for i in range(STEPS):
        x, y = map(torch.from_numpy, _data(i))
        optimizer.zero_grad()
        ((theirs(x) - y) ** 2).mean().backward()
        optimizer.step()
        if scheduler is not None:
            scheduler.step()


def _same(ours: nn.Module, theirs: Any, rtol: float = 2e-5) -> None:
    twin, _ = _pair()
    twin.load({k: v.detach().numpy().copy() for k, v in theirs.state_dict().items()}, adapter="torch")
    for (_, a), (_, b) in zip(ours.named_parameters(), twin.named_parameters(), strict=True):
        np.testing.assert_allclose(a.array, b.array, rtol=rtol, atol=1e-6)


@pytest.mark.parametrize("name", ROWS)
def test_the_numbers_are_torchs(name: str) -> None:
    make, called, options, _ = ROWS[name]
    ours, theirs = _pair()
    optimizer = make(ours, **options)

    @burn.jit
    def step(x, y):
        loss, grads = burn.value_and_grad(_loss)(ours, x, y)
        optimizer.update(grads)
        return loss

    for i in range(STEPS):
        step(*_data(i))
    _train_theirs(theirs, getattr(torch.optim, called)(theirs.parameters(), **options))
    _same(ours, theirs)
    assert sum(map(len, step.programs.values())) == 1 and int(optimizer.steps.array) == STEPS


def test_steps_outside_of_compiled_functions() -> None:
    ours, theirs = _pair()
    optimizer = optim.AdamW(ours, lr=0.01)
    for i in range(STEPS):
        x, y = map(burn.tensor, _data(i))
        optimizer.update(burn.grad(_loss)(ours, x, y))
    _train_theirs(theirs, torch.optim.AdamW(theirs.parameters(), lr=0.01))
    _same(ours, theirs)


@pytest.mark.parametrize("make", [optim.Lion, optim.Adan], ids=["lion", "adan"])
def test_they_go_down(make: Any) -> None:
    ours, _ = _pair()
    optimizer = make(ours, lr=0.02, weight_decay=0.01)
    x, y = map(burn.tensor, _data(0))

    @burn.jit
    def step(x, y):
        loss, grads = burn.value_and_grad(_loss)(ours, x, y)
        optimizer.update(grads)
        return loss

    losses = [float(step(x, y)) for _ in range(60)]
    assert losses[-1] < 0.3 * losses[0]


def test_lion_in_numbers() -> None:
    """Two steps as the paper's algorithm 2 gives them."""
    model = nn.Sequential(nn.Linear(1, 1, bias=False))
    (path, p), *_ = model.named_parameters()
    p.assign(np.full(p.shape, 0.5, np.float32))
    optimizer = optim.Lion(model, lr=0.1, betas=(0.9, 0.99), weight_decay=0.5)
    w, m = 0.5, 0.0
    for g in (0.2, -3.0):
        optimizer.update({path: burn.constant(np.full(p.shape, g, np.float32))})
        w -= 0.1 * (np.sign(0.9 * m + 0.1 * g) + 0.5 * w)
        m = 0.99 * m + 0.01 * g
        np.testing.assert_allclose(p.array, w, rtol=1e-6)


def test_muons_steps_are_nearly_orthogonal() -> None:
    from burn.optim.muon import orthogonal

    for shape in ((4, 7), (7, 4), (5, 5)):
        x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        values = np.linalg.svd(orthogonal(burn.tensor(x), 5, 1e-7).numpy(), compute_uv=False)
        assert values.min() > 0.3 and values.max() < 1.4
    with pytest.raises(TypeMismatch, match="bias"):
        optim.Muon(nn.Linear(2, 2))


def test_groups_have_options_of_their_own() -> None:
    ours, theirs = _pair()
    optimizer = optim.SGD(ours, lr=0.1, weight_decay=0.5, groups=[("bias", {"lr": 0.01, "weight_decay": 0.0})])
    for i in range(STEPS):
        optimizer.update(burn.grad(_loss)(ours, *map(burn.tensor, _data(i))))
    groups = [{"params": [theirs.weight]}, {"params": [theirs.bias], "lr": 0.01, "weight_decay": 0.0}]
    _train_theirs(theirs, torch.optim.SGD(groups, lr=0.1, weight_decay=0.5))
    _same(ours, theirs)


# ---- schedules -------------------------------------------------------------------------------------------------------------
def _theirs(make: Any, lr: float, steps: int) -> list[float]:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=lr)
    scheduler = make(optimizer)
    rates = []
    for _ in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


SCHEDULES: dict[str, tuple[Any, Any]] = {
    "exponential": (optim.exponential(0.1, 0.9), lambda o: torch.optim.lr_scheduler.ExponentialLR(o, 0.9)),
    "step": (optim.step(0.1, 3, 0.5), lambda o: torch.optim.lr_scheduler.StepLR(o, 3, 0.5)),
    "linear": (optim.linear(0.1 / 3, 0.1, 5), lambda o: torch.optim.lr_scheduler.LinearLR(o, 1 / 3, 1.0, 5)),
    "cosine": (optim.cosine(0.1, 20), lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 20)),
    "one cycle": (optim.one_cycle(0.1, 20), lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.1, 20)),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_are_torchs(name: str) -> None:
    schedule, make = SCHEDULES[name]
    ours = schedule(np.arange(20)).numpy()
    np.testing.assert_allclose(ours, _theirs(make, 0.1, 20), rtol=1e-9, atol=1e-12)


def test_schedules_put_together() -> None:
    both = optim.sequence([optim.linear(0.0, 1.0, 4), optim.exponential(1.0, 0.5)], [4])
    np.testing.assert_allclose(both(np.arange(7)).numpy(), [0, 0.25, 0.5, 0.75, 1, 0.5, 0.25])
    np.testing.assert_allclose(
        optim.product(optim.constant(2.0), optim.step(1.0, 2, 0.1))(np.arange(3)).numpy(), [2, 2, 0.2]
    )
    n = np.arange(1, 9)
    np.testing.assert_allclose(optim.noam(2.0, 64, 4)(n - 1).numpy(), 2 * 64**-0.5 * np.minimum(n**-0.5, n * 4**-1.5))
    warm = optim.cosine(1.0, 12, last=0.1, warmup=2)(np.array([0, 1, 2, 7, 12, 99])).numpy()
    np.testing.assert_allclose(warm, [0, 0.5, 1, 0.55, 0.1, 0.1])


def test_a_schedule_is_part_of_the_compiled_step() -> None:
    ours, theirs = _pair()
    optimizer = optim.SGD(ours, lr=optim.exponential(0.1, 0.5))

    @burn.jit
    def step(x, y):
        optimizer.update(burn.grad(_loss)(ours, x, y))
        return x.sum()

    for i in range(STEPS):
        step(*_data(i))
    sgd = torch.optim.SGD(theirs.parameters(), lr=0.1)
    _train_theirs(theirs, sgd, torch.optim.lr_scheduler.ExponentialLR(sgd, 0.5))
    _same(ours, theirs)
    assert sum(map(len, step.programs.values())) == 1
    with pytest.raises(TypeMismatch, match="schedule"):
        _ = optimizer.lr


def test_a_plateau_and_a_rate_that_is_set() -> None:
    ours, _ = _pair()
    optimizer = optim.SGD(ours, lr=0.1, groups=[("bias", {"lr": 0.2})])
    plateau = optim.Plateau(optimizer, factor=0.5, patience=1)
    for metric in (1.0, 0.9, 0.95, 0.95, 0.8):
        plateau.see(metric)
    assert [float(g.rate.array) for g in optimizer.groups] == pytest.approx([0.1, 0.05])


# ---- state, clipping, refusals ---------------------------------------------------------------------------------------------
def test_state_goes_on_exactly() -> None:
    ours, _ = _pair()
    optimizer = optim.AdamW(ours, lr=0.01)

    def train(model: nn.Module, optimizer: optim.Optimizer, steps: range) -> None:
        @burn.jit
        def step(x, y):
            optimizer.update(burn.grad(_loss)(model, x, y))
            return x.sum()

        for i in steps:
            step(*_data(i))

    train(ours, optimizer, range(3))
    twin = ours.clone()
    second = optim.AdamW(twin, lr=0.5)
    second.load_state_dict(optimizer.state_dict())
    train(ours, optimizer, range(3, 6))
    train(twin, second, range(3, 6))
    for (_, a), (_, b) in zip(ours.named_parameters(), twin.named_parameters(), strict=True):
        np.testing.assert_array_equal(a.array, b.array)
    with pytest.raises(ModelError) as error:
        optim.SGD(ours, momentum=0.9).load_state_dict(optimizer.state_dict())
    assert "is missing" in str(error.value) and "is unknown" in str(error.value)


def test_clipping_is_torchs() -> None:
    grads = {"a": burn.tensor([3.0, 4.0]), "b": burn.tensor([[12.0]])}
    assert float(optim.global_norm(grads)) == pytest.approx(13.0)
    clipped = optim.clip_by_norm(grads, 6.5)
    np.testing.assert_allclose(clipped["a"].numpy(), [1.5, 2.0], rtol=1e-5)
    np.testing.assert_allclose(optim.clip_by_norm(grads, 20.0)["b"].numpy(), [[12.0]])
    np.testing.assert_allclose(optim.clip_by_value(grads, 3.5)["a"].numpy(), [3.0, 3.5])


def test_what_optimizers_refuse() -> None:
    ours, _ = _pair()
    with pytest.raises(TypeMismatch) as error:
        optim.SGD(ours, lr=-1.0, momentum=-0.1, groups=[("head", {"decay": 1.0})])
    text = str(error.value)
    assert "lr is -1.0" in text and "momentum is -0.1" in text and "'head'" in text and "'decay'" in text
    optimizer = optim.SGD(ours)
    with pytest.raises(TypeMismatch) as error:
        optimizer.update({"weight": burn.tensor([1.0]), "nothing": burn.tensor([1.0])})
    assert "'nothing'" in str(error.value) and "'weight' is float32[1]" in str(error.value)
    with pytest.raises(TypeMismatch, match="nothing to train"):
        optim.SGD(ours.freeze())


def test_norms_of_doubles_are_doubles() -> None:
    g = np.random.default_rng(0).standard_normal((7, 5))
    found = optim.clip_by_norm({"g": burn.tensor(g)}, 0.5)["g"].numpy()
    np.testing.assert_allclose(found, g * (0.5 / (np.linalg.norm(g) + 1e-6)), rtol=1e-14)
    assert optim.global_norm({"g": burn.tensor(g.astype(np.float32))}).dtype == "float32"
