"""Tensors, modules and training on a simulated GPU, with the CPU's numbers."""

from __future__ import annotations

import contextlib
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burn
from burn import nn, optim
from burn.errors import DeviceError, IndexRunError, TypeMismatch
from burn.runtime.device_array import DeviceArray, to_device

pytest.importorskip("triton")
pytest.importorskip("torch")

import torch

from tests.codegen.gpu.simulated_gpu import SimulatedGPU
from tests.runtime.simulation import simulation

X = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)


def test_there_and_back(gpu: SimulatedGPU) -> None:
    x = burn.tensor(X)
    there = x.to("cuda")
    assert (x.device, there.device, there.cpu().device) == ("cpu", "cuda:0", "cpu")
    assert there.to("cuda:0").device == "cuda:0" and there.to(torch.device("cuda", 1)).device == "cuda:1"
    np.testing.assert_array_equal(there.numpy(), X)
    np.testing.assert_array_equal(np.asarray(there), X)
    assert there[0, 0].item() == X[0, 0] and there.tolist() == X.tolist()
    assert "device=cuda:0" in repr(there) and "device" not in repr(x)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(there)).numpy(), X)
    assert there.to("float64").device == "cuda:0"
    assert burn.tensor([1.0, 2.0], device="cuda").device == "cuda:0"
    with pytest.raises(DeviceError, match="cuda:7"):
        x.to("cuda:7")


def test_what_is_recorded_is_computed_where_it_lies(gpu: SimulatedGPU) -> None:
    x = burn.tensor(X, device="cuda")
    y = (x * 2 + burn.ones(4, 3)).sum(1)
    assert y.device == "cuda:0" and y.__dlpack_device__() == (2, 0)
    np.testing.assert_allclose(y.numpy(), (X * 2 + 1).sum(1), rtol=1e-5)
    assert y.device == "cuda:0"
    np.testing.assert_allclose((y + 1).numpy(), (X * 2 + 1).sum(1) + 1, rtol=1e-5)
    assert len(gpu.sources) > 0


def test_numbers_go_anywhere(gpu: SimulatedGPU) -> None:
    x = burn.tensor(X, device="cuda")
    half = burn.tensor(0.5)  # with no axes
    picked = (x * half + burn.tensor([1.0, 2.0, 3.0]))[[2, 0]]
    np.testing.assert_allclose(picked.numpy(), (X * 0.5 + [1, 2, 3])[[2, 0]], rtol=1e-6)
    assert x[[]].shape == (0, 3)
    np.testing.assert_allclose((x * burn.tensor([[1.0, 2.0, 3.0]])[0]).numpy(), X * [1, 2, 3], rtol=1e-6)
    free = burn.arange(3) * 2.0
    both = x + free
    assert free.device == "cpu"
    np.testing.assert_allclose(both.numpy(), X + np.arange(3) * 2, rtol=1e-6)
    np.testing.assert_allclose((free + burn.tensor(X)).numpy(), X + np.arange(3) * 2, rtol=1e-6)


def test_different_devices_are_an_error(gpu: SimulatedGPU) -> None:
    x = burn.tensor(X, device="cuda")
    for other in (burn.tensor(X), burn.tensor(X, device="cuda:1")):
        with pytest.raises(TypeMismatch, match="different devices") as caught:
            _ = x + other
        assert "cuda:0" in str(caught.value) and other.device in str(caught.value)


def test_executables_take_and_give_tensors(gpu: SimulatedGPU) -> None:
    double = burn.compile(lambda x: x * 2, (X,), cache=False, device="cuda")
    x = burn.tensor(X, device="cuda")
    y = double(x)
    assert isinstance(y, burn.Tensor) and y.device == "cuda:0"
    np.testing.assert_allclose(y.numpy(), X * 2)
    assert double(burn.tensor(X)).device == "cpu"
    donating = burn.compile(lambda x: x * 2, (X,), cache=False, device="cuda", donate=("x",))
    with pytest.raises(burn.InputError, match="read-only"):
        donating(x)


