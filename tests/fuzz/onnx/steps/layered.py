"""Repeated blocks, as a model's layers: with own or shared parameters, named as exporters name them, and with control flow
inside. Sometimes one lacks a part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..graph import Graph
from ..values import Array, Reject, known
from .control import BOOL, FLOAT, INT64, Body, info
from .reduce import reduced
from .registry import step

Part = Callable[["Layer", str, str], str]
MOST = 4


class Layer:
    """One of the blocks, while it is written: its parameters have names under its own."""

    def __init__(self, graph: Graph, blocks: Blocks, number: int) -> None:
        self.graph, self.blocks, self.number = graph, blocks, number

    def parameter(self, role: str, *shape: int) -> str:
        """This layer's own, or one that all layers share."""
        graph, blocks = self.graph, self.blocks
        key = (role, shape)
        if role in blocks.shared and key in blocks.made:
            return blocks.made[key]
        kind = blocks.kinds.setdefault(role, graph.choice([None, None, "zeros", "ones"] if "bias" in role else [None]))
        array = graph.numbers(shape, np.float32, kind) * np.float32(0.5)
        name = f"{blocks.prefix}.{self.number}.{role}" if blocks.prefix else None
        blocks.made[key] = graph.constant(array, name)
        return blocks.made[key]

    def node(self, op: str, *operands: Array | str, **attributes: Any) -> str:
        scope = f"{self.blocks.prefix}.{self.number}" if self.blocks.prefix else ""
        return self.graph.node(op, *operands, scope=scope, **attributes)[0]


class Blocks:
    """The common parts of the blocks of one stack."""

    def __init__(self, graph: Graph, size: int) -> None:
        self.size = size
        self.prefix = graph.prefix() if graph.chance(0.7) else ""
        names = [f"part{i}.{role}" for i in range(MOST) for role in ("weight", "bias")]
        self.shared = set(graph.random.sample(names, graph.choice([0, 0, 1, 3, len(names)])))
        self.kinds: dict[str, str | None] = {}
        self.made: dict[tuple[str, tuple[int, ...]], str] = {}


@step(6)
def layers(graph: Graph) -> None:
    value = graph.pick(lambda v: v.dtype == np.float32 and v.rank in (2, 3) and bool(v.dims[-1]) and not v.empty)
    size = known(value.dims[-1:])[0]
    blocks, count = Blocks(graph, size), graph.random.randint(2, 4)
    chosen = [graph.choice(PARTS) for _ in range(graph.random.randint(1, MOST))]
    uneven = graph.chance(0.25)
    x = value.name
    for number in range(count):
        layer = Layer(graph, blocks, number)
        start = x
        for at, part in enumerate(chosen):
            if uneven and number and graph.chance(0.3):
                continue
            x = part(layer, f"part{at}", x)
        x = layer.node("Tanh", layer.node("Add", x, start)) if x != start else x
    if x == value.name:
        raise Reject("nothing")


def linear(layer: Layer, role: str, x: str) -> str:
    size = layer.blocks.size
    matmul = layer.node("MatMul", x, layer.parameter(f"{role}.weight", size, size))
    return layer.node("Add", matmul, layer.parameter(f"{role}.bias", size))


def norm(layer: Layer, role: str, x: str) -> str:
    size = layer.blocks.size
    scale, bias = layer.parameter(f"{role}.weight", size), layer.parameter(f"{role}.bias", size)
    return layer.node("LayerNormalization", x, scale, bias, axis=-1, epsilon=1e-3)


def skip_norm(layer: Layer, role: str, x: str) -> str:
    size = layer.blocks.size
    scale, bias = layer.parameter(f"{role}.weight", size), layer.parameter(f"{role}.bias", size)
    total = layer.node("Add", x, layer.node("Relu", x))
    return layer.node("LayerNormalization", total, scale, bias, epsilon=1e-3)


def gated(layer: Layer, role: str, x: str) -> str:
    return layer.node("Mul", x, layer.node("Sigmoid", x))


def scaled(layer: Layer, role: str, x: str) -> str:
    return layer.node("Mul", x, layer.parameter(f"{role}.weight", layer.blocks.size))


def looped(layer: Layer, role: str, x: str) -> str:
    """A Loop that reads a parameter of its layer, and carries x; or none, and stacks what it makes."""
    graph, body = layer.graph, Body(layer.graph)
    step_, going, carried = (graph.name() for _ in range(3))
    weight = layer.parameter(f"{role}.weight", layer.blocks.size)
    on = body.node("Identity", going)
    trips = graph.choice([1, 2, 3])
    if graph.chance(0.3):
        made = body.node("Mul", x, body.node("Cast", step_, to=FLOAT))
        proto = body.finish([info(step_, INT64, []), info(going, BOOL, [])], [info(on, BOOL, []), info(made)])
        stacked = layer.node("Loop", np.asarray(trips, np.int64), np.asarray(True), body=proto)
        return reduced(graph, "ReduceMean", stacked, [0], 0)
    last = body.node("Tanh", body.node("Add", body.node("Mul", carried, weight), x))
    inputs = [info(step_, INT64, []), info(going, BOOL, []), info(carried)]
    proto = body.finish(inputs, [info(on, BOOL, []), info(last)])
    return layer.node("Loop", np.asarray(trips, np.int64), np.asarray(True), x, body=proto)


def branched(layer: Layer, role: str, x: str) -> str:
    graph, then, other = layer.graph, Body(layer.graph), Body(layer.graph)
    weight = layer.parameter(f"{role}.weight", layer.blocks.size)
    one, two = then.node("Mul", x, weight), other.node("Neg", x)
    total = reduced(graph, "ReduceMean", x, None, 0)
    condition = layer.node("Greater", total, np.asarray(0, np.float32))
    bodies = {"then_branch": then.finish([], [info(one)]), "else_branch": other.finish([], [info(two)])}
    return layer.node("If", condition, **bodies)


PARTS: list[Part] = [linear, linear, norm, skip_norm, gated, scaled, looped, branched]
