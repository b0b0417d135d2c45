"""Device arrays on a real GPU, and torch's tensors there. Skipped without a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import burn
from burn.errors import InputError
from burn.runtime.device_array import DeviceArray, to_device

pytest.importorskip("triton")

X = np.random.default_rng(0).standard_normal((64, 129)).astype(np.float32)


@pytest.fixture(scope="module")
def twice() -> Callable[..., Any]:
    return burn.compile(lambda x: x * 2 + 1, (X,), dynamic={"x": {0: "n"}}, device="cuda")


def test_arrays_stay(twice: Any) -> None:
    array = to_device(X, "cuda")
    for _ in range(20):
        array = twice(array)
    assert isinstance(array, DeviceArray)
    want = X.astype(np.float64)
    for _ in range(20):
        want = want * 2 + 1
    np.testing.assert_allclose(array.numpy(), want, rtol=1e-5)


def test_a_donated_array_becomes_the_output() -> None:
    made = burn.compile(lambda x, y: x + y, (X, X), cache=False, device="cuda", donate=("x",))
    x, y = to_device(X, "cuda"), to_device(X, "cuda")
    address = x.address
    for _ in range(10):
        x = made(x, y)
    assert x.address == address
    np.testing.assert_allclose(x.numpy(), X * 11, rtol=1e-5)


def test_torch_in_torch_out(torch: Any, twice: Any) -> None:
    x = torch.tensor(X, device="cuda")
    y = twice(x)
    assert y.is_cuda and torch.equal(y, x * 2 + 1)
    turned = twice(torch.tensor(X.T.copy(), device="cuda").T)  # not dense in row-major order
    assert torch.equal(turned, y)


def test_torch_keeps_the_order_of_work(torch: Any, twice: Any) -> None:
    """Each side reads what the other is still computing, in memory that both hand out again at once."""
    n = 1 << 22
    with torch.cuda.stream(torch.cuda.Stream()):
        for i in range(50):
            x = torch.full((n // 129 + 1, 129), float(i), device="cuda")
            y = twice(x * 1)
            del x
            z = y - 1
            del y
            torch.full((n // 129 + 1, 129), -1.0, device="cuda")
            assert bool((z == 2 * i).all()), i


def test_memory_lent_to_torch_is_not_handed_out(torch: Any) -> None:
    for i in range(20):
        tensor = torch.from_dlpack(to_device(np.full(1 << 20, i, np.float32), "cuda"))
        total = tensor.double().sum()
        del tensor
        to_device(np.full(1 << 20, -1, np.float32), "cuda")
        assert total.item() == i * (1 << 20)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "bool", "int8", "int64", "float64", "complex64"])
def test_element_types_through_torch(torch: Any, dtype: str) -> None:
    x = torch.arange(7, device="cuda").to(getattr(torch, dtype))
    same = burn.compile(lambda x: x.reshape(7, 1), (x.cpu(),), cache=False, device="cuda")(x)
    assert same.is_cuda and same.dtype == x.dtype and torch.equal(same, x.reshape(7, 1))


def test_errors(torch: Any, twice: Any) -> None:
    on_host = burn.compile(lambda x: x * 2 + 1, (X,))
    with pytest.raises(InputError, match=r"is on cuda:0; copy it to the CPU"):
        on_host(torch.tensor(X, device="cuda"))
    with pytest.raises(InputError, match="require gradient"):
        twice(torch.tensor(X, device="cuda", requires_grad=True))
    np.testing.assert_allclose(twice(torch.tensor(X)).numpy(), X * 2 + 1)  # sent and fetched


def test_lazy_tensors_on_the_gpu(torch: Any) -> None:
    x = burn.tensor(X, device="cuda")
    y = burn.softmax(x @ x.T, axis=-1).sum(0)
    assert y.device == "cuda:0"
    z = X.astype(np.float64) @ X.T
    z = np.exp(z - z.max(1, keepdims=True))
    np.testing.assert_allclose(y.numpy(), (z / z.sum(1, keepdims=True)).sum(0), rtol=1e-3, atol=1e-4)
    there = torch.from_dlpack(y + 1)
    assert there.is_cuda
    np.testing.assert_allclose((burn.from_dlpack(there) - 1).numpy(), y.numpy(), rtol=1e-5)


def test_training_stays_on_the_gpu() -> None:
    from burn import nn, optim

    y = X.sum(1, keepdims=True)

    def trained(device: str | None) -> tuple[list[float], list[set[int]]]:
        model = nn.Sequential(nn.Linear(129, 32), nn.Tanh(), nn.Linear(32, 1))
        for _, p in model.named_parameters():
            p.assign(np.random.default_rng(p.count).standard_normal(p.shape).astype(np.float32) / 10)
        optimizer = optim.AdamW(model, lr=0.01)
        step = burn.train.step(model, lambda m, x, y: ((m(x) - y) ** 2).mean(), optimizer, device=device)
        losses, addresses = [], []
        for _ in range(20):
            losses.append(float(step(X, y)))
            held = [p.elements for p in (*model.parameters(), *optimizer.named_buffers().values())]
            addresses.append({array.address for array in held if isinstance(array, DeviceArray)})
        return losses, addresses

    losses, addresses = trained("cuda")
    assert len(addresses[0]) >= 12 and all(found == addresses[0] for found in addresses)
    np.testing.assert_allclose(losses, trained(None)[0], rtol=1e-3)