def test_from_others(gpu: SimulatedGPU) -> None:
    array = to_device(X, "cuda")
    for tensor in (burn.tensor(array), burn.asarray(array), burn.from_dlpack(array)):
        assert tensor.device == "cuda:0"
    beside: Any = array
    np.testing.assert_allclose((burn.tensor(X, device="cuda") + beside).numpy(), X * 2)


def test_jit_follows_what_it_is_called_with(gpu: SimulatedGPU) -> None:
    step = burn.jit(lambda x: x * 2 + 1)
    on_gpu, on_host = step(burn.tensor(X, device="cuda")), step(burn.tensor(X))
    assert (on_gpu.device, on_host.device) == ("cuda:0", "cpu")
    assert isinstance(step(to_device(X, "cuda")), DeviceArray) and isinstance(step(X), np.ndarray)
    assert sum(map(len, step.programs.values())) == 2
    with pytest.raises(TypeMismatch, match="cuda:0, cuda:1"):
        burn.jit(lambda x, y: x + y)(to_device(X, "cuda"), to_device(X, "cuda:1"))


def test_modules(gpu: SimulatedGPU, tmp_path: Path) -> None:
    layer = nn.Linear(3, 2)
    want = layer(X).numpy()
    called = burn.jit(layer)
    np.testing.assert_allclose(called(X), want, rtol=1e-6)
    assert layer.to("cuda") is layer and {p.device for p in layer.parameters()} == {"cuda:0"}
    np.testing.assert_allclose(layer(burn.tensor(X, device="cuda")).numpy(), want, rtol=1e-5)
    with pytest.raises(TypeMismatch, match="different devices"):
        layer(X)
    result = called(X)  # what the host gives is sent, and what it gets is fetched
    assert isinstance(result, np.ndarray) and not called.executable.device.memory.is_host
    np.testing.assert_allclose(result, want, rtol=1e-5)
    assert called(burn.tensor(X, device="cuda")).device == "cuda:0"
    layer.save(tmp_path / "layer.safetensors")
    assert layer.clone().weight.device == "cuda:0"
    other = nn.Linear(3, 2).to("cuda")
    other.load(tmp_path / "layer.safetensors")
    np.testing.assert_allclose(other(burn.tensor(X, device="cuda")).numpy(), want, rtol=1e-5)
    layer.weight.assign(np.zeros((2, 3), np.float32))
    assert layer.weight.device == "cuda:0" and not layer.weight.array.any()
    assert layer.to("cpu").weight.device == "cpu"
    np.testing.assert_allclose(other.to("cpu")(X).numpy(), want, rtol=1e-5)
    assert other.to("cuda").half().weight.device == "cuda:0" and other.weight.dtype == "float16"


def trained(device: str | None, steps: int = 3) -> tuple[list[float], nn.Module, list[set[int]]]:
    burn.manual_seed(0)
    model = nn.Linear(3, 1)
    for _, p in model.named_parameters():
        p.assign(np.random.default_rng(p.count).standard_normal(p.shape).astype(np.float32))
    optimizer = optim.Adam(model, lr=0.1)
    loss = lambda m, x, y: ((m(x) - y) ** 2).mean()  # noqa: E731
    step = burn.train.step(model, loss, optimizer, device=device)
    losses, addresses = [], []
    y = X.sum(1, keepdims=True)
    for _ in range(steps):
        losses.append(float(step(X, y)))
        held = [*model.parameters(), *optimizer.named_buffers().values()]
        addresses.append({p.elements.address for p in held if isinstance(p.elements, DeviceArray)})
    assert step.compiled is not None
    assert sum(map(len, step.compiled.programs.values())) == 1
    return losses, model, addresses


def test_training_stays_on_the_gpu(gpu: SimulatedGPU) -> None:
    """Parameters and the optimizer's state are written where they lie, step for step."""
    losses, model, addresses = trained("cuda")
    want, twin, nowhere = trained(None)
    np.testing.assert_allclose(losses, want, rtol=1e-4)
    for (_, p), (_, q) in zip(model.named_parameters(), twin.named_parameters(), strict=True):
        np.testing.assert_allclose(p.array, q.array, rtol=1e-3, atol=1e-5)
    assert len(addresses[0]) >= 6 and addresses[0] == addresses[1] == addresses[2]
    assert not any(nowhere)


