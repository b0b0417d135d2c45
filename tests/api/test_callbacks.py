"""Functions that users hand over: what they return is checked, and nothing is broadcast or converted in silence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import burn
from burn import nn
from burn.errors import TypeMismatch
from burn.tensors import Tensor

X = np.array([1.0, 2.0, 3.0], np.float32)


def doubled(backward: Callable[..., Any], forward: Callable[..., Any] = lambda x: (x * 2.0, None)) -> Any:
    @burn.custom_vjp
    def twice(x: Tensor) -> Tensor:
        return x * 2.0

    twice.defvjp(forward, backward)
    return burn.grad(lambda x: twice(x).sum())


WRONG: dict[str, Callable[..., Any]] = {
    "a scalar": lambda r, g: (g.sum(),),
    "of size 1": lambda r, g: (g[:1],),
    "an axis more": lambda r, g: (burn.stack([g, g]),),
    "fewer elements": lambda r, g: (g[:2],),
    "of another element type": lambda r, g: (g.astype("float64"),),
    "integers": lambda r, g: (g.astype("int32"),),
    "two for one": lambda r, g: (g, g),
    "a list": lambda r, g: [g],
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("wrap", [lambda f: f, burn.jit], ids=["recorded", "jitted"])
def test_cotangents_have_their_arguments_type(name: str, wrap: Any) -> None:
    with pytest.raises(TypeMismatch, match="the backward function of twice returns"):
        wrap(doubled(WRONG[name]))(burn.constant(X))


def test_right_cotangents_and_none() -> None:
    assert doubled(lambda r, g: g * 3.0)(burn.constant(X)).tolist() == [3, 3, 3]
    assert doubled(lambda r, g: (None,))(burn.constant(X)).tolist() == [0, 0, 0]


@pytest.mark.parametrize("result", [lambda x: x, lambda x: (x,), lambda x: [x, None]])
def test_forward_returns_a_pair(result: Callable[..., Any]) -> None:
    with pytest.raises(TypeMismatch, match=r"returns \(result, residuals\)"):
        doubled(lambda r, g: (g,), result)(burn.constant(X))


def test_keyword_arguments_and_defaults() -> None:
    @burn.custom_vjp
    def scaled(x: Tensor, by: Any = 2.0) -> Tensor:
        return x * by

    scaled.defvjp(lambda x, by: (x * by, by), lambda by, g: (g * by, None))
    x = burn.constant(X)
    assert scaled(x, by=3.0).tolist() == [3, 6, 9]
    assert burn.grad(lambda v: scaled(v).sum())(x).tolist() == [2, 2, 2]
    assert burn.grad(lambda v: scaled(v, by=5.0).sum())(x).tolist() == [5, 5, 5]
    assert burn.grad(lambda v: scaled(x=v, by=5.0).sum())(x).tolist() == [5, 5, 5]
    with pytest.raises(TypeError, match="unexpected"):
        burn.grad(lambda v: scaled(v, factor=5.0).sum())(x)


def test_what_holds_no_tensors_has_no_cotangent() -> None:
    @burn.custom_vjp
    def scaled(x: Tensor, by: Any) -> Tensor:
        return x * by

    scaled.defvjp(lambda x, by: (x * by, by), lambda by, g: (g * by, g.sum()))
    with pytest.raises(TypeMismatch, match="None for what holds no tensors"):
        burn.grad(lambda v: scaled(v, 2.0).sum())(burn.constant(X))


def test_a_checkpoint_calls_its_function_once() -> None:
    """The backward pass copies its ops, so that a function with state computes the same again."""
    calls = []

    @burn.checkpoint
    def changing(x: Tensor) -> Any:
        calls.append(1)
        return (x * float(len(calls))).sin()

    slope = burn.grad(lambda x: changing(x).sum())(burn.constant(X))
    assert calls == [1]
    np.testing.assert_allclose(slope.numpy(), np.cos(X), rtol=1e-6)


@pytest.mark.parametrize("wrap", [lambda f: f, burn.jit], ids=["eager", "jitted"])
@pytest.mark.parametrize("condition", [lambda s: 1, lambda s: s > 0.0], ids=["a number", "not a scalar"])
def test_a_loops_condition_is_a_bool(wrap: Any, condition: Callable[..., Any]) -> None:
    with pytest.raises(TypeMismatch):
        wrap(lambda v: burn.loop(lambda i, going, s: (condition(s), s), (v,), trips=2)[0])(burn.constant(X))


# ---- indices ------------------------------------------------------------------------------------------------------------
def _labels(value: int) -> dict[str, Callable[[], Tensor]]:
    scores, label = burn.constant(np.array([[1.0, 2.0, 3.0]], np.float32)), burn.constant(np.array([value]))
    weights = [1.0, 2.0, 3.0]
    return {
        "CrossEntropyLoss": lambda: nn.CrossEntropyLoss()(scores, label),
        "CrossEntropyLoss weighted": lambda: nn.CrossEntropyLoss(weights, label_smoothing=0.1)(scores, label),
        "CrossEntropyLoss ignoring": lambda: nn.CrossEntropyLoss(ignore_index=1)(scores, label),
        "NLLLoss": lambda: nn.NLLLoss(weights, reduction="none")(scores, label),
        "MultiMarginLoss": lambda: nn.MultiMarginLoss(weight=weights)(scores, label),
        "CTCLoss": lambda: nn.CTCLoss()(
            scores.unsqueeze(1), label.unsqueeze(0), burn.constant([1]), burn.constant([1])
        ),
        "RNNTLoss": lambda: nn.RNNTLoss(blank=0)(
            burn.zeros(1, 2, 2, 3), label.unsqueeze(0), burn.constant([2]), burn.constant([1])
        ),
        "ops.nll_loss": lambda: burn.ops.nll_loss(scores, label, None),
        "ops.cross_entropy": lambda: burn.ops.cross_entropy(scores, label, None, ignore=0)[0],
        "Embedding": lambda: nn.Embedding(3, 2)(label),
        "one_hot": lambda: burn.one_hot(label, 3),
        "bincount": lambda: label.bincount(3),
    }


@pytest.mark.parametrize("name", _labels(0))
@pytest.mark.parametrize("value", [-1, -3, 3, -(2**40)])
def test_indices_out_of_range(name: str, value: int) -> None:
    """Negative ones too: they count from the end in numpy's indexing and in ONNX alone."""
    with pytest.raises(burn.BurnError, match=f"index {value} is out of range"):
        _labels(value)[name]().numpy()
    assert np.isfinite(_labels(2)[name]().numpy()).all()


