"""Batches that are taken in parts, and training in half precision."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burn
from burn import nn, optim
from burn.errors import TypeMismatch
from burn.runtime.executable import Executable
from tests.train.test_step import Net, _batch, loss


class Plain(nn.Module):
    def __init__(self) -> None:
        self.up, self.down = nn.Linear(5, 7), nn.Linear(7, 3)

    def forward(self, x: burn.Tensor) -> burn.Tensor:
        return self.down(burn.gelu(self.up(x)))


def of_rows(model: nn.Module, x: burn.Tensor, y: burn.Tensor) -> Any:
    scores = model(x)
    return nn.CrossEntropyLoss()(scores, y), (scores.argmax(-1) == y).sum()


def _network() -> Net:
    burn.manual_seed(1)
    model = Net()
    model.drop.p = 0.0
    return model


def test_parts_are_the_whole_batch() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((12, 5)).astype(np.float32), np.arange(12) % 3
    found = []
    for parts in (1, 3):
        burn.manual_seed(0)
        model = Plain()
        step = burn.train.step(
            model, of_rows, optim.AdamW(model, lr=0.01), has_aux=True, clip_norm=1.0, accumulate=parts
        )
        results = [step(x[:n], y[:n]) for n in (12, 12, 6)]
        found.append(([float(r[0]) for r in results], [np.asarray(r[1]).sum() for r in results], model.state_dict()))
        assert np.asarray(results[0][1]).shape == (() if parts == 1 else (3,))
    (losses, right, state), (losses_in_parts, right_in_parts, state_in_parts) = found
    np.testing.assert_allclose(losses_in_parts, losses, rtol=1e-6)
    assert right_in_parts == right
    for path, array in state.items():
        np.testing.assert_allclose(state_in_parts[path], array, rtol=1e-5, atol=1e-7, err_msg=path)
    with pytest.raises(TypeMismatch, match="accumulate is 0"):
        burn.train.step(model, of_rows, optim.SGD(model), accumulate=0)


def test_running_statistics_go_from_part_to_part() -> None:
    x, y = _batch(16)
    model = _network()
    value = burn.train.step(model, loss, optim.SGD(model, lr=0.1), accumulate=2)(x, y)
    twin = _network().train()
    optimizer = optim.SGD(twin, lr=0.1)
    batches = [burn.value_and_grad(loss)(twin, x[i : i + 8], y[i : i + 8]) for i in (0, 8)]
    optimizer.update({path: (g + batches[1][1][path]) * 0.5 for path, g in batches[0][1].items()})
    np.testing.assert_allclose(value, (float(batches[0][0]) + float(batches[1][0])) / 2, rtol=1e-6)
    for path, array in twin.state_dict().items():
        np.testing.assert_allclose(model.state_dict()[path], array, rtol=1e-5, atol=1e-7, err_msg=path)


def test_half_precision_follows_float32() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((12, 5)).astype(np.float32), np.arange(12) % 3
    losses = {}
    for precision in ("float32", "bfloat16", "float16"):
        burn.manual_seed(0)
        model = nn.Sequential(nn.Linear(5, 7), nn.BatchNorm1d(7), nn.Linear(7, 3))
        step = burn.train.step(model, loss, optim.AdamW(model, lr=0.01), precision=precision)
        losses[precision] = [float(step(x, y)) for _ in range(8)]
        assert {p.dtype for _, p in model.named_parameters()} == {"float32"}
    np.testing.assert_allclose(losses["bfloat16"], losses["float32"], rtol=2e-2)
    np.testing.assert_allclose(losses["float16"], losses["float32"], rtol=3e-3)
    assert losses["bfloat16"][-1] < 0.95 * losses["bfloat16"][0]


def test_half_precision_losses_are_float32() -> None:
    """A loss near 10 has steps of 1/16 in bfloat16."""
    scores, classes = np.random.default_rng(0).standard_normal((6, 5)).astype(np.float32), np.arange(6) % 5
    half = burn.tensor(scores).astype("bfloat16")
    given = nn.CrossEntropyLoss()(half, burn.tensor(classes))
    assert given.dtype == "float32"
    np.testing.assert_allclose(
        given.numpy(), nn.CrossEntropyLoss()(half.astype("float32"), burn.tensor(classes)).numpy()
    )


@pytest.mark.parametrize(
    ("precision", "close", "steps"), [("bfloat16", 3e-2, 4), pytest.param("float16", 4e-3, 1, marks=pytest.mark.slow)]
)
def test_imported_models_in_half_precision(precision: str, close: float, steps: int) -> None:
    """steps: how many losses are compared: in float16 the loss scale has to fall first."""
    drawn = np.random.default_rng(0)
    x, y = drawn.random((6, 1, 8, 8), np.float32), np.arange(6) % 10
    losses = []
    for each in ("float32", precision):
        model = burn.load(Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx", train=True)
        step = burn.train.step(model, loss, optim.SGD(model, lr=0.002), precision=each)
        losses.append([float(step(x, y)) for _ in range(4)])
        assert {p.dtype for _, p in model.named_parameters()} == {"float32"}
    np.testing.assert_allclose(losses[1][:steps], losses[0][:steps], rtol=close)
    assert losses[0] != losses[1]


def test_a_step_that_overflows_moves_only_the_scale() -> None:
    model = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 1))
    optimizer = optim.SGD(model, lr=0.1, momentum=0.9)
    step = burn.train.step(
        model, lambda m, x, factor: ((m(x) * factor) ** 2).mean(), optimizer, precision="float16", clip_norm=1.0
    )
    assert step.scale is not None
    x = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)
    step(x, np.float32(1))
    before, first = {**model.state_dict(), **optimizer.state_dict()}, float(step.scale.factor.array)
    assert np.isinf(step(x, np.float32(3e4)))
    after = {**model.state_dict(), **optimizer.state_dict()}
    assert all(np.array_equal(after[path], array) for path, array in before.items())
    assert float(step.named_buffers()["scale"].array) == first / 2 and int(step.scale.good.array) == 0
    step(x, np.float32(1))
    assert int(optimizer.steps.array) == 2


def test_what_precision_refuses() -> None:
    model = nn.Linear(2, 2)
    with pytest.raises(TypeMismatch, match="precision is one of float32, bfloat16, float16"):
        burn.train.step(model, loss, optim.SGD(model), precision="int8")


def test_tensors_are_handed_to_the_program_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inputs are not looked at one by one: a large model has hundreds of them."""
    x, y = _batch(4)
    model = _network()
    step = burn.train.step(model, loss, optim.SGD(model, lr=0.1))
    first = float(step(burn.tensor(x), burn.tensor(y)))
    monkeypatch.delattr(Executable, "_prepare")
    assert float(step(burn.tensor(x), burn.tensor(y))) != first
