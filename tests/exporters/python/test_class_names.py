"""The modules of the source model, as torch.onnx.export(dynamo=True) records them in metadata, give classes and names."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from burn.exporters.python.generate import Source, generate
from burn.importers.onnx.build import import_onnx
from burn.importers.onnx.modules import CLASSES, NAMES, modules_of, scope_of

LINEAR = "torch.nn.modules.linear.Linear"


class Exported:
    """An ONNX model whose nodes have the metadata of PyTorch's exporter."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def node(self, op: str, inputs: Sequence[str], modules: Sequence[tuple[str, str]], **attributes) -> str:
        name = f"val_{len(self.nodes)}"
        node = helper.make_node(op, list(inputs), [name], name=f"node_{name}", **attributes)
        stack = [("", "model.Net"), *modules, (name, f"aten.{op}")]
        for key, part in ((NAMES, 0), (CLASSES, 1)):
            node.metadata_props.add(key=key, value=str([entry[part] for entry in stack]))
        self.nodes.append(node)
        return name

    def weight(self, *shape: int) -> str:
        number = len(self.weights)
        array = np.random.default_rng(number).normal(size=shape).astype("float32")
        self.weights.append(numpy_helper.from_array(array, f"val_w{number}"))  # a name that says nothing
        return f"val_w{number}"

    def linear(self, x: str, sizes: tuple[int, int], modules: Sequence[tuple[str, str]]) -> str:
        value = self.node("MatMul", [x, self.weight(*sizes)], modules)
        return self.node("Add", [value, self.weight(sizes[1])], modules)

    def source(self, result: str, size: int) -> Source:
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])
        y = helper.make_tensor_value_info(result, TensorProto.FLOAT, ["batch", size])
        graph = helper.make_graph(self.nodes, "main", [x], [y], self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
        return generate(import_onnx(model.SerializeToString()))


def test_blocks_have_the_class_and_the_names_of_the_model() -> None:
    made, x = Exported(), "x"
    for i in range(3):
        block = [(f"blocks.{i}", "model.Gated")]
        value = made.linear(x, (4, 6), [*block, (f"blocks.{i}.value", LINEAR)])
        gate = made.linear(x, (4, 6), [*block, (f"blocks.{i}.gate", LINEAR)])
        gated = made.node("Mul", [value, made.node("Sigmoid", [gate], block)], block)
        x = made.node("Add", [x, made.linear(gated, (6, 4), [*block, (f"blocks.{i}.out", LINEAR)])], block)
    text = made.source(made.linear(x, (4, 2), [("head", LINEAR)]), 2).text
    assert "class Gated(nn.Module):" in text
    assert "self.value = nn.Linear(4, 6)" in text and "self.gate = nn.Linear(4, 6)" in text
    assert "self.blocks = nn.ModuleList(Gated() for _ in range(3))" in text
    assert "for block in self.blocks:\n            x = block(x)" in text
    assert "return self.head(x)" in text


def test_a_sequential_is_written_as_one() -> None:
    made = Exported()
    head = [("head", "torch.nn.modules.container.Sequential")]
    x = made.linear("x", (4, 6), [*head, ("head.0", LINEAR)])
    x = made.node("Relu", [x], [*head, ("head.1", "torch.nn.modules.activation.ReLU")])
    x = made.linear(x, (6, 2), [*head, ("head.3", LINEAR)])
    source = made.source(x, 2)
    assert "self.head = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))" in source.text
    assert "return self.head(x)" in source.text
    assert sorted(source.tensors) == ["head.0.bias", "head.0.weight", "head.2.bias", "head.2.weight"]


def test_a_sequential_that_is_left_in_the_middle_is_not() -> None:
    made = Exported()
    body = [("body", "torch.nn.modules.container.Sequential")]
    first = made.linear("x", (4, 4), [*body, ("body.0", LINEAR)])
    second = made.linear(first, (4, 4), [*body, ("body.1", LINEAR)])
    text = made.source(made.node("Add", [first, second], []), 4).text
    assert "nn.Sequential" not in text


def test_functions_are_named_for_what_they_are() -> None:
    """F.max_pool2d has no module; the layer is not named after the module that calls it."""
    made = Exported()
    x = made.node("Reshape", ["x", _shape(made, [-1, 1, 2, 2])], [])
    stem = [("stem", "model.Stem")]
    x = made.node("Relu", [made.node("MaxPool", [x], stem, kernel_shape=[2, 2])], stem)
    x = made.node("Reshape", [x, _shape(made, [-1, 1])], [])
    assert "self.max_pool = nn.MaxPool2d(2" in made.source(x, 1).text


def _shape(made: Exported, sizes: list[int]) -> str:
    name = f"shape{len(made.weights)}"
    made.weights.append(numpy_helper.from_array(np.array(sizes), name))
    return name


def test_other_text_in_the_metadata_is_no_module() -> None:
    node = helper.make_node("Relu", ["x"], ["y"], name="/encoder/act/Relu")
    assert modules_of(node) is None and scope_of(node) == "encoder.act"
    for text in ("", "[", "1 +", "{'a': 1}", "(" * 500):
        del node.metadata_props[:]
        node.metadata_props.add(key=NAMES, value=text)
        node.metadata_props.add(key=CLASSES, value="['', 'x']")
        assert modules_of(node) is None
