"""Weight and spectral normalisation against torch.nn.utils.parametrizations: values, gradients, steps, state dicts."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burn
from burn import nn, optim
from burn.errors import TypeMismatch

torch = pytest.importorskip("torch")
from torch.nn.utils import parametrizations, parametrize  # noqa: E402

LAYERS: dict[str, tuple[Any, Any, Any, int]] = {
    "linear": (lambda: nn.Linear(3, 5), lambda: torch.nn.Linear(3, 5), (4, 3), 0),
    "one output": (lambda: nn.Linear(3, 1), lambda: torch.nn.Linear(3, 1), (1, 3), 0),
    "conv": (lambda: nn.Conv1d(4, 6, 3, groups=2), lambda: torch.nn.Conv1d(4, 6, 3, groups=2), (2, 4, 7), 0),
    "transposed": (lambda: nn.ConvTranspose2d(3, 5, 2), lambda: torch.nn.ConvTranspose2d(3, 5, 2), (2, 3, 4, 3), 1),
}
KINDS: dict[str, tuple[Any, Any]] = {
    "weight": (lambda m, d: nn.adapt.weight_norm(m, "weight", dim=d), lambda m, d: parametrizations.weight_norm(m, dim=d)),
    "weight, all": (
        lambda m, d: nn.adapt.weight_norm(m, "weight", dim=None),
        # pyrefly: ignore  # narrower than what is passed
        lambda m, d: parametrizations.weight_norm(m, dim=None),
    ),
    "spectral": (
        lambda m, d: nn.adapt.spectral_norm(m, "weight", dim=d, iterations=2),
        lambda m, d: parametrizations.spectral_norm(m, dim=d, n_power_iterations=2),
    ),
}  # fmt: skip


QUICK = (("linear", "weight"), ("transposed", "spectral"))
"""Rows of every test run; the others are slow."""


def plain(theirs: Any) -> dict[str, np.ndarray]:
    return {name: tensor.detach().numpy().copy() for name, tensor in theirs.state_dict().items()}


ROWS = [
    pytest.param(layer, kind, marks=[] if (layer, kind) in QUICK else pytest.mark.slow)
    for layer in LAYERS
    for kind in KINDS
]


@pytest.mark.parametrize(("layer", "kind"), ROWS)
def test_as_torch(layer: str, kind: str) -> None:
    make, make_theirs, shape, dim = LAYERS[layer]
    ours_of, theirs_of = KINDS[kind]
    torch.manual_seed(0)
    burn.manual_seed(0)
    theirs, ours = make_theirs(), make()
    ours.load(plain(theirs), adapter="torch")
    before, x = np.asarray(ours.weight), np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    assert ours_of(ours, dim) is ours
    theirs_of(theirs, dim)
    if kind != "spectral":
        np.testing.assert_allclose(np.asarray(ours.weight), before, rtol=1e-6, atol=1e-7)
    assert set(ours.state_dict()) == set(theirs.state_dict())
    ours.load(plain(theirs), adapter=None)  # u and v are random
    np.testing.assert_allclose(
        np.asarray(ours(x)), theirs.eval()(torch.from_numpy(x)).detach().numpy(), rtol=1e-4, atol=1e-5
    )
    step = burn.train.step(ours, lambda m, x: (m(x) ** 2).sum(), optim.SGD(ours, lr=0.01))
    sgd = torch.optim.SGD(theirs.train().parameters(), lr=0.01)
    for _ in range(3):
        sgd.zero_grad()
        value = (theirs(torch.from_numpy(x)) ** 2).sum()
        value.backward()
        sgd.step()
        np.testing.assert_allclose(float(step(x)), float(value.detach()), rtol=1e-4)
    for name, array in plain(theirs).items():
        np.testing.assert_allclose(ours.state_dict()[name], array, rtol=1e-3, atol=1e-4, err_msg=name)
    after = np.asarray(ours.eval()(x))
    assert np.array_equal(np.asarray(pickle.loads(pickle.dumps(ours))(x)), after)
    assert np.array_equal(np.asarray(ours.clone()(x)), after)
    nn.adapt.bake(ours)
    assert set(ours.state_dict()) == {"weight", "bias"} and isinstance(ours.weight, nn.Parameter)
    np.testing.assert_allclose(np.asarray(ours(x)), after, rtol=1e-5, atol=1e-6)
    parametrize.remove_parametrizations(theirs.eval(), "weight")
    np.testing.assert_allclose(np.asarray(ours.weight), theirs.weight.detach().numpy(), rtol=1e-3, atol=1e-4)


def test_one_iteration_a_call() -> None:
    """Accumulation, half precision, a layer called twice in a step; reading the weight moves nothing."""
    burn.manual_seed(0)

    class Twice(nn.Module):
        def __init__(self) -> None:
            self.layer = nn.Linear(4, 4)

        def forward(self, x: burn.Tensor) -> burn.Tensor:
            return self.layer(self.layer(x))

    net = nn.adapt.spectral_norm(Twice(), r"layer\.weight")
    u = net.state_dict()["layer.parametrizations.weight.0._u"].copy()
    w = net.state_dict()["layer.parametrizations.weight.original"].astype(np.float64)
    net.train()
    assert net.layer.weight.shape == (4, 4) and net.layer.dtype == "float32"
    assert np.array_equal(net.state_dict()["layer.parametrizations.weight.0._u"], u)
    step = burn.train.step(net, lambda m, x: m(x).sum(), optim.SGD(net, lr=0.0), accumulate=3)
    step(np.ones((3, 4), np.float32))
    v = w.T @ u
    v /= np.linalg.norm(v)
    for _ in range(6):  # two calls in each of three parts
        u = w @ v / np.linalg.norm(w @ v)
        v = w.T @ u / np.linalg.norm(w.T @ u)
    np.testing.assert_allclose(net.state_dict()["layer.parametrizations.weight.0._u"], u, rtol=1e-3, atol=1e-4)
    half = burn.train.step(net, lambda m, x: m(x).sum(), optim.SGD(net, lr=0.1), precision="bfloat16")
    assert np.isfinite(float(half(np.ones((3, 4), np.float32))))


def test_recurrent_layers_and_export(tmp_path: Path) -> None:
    burn.manual_seed(0)
    net = nn.StackedLSTM(3, 4)
    x = np.random.default_rng(0).standard_normal((2, 5, 3)).astype(np.float32)
    matrices = [path for path, p in net.named_parameters() if p.ndim > 1]
    before = net(x)[0].numpy()
    nn.adapt.weight_norm(net, "|".join(matrices))
    np.testing.assert_allclose(net(x)[0].numpy(), before, rtol=1e-5, atol=1e-6)
    burn.export(nn.adapt.weight_norm(nn.Linear(3, 2), "weight"), tmp_path / "a.onnx", ("float32[n, 3]",))
    assert burn.load(tmp_path / "a.onnx")(x[0]).shape == (5, 2)


def test_what_is_refused() -> None:
    net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    net[1].weight = net[0].weight
    with pytest.raises(TypeMismatch, match=r"'0\.weight' is shared"):
        nn.adapt.weight_norm(net, "weight")
    with pytest.raises(TypeMismatch, match=r"the paths are 0\.weight"):
        nn.adapt.spectral_norm(net, "other")
    layer = nn.Linear(3, 3)
    with pytest.raises(TypeMismatch, match="no such axis"):
        nn.adapt.weight_norm(layer, "weight", dim=2)
    assert isinstance(layer.weight, nn.Parameter)
    with pytest.raises(TypeMismatch, match="at least one iteration"):
        nn.adapt.spectral_norm(layer, "weight", iterations=0)
    nn.adapt.weight_norm(layer, "weight")
    with pytest.raises(TypeMismatch, match="is derived already"):
        nn.adapt.weight_norm(layer, "weight")
    with pytest.raises(TypeMismatch, match=r"Linear\.weight is no parameter"):
        layer.weight = nn.Parameter(np.ones((3, 3), np.float32))
    with pytest.raises(AttributeError, match="wieght"):
        _ = layer.wieght
    with pytest.raises(TypeMismatch, match="no derived weight"):
        nn.adapt.bake(layer, "bias")
