"""Modules written by hand, exported at several opsets and run in ONNX Runtime at several sizes."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest

import burn
from burn import nn, ops
from burn.compiler import executable
from burn.exporters.onnx.graph import NEWEST
from burn.importers.onnx import import_onnx
from burn.tracing.trace import trace_examples
from tests.exporters.onnx.building import close, exported, operators, ort

OPSETS = (18, 20, 21, 23, 25)  # the newest of ONNX, 28, has an IR version that ONNX Runtime does not read yet


class Mlp(nn.Module):
    inputs: ClassVar = {"x": "float32[batch, 12]"}
    outputs = ("scores",)

    def __init__(self) -> None:
        self.hidden = nn.Linear(12, 16)
        self.norm = nn.LayerNorm(16)
        self.head = nn.Linear(16, 5)

    def forward(self, x: Any) -> Any:
        return ops.softmax(self.head(self.norm(ops.gelu(self.hidden(x)))), axis=-1)


class Cnn(nn.Module):
    inputs: ClassVar = {"image": "float32[batch, 3, height, width]"}
    outputs = ("features", "pooled")

    def __init__(self) -> None:
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.pool = nn.MaxPool2d(2)
        self.second = nn.Conv2d(8, 6, 3, stride=2, groups=2)
        self.head = nn.Linear(6, 4)

    def forward(self, image: Any) -> Any:
        x = self.pool(ops.relu(self.norm(self.first(image))))
        x = ops.hard_swish(self.second(x))
        return x, self.head(ops.reduce(x, kind="sum", axes=(2, 3)))


class Recurrent(nn.Module):
    inputs: ClassVar = {"tokens": "int64[seq, batch]"}
    outputs = ("states", "last")

    def __init__(self) -> None:
        self.embedding = nn.Embedding(11, 6)
        self.lstm = nn.LSTM(6, 5, direction="bidirectional")

    def forward(self, tokens: Any) -> Any:
        states, last, _ = self.lstm(self.embedding(tokens))
        return states, last


class Block(nn.Module):
    """A pre-norm transformer block with causal attention."""

    inputs: ClassVar = {"x": "float32[batch, seq, 8]"}
    outputs = ("y",)

    def __init__(self) -> None:
        self.norm1, self.norm2 = nn.RMSNorm(8), nn.LayerNorm(8)
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x: Any) -> Any:
        batch, seq, _ = x.shape
        qkv = ops.transpose(
            ops.reshape(self.qkv(self.norm1(x)), shape=(batch, seq, 3, 2, 4)), permutation=(2, 0, 3, 1, 4)
        )
        heads = (batch, 2, seq, 4)
        steps = (1,) * 5
        q, k, v = (
            ops.reshape(ops.slice(qkv, starts=(i, 0, 0, 0, 0), sizes=(1, *heads), steps=steps), shape=heads)
            for i in range(3)
        )
        mixed = ops.attention(q, k, v, scale=0.5, causal=True)
        x = x + self.out(ops.reshape(ops.transpose(mixed, permutation=(0, 2, 1, 3)), shape=(batch, seq, 8)))
        return x + self.down(ops.silu(self.up(self.norm2(x))))


def tokens(seq: int, batch: int) -> np.ndarray:
    return np.random.default_rng(seq).integers(0, 11, (seq, batch))


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


CASES = {
    "mlp": (Mlp, [floats(1, 12), floats(7, 12), floats(0, 12)]),
    "cnn": (Cnn, [floats(1, 3, 8, 8), floats(3, 3, 11, 17)]),
    "recurrent": (Recurrent, [tokens(1, 1), tokens(13, 3)]),
    "block": (Block, [floats(1, 1, 8), floats(3, 7, 8)]),
}


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("name", CASES)
def test_module(name: str, opset: int) -> None:
    kind, examples = CASES[name]
    made = trace_examples(kind())
    model = exported(made, opset)
    run = executable(made.copy())
    for x in examples:
        got, want = ort(model, [x]), run(x)
        close(got, list(want) if isinstance(want, tuple) else [want])


@pytest.mark.parametrize("name", ["mlp", "cnn", "block"])
def test_the_newest_opset(name: str) -> None:
    """Its IR version is too new for ONNX Runtime: ONNX's own evaluator computes it."""
    from onnx.reference import ReferenceEvaluator

    kind, examples = CASES[name]
    made = trace_examples(kind())
    evaluator = ReferenceEvaluator(exported(made, NEWEST))
    for x in examples[:2]:
        want = executable(made.copy())(x)
        got = evaluator.run(None, {made.input_names[0]: x})
        close(list(got), list(want) if isinstance(want, tuple) else [want])  # type: ignore[arg-type]


