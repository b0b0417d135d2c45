"""An ONNX graph that is being rewritten: its constants, who makes and who reads each tensor, and what can be quantised."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper, version_converter

from burn.errors import BurnError, ModelError, Problem, near
from burn.runtime.files import whole

OPSET = 13
"""The first in which DequantizeLinear takes a scale for each channel."""

LIMIT = 1_900_000_000
"""Bytes of a model's file."""


@dataclass(frozen=True)
class Contraction:
    """A node with a constant float32 weight: the operand `weight`, whose axis `axis` is the output's channel axis.

    bias: the name of a constant bias that is quantised with it."""

    node: onnx.NodeProto
    weight: str
    axis: int
    bias: str | None


class Graph:
    """A copy of a model, of opset 13 or later, whose constants are all initializers. Raises ModelError."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.model = _modern(model)
        self.graph = self.model.graph
        _hold_constants(self.graph)
        self.arrays: dict[str, np.ndarray] = {}
        self.tensors = {t.name: t for t in self.graph.initializer}
        self.outputs = {o.name for o in self.graph.output}
        self.names = Counter([n for node in self.graph.node for n in node.output] + [*self.tensors])
        self.names.update(i.name for i in self.graph.input)
        self.index()

    def index(self) -> None:
        """Rebuilds the producers and users of all values. The body of a control flow node counts as the node."""
        self.maker = {name: node for node in self.graph.node for name in node.output if name}
        self.readers: dict[str, list[onnx.NodeProto]] = defaultdict(list)
        for node in self.graph.node:
            for name in dict.fromkeys([*node.input, *_captured(node)]):
                self.readers[name].append(node)

    @property
    def inputs(self) -> list[onnx.ValueInfoProto]:
        return [i for i in self.graph.input if i.name not in self.tensors]

    def array(self, name: str) -> np.ndarray | None:
        """The elements of a constant; None for what is computed."""
        if name not in self.arrays and name in self.tensors:
            self.arrays[name] = numpy_helper.to_array(self.tensors[name])
        return self.arrays.get(name)

    def floats(self, name: str) -> np.ndarray | None:
        array = self.array(name)
        return array if array is not None and array.dtype == np.float32 else None

    def fresh(self, name: str) -> str:
        self.names[name] += 1
        return name if self.names[name] == 1 else self.fresh(f"{name}_{self.names[name] - 1}")

    def constant(self, name: str, array: Any) -> str:
        """A new initializer, under this name or one like it."""
        name = self.fresh(name)
        self.tensors[name] = numpy_helper.from_array(np.asarray(array), name)
        self.graph.initializer.append(self.tensors[name])
        return name

    def replace(self, nodes: Iterable[onnx.NodeProto]) -> None:
        """Other nodes; constants that none of them reads go."""
        kept = list(nodes)
        del self.graph.node[:]
        self.graph.node.extend(kept)
        self.index()
        read = set(self.readers) | self.outputs
        initializers = [t for t in self.graph.initializer if t.name in read]
        inputs = [i for i in self.graph.input if i.name not in self.tensors or i.name in read]
        del self.graph.initializer[:], self.graph.input[:], self.graph.value_info[:]
        self.graph.initializer.extend(initializers)
        self.graph.input.extend(inputs)
        self.tensors = {t.name: t for t in self.graph.initializer}

    def contractions(self, kinds: Collection[str], exclude: Collection[str]) -> list[Contraction]:
        """The nodes that can be quantised, except those in `exclude`. Raises BurnError for an unknown node name,
        for weights that are not finite, or if no node is left."""
        every = [node.name for node in self.graph.node if node.name]
        unknown = [
            Problem(f"there is no node '{name}'", hint=near(name, every)) for name in exclude if name not in every
        ]
        if unknown:
            raise BurnError("what is to be left out is not there", unknown)
        found = [
            self._contraction(node) for node in self.graph.node if node.op_type in kinds and node.name not in exclude
        ]
        contractions = [contraction for contraction in found if contraction is not None]
        if not contractions:
            raise BurnError(
                f"nothing to quantise: no {', '.join(kinds)} with a constant weight of float32 in the graph"
            )
        infinite = [
            Problem(
                f"'{name}', a constant of node '{contraction.node.name or contraction.node.output[0]}', holds NaN or infinity"
            )
            for contraction in contractions
            for name in (contraction.weight, contraction.bias)
            if name is not None and not np.isfinite(self.floats(name)).all()  # type: ignore[arg-type]
        ]
        if infinite:
            raise BurnError("numbers that are not finite cannot be quantised", infinite)
        return contractions

    def _contraction(self, node: onnx.NodeProto) -> Contraction | None:
        weight = self.floats(node.input[1])
        if (
            node.domain not in ("", "ai.onnx")
            or weight is None
            or weight.size == 0
            or self.array(node.input[0]) is not None
        ):
            return None
        given = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        bias = node.input[2] if len(node.input) > 2 and node.input[2] else None
        if bias is not None and self.floats(bias) is None:
            bias = None
        match node.op_type:
            case "Conv":
                return Contraction(node, node.input[1], 0, bias)
            case "MatMul" if weight.ndim == 2:
                return Contraction(node, node.input[1], 1, None)
            case "Gemm":
                axis = 0 if given.get("transB", 0) else 1
                plain = given.get("alpha", 1.0) == given.get("beta", 1.0) == 1.0
                row = bias is not None and self.arrays[bias].shape == (weight.shape[axis],)
                return Contraction(node, node.input[1], axis, bias if plain and row else None)
        return None

    def fold_transposes(self) -> None:
        """Matrices that a Transpose turns become constants, as the embedding that an output layer shares."""
        kept: list[onnx.NodeProto] = []
        for node in self.graph.node:
            array = self.floats(node.input[0]) if node.op_type == "Transpose" else None
            if array is None or array.ndim != 2 or node.output[0] in self.outputs:
                kept.append(node)
                continue
            turn = next((list(a.ints) for a in node.attribute if a.name == "perm"), [1, 0])
            turned = numpy_helper.from_array(np.ascontiguousarray(array.transpose(turn)), node.output[0])
            self.tensors[turned.name] = turned
            self.graph.initializer.append(turned)
        self.replace(kept)

    def fold_batch_norms(self) -> None:
        """Batch normalisation behind a convolution goes into its weight and bias."""
        gone: set[str] = set()
        for norm in list(self.graph.node):
            conv = self.maker.get(norm.input[0]) if norm.op_type == "BatchNormalization" else None
            if conv is None or conv.op_type != "Conv" or len(self.readers[conv.output[0]]) != 1:
                continue
            numbers = [self.floats(name) for name in norm.input[1:5]]
            weight = self.floats(conv.input[1])
            bias = self.floats(conv.input[2]) if len(conv.input) > 2 and conv.input[2] else np.zeros(1, np.float32)
            used = [name for name in norm.output if name and (name in self.outputs or self.readers[name])]
            if weight is None or bias is None or any(n is None for n in numbers) or used != [norm.output[0]]:
                continue
            if conv.output[0] in self.outputs:
                continue
            scale, shift, mean, variance = (np.asarray(n, np.float64) for n in numbers)
            epsilon = next((a.f for a in norm.attribute if a.name == "epsilon"), 1e-5)
            factor = scale / np.sqrt(variance + epsilon)
            wide = weight * factor.reshape(-1, *(1,) * (weight.ndim - 1))
            names = [
                self.constant(f"{conv.input[1]}_folded", wide.astype(np.float32)),
                self.constant(f"{norm.input[2]}_folded", ((bias - mean) * factor + shift).astype(np.float32)),
            ]
            del conv.input[1:]
            conv.input.extend(names)
            conv.output[0] = norm.output[0]
            gone.add(norm.output[0])
        self.replace(n for n in self.graph.node if not (n.op_type == "BatchNormalization" and n.output[0] in gone))


def save(model: onnx.ModelProto, path: Path) -> None:
    """Writes a model, whole or not at all. Raises BurnError where it is too large for one file."""
    if path.is_dir():
        raise BurnError(f"{path} is a folder, not a file")
    if not path.parent.is_dir():
        raise BurnError(f"{path.parent}: there is no such folder")
    if model.ByteSize() > LIMIT:
        raise BurnError(f"the quantised model has {model.ByteSize() / 1e9:.1f} GB: ONNX files end at 1.9 GB")
    with whole(path) as file:
        file.write(model.SerializeToString())


def _modern(model: onnx.ModelProto) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    opset = next((o.version for o in copy.opset_import if o.domain in ("", "ai.onnx")), 1)
    if opset >= OPSET:
        return copy
    copy.ir_version = max(copy.ir_version, 8)  # since version 4 constants need not be inputs
    try:
        return version_converter.convert_version(copy, OPSET)
    except Exception as error:  # its own classes
        reason = str(error).splitlines()[-1]
        raise ModelError(f"quantised models are of opset {OPSET} or later, this one is of {opset}", [reason]) from None


def _hold_constants(graph: onnx.GraphProto) -> None:
    """Constant nodes with a tensor become initializers."""
    for node in list(graph.node):
        if node.op_type == "Constant" and [a.name for a in node.attribute] == ["value"]:
            tensor = graph.initializer.add()
            tensor.CopyFrom(node.attribute[0].t)
            tensor.name = node.output[0]
            graph.node.remove(node)


def _captured(node: onnx.NodeProto) -> set[str]:
    """The names that a node's bodies read."""
    found: set[str] = set()
    for attribute in node.attribute:
        for body in (attribute.g, *attribute.graphs):
            for inner in body.node:
                found |= {*inner.input, *_captured(inner)}
            found |= {o.name for o in body.output}
    return found
