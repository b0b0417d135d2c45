"""Gradients of whole models beside torch's: each parameter's, in float32 against float64, as a share of its length."""

from __future__ import annotations

import copy
import functools
import io
import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from torch.utils import _pytree as pytree  # noqa: E402

import burn  # noqa: E402
from tests.models import MODELS, Unavailable, model_path  # noqa: E402
from tests.models.onnx_in_torch import OnnxInTorch  # noqa: E402
from tests.train.twins import EXPORTED, TWINS, Twin  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

RELATIVE = 1e-4
NOTHING = 1e-9
"""A gradient below this fraction of the longest counts as none (of a bias in front of batch normalisation, or of a softmax). Its
float32 value is rounding, which must stay below the fraction `ROUNDING`."""
ROUNDING = 1e-6
QUICK = ("GPT-2", "LSTM tagger")
"""The models of every test run, besides the files."""


def _sum(outputs: Sequence[Any], scaled: Any) -> Any:
    """A loss that every element counts in."""
    rng = np.random.default_rng(5)
    drawn = [rng.standard_normal(tuple(t.shape)).astype(np.float32) for t in outputs]
    return functools.reduce(operator.add, [scaled(t, w).sum() for t, w in zip(outputs, drawn, strict=True)])


def backward(outputs: Any) -> None:
    """torch's backward pass from the floats that a module returned."""
    floats = [t for t in pytree.tree_leaves(outputs) if isinstance(t, torch.Tensor) and t.is_floating_point()]
    _sum(floats, lambda t, w: t * torch.from_numpy(w).to(t.dtype)).backward()


def of_burn(model: Any, *args: np.ndarray, **kwargs: np.ndarray) -> dict[str, np.ndarray]:
    def loss(model: Any, args: Any, kwargs: Any) -> Any:
        leaves = pytree.tree_leaves(model(*args, **kwargs))
        return _sum([t for t in leaves if isinstance(t, burn.Tensor) and t.dtype == "float32"], operator.mul)

    grads = burn.jit(lambda args, kwargs: burn.grad(loss)(model, args, kwargs))(args, kwargs)
    return {k: np.asarray(v) for k, v in grads.items()}


def furthest(got: Mapping[str, np.ndarray], want: Mapping[str, np.ndarray]) -> tuple[float, str]:
    """The largest relative error of a parameter's gradient, and whose it is."""
    assert got.keys() >= want.keys() and all(not got[k].any() for k in got.keys() - want.keys())
    longest = max(float(np.linalg.norm(w)) for w in want.values())
    errors = []
    for path, w in want.items():
        length, apart = float(np.linalg.norm(w)), float(np.linalg.norm(got[path] - w))
        nothing = length < NOTHING * longest
        assert not nothing or apart < ROUNDING * longest, f"{path}: {apart} of {longest}"
        errors.append((0.0 if nothing else apart / length, path))
    return max(errors)


# ---- PyTorch modules ---------------------------------------------------------------------------------------------------
def of_module(case: Twin, large: bool) -> tuple[float, str]:
    module: Any = (case.large if large else case.small)().train(case.training)
    inputs = case.inputs(module, *case.sizes)
    model = burn.compile(module, None, kwargs=inputs, train=True).train(case.training)
    return furthest(of_burn(model, **_arrays(inputs)), exact(module, inputs))


def exact(module: Any, inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """torch's gradients in float64."""
    twin = copy.deepcopy(module).double()
    backward(twin(**{k: v.double() if v.is_floating_point() else v for k, v in inputs.items()}))
    return {k: p.grad.numpy() for k, p in twin.named_parameters() if p.grad is not None}


def _arrays(inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
    return {k: v.numpy() for k, v in inputs.items()}


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in TWINS])
def test_modules(name: str) -> None:
    error, path = of_module(TWINS[name], large=False)
    assert error <= RELATIVE, path


@pytest.mark.slow
@pytest.mark.parametrize("name", TWINS)
def test_larger_modules(name: str) -> None:
    error, path = of_module(TWINS[name], large=True)
    assert error <= RELATIVE, path


# ---- ONNX files --------------------------------------------------------------------------------------------------------
def of_file(name: str, batch: int, training: bool) -> tuple[float, str]:
    """A file of shared/models, which fixes its batch, beside torch's functions."""
    try:
        path = model_path(name)
    except Unavailable as absent:
        pytest.skip(str(absent))
    (spec,) = MODELS[name].inputs
    x = np.random.default_rng(3).standard_normal((batch, *spec.dims[1:]), np.float32)  # type: ignore[misc]
    model = burn.load(path, train=True, dynamic={spec.name: {0: "n"}} if batch > 1 else None).train(training)
    twin = OnnxInTorch(onnx.load(path)).double().train(training)
    backward(twin(torch.from_numpy(x).double()))
    return furthest(of_burn(model, x), {k: v.grad.numpy() for k, v in twin.weights.items() if v.grad is not None})


@pytest.mark.parametrize(
    ("name", "batch", "training"),
    [("mnist", 3, True), pytest.param("ultraface", 1, False, marks=pytest.mark.slow)],
)
def test_files(name: str, batch: int, training: bool) -> None:
    error, path = of_file(name, batch, training)
    assert error <= RELATIVE, path


def of_export(name: str, dynamo: bool) -> tuple[float, str]:
    """A module, exported to ONNX and imported, beside the module. Exporters keep matrices transposed."""
    case = EXPORTED[name]
    module: Any = case.build()
    inputs = case.inputs(module)
    axes = {k: {0: "batch", 1: "length"} if v.ndim == 2 else {0: "batch"} for k, v in inputs.items()}
    file = io.BytesIO()
    how: Any = {"dynamo": True, "dynamic_shapes": tuple(axes.values()), "verbose": False, "opset_version": 20}
    if not dynamo:
        how = {"dynamo": False, "dynamic_axes": axes, "opset_version": 17}
    with torch.no_grad():
        torch.onnx.export(module, tuple(inputs.values()), file, input_names=list(inputs), **how)
    model = burn.load(file.getvalue(), train=True)
    got = of_burn(model, *_arrays(inputs).values())
    theirs = {k: p.detach().numpy() for k, p in module.named_parameters()}
    turned = [k for k in got if k in theirs and not np.array_equal(model[k].array, theirs[k])]
    return furthest(got | {k: got[k].T for k in turned}, exact(module, inputs))


@pytest.mark.parametrize("dynamo", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", EXPORTED)
def test_exports(name: str, dynamo: bool) -> None:
    error, path = of_export(name, dynamo)
    assert error <= RELATIVE, path