def test_whole_operators_by_opset() -> None:
    kinds = {opset: set(operators(exported(trace_examples(Block()), opset))) for opset in OPSETS}
    assert "Attention" in kinds[23] and "RMSNormalization" in kinds[23]
    assert "Attention" not in kinds[21] and "Softmax" not in kinds[21]
    assert all("LayerNormalization" in found for found in kinds.values())
    assert "Gelu" in operators(exported(trace_examples(Mlp()), 20)) and "Gelu" not in operators(
        exported(trace_examples(Mlp()), 18)
    )


def test_names_and_sizes_are_kept() -> None:
    model = exported(trace_examples(Cnn()))
    (image,) = model.graph.input
    assert [d.dim_param or d.dim_value for d in image.type.tensor_type.shape.dim] == ["batch", 3, "height", "width"]
    assert [o.name for o in model.graph.output] == ["features", "pooled"]
    weights = {t.name for t in model.graph.initializer}
    assert {"first.weight", "first.bias", "norm.weight", "second.bias", "head.weight", "head.bias"} <= weights
    assert {n.name for n in model.graph.node} >= {"first/Conv", "norm/BatchNormalization", "head/Gemm"}


def test_a_linear_layer_is_one_gemm_and_a_convolution_has_its_bias() -> None:
    model = exported(trace_examples(Cnn()))
    assert operators(model).count("Gemm") == 1
    assert [len(n.input) for n in model.graph.node if n.op_type == "Conv"] == [3, 3]


@pytest.mark.parametrize("name", CASES)
def test_round_trip(name: str) -> None:
    """burn -> ONNX -> burn gives the same numbers."""
    kind, examples = CASES[name]
    made = trace_examples(kind())
    again = executable(import_onnx(exported(made).SerializeToString()))
    run = executable(made.copy())
    for x in examples:
        a, b = again(x), run(x)
        close(list(a) if isinstance(a, tuple) else [a], list(b) if isinstance(b, tuple) else [b])


def test_the_public_function(tmp_path: Any) -> None:
    path = tmp_path / "mlp.onnx"
    module = Mlp()
    model = burn.export(module, path, opset=20)
    assert model.opset_import[0].version == 20
    x = floats(3, 12)
    close([np.asarray(burn.load(path, cache=False)(x))], [np.asarray(burn.compile(module)(x))])


def test_a_function_with_named_sizes(tmp_path: Any) -> None:
    path = tmp_path / "f.onnx"
    burn.export(lambda x, y: ops.add(x, y), path, (floats(2, 3), floats(3)), dynamic={0: {0: "rows"}})
    run = burn.load(path, cache=False)
    assert run(floats(5, 3), floats(3)).shape == (5, 3)


def test_a_pytorch_module(tmp_path: Any) -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(16, 4, 32, activation="gelu", batch_first=True, norm_first=True).eval()
    path = tmp_path / "layer.onnx"
    model = burn.export(layer, path, (torch.randn(3, 5, 16),), dynamic={0: {0: "batch", 1: "seq"}})
    assert [d.dim_param or d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim] == ["batch", "seq", 16]
    assert "linear1.weight" in {t.name for t in model.graph.initializer}
    for shape in ((3, 5, 16), (1, 9, 16)):
        x = torch.randn(shape)
        with torch.no_grad():
            close(ort(model, [x.numpy()]), [layer(x).numpy()])
