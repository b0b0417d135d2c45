"""Language models as ONNX files with random weights, as exporters write decoders.

A step takes a token, its position, and the keys and values of the tokens before. It gives scores, and keys and values with the
new ones. Weights are float32, or 4 bits in blocks (MatMulNBits), as `burn quantize --weights int4` and ONNX Runtime's tools
make them; the embedding is float16 then. At level 4, which many exporters write for CPUs, ONNX Runtime rounds activations to 8
bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from rows.shapes import GPT2_SMALL, LLAMA_1B, Shape

MICROSOFT = "com.microsoft"


DECODERS = {
    "gpt2-small": GPT2_SMALL,
    "gpt2-small-int4": replace(GPT2_SMALL, block=32),
    "gpt2-small-int4-level4": replace(GPT2_SMALL, block=32, level=4),
    "llama-1b-int4": replace(LLAMA_1B, block=32),
    "llama-1b-int4-level4": replace(LLAMA_1B, block=32, level=4),
}


def write(shape: Shape, path: Path) -> None:
    onnx.save(_Writer(shape).model(), path)


def write_matmul(shape: Shape, path: Path) -> None:
    """The matmul of any number of rows `x` with a hidden layer's first weight."""
    writer = _Writer(shape)
    y = writer.matmul("x", shape.width, shape.hidden)
    writer.nodes.append(helper.make_node("Identity", [y], ["y"]))
    sides = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", size])
        for name, size in (("x", shape.width), ("y", shape.hidden))
    ]
    onnx.save(writer.whole("product", sides[:1], sides[1:]), path)


def feeds(shape: Shape, past: int) -> dict[str, np.ndarray]:
    """A step's inputs behind so many tokens."""
    rng = np.random.default_rng(1)
    size = (1, shape.shared, past, shape.depth)
    made: dict[str, np.ndarray] = {
        "input_ids": np.array([[11]], np.int64),
        "position_ids": np.array([[past]], np.int64),
    }
    for i in range(shape.layers):
        for side in ("key", "value"):
            made[f"past_key_values.{i}.{side}"] = rng.standard_normal(size, dtype=np.float32)
    return made


