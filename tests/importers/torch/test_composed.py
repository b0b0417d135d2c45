"""Operators that torch does not decompose, against eager torch: results, gradients and changed parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional as F  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


def drawn(*shape: int) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


CHANNELS = torch.tensor([0.03, 0.1, 0.2]), torch.tensor([3, 0, -7], dtype=torch.int32)

QUANTISED: dict[str, Callable[[Any], Any]] = {
    "one scale": lambda x: torch.fake_quantize_per_tensor_affine(x, 0.03, 3, 0, 255),
    "clamped at both bounds": lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -8, 7),
    "tensors": lambda x: torch.fake_quantize_per_tensor_affine(
        x, x.detach().abs().amax().float() / 50, torch.tensor(3, dtype=torch.int32), -128, 127
    ),
    "channels": lambda x: torch.fake_quantize_per_channel_affine(x, *CHANNELS, 1, -8, 7),
    "channels from the end": lambda x: torch.fake_quantize_per_channel_affine(x.mT, *CHANNELS, 2, -128, 127),
    "zeros that are floats": lambda x: torch.fake_quantize_per_channel_affine(
        x, CHANNELS[0], torch.tensor([0.25, -3.5, 7.0]), 1, -8, 7
    ),
}


def with_gradient(function: Callable[[Any], Any], x: Any) -> tuple[Any, Any]:
    x = x.detach().clone().requires_grad_()
    y = function(x)
    (y * y.sin()).sum().backward()
    return y, x.grad


@pytest.mark.parametrize("name", QUANTISED)
def test_fake_quantisation(name: str) -> None:
    torch._dynamo.reset()
    x = drawn(5, 3, 7)
    x[0, 0, :4] = torch.tensor([0.015, -0.045, 1e6, -1e6])  # halfway between two levels, and far outside
    got = with_gradient(torch.compile(QUANTISED[name], backend="burn"), x)
    torch.testing.assert_close(got, with_gradient(QUANTISED[name], x), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", QUANTISED)
def test_levels_of_float16_values(name: str) -> None:
    torch._dynamo.reset()
    x = (3 * drawn(50, 3, 7)).half()
    torch.testing.assert_close(torch.compile(QUANTISED[name], backend="burn")(x), QUANTISED[name](x), rtol=1e-3, atol=0)


def test_a_model_in_quantisation_aware_training() -> None:
    """Observers change buffers in each call; an observer that is switched off leaves its input as it is."""
    quantization = pytest.importorskip("torch.ao.quantization")
    x = drawn(6, 5)

    def made() -> Any:
        torch.manual_seed(2)
        fake = quantization.FakeQuantize.with_args(
            observer=quantization.MovingAverageMinMaxObserver, quant_min=0, quant_max=255
        )
        return torch.nn.Sequential(torch.nn.Linear(5, 4), fake(), torch.nn.ReLU(), fake())

    def trained(model: Any, call: Any) -> list[Any]:
        for _ in range(2):
            call(x).square().sum().backward()
        model[1].disable_fake_quant()
        return [call(x), *(p.grad for p in model.parameters()), *model.buffers()]

    eager, compiled = made(), made()
    torch._dynamo.reset()
    got = trained(compiled, torch.compile(compiled, backend="burn"))
    for a, b in zip(got, trained(eager, eager), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("p", [2.0, 1.0, float("inf")])
def test_rows_of_an_embedding_are_scaled_where_they_are_looked_up(p: float) -> None:
    indices = torch.tensor([[0, 3, 3], [5, 0, 1]])

    def run(compile_: Callable[[Any], Any]) -> list[Any]:
        torch.manual_seed(3)
        module = torch.nn.Embedding(9, 4, max_norm=1.5, norm_type=p)
        y = compile_(module)(indices)
        y.square().sum().backward()
        return [y, module.weight.grad, module.weight]

    torch._dynamo.reset()
    for a, b in zip(run(lambda module: torch.compile(module, backend="burn")), run(lambda m: m), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6)


INTEGERS = [0, 0, 12, -18, 7, 2**40, 3 * 5 * 7 * 11, -(2**30)], [0, 5, -8, -27, 0, 2**35 + 2**20, 1155 * 13, 6]


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8])
def test_greatest_common_divisors(dtype: Any) -> None:
    def function(a: Any, b: Any) -> Any:
        return torch.gcd(a, b), torch.gcd(a[:, None], b), torch.lcm(a % 100, b % 100)

    a, b = (torch.tensor(column).clamp(max=torch.iinfo(dtype).max).to(dtype) for column in INTEGERS)
    torch._dynamo.reset()
    for got, want in zip(torch.compile(function, backend="burn")(a, b), function(a, b), strict=True):
        assert torch.equal(got, want)


def test_negated_views() -> None:
    """Sums y reach 15, and 4e-6 is four of their roundings. The gradient's derivative by y is at most 2 + 15, and y has factors
    of 10 before x: an error of y is 170 times as large in the gradient."""

    def function(x: Any) -> Any:
        return torch.fft.hfft(torch.complex(x, 2 * x)), torch.complex(x, x).conj().imag

    torch._dynamo.reset()
    x = drawn(3, 6)
    got = with_gradient(torch.compile(lambda x: sum(y.sum(-1) for y in function(x)), backend="burn"), x)
    want = with_gradient(lambda x: sum(y.sum(-1) for y in function(x)), x.double())
    for a, b, bound in zip(got, want, (4e-6, 170 * 4e-6), strict=True):
        torch.testing.assert_close(a.double(), b, rtol=0, atol=bound)


def test_an_embedding_with_a_largest_norm_in_half_precision() -> None:
    weight = drawn(4, 3).bfloat16()
    torch._dynamo.reset()
    call = torch.compile(lambda w: F.embedding(torch.tensor([0, 2]), w.clone(), max_norm=0.7), backend="burn")
    want = F.embedding(torch.tensor([0, 2]), weight.clone(), max_norm=0.7)
    torch.testing.assert_close(call(weight), want)
