"""Decides if rounding alone explains a difference: runs ONNX Runtime again, with a little noise after every node.

`noise` makes its twins piece by piece while a graph grows. It ignores errors inside the body of a loop and between the pieces of
a jump. Here every float that a node computes, also in bodies, and every input of many bits is multiplied by random factors
near 1. If that moves a result as far as burn is from it, the difference says nothing. Ops that only move numbers, and inputs of
few bits, are exempt: ties among them are no rounding.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from . import reference
from .compare import far
from .noise import EXACT, MOVES, SUMS, few_bits, rounding
from .values import FLOATS, Array

TRIALS = 60
NOISE: dict[int, float] = {TensorProto.FLOAT: 2.0**-22, TensorProto.DOUBLE: 2.0**-51, TensorProto.FLOAT16: 2.0**-9}


def spread_of(kind: int) -> float:
    return max(NOISE[kind], 2 * rounding() if kind == TensorProto.FLOAT else 0.0)


MOVED = 0.25
"""Of the difference: rounding that moves a result so far may as well move it all the way."""


def rounding_decides(
    model: onnx.ModelProto, feed: Mapping[str, Array], got: Mapping[str, Any], want: Mapping[str, Array]
) -> bool:
    """True if noise explains every element that differs."""
    open_ = {name: _differs(np.asarray(got[name]), array) for name, array in want.items()}
    if any(mask is None for mask in open_.values()):
        return False  # another type or shape
    types = _types(model)
    for trial in range(TRIALS):
        shaken = onnx.ModelProto()
        shaken.CopyFrom(model)
        _shake(shaken.graph, types, random.Random(trial), top=True)
        noise = np.random.default_rng(trial)
        try:
            moved = reference.outputs(reference.session(shaken), {name: _near(noise, x) for name, x in feed.items()})
        except Exception:
            continue
        for name, array in want.items():
            if moved[name].shape != array.shape:
                return True  # a size that rounding decides
            open_[name] &= ~_moved(np.asarray(got[name]), array, moved[name])  # type: ignore[operator]
        if not any(mask.any() for mask in open_.values() if mask is not None):
            return True
    return False


def _near(noise: np.random.Generator, array: Array) -> Array:
    if array.dtype not in FLOATS or (few_bits(array) and not rounding()):
        return array
    spread = spread_of(helper.np_dtype_to_tensor_dtype(array.dtype))
    return np.asarray(array * noise.uniform(1 - 2 * spread, 1 + 2 * spread, array.shape), array.dtype)


def _differs(got: Array, want: Array) -> Array | None:
    if got.shape != want.shape or got.dtype != want.dtype:
        return None
    return far(got, want, want) if want.dtype in FLOATS else got != want


def _moved(got: Array, want: Array, moved: Array) -> Array:
    if want.dtype not in FLOATS:
        return moved != want
    a, b, c = (x.astype(np.float64) for x in (got, want, moved))
    with np.errstate(all="ignore"):
        return (np.isfinite(b) != np.isfinite(c)) | (np.abs(c - b) >= MOVED * np.abs(a - b))


def _types(model: onnx.ModelProto) -> dict[str, int]:
    """The element type of every value that inference finds one for."""
    found: dict[str, int] = {}

    def collect(graph: onnx.GraphProto) -> None:
        for value in (*graph.input, *graph.value_info, *graph.output):
            found[value.name] = value.type.tensor_type.elem_type
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.GRAPH:
                    collect(attribute.g)

    collect(onnx.shape_inference.infer_shapes(model).graph)
    return found


def _shake(graph: onnx.GraphProto, types: Mapping[str, int], draw: random.Random, top: bool = False) -> None:
    """Behind every float that a node of the graph computes: times factors near 1."""
    nodes = list(graph.node)
    del graph.node[:]
    for node in nodes:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                _shake(attribute.g, types, draw)
        names = [name for name in node.output if types.get(name) in NOISE and node.op_type not in MOVES]
        kept = [f"{name} before" if name in names else name for name in node.output]
        del node.output[:]
        node.output.extend(kept)
        graph.node.append(node)
        for name in names:
            graph.node.extend(
                _noisy(name, types[name], draw, top, node.op_type in (SUMS if rounding() else SUMS - EXACT))
            )


def _noisy(name: str, kind: int, draw: random.Random, by_element: bool, is_sum: bool) -> list[onnx.NodeProto]:
    """`name` as `name before` times one of two factors, chosen by element index or at random: a body's
    values must keep the shapes that inference finds. Sums also get an error of their terms' size, taken to be 1."""
    spread = 2 * spread_of(kind)
    single = TensorProto.FLOAT
    given = {
        "flat": (TensorProto.INT64, [1], [-1]),
        "axis": (TensorProto.INT64, [], [0]),
        "zero": (single, [], [0.0]),
        "often": (single, [], [draw.uniform(1e2, 1e4)]),
        "one": (TensorProto.DOUBLE, [], [draw.uniform(1 - spread, 1 + spread)]),
        "unit": (kind, [], [1.0]),
        "other": (TensorProto.DOUBLE, [], [draw.uniform(1 - spread, 1 + spread)]),
    }
    nodes = [
        helper.make_node("Constant", [], [f"{name} {word}"], value=helper.make_tensor("", *content))
        for word, content in given.items()
    ]
    steps: list[tuple[str, list[str], str, dict[str, Any]]] = [("Cast", ["before"], "tells", {"to": single})]
    if by_element:
        ones = helper.make_tensor("", single, [1], [1.0])
        steps = [
            ("Shape", ["before"], "shape", {}),
            ("ConstantOfShape", ["shape"], "ones", {"value": ones}),
            ("Reshape", ["ones", "flat"], "row", {}),
            ("CumSum", ["row", "axis"], "places", {}),
            ("Reshape", ["places", "shape"], "tells", {}),
        ]
    steps += [
        ("Mul", ["tells", "often"], "phase", {}),
        ("Sin", ["phase"], "wave", {}),
        ("Less", ["wave", "zero"], "which", {}),
        ("Where", ["which", "one", "other"], "wide", {}),
        ("Cast", ["wide"], "factor", {"to": kind}),
        ("Add", ["before", "less"], "moved", {}) if is_sum else ("Identity", ["before"], "moved", {}),
        ("Mul", ["moved", "factor"], "", {}),
    ]
    if is_sum:
        steps[-2:-2] = [("Sub", ["factor", "unit"], "less", {})]
    for op, operands, result, attributes in steps:
        made = [f"{name} {result}".strip()]
        nodes.append(helper.make_node(op, [f"{name} {word}" for word in operands], made, **attributes))
    return nodes
