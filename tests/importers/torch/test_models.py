"""Whole models against eager torch: one compiled program for every batch and length, and the torch.compile backend."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from torch.utils import _pytree as pytree  # noqa: E402

import burn  # noqa: E402
from burn.adapters.torch import CompiledModule  # noqa: E402
from tests.models.torch_models import MODELS, TorchModel  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


def tensors(result: Any) -> list[Any]:
    return [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]


def assert_same(got: Any, want: Any, tolerance: float) -> None:
    assert len(tensors(got)) == len(tensors(want))
    for a, b in zip(tensors(got), tensors(want), strict=True):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


def check_compile(case: TorchModel, true_size: bool) -> None:
    model = case.build(true_size)
    before = burn.compile_count()
    compiled = burn.compile(model, None, case.dynamic, kwargs=case.inputs(model, *case.sizes[0]))
    assert isinstance(compiled, CompiledModule)
    for batch, length in case.sizes:
        inputs = case.inputs(model, batch, length)
        with torch.no_grad():
            want = model(**case.inputs(model, batch, length))
        got = compiled(**inputs)
        assert type(got) is type(want)
        assert_same(got, want, case.tolerance)
    assert burn.compile_count() == before + 1


def check_backend(case: TorchModel, true_size: bool) -> None:
    torch._dynamo.reset()
    model = case.build(true_size)
    compiled = torch.compile(model, backend="burn", dynamic=True)
    with torch.no_grad():
        for batch, length in case.sizes:
            want = model(**case.inputs(model, batch, length))
            assert_same(compiled(**case.inputs(model, batch, length)), want, case.tolerance)


ELSEWHERE = {
    "ViT": "tests/e2e: vit_tiny",
    "Llama-style decoder": "test_architectures.py: Qwen2",
    "Whisper-tiny encoder": "its layers are BERT's, behind two convolutions",
    "ResNet-50": "tests/e2e: seeded_resnet50",
}
"""Models whose parts are in other tests of every run."""


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in ELSEWHERE)) for n in MODELS])
def test_small_models(name: str) -> None:
    check_compile(MODELS[name], true_size=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_small_models_through_torch_compile(name: str) -> None:
    """In every run, Qwen2 comes through torch.compile (test_architectures.py), forward and backward."""
    check_backend(MODELS[name], true_size=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_models(name: str) -> None:
    check_compile(MODELS[name], true_size=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_models_through_torch_compile(name: str) -> None:
    check_backend(MODELS[name], true_size=True)
