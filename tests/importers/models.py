"""Small ONNX models for the tests of the importer, and ways to spoil them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT


def value(name: str, shape: Sequence[int | str] | None = (2, 3), dtype: int = FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def tensor(name: str, array: Any) -> TensorProto:
    return numpy_helper.from_array(np.asarray(array), name)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto] | None = None,
    outputs: Sequence[onnx.ValueInfoProto] | None = None,
    initializers: Sequence[TensorProto] = (),
    opset: int = 18,
    functions: Sequence[onnx.FunctionProto] = (),
    domains: dict[str, int] | None = None,
) -> onnx.ModelProto:
    """A model of one float input x and one output y, both 2 by 3, unless told otherwise."""
    inputs = [value("x")] if inputs is None else inputs
    outputs = [value("y")] if outputs is None else outputs
    graph = helper.make_graph(list(nodes), "g", list(inputs), list(outputs), list(initializers))
    imports = [helper.make_opsetid("", opset)]
    imports += [helper.make_opsetid(name, version) for name, version in (domains or {}).items()]
    return helper.make_model(graph, opset_imports=imports, functions=list(functions), ir_version=10)


def node(op: str, inputs: str, outputs: str, name: str = "", **attributes: Any) -> onnx.NodeProto:
    """A node; operands are separated by spaces, a dash stands for one that is left out."""
    names = [["" if word == "-" else word for word in side.split()] for side in (inputs, outputs)]
    return helper.make_node(op, *names, name=name or None, **attributes)
