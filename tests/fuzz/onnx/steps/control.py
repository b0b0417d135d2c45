"""If, Loop and Scan, whose bodies read values from outside."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ..graph import Graph
from ..values import Value, is_float
from .reduce import reduced
from .registry import step

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def info(name: str, dtype: int = FLOAT, shape: list[int] | None = None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


class Body:
    """The nodes of a body, which the graph does not know."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: list[onnx.NodeProto] = []

    def node(self, op: str, *operands: str, **attributes: Any) -> str:
        name = self.graph.name()
        self.nodes.append(helper.make_node(op, list(operands), [name], **attributes))
        return name

    def constant(self, number: Any, dtype: type) -> str:
        return self.node("Constant", value=numpy_helper.from_array(np.asarray(number, dtype)))

    def chain(self, start: str, outer: list[str], length: int) -> str:
        """A few elementwise ops, from `start` on, with values from outside."""
        graph, value = self.graph, start
        for _ in range(length):
            kind = graph.random.random()
            if kind < 0.4:
                value = self.node(graph.choice(["Tanh", "Relu", "Abs", "Neg", "Sigmoid"]), value)
            elif kind < 0.7 and outer:
                arguments = [value, graph.choice(outer)]
                graph.random.shuffle(arguments)
                value = self.node(graph.choice(["Add", "Mul", "Sub", "Max"]), *arguments)
            else:
                value = self.node(
                    graph.choice(["Add", "Mul"]), value, self.constant(graph.choice([0.5, 2, -1]), np.float32)
                )
        return value

    def finish(self, inputs: list[onnx.ValueInfoProto], outputs: list[onnx.ValueInfoProto]) -> onnx.GraphProto:
        return helper.make_graph(self.nodes, self.graph.name(), inputs, outputs)


def state(value: Value) -> bool:
    return value.dtype == np.float32


def alike(graph: Graph, value: Value) -> list[str]:
    return [other.name for other in graph.values if other.like(value)][-4:]


@step(2)
def branch(graph: Graph) -> None:
    value = graph.pick(state)
    outer = alike(graph, value)
    then, other = Body(graph), Body(graph)
    one = then.chain(value.name, outer, graph.random.randint(1, 4))
    two = other.chain(graph.choice(outer), outer, graph.random.randint(1, 3))
    if graph.chance(0.3):  # another size in one branch
        two = other.node("Concat", two, two, axis=0) if value.rank else other.node("Neg", two)
    judge = graph.pick(is_float)
    total = reduced(graph, "ReduceMean", judge, None, 0)
    (condition,) = graph.node("Greater", total, np.asarray(graph.choice([0, 0.25, -0.5]), judge.dtype))
    graph.node("If", condition, then_branch=then.finish([], [info(one)]), else_branch=other.finish([], [info(two)]))


@step(2)
def loop(graph: Graph) -> None:
    value, body = graph.pick(state), Body(graph)
    turn, go, carried, second = (graph.name() for _ in range(4))
    last = body.node("Tanh", body.chain(carried, alike(graph, value), graph.random.randint(1, 3)))
    if graph.chance(0.5):
        on = body.node("Identity", go)
    else:
        on = body.node("Less", turn, body.constant(graph.choice([1, 2, 3]), np.int64))
    starts, results = [value.name], [info(last)]
    inputs = [info(turn, INT64, []), info(go, BOOL, []), info(carried)]
    if graph.chance(0.4):  # two carried values that swap in each iteration
        other = graph.pick(value.like)
        starts.append(other.name)
        inputs.append(info(second))
        results = [info(body.node("Sigmoid", second)), info(last)]
    if graph.chance(0.6):
        results.append(info(body.node("Abs", last)))
    proto = body.finish(inputs, [info(on, BOOL, []), *results])
    trips = np.asarray(graph.choice([1, 2, 3, 5]), np.int64)
    graph.node("Loop", trips, np.asarray(True), *starts, outputs=len(results), body=proto)


@step(2)
def scan(graph: Graph) -> None:
    value = graph.pick(lambda v: state(v) and v.rank >= 2 and not v.empty)
    axis, body = graph.random.randrange(value.rank), Body(graph)
    carried, part = graph.name(), graph.name()
    after = body.node("Tanh", body.node("Add", carried, part))
    out = body.node("Mul", after, part)
    proto = body.finish([info(carried), info(part)], [info(after), info(out)])
    (first,) = graph.node("Gather", value, np.asarray(0, np.int64), axis=axis)
    graph.node(
        "Scan",
        first,
        value,
        outputs=2,
        body=proto,
        num_scan_inputs=1,
        scan_input_axes=[axis],
        scan_output_axes=[graph.random.randrange(value.rank)],
        scan_input_directions=[graph.choice([0, 1])],
        scan_output_directions=[graph.choice([0, 1])],
    )
