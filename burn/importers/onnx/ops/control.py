"""If and Loop. A branch with a constant condition, and a short loop of known length, are inlined."""

from __future__ import annotations

from typing import Any

import onnx

from burn.dialect.compose import number
from burn.dialect.dims import dim_max
from burn.dialect.mlir import ir
from burn.importers.onnx.branches import choose
from burn.importers.onnx.conditions import known_flag, scalar_of
from burn.importers.onnx.lists import RunList, container_of
from burn.importers.onnx.loops import Step, Trips, repeat
from burn.importers.onnx.node import Node, onnx_op
from burn.importers.onnx.ops.sequence import at


@onnx_op("If")
def if_(node: Node) -> list[Any]:
    branches = (node.graph("then_branch"), node.graph("else_branch"))
    known = known_flag(node, node.required(0))
    if known is not None:
        return node.build_subgraph(branches[0 if known else 1], [])
    then, otherwise = (lambda graph=graph: node.build_subgraph(graph, []) for graph in branches)
    wanted = [container_of(value.type) for value in branches[0].output]
    return choose(node, scalar_of(node, node.required(0)), then, otherwise, wanted)


@onnx_op("Loop")
def loop(node: Node) -> list[Any]:
    """A scan output of a loop without iterations is [0, ...] with the sizes of a slice. Its rank is the slice's plus one, as
    in the specification's type inference. (ONNX Runtime gives [0] there.)"""
    graph = node.graph("body")
    initial = list(node.inputs[2:])
    if any(value is None for value in initial):
        node.fail("a carried value has no initial value")
    if len(graph.input) != 2 + len(initial) or len(graph.output) < 1 + len(initial):
        node.fail(
            f"the body takes {len(graph.input)} and gives {len(graph.output)} values for {len(initial)} carried", "body"
        )
    count = node.dims(0) if node.has_input(0) else None
    start = node.input(1)
    if known_flag(node, start) is False:
        trips = Trips(number(0, "int64"), 0)
    else:
        trips = Trips(
            scalar_of(node, node.required(0)) if node.has_input(0) else None,
            dim_max(count[0], 0) if count is not None else None,
            None if known_flag(node, start) else scalar_of(node, node.required(1)),
        )

    def body(iteration: ir.Value, condition: ir.Value, carried: list[Any]) -> Step:
        go_on, *values = node.build_subgraph(graph, [iteration, condition, *carried])
        return Step(go_on, values[: len(initial)], values[len(initial) :])

    scans = len(graph.output) - 1 - len(initial)
    finals, stacked = repeat(node, trips, initial, scans, body, len(graph.node), _goes_on(graph))
    for index, value in enumerate(finals):  # it may come in as an optional, and go out as what that is of
        declared = container_of(graph.output[1 + index].type)
        if (
            isinstance(value, RunList)
            and value.is_optional
            and declared is not None
            and declared.kinds[0] != "optional"
        ):
            finals[index] = at(node, value, None)
    return [*finals, *stacked]


def _goes_on(graph: onnx.GraphProto) -> bool:
    """True if a body's condition never ends the loop: it is passed through, or a constant true."""
    name = graph.output[0].name
    made = {output: n for n in graph.node for output in n.output}
    while name in made and made[name].op_type == "Identity":
        name = made[name].input[0]
    tensor = next((t for t in graph.initializer if t.name == name), None)
    if name in made and made[name].op_type == "Constant":
        tensor = next((a.t for a in made[name].attribute if a.name == "value"), None)
    if tensor is not None and tensor.data_type == onnx.TensorProto.BOOL:
        return bool(tensor.int32_data and tensor.int32_data[0]) or tensor.raw_data == b"\x01"
    return name == graph.input[1].name
