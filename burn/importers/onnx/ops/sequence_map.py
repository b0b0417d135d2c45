"""SequenceMap: a graph for every element of a sequence."""

from __future__ import annotations

from typing import Any

from burn.dialect import ops
from burn.dialect.mlir import ir
from burn.dialect.types import Container
from burn.importers.onnx.lists import RunList, TensorList, to_list
from burn.importers.onnx.loops import Step, Trips, repeat
from burn.importers.onnx.node import Node, onnx_op
from burn.importers.onnx.ops.sequence import appended, at, sequence
from burn.importers.onnx.tensors import ELEMENT_TYPES


@onnx_op("SequenceMap")
def sequence_map(node: Node) -> list[Any]:
    """The body once for every element of the first sequence; other operands are sequences as long, or tensors."""
    items = sequence(node)
    if isinstance(items, RunList) or any(isinstance(value, RunList) for value in node.inputs):
        return _looped(node)
    count, body = len(items.elements), node.graph("body")
    columns: list[list[Any]] = [[] for _ in body.output]
    for index in range(count):
        arguments = []
        for value in node.inputs:
            if isinstance(value, TensorList) and len(value.elements) != count:
                node.fail(f"sequences of {count} and {len(value.elements)} elements cannot be walked together")
            arguments.append(value.elements[index] if isinstance(value, TensorList) else value)
        for column, value in zip(columns, node.build_subgraph(body, arguments), strict=True):
            column.append(value)
    return [TensorList(tuple(column)) for column in columns]


def _looped(node: Node) -> list[Any]:
    """As a loop that appends to lists."""
    body = node.graph("body")
    operands = [to_list(node, v) if isinstance(v, (TensorList, RunList)) else v for v in node.inputs]

    def step(iteration: ir.Value, condition: ir.Value, carried: list[Any]) -> Step:
        given = [at(node, v, iteration) if isinstance(v, RunList) else v for v in operands]
        values = node.build_subgraph(body, given)
        return Step(None, [appended(node, c, v) for c, v in zip(carried, values, strict=True)], [])

    dtypes = [ELEMENT_TYPES.get(o.type.tensor_type.elem_type, "float32") for o in body.output]
    empty = [RunList(ops.list_empty(), Container(("sequence",), dtype, ()), True) for dtype in dtypes]
    trips = Trips(ops.list_length(operands[0].value), None)
    return repeat(node, trips, empty, 0, step, len(body.node), goes_on=True)[0]