@pytest.mark.parametrize("wait", [True, False])
def test_a_step_that_fails_leaves_parameters_and_state_as_they_were(gpu: SimulatedGPU, wait: bool) -> None:
    """Later steps leave them unchanged until the failure is raised."""
    model = nn.Linear(3, 2)
    optimizer = optim.SGD(model, lr=0.5, momentum=0.9)
    step = burn.train.step(model, lambda m, x, y: nn.CrossEntropyLoss()(m(x), y), optimizer, device="cuda")
    x = burn.tensor(X, device="cuda")
    good, bad = (burn.tensor(np.array(labels), device="cuda") for labels in ([0, 1, 1, 0], [0, 5, 1, 0]))
    step(x, good).numpy()
    held: dict[str, Any] = {**dict(model.named_parameters()), **optimizer.named_buffers()}
    before = {name: p.elements.numpy() for name, p in held.items()}  # what is looked at as an array is not written over
    slowly = contextlib.nullcontext() if wait else simulation().lazy()
    with slowly, pytest.raises(IndexRunError, match="index 5 is out of range"):
        step(x, bad)
        step(x, good).numpy()
    for name, p in held.items():
        np.testing.assert_array_equal(p.array, before[name], err_msg=name)
    step(x, good).numpy()
    assert not np.array_equal(model.weight.array, before["weight"])


def test_learner(gpu: SimulatedGPU, tmp_path: Path) -> None:
    y = X.sum(1, keepdims=True)
    data = [(X, y), (X * 2, y * 2)]
    told = {}
    for device in ("cuda", None):
        burn.manual_seed(0)
        model = nn.Linear(3, 1)
        model.weight.assign(np.full((1, 3), 0.5, np.float32))
        folder = tmp_path / str(device)
        learner = burn.train.Learner(
            model, nn.MSELoss(), optim.SGD(model, lr=0.01, momentum=0.9), folder=folder, progress=False, device=device
        )
        told[device] = learner.fit(data, data[:1], epochs=2)
        assert model.weight.device == ("cpu" if device is None else "cuda:0")
    assert told["cuda"].valid["loss"] == pytest.approx(told[None].valid["loss"], rel=1e-4)
    assert told["cuda"].checkpoint is not None
    again = nn.Linear(3, 1).to("cuda")
    other = burn.train.Learner(again, nn.MSELoss(), optim.SGD(again, lr=0.01, momentum=0.9), progress=False)
    other.load(told["cuda"].checkpoint)
    assert again.weight.device == "cuda:0"
    np.testing.assert_allclose(again.weight.array, model.weight.array, rtol=1e-4)
    assert other.evaluate([(to_device(X, "cuda"), to_device(y, "cuda"))])["loss"] == pytest.approx(
        told["cuda"].valid["loss"], rel=1e-5
    )


def test_derivatives(gpu: SimulatedGPU) -> None:
    x = burn.tensor(X, device="cuda")
    gradient: Any = burn.grad(lambda t: (t**3).sum())(x)
    assert gradient.device == "cuda:0"
    np.testing.assert_allclose(gradient.numpy(), 3 * X**2, rtol=1e-5)
    with pytest.raises(TypeMismatch, match="not differentiated"):
        burn.grad(lambda t: (t.to("cpu") ** 3).sum())(x)


def test_random_numbers_with_device_tensors(gpu: SimulatedGPU) -> None:
    x, key = burn.tensor(X, device="cuda"), burn.random.key(5)
    want = X + burn.random.uniform((4, 3), key=key).numpy()
    np.testing.assert_allclose((x + burn.random.uniform((4, 3), key=key)).numpy(), want, rtol=1e-5)
    burn.manual_seed(3)
    noise = burn.random.normal((4, 3))
    total = (burn.tensor(X, device="cuda") + noise).numpy()
    burn.manual_seed(3)
    np.testing.assert_allclose(total, X + burn.random.normal((4, 3)).numpy(), rtol=1e-4, atol=1e-5)
