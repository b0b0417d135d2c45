"""Whole models on a real GPU, against the CPU's numbers: every size from one artefact, float32 and half precision, and training.

Skipped without a GPU. A model that is unavailable (PyTorch absent, no shared folder) is skipped by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import burn
from burn import nn, optim
from burn.bench.training import burn_kit
from burn.bench.twins import bottlenecks, cnn, gpt, minilm
from tests.models import MODELS, Unavailable, is_slow, model_path, random_inputs, sizes_to_try

pytest.importorskip("triton")

SINGLE = 1e-4
BOUNDS = {"bf16": 4e-2, "fp16": 6e-3}
"""Tolerances against the CPU's float32 numbers, relative to the largest element of an output. One rounding is 2^-9 and 2^-12, and
models are a few layers deep."""

LARGEST = 3
"""Batch. The CPU computes the same, and more of it takes its time."""

Arrays = Sequence[np.ndarray]


def assert_near(got: Arrays, want: Arrays, bound: float) -> None:
    assert len(got) == len(want)
    for number, (a, b) in enumerate(zip(got, want, strict=True)):
        assert a.dtype == b.dtype and a.shape == b.shape, number
        if b.dtype.kind != "f":
            np.testing.assert_array_equal(a, b)
        elif b.size:
            difference = np.abs(a.astype(np.float64) - b).max()
            assert difference <= bound * np.abs(b).max(), f"result {number}: {difference}"


def _torch_models() -> list[str]:
    try:
        from tests.models.torch_models import MODELS as known
    except ImportError:
        return []
    return list(known)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", _torch_models())
def test_torch_models(name: str) -> None:
    import torch
    from torch.utils import _pytree as pytree

    from tests.models.torch_models import MODELS as known

    case = known[name]
    model = case.build(False)
    run = burn.compile(model, None, case.dynamic, kwargs=case.inputs(model, *case.sizes[0]), device="cuda", cache=False)
    before = burn.compile_count()
    for batch, length in case.sizes:
        with torch.no_grad():
            want = model(**case.inputs(model, batch, length))
        got = run(**case.inputs(model, batch, length))
        flat = [[t.cpu().numpy() for t in pytree.tree_leaves(x) if isinstance(t, torch.Tensor)] for x in (got, want)]
        assert_near(flat[0], flat[1], max(SINGLE, case.tolerance))
    assert burn.compile_count() == before


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if is_slow(name) else []) for name in MODELS]
)
def test_models_from_files(name: str) -> None:
    """Those of tests/e2e, at the sizes that they are tried at there (but the largest batch), from one artefact."""
    case = MODELS[name]
    try:
        path = model_path(name)
    except Unavailable as reason:
        pytest.skip(str(reason))
    here, there = (burn.load(path, device=device, cache=False) for device in ("cpu", "cuda"))
    before = burn.compile_count()
    for seed, sizes in enumerate(s for s in sizes_to_try(case.sizes) if s.get("batch", 1) <= LARGEST):
        feeds = random_inputs(case, seed, **sizes)
        want, got = (run.run(feeds) for run in (here, there))
        assert_near([np.asarray(a) for a in got.values()], [np.asarray(a) for a in want.values()], SINGLE)
    assert burn.compile_count() == before


TINY: dict[str, tuple[Callable[..., Any], Mapping[str, Any], tuple[int, ...], int, int]] = {
    "cnn": (cnn, {}, (4, 1, 28, 28), 0, 10),
    "encoder": (minilm, {"layers": 2, "dim": 32, "heads": 4, "words": 50}, (4, 9), 50, 2),
    "decoder": (gpt, {"layers": 2, "dim": 32, "heads": 4, "words": 50, "length": 9}, (4, 9), 50, 50),
    "bottlenecks": (bottlenecks, {"counts": (1, 1), "width": 8, "classes": 5}, (4, 3, 32, 32), 0, 5),
}
"""A model, its sizes, its input's shape, below what its tokens are (0: it takes floats), and its classes."""


def _made(name: str) -> tuple[Any, np.ndarray, np.ndarray]:
    build, sizes, shape, below, classes = TINY[name]
    burn.manual_seed(0)
    drawn = np.random.default_rng(1)
    x = drawn.integers(0, below, shape) if below else drawn.standard_normal(shape).astype(np.float32)
    targets = drawn.integers(0, classes, shape if name == "decoder" else shape[:1])
    return build(burn_kit(), **sizes), x, targets


@pytest.mark.parametrize("name", TINY)
def test_half_precision(name: str) -> None:
    model, x, _ = _made(name)
    model.eval()
    want = burn.compile(model, (x,), cache=False)(x)
    for precision, bound in BOUNDS.items():
        run = burn.compile(model, (x,), dynamic={"x": {0: "batch"}}, precision=precision, device="cuda", cache=False)
        assert_near([run(x)], [want], bound)
        rows = len(want) // len(x)
        assert_near([run(x[:1])], [want[:rows]], bound)


def _loss(model: Any, x: burn.Tensor, y: burn.Tensor) -> burn.Tensor:
    return nn.CrossEntropyLoss()(model(x), y.reshape(-1))


def _losses(name: str, device: str, precision: str = "float32") -> list[float]:
    """Of steps, the last of them with half of the batch."""
    model, x, y = _made(name)
    step = burn.train.step(model, _loss, optim.AdamW(model, lr=1e-3), precision=precision, device=device)
    return [float(step(x[:n], y[:n])) for n in (4, 4, 4, 2)]


@pytest.mark.parametrize("name", TINY)
def test_training(name: str) -> None:
    """A step's gradients and its optimizer, seen in the losses of the steps behind it."""
    want = _losses(name, "cpu")
    np.testing.assert_allclose(_losses(name, "cuda"), want, rtol=1e-3)
    np.testing.assert_allclose(_losses(name, "cuda", "bfloat16"), want, rtol=5e-2)