class _Writer:
    def __init__(self, shape: Shape) -> None:
        self.shape, self.rng = shape, np.random.default_rng(0)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.outputs: list[onnx.ValueInfoProto] = []
        self.tables: list[str] = []

    def model(self) -> onnx.ModelProto:
        s = self.shape
        self.inputs = [
            helper.make_tensor_value_info(n, TensorProto.INT64, [1, 1]) for n in ("input_ids", "position_ids")
        ]
        dtype = np.float16 if s.block else np.float32
        x = self.node("Gather", self.normal((s.words, s.width), dtype), "input_ids", axis=0)
        x = self.node("Cast", x, to=TensorProto.FLOAT) if s.block else x
        if not s.rotary:
            x = self.node("Add", x, self.node("Gather", self.normal((s.room, s.width)), "position_ids", axis=0))
        if s.rotary:  # all layers share the tables
            angles = np.outer(np.arange(s.room), 500000.0 ** -(np.arange(0, s.depth, 2) / s.depth))
            self.tables = [self.constant(t.astype(np.float32)) for t in (np.cos(angles), np.sin(angles))]
        for i in range(s.layers):
            x = self.node("Add", x, self.attention(self.norm(x), i))
            x = self.node("Add", x, self.feed_forward(self.norm(x)))
        scores = self.matmul(self.norm(x), s.width, s.words)
        self.nodes.append(helper.make_node("Identity", [scores], ["logits"]))
        self.outputs.insert(0, helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, 1, s.words]))
        return self.whole("decoder", self.inputs, self.outputs)

    def whole(
        self, name: str, inputs: Sequence[onnx.ValueInfoProto], outputs: Sequence[onnx.ValueInfoProto]
    ) -> onnx.ModelProto:
        """The model written so far."""
        graph = helper.make_graph(self.nodes, name, inputs, outputs, self.constants)
        domains = [helper.make_opsetid("", 20), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=domains, ir_version=9)

    # ---- layers ------------------------------------------------------------------------------------------------------------
    def attention(self, x: str, layer: int) -> str:
        """One query reads the keys of its group: the heads of a group are rows of one matmul."""
        s = self.shape
        kept = s.shared * s.depth
        q, k, v = (self.biased(x, s.width, n) for n in (s.width, kept, kept))
        if s.rotary:
            q, k = (
                self.node("RotaryEmbedding", y, "position_ids", *self.tables, domain=MICROSOFT, num_heads=n)
                for y, n in ((q, s.heads), (k, s.shared))
            )
        q = self.reshaped(q, (1, s.shared, s.heads // s.shared, s.depth))
        keys, values = (
            self.kept(self.reshaped(y, (1, s.shared, 1, s.depth)), layer, side)
            for y, side in ((k, "key"), (v, "value"))
        )
        scores = self.node("MatMul", q, self.node("Transpose", keys, perm=[0, 1, 3, 2]))
        scores = self.node("Mul", scores, self.constant(np.float32(s.depth**-0.5)))
        mixed = self.node("MatMul", self.node("Softmax", scores, axis=-1), values)
        return self.biased(self.reshaped(mixed, (1, 1, s.width)), s.width, s.width)

    def kept(self, new: str, layer: int, side: str) -> str:
        s, name, output = self.shape, f"past_key_values.{layer}.{side}", f"present.{layer}.{side}"
        info = helper.make_tensor_value_info
        self.inputs.append(info(name, TensorProto.FLOAT, [1, s.shared, "past", s.depth]))
        self.outputs.append(info(output, TensorProto.FLOAT, [1, s.shared, "past + 1", s.depth]))
        self.nodes.append(helper.make_node("Concat", [name, new], [output], axis=2))
        return output

    def feed_forward(self, x: str) -> str:
        s = self.shape
        up = self.biased(x, s.width, s.hidden)
        if s.rotary:
            gate = self.biased(x, s.width, s.hidden)
            up = self.node("Mul", self.node("Mul", gate, self.node("Sigmoid", gate)), up)
        else:
            up = self.node("Gelu", up, approximate="tanh")
        return self.biased(up, s.hidden, s.width)

    def norm(self, x: str) -> str:
        ones = self.constant(np.ones(self.shape.width, np.float32))
        if not self.shape.rotary:
            zeros = self.constant(np.zeros(self.shape.width, np.float32))
            return self.node("LayerNormalization", x, ones, zeros, axis=-1, epsilon=1e-5)
        square = self.node("Pow", x, self.constant(np.float32(2)))
        mean = self.node("ReduceMean", square, self.constant(np.array([-1])), keepdims=1)
        root = self.node("Sqrt", self.node("Add", mean, self.constant(np.float32(1e-5))))
        return self.node("Mul", self.node("Div", x, root), ones)

    def biased(self, x: str, depth: int, columns: int) -> str:
        y = self.matmul(x, depth, columns)
        return y if self.shape.rotary else self.node("Add", y, self.normal((columns,)))

    def matmul(self, x: str, depth: int, columns: int) -> str:
        block = self.shape.block
        if not block:
            return self.node("MatMul", x, self.normal((depth, columns)))
        size = (columns, depth // block, block // 2)
        values = self.constant(self.rng.integers(0, 256, size, np.uint8))
        scales = self.constant(self.rng.uniform(0.003, 0.006, columns * (depth // block)).astype(np.float32))
        sizes = {"K": depth, "N": columns, "bits": 4, "block_size": block, "accuracy_level": self.shape.level}
        return self.node("MatMulNBits", x, values, scales, domain=MICROSOFT, **sizes)

    # ---- nodes -------------------------------------------------------------------------------------------------------------
    def node(self, kind: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        name = f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name, domain=domain, **attributes))
        return name

    def reshaped(self, x: str, shape: Sequence[int]) -> str:
        return self.node("Reshape", x, self.constant(np.array(shape, np.int64)))

    def normal(self, shape: tuple[int, ...], dtype: type = np.float32) -> str:
        return self.constant((self.rng.standard_normal(shape, np.float32) * np.float32(0.02)).astype(dtype))

    def constant(self, array: Any) -> str:
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name
