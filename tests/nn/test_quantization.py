"""Layers of quantised models: numbers against float64, what burn-import makes of them."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import pytest

import burn
from burn import nn
from burn.exporters.python.generate import generate
from burn.tracing.trace import trace

M = TypeVar("M", bound=nn.Module)


def _drawn(layer: M, seed: int = 0) -> M:
    """Gives stored integers, scales and zero points random values."""
    random = np.random.default_rng(seed)
    state = {}
    for name, tensor in layer.state_dict().items():
        array = np.asarray(tensor)
        if array.dtype.kind == "f":
            state[name] = random.uniform(0.001, 0.1, array.shape).astype(array.dtype)
        else:
            high = 1000 if array.dtype == np.int32 else 100
            state[name] = random.integers(0 if array.dtype.kind == "u" else -high, high, array.shape).astype(
                array.dtype
            )
    layer.load_state_dict(state)
    return layer


def _real(weight: nn.QuantizedWeight) -> np.ndarray:
    values, scale, zero = (np.asarray(p).astype(np.float64) for p in (weight.values, weight.scale, weight.zero_point))
    if weight.axis is not None:
        shape = [-1 if a == weight.axis else 1 for a in range(values.ndim)]
        scale, zero = scale.reshape(shape), zero.reshape(shape)
    return (values - zero) * scale


@pytest.mark.parametrize("per_channel", [True, False])
@pytest.mark.parametrize("transposed", [True, False])
@pytest.mark.parametrize(("inner", "outer", "rows"), [(5, 3, 4), (1, 7, 0), (13, 1, 1)])
def test_linear(inner: int, outer: int, rows: int, transposed: bool, per_channel: bool) -> None:
    layer = _drawn(nn.QuantLinear(inner, outer, per_channel=per_channel, transposed=transposed))
    x = np.random.default_rng(1).standard_normal((rows, inner)).astype(np.float32)
    assert isinstance(layer.bias, nn.QuantizedWeight)
    weight = _real(layer.weight) if transposed else _real(layer.weight).T
    want = x.astype(np.float64) @ weight + _real(layer.bias)
    got = burn.compile(layer, (f"float32[n, {inner}]",))(x)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5 * (1 + np.abs(want).max(initial=0)))


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_convolution(dtype: str) -> None:
    """A 1-d convolution with groups, strides and padding, element by element."""
    layer = _drawn(nn.QuantConv1d(4, 6, 3, stride=2, padding=1, groups=2, dtype=dtype))
    x = np.random.default_rng(1).standard_normal((2, 4, 7)).astype(np.float32)
    assert isinstance(layer.bias, nn.QuantizedWeight)
    weight, bias = _real(layer.weight), _real(layer.bias)
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1)))
    want = np.empty((2, 6, 4))
    for channel in range(6):
        group = slice(0, 2) if channel < 3 else slice(2, 4)
        for t in range(4):
            window = padded[:, group, 2 * t : 2 * t + 3]
            want[:, channel, t] = (window * weight[channel]).sum((1, 2)) + bias[channel]
    np.testing.assert_allclose(burn.compile(layer, ("float32[n, 4, d]",))(x), want, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(("dtype", "zero"), [("int8", -3), ("uint8", 200)])
def test_fake_quantization(dtype: str, zero: int) -> None:
    x = np.linspace(-30, 30, 101, dtype=np.float32)
    info = np.iinfo(dtype)
    scale = np.float64(np.float32(0.125))
    want = (np.clip(np.round(x / scale) + zero, info.min, info.max) - zero) * scale
    got = burn.compile(nn.FakeQuantize(0.125, zero, dtype), ("float32[n]",))(x)
    np.testing.assert_array_equal(got, want.astype(np.float32))


def test_sources_have_the_layers() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            self.quantize = nn.FakeQuantize(0.05, 3)
            self.conv = nn.QuantConv2d(3, 8, 3, padding=1)
            self.head = nn.QuantLinear(8, 4, per_channel=False)

        def forward(self, x: burn.Tensor) -> burn.Tensor:
            return self.head(self.conv(self.quantize(x)).mean((2, 3)))

    source = generate(trace(_drawn(Net()), {"x": "float32[n, 3, 5, 5]"}))
    for line in (
        "self.quantize = nn.FakeQuantize(0.05, 3)",
        "self.conv = nn.QuantConv2d(3, 8, 3, padding=1)",
        "self.head = nn.QuantLinear(8, 4, per_channel=False)",
    ):
        assert line in source.text
    assert "ops." not in source.text


@pytest.mark.parametrize("zero_point", [True, False])
@pytest.mark.parametrize(("bits", "inner", "outer", "rows"), [(4, 70, 5, 3), (8, 33, 1, 1), (2, 16, 7, 0)])
def test_block_linear(bits: int, inner: int, outer: int, rows: int, zero_point: bool) -> None:
    layer = nn.BlockLinear(inner, outer, bits=bits, block=16, zero_point=zero_point)
    random = np.random.default_rng(2)
    scale = random.uniform(-1, 1, layer.scale.shape).astype("float32")
    zero = random.uniform(0, 2**bits, layer.scale.shape).astype("float32")
    layer.load_state_dict({**layer.state_dict(), "scale": scale, **({"zero_point": zero} if zero_point else {})})
    held = np.asarray(layer.values)
    numbers = np.stack([held >> (bits * i) & (2**bits - 1) for i in range(8 // bits)], -1).reshape(*scale.shape, 16)
    point = zero[..., None].astype("f8") if zero_point else 2.0 ** (bits - 1)
    weight = ((numbers - point) * scale[..., None].astype("f8")).reshape(outer, -1)[:, :inner]
    x = random.standard_normal((rows, inner)).astype("float32")
    want = x.astype("f8") @ weight.T + np.asarray(layer.bias).astype("f8")
    compiled = burn.jit(layer)
    for got in (layer(x), compiled(x)):
        np.testing.assert_allclose(np.asarray(got), want, atol=3e-5 * max(1, np.abs(want).max(initial=0)))
