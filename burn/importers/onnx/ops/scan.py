"""Scan, as a loop over slices of its operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from burn.dialect import ops
from burn.dialect.compose import dim_value, transpose
from burn.dialect.mlir import ir
from burn.dialect.types import type_of
from burn.importers.onnx.loops import UNROLLED_TRIPS, Step, Trips, repeat
from burn.importers.onnx.node import Node, onnx_op


@onnx_op("Scan")
def scan(node: Node) -> list[ir.Value]:
    if node.opset < 9:
        return _batched_scan(node)
    count = node.int("num_scan_inputs")
    states, inputs = [node.required(i) for i in range(len(node.inputs))], []
    if not 0 < count <= len(states):
        node.fail(f"is {count} of {len(states)} operands", "num_scan_inputs")
    states, inputs = states[: len(states) - count], states[len(states) - count :]
    axes = node.ints("scan_input_axes", (0,) * count)
    backwards = node.ints("scan_input_directions", (0,) * count)
    outputs = len(node.graph("body").output) - len(states)
    out_axes = node.ints("scan_output_axes", (0,) * outputs)
    out_backwards = node.ints("scan_output_directions", (0,) * outputs)
    for name, given, wanted in (
        ("scan_input_axes", axes, count),
        ("scan_input_directions", backwards, count),
        ("scan_output_axes", out_axes, outputs),
        ("scan_output_directions", out_backwards, outputs),
    ):
        if len(given) != wanted:
            node.fail(f"has {len(given)} entries, not {wanted}", name)
    axes = tuple(node.axis(a, type_of(x).rank, "scan_input_axes") for a, x in zip(axes, inputs, strict=True))
    finals, stacked = _scan(node, states, inputs, axes, backwards)
    results = []
    for value, axis, reverse in zip(stacked, out_axes, out_backwards, strict=True):
        rank = type_of(value).rank
        axis = node.axis(axis, rank, "scan_output_axes")
        value = _reversed(value) if reverse else value
        results.append(transpose(value, (*range(1, axis + 1), 0, *range(axis + 1, rank))))
    return [*finals, *results]


def _scan(
    node: Node, states: list[ir.Value], inputs: list[ir.Value], axes: Sequence[int], backwards: Sequence[int]
) -> tuple[list[ir.Value], list[ir.Value]]:
    graph = node.graph("body")
    length = type_of(inputs[0]).shape[axes[0]]
    for value, axis in zip(inputs, axes, strict=True):
        other = type_of(value).shape[axis]
        if isinstance(other, int) and isinstance(length, int) and other != length:
            node.fail(f"walks {length} and {other} elements together", "scan_input_axes")
        length = other if isinstance(other, int) else length

    def body(iteration: ir.Value, condition: ir.Value, carried: list[Any]) -> Step:
        slices = []
        for value, axis, reverse in zip(inputs, axes, backwards, strict=True):
            index = ops.sub(dim_value(length - 1), iteration) if reverse else iteration
            slices.append(ops.gather(value, index, axis=axis))
        results = node.build_subgraph(graph, [*carried, *slices])
        return Step(None, results[: len(states)], results[len(states) :])

    scans = len(graph.output) - len(states)
    return repeat(node, Trips(dim_value(length), length), states, scans, body, len(graph.node), goes_on=True)


def _reversed(value: ir.Value) -> ir.Value:
    shape = type_of(value).shape
    rest = len(shape) - 1
    return ops.slice(value, starts=(shape[0] - 1, *[0] * rest), sizes=shape, steps=(-1, *[1] * rest))


def _batched_scan(node: Node) -> list[ir.Value]:
    """Opset 8: every operand has a batch axis first, and the scan runs once for each place of it."""
    if node.has_input(0):
        node.fail("sequence_lens is not supported")
    count = node.int("num_scan_inputs")
    values = [node.required(i) for i in range(1, len(node.inputs))]
    if not 0 < count <= len(values):
        node.fail(f"is {count} of {len(values)} operands", "num_scan_inputs")
    states, inputs = values[: len(values) - count], values[len(values) - count :]
    backwards = node.ints("directions", (0,) * count)
    if len(backwards) != count:
        node.fail(f"has {len(backwards)} entries, not {count}", "directions")
    for group, least in ((states, 1), (inputs, 2)):
        for value in group:
            if type_of(value).rank < least:
                node.fail(f"operands have a batch axis first, then one to walk along, not {type_of(value)}")
    batch = type_of(values[0]).shape[0]

    def body(iteration: ir.Value, condition: ir.Value, carried: list[Any]) -> Step:
        own = [[ops.gather(value, iteration, axis=0) for value in group] for group in (states, inputs)]
        finals, stacked = _scan(node, own[0], own[1], (0,) * count, backwards)
        return Step(None, [], [*finals, *stacked])

    outputs = len(node.graph("body").output)
    nodes = len(node.graph("body").node)
    return repeat(node, Trips(dim_value(batch), batch), [], outputs, body, nodes * UNROLLED_TRIPS, goes_on=True)[1]
