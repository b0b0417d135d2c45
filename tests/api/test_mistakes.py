"""Ordinary mistakes, most of them PyTorch's habits: the error says what to write here."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

import burn
from burn import data, nn, optim, train
from burn.errors import BurnError


def _loss(model: Any, x: Any, y: Any) -> Any:
    return nn.CrossEntropyLoss()(model(x), y)


def _longer(x: burn.Tensor) -> burn.Tensor:
    return x if x.shape[0] > 3 else -x


MODEL = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
X, Y = np.zeros((2, 4), np.float32), np.array([0, 1])
# The mistakes below are for burn to find, not for a type checker.
LOOSE: Any = burn
PARAMETERS: Any = MODEL.parameters()

MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "axis": (lambda: LOOSE.sum(X, "rows"), "burn.sum: axis is an integer or a list of integers, or None, not 'rows'"),
    "axes": (lambda: LOOSE.flip(X, (0, 1.5)), r"burn.flip: axis is an integer or a list of integers or None, not \(0, 1.5\)"),
    "bytes as axes": (lambda: LOOSE.sum(X, b"a"), "burn.sum: axis is an integer or a list of integers, or None, not b'a'"),
    "axis of stack": (lambda: LOOSE.stack([X, X], "rows"), "burn.stack: axis is an integer, not 'rows'"),
    "einsum": (lambda: LOOSE.einsum(X, "ij->j"), "einsum takes an equation first"),
    "backward": (lambda: LOOSE.ones(2).sum().backward(), r"value_and_grad\(loss\)"),
    "grad": (lambda: MODEL[0].weight.grad, "gradients are returned and not kept"),
    "requires_grad_": (lambda: MODEL[0].weight.requires_grad_(False), r"model\.freeze"),
    "data": (lambda: MODEL[0].weight.data, r"p\.assign"),
    "cuda": (lambda: LOOSE.ones(2).cuda(), r"to\(\"cuda\"\)"),
    "model.cuda": (lambda: MODEL.cuda(), r"to\(\"cuda\"\)"),
    "model.zero_grad": (lambda: MODEL.zero_grad(), "nothing to set to zero"),
    "step": (lambda: optim.SGD(MODEL).step(), r"burn\.train\.step\(model, loss, optimizer\)"),
    "zero_grad": (lambda: optim.SGD(MODEL).zero_grad(), "nothing to set to zero"),
    "param_groups": (lambda: optim.SGD(MODEL).param_groups, r"optimizer\.groups"),
    "parameters()": (lambda: optim.SGD(PARAMETERS, lr=0.1), r"given the model, not its parameters(.|\n)*SGD\(model"),
    "a list of parameters": (lambda: optim.AdamW(cast(Any, list(MODEL.parameters()))), r"AdamW\(model"),
    "Conv2D": (lambda: LOOSE.nn.Conv2D(1, 1, 1), "did you mean 'Conv2d'"),
    "AdamWW": (lambda: LOOSE.optim.AdamWW, "did you mean 'AdamW'"),
    "relue": (lambda: LOOSE.relue, "did you mean 'relu'"),
    "unsqeeze": (lambda: LOOSE.ones(1).unsqeeze(0), "did you mean 'unsqueeze'"),
    "a function of burn.linalg": (lambda: LOOSE.svd, r"use burn\.linalg\.svd"),
    "a function of burn.random": (lambda: LOOSE.randint, r"use burn\.random\.randint"),
    "a function of burn.fft": (lambda: LOOSE.rfft2, r"use burn\.fft\.rfft2"),
    "randn": (lambda: LOOSE.randn, r"burn\.random\.normal\(shape\)"),
    "array": (lambda: LOOSE.array, r"burn\.tensor\(elements\)"),
    "reduce_mean": (lambda: LOOSE.reduce_mean, r"burn\.mean"),
    "x.reduce_sum": (lambda: LOOSE.ones(2).reduce_sum, "use sum"),
    "float32": (lambda: LOOSE.float32, "element types are text"),
    "no_grad": (lambda: LOOSE.no_grad(), "nothing to switch off"),
    "functional": (lambda: LOOSE.functional, r"burn\.relu\(x\)"),
    "view": (lambda: LOOSE.ones(2).view(2), "use reshape"),
    "an attribute of a model": (lambda: MODEL.forwards, "did you mean 'forward'"),
    "float64": (lambda: MODEL(X.astype(np.float64)), r"argument 0 is float64.*float32 \(x\.astype\(np\.float32\)\)"),
    "float64 in a step": (lambda: train.step(MODEL, _loss, optim.SGD(MODEL))(X.astype(float), Y), r"x\.astype\(np\.float32\)"),
    "float labels": (lambda: nn.CrossEntropyLoss()(burn.ones(4, 3), burn.ones(4)), r"(?s)classes, integers.*astype\(\"int64"),
    "labels first": (lambda: nn.CrossEntropyLoss()(burn.tensor([0, 1]), burn.ones(2, 3)), "scores come first"),
    "a layer as a step's loss": (lambda: train.step(MODEL, nn.MSELoss(), optim.SGD(MODEL)), r"lambda model, x, y: nn\.MSELoss"),
    "parameters in a step": (lambda: train.step(MODEL, _loss, PARAMETERS), "an optimizer of burn.optim"),
    "an infinite rate": (lambda: optim.SGD(MODEL, lr=1e999), "lr is inf, which is out of range"),
    "a comparison of a named size": (lambda: burn.compile(_longer, ("float32[n]",)), r"(?s)\(size\) > 3, then.*\(size, '>', 3\)"),
    "a hidden layer": (lambda: setattr(MODEL, "extra", nn.Linear(1, 1)), "no element, so this module would not be part"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_error_says_what_to_write(mistake: str) -> None:
    act, says = MISTAKES[mistake]
    with pytest.raises((BurnError, AttributeError), match=says):
        act()


def test_axes_are_any_integers() -> None:
    x = np.arange(6.0).reshape(2, 3)
    for axis in (np.int64(1), (np.int32(1),), [1], np.array(1), np.array([1]), burn.constant(1)):
        np.testing.assert_array_equal(LOOSE.sum(x, axis), x.sum(1))
    np.testing.assert_array_equal(LOOSE.stack([x, x], np.int64(-1)), np.stack([x, x], -1))


def test_sizes_are_read_from_arrays() -> None:
    assert LOOSE.read_dim(np.array([2, 3]), "n", position=1) == 3
    with pytest.raises(BurnError, match="from integers"):
        LOOSE.read_dim(np.ones(1), "n")


def test_names_of_pythons_own_are_not_guessed_at() -> None:
    for owner in (burn.ones(1), MODEL, optim.SGD(MODEL)):
        assert not hasattr(owner, "__wrapped__") and not hasattr(owner, "_repr_svg_")


@burn.jit
def doubled(x: burn.Tensor) -> burn.Tensor:
    return x * 2.0


def test_a_jitted_function_is_pickled_by_its_name() -> None:
    assert pickle.loads(pickle.dumps(doubled)) is doubled
    with pytest.raises(pickle.PicklingError, match="pickled by its name"):
        pickle.dumps(burn.jit(lambda x: x))


def test_a_loader_says_what_it_is() -> None:
    loader = data.Loader((np.zeros((5, 2)), np.arange(5)), 2, shuffle=True, seed=3)
    assert repr(loader) == "Loader(Memory(5 rows), batch_size=2, shuffle=True, seed=3)"


def test_a_training_that_stopped_early_sums_up() -> None:
    def stop(event: Any, control: Any) -> None:
        if type(event).__name__ == "Stepped" and event.step == 2:
            control.stop("enough")

    model = nn.Linear(4, 3)
    learner = train.Learner(model, nn.CrossEntropyLoss(), optim.SGD(model), observers=[stop], progress=False)
    summary = learner.fit([(X, Y)] * 9, epochs=2)
    assert summary.steps == 2 and np.isfinite(summary.train["loss"]) and "loss" in str(summary)


def test_the_dashboard_names_what_it_needs() -> None:
    script = "import sys; sys.modules['textual'] = None; import burn.train.dashboard"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "ImportError: the dashboard is drawn by textual: pip install 'burn-mlir[train]'" in done.stderr


def test_python_control_flow_on_a_traced_tensor_names_the_line_and_the_argument() -> None:
    def repeated(x: burn.Tensor, n: int = 2) -> burn.Tensor:
        for _ in range(n):
            x = x + 1
        return x

    with pytest.raises(BurnError, match=r"'n' is an argument: .* if it is named in static="):
        burn.jit(repeated)(X, n=3)
    np.testing.assert_array_equal(burn.jit(repeated, static="n")(X, n=3), X + 3)
    uses: tuple[Callable[[burn.Tensor], Any], ...] = (lambda x: x if x.sum() > 0 else -x, lambda x: float(x.mean()))
    for use in uses:
        with pytest.raises(BurnError, match=r"node '(gt|div) \(test_mistakes.py:\d+\)': .* has no elements yet"):
            burn.jit(use)(X)
