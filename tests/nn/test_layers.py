"""Every layer and loss beside torch's, which computes in float64: random configurations from `torch_table.py`, called with lazy
tensors and, one of each, compiled with a symbolic batch."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

import burn
from burn import nn

torch = pytest.importorskip("torch")
import tests.nn.torch_losses  # noqa: E402  # its rows
import tests.nn.torch_sequences  # noqa: E402, F401
from tests.nn.torch_table import LAYERS, Draw, Drawn  # noqa: E402

DRAWS = 2

ELSEWHERE = {
    **dict.fromkeys(("BlockLinear", "FakeQuantize", "QuantizedWeight", "QuantLinear"), "test_quantization.py"),
    **dict.fromkeys(("QuantConv1d", "QuantConv2d", "QuantConv3d"), "test_quantization.py"),
    "adapt": "tests/nn/adapt",
    "Module": "test_module.py",
    "Layer": "test_module.py",
    "ModuleList": "test_training.py",
    "ModuleDict": "test_training.py",
    "Sequential": "test_training.py",
    "Parameter": "test_module.py",
    "Buffer": "test_module.py",
    "Graph": "tests/importers/test_opened.py",
    "Config": "test_config.py",
    "ConfigError": "test_config.py",
    "Range": "test_config.py",
    "init": "test_init.py",
    "loss": "the losses are in the table",
    "RNNTLoss": "torch has none: test_transducer.py",
    "DeformConv2d": "torch has none: test_training.py",
    "KeyValueCache": "test_decoding.py",
    "LayerCache": "test_decoding.py",
    "LSTM": "ONNX's layouts: tests/dialect/test_recurrent.py; the stacked layers are in the table",
    "GRU": "as LSTM",
    "RNN": "as LSTM",
}
"""Names in burn.nn that have no row, and where they are tested."""


def test_every_layer_is_in_the_table() -> None:
    assert set(nn.__all__) - set(LAYERS) - set(ELSEWHERE) == set()
    assert set(LAYERS) - set(nn.__all__) == set() and set(LAYERS) & set(ELSEWHERE) == set()


def drawn(name: str, number: int) -> tuple[Drawn, list[np.ndarray]]:
    """A row's layer with torch's weights, and torch's results in float64."""
    seed = zlib.crc32(name.encode()) + number
    torch.manual_seed(seed)
    with torch.no_grad():
        row = LAYERS[name](Draw(seed))
        module = row.module or row.theirs
        if isinstance(module, torch.nn.Module):
            state = {k: v.numpy().copy() for k, v in module.state_dict().items()}
            if dict(row.ours.named_parameters()):
                row.ours.load(state, adapter="torch")
            module.double()
        want = row.theirs(*map(_theirs, row.inputs), **row.their_options)
    return row, [w.numpy() for w in _flat(want)]


def _theirs(array: np.ndarray) -> Any:
    tensor = torch.from_numpy(array)
    return tensor.double() if tensor.is_floating_point() else tensor


def _flat(result: Any) -> list[Any]:
    if isinstance(result, (tuple, list)):
        return [tensor for part in result if part is not None for tensor in _flat(part)]
    return [result]


def check(got: list[np.ndarray], want: list[np.ndarray], name: str) -> None:
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        assert a.shape == b.shape and a.dtype == (np.float32 if b.dtype == np.float64 else b.dtype), name
        scale = np.abs(b[np.isfinite(b)]).max(initial=0.0)
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5 * scale, err_msg=name)


@pytest.mark.covering
@pytest.mark.parametrize("number", range(DRAWS))
@pytest.mark.parametrize("name", LAYERS)
def test_lazy_layers_are_torchs(name: str, number: int) -> None:
    row, want = drawn(name, number)
    got = (row.call or row.ours)(*map(burn.constant, row.inputs), **row.options)
    check([g.numpy() for g in _flat(got)], want, f"{number}: {row.ours!r}")


@pytest.mark.parametrize("name", LAYERS)
def test_compiled_layers_take_every_batch(name: str) -> None:
    row, want = drawn(name, DRAWS)
    examples = [
        burn.spec(str(x.dtype), ("batch", *x.shape[1:]) if row.batch_axis == 0 and x.ndim > 1 else x.shape)
        for x in row.inputs
    ]

    def call(*tensors: burn.Tensor) -> Any:
        result = (row.call or row.ours)(*tensors, **row.options)
        return tuple(_flat(result))

    compiled = burn.compile(call, examples)
    got = compiled(*row.inputs)
    check(list(got) if isinstance(got, tuple) else [got], want, repr(row.ours))


# Layers whose sizes are computed from those of their input, and a size of it.
SIZES = {
    "upsampling": (lambda: nn.Upsample(scale_factor=1.5, mode="bilinear"), "float32[n, 2, h, w]", (1, 2, 5, 7)),
    "regions": (lambda: nn.AdaptiveAvgPool2d((3, 2)), "float32[n, 2, h, w]", (2, 2, 7, 5)),
    "ceiling": (lambda: nn.AvgPool2d(3, 2, 1, ceil_mode=True), "float32[n, 2, h, w]", (2, 2, 8, 5)),
    "mirrored": (lambda: nn.ReflectionPad2d(2), "float32[n, 2, h, w]", (2, 2, 8, 5)),
    "windows": (lambda: nn.Unfold(2), "float32[n, 2, h, w]", (2, 2, 8, 5)),
    "shuffled": (lambda: nn.PixelShuffle(2), "float32[n, 4, h, w]", (2, 4, 8, 5)),
    "no steps": (lambda: nn.StackedLSTM(3, 4, 2), "float32[t, n, 3]", (0, 2, 3)),
    "no batch": (lambda: nn.MultiheadAttention(4, 2), "float32[n, s, 4]", (0, 3, 4)),
    "no sequence": (lambda: nn.TransformerEncoderLayer(4, 2, 8), "float32[n, s, 4]", (2, 0, 4)),
}


@pytest.mark.parametrize("name", SIZES)
def test_every_size_may_be_symbolic(name: str) -> None:
    make, type_, shape = SIZES[name]
    layer, x = make(), Draw(0).normal(*shape)
    want = [t.numpy() for t in _flat(layer(burn.constant(x)))]
    compiled = burn.compile(lambda y: tuple(_flat(layer(y))), (type_,))(x)
    for a, b in zip(compiled if isinstance(compiled, (tuple, list)) else [compiled], want, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
