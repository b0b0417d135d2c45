"""L-BFGS against PyTorch's: the same losses, the same number of evaluations, the same minima."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import burn
from burn import nn, optim
from burn.errors import TypeMismatch
from burn.optim.wolfe import Trial, cubic, strong_wolfe

torch = pytest.importorskip("torch")


class Point(nn.Module):
    def __init__(self, start: np.ndarray) -> None:
        self.first, self.rest = nn.Parameter(start[:1].copy()), nn.Parameter(start[1:].copy())


def valley(x: Any, y: Any) -> Any:
    """Rosenbrock's function of neighbours: a narrow, bent valley, in which line searches have to divide their brackets."""
    return ((y - x * x) ** 2).sum() * 100.0 + ((1.0 - x) ** 2).sum()


START = np.array([-1.2, 1.0, -0.7, 1.3])


@pytest.mark.parametrize(
    ("options", "rounds"),
    [({"line_search": "strong_wolfe", "max_iter": 9, "history": 3}, 5), ({"lr": 0.001, "max_iter": 5}, 3)],
    ids=["line search", "fixed"],
)
def test_the_numbers_are_torchs(options: dict[str, Any], rounds: int) -> None:
    ours = Point(START)
    optimizer = optim.LBFGS(ours, **options)
    theirs = torch.tensor(START, requires_grad=True)
    names = {"line_search": "line_search_fn", "history": "history_size"}
    own = torch.optim.LBFGS([theirs], **{names.get(k, k): v for k, v in options.items()})
    calls = [0, 0]

    def their_closure() -> Any:
        calls[0] += 1
        own.zero_grad()
        loss = valley(theirs[:-1], theirs[1:])
        loss.backward()
        return loss

    def of_model(model: Point) -> burn.Tensor:
        whole = burn.concat([model.first, model.rest])
        return valley(whole[:-1], whole[1:])

    evaluate = burn.value_and_grad(of_model)

    def closure() -> Any:
        calls[1] += 1
        return evaluate(ours)

    for _ in range(rounds):
        want, got = own.step(their_closure).item(), float(optimizer.step(closure))
        np.testing.assert_allclose(got, want, rtol=1e-6)
        assert calls[0] == calls[1]
    point = np.concatenate([ours.first.array, ours.rest.array])
    np.testing.assert_allclose(point, theirs.detach().numpy(), rtol=1e-5)


def test_in_a_compiled_step_and_saved() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((20, 4)).astype(np.float32), rng.standard_normal((20, 2)).astype(np.float32)

    def loss(model: nn.Module, x: burn.Tensor, y: burn.Tensor) -> burn.Tensor:
        return ((model(x) - y) ** 2).mean()

    burn.manual_seed(0)
    model = nn.Linear(4, 2)
    optimizer = optim.LBFGS(model, max_iter=3, history=4, line_search="strong_wolfe")
    step = burn.train.step(model, loss, optimizer)
    first = float(step(x, y))
    weights, state = model.state_dict(), optimizer.state_dict()
    wanted = [float(step(x, y)) for _ in range(2)]
    best = np.linalg.lstsq(np.hstack([x, np.ones((20, 1))]), y, rcond=None)[0]
    least = ((np.hstack([x, np.ones((20, 1))]) @ best - y) ** 2).mean()
    assert least <= wanted[-1] < first and float(step(x, y)) < 1.0001 * least
    model.load_state_dict(weights)
    again = optim.LBFGS(model, max_iter=3, history=4, line_search="strong_wolfe")
    again.load_state_dict(state)
    resumed = burn.train.step(model, loss, again)
    assert [float(resumed(x, y)) for _ in range(2)] == wanted


def test_the_line_search() -> None:
    def trial(at: float) -> Trial:
        return Trial(at, (at - 3) ** 4 - at, 4 * (at - 3) ** 3 - 1, None)

    found, used = strong_wolfe(trial, trial(0.0), 0.1, 1.0, 1e-9)
    assert abs(found.slope) <= 0.9 * 109 and found.value < trial(0.0).value and used > 1
    assert cubic(Trial(0.0, 1.0, -2.0, None), Trial(2.0, 1.0, 2.0, None)) == 1.0
    assert cubic(Trial(0.0, 0.0, 1.0, None), Trial(1.0, 1.0, 1.0, None), (2.0, 6.0)) == 4.0


def test_what_it_refuses() -> None:
    model = nn.Linear(2, 2)
    optimizer = optim.LBFGS(model)
    with pytest.raises(TypeMismatch, match="evaluates the loss itself"):
        optimizer.update({})
    with pytest.raises(TypeMismatch, match="'bias' is missing"):
        optimizer.step(lambda: (1.0, {"weight": model.weight}))
    with pytest.raises(TypeMismatch, match="max_iter is 0"):
        optim.LBFGS(model, max_iter=0)
    with pytest.raises(TypeMismatch, match="LBFGS takes gradients as they are"):
        burn.train.step(model, lambda m, x: m(x).sum(), optimizer, clip_norm=1.0)