def test_what_is_ignored_may_be_any_number() -> None:
    scores, labels = burn.constant(np.eye(3, dtype=np.float32)), burn.constant(np.array([0, -1, -100]))
    loss = nn.CrossEntropyLoss(ignore_index=(-1, -100))
    assert loss(scores, labels).item() == pytest.approx(nn.CrossEntropyLoss()(scores[:1], labels[:1]).item())
    padded = burn.constant(np.array([[1, -1]]))
    plain = burn.constant(np.array([[1]]))
    frames, one = burn.zeros(3, 1, 3).log_softmax(-1), burn.constant([1])
    three = burn.constant([3])
    assert nn.CTCLoss()(frames, padded, three, one).item() == nn.CTCLoss()(frames, plain, three, one).item()


def test_indices_that_count_from_the_end() -> None:
    table = nn.Embedding(3, 2, wrap=True)
    last = burn.constant(np.array([-1]))
    np.testing.assert_array_equal(table(last).numpy()[0], table.weight.numpy()[2])
    np.testing.assert_array_equal(burn.constant(X)[last].numpy(), [3])
    np.testing.assert_array_equal(burn.constant(X).take(last).numpy(), [3])


def test_prompts_count_from_0() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            self.table, self.head = nn.Embedding(5, 4), nn.Linear(4, 5)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.table(x))

    with pytest.raises(burn.BurnError, match="-1"):
        burn.generate(Model(), np.array([[1, -1]]), 2, cache=False)


# ---- sizes --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "make",
    [
        lambda x: burn.tile(x, (-6, 1)),
        lambda x: x.reshape(-6, -1),
        lambda x: x.reshape(-2, -3),
        lambda x: burn.tile(x, (1 << 62, 1)),
        lambda x: burn.ops.slice(x, starts=(0, 0), sizes=(-1, 3), steps=(1, 1)),
        lambda x: burn.ops.pad(x, burn.constant(0.0), low=(-2, 0), high=(-1, 0)),
        lambda x: burn.ops.full(shape=(-3,), dtype="float32"),
    ],
)
def test_sizes_are_refused_where_they_are_made(make: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(TypeMismatch):
        make(burn.zeros(2, 3))
