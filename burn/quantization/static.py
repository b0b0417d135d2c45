"""Static quantisation: QuantizeLinear and DequantizeLinear around quantised tensors (QDQ).

Activations of matmuls are quantised by calibrated ranges, weights symmetrically by output channel, biases to int32 with both
scales multiplied. In a convolutional network the results of convolutions, and of residual sums and pools after them, are
also quantised, so 8-bit values flow from layer to layer. In a transformer values between matmuls stay float, for accuracy.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper

from burn.quantization.calibrate import Range, ranges
from burn.quantization.graph import Contraction, Graph
from burn.quantization.samples import Sample

KINDS = ("Conv", "Gemm", "MatMul")

CLIPS = ("Relu", "Clip")
"""Ops that are fused into the contraction's kernel: quantisation follows them."""

KEEPS = ("MaxPool", "Flatten", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Identity")
"""Ops that only move elements: quantised like their operand."""

FOLLOWS = (*CLIPS, *KEEPS, "Add", "Sum", "AveragePool", "GlobalAveragePool", "Concat", "Resize")
"""Ops after convolutions whose results are also quantised."""


@dataclass(frozen=True)
class Numbers:
    """A scale and a zero point."""

    scale: np.ndarray
    zero: np.ndarray


def quantize_static(
    model: onnx.ModelProto,
    samples: Sequence[Sample],
    *,
    method: str = "minmax",
    percentile: float = 99.99,
    activations: str = "uint8",
    per_channel: bool = True,
    exclude: Collection[str] = (),
) -> onnx.ModelProto:
    """The model in QDQ form. `samples`: inputs by name, for calibration. `method`, `percentile`: see `METHODS`.
    `activations`: uint8 or int8. `per_channel`: a scale for each output channel of a weight. `exclude`: names of nodes that stay
    in float. Raises BurnError if nothing can be quantised, or for an unknown node name."""
    graph = Graph(model)
    graph.fold_batch_norms()
    contractions = graph.contractions(KINDS, exclude)
    flowing = _flowing(graph, contractions)
    read = [p.node.input[0] for p in contractions]
    wanted = list(dict.fromkeys([*read, *(n for n in flowing if n not in graph.outputs)]))
    origin = {name: _origin(graph, name, wanted) for name in wanted}
    seen = ranges(graph.model, list(dict.fromkeys(origin.values())), samples, method, percentile)
    numbers = {name: _asymmetric(seen[origin[name]], activations) for name in wanted}
    return _Writer(graph, contractions, numbers, flowing, per_channel).write()


def _flowing(graph: Graph, contractions: Iterable[Contraction]) -> set[str]:
    """The quantised results of convolutions, after clipping, and of the ops that follow them."""
    found: set[str] = set()
    convolutions = {p.node.output[0] for p in contractions if p.node.op_type == "Conv"}
    for node in graph.graph.node:
        inputs = [name for name in node.input if name and graph.array(name) is None]
        follows = node.op_type in FOLLOWS and len(node.output) == 1
        if node.output and (node.output[0] in convolutions or (follows and inputs and found.issuperset(inputs))):
            found.add(node.output[0])
    return {name for name in found if not _is_clipped(graph, name)}


def _is_clipped(graph: Graph, name: str) -> bool:
    """True if a rectifier is the only user of a node's result."""
    readers = graph.readers[name]
    return name not in graph.outputs and len(readers) == 1 and readers[0].op_type in CLIPS


def _origin(graph: Graph, name: str, wanted: Collection[str]) -> str:
    """The tensor whose elements these are, as far as it is quantised itself."""
    node = graph.maker.get(name)
    while node is not None and node.op_type in KEEPS and node.input[0] in wanted:
        name = node.input[0]
        node = graph.maker.get(name)
    return name


def _asymmetric(seen: Range, dtype: str) -> Numbers:
    """The scale that maps a range, with zero in it, to all of a type, and where zero is."""
    info = np.iinfo(dtype)
    low, high = min(seen.low, 0.0), max(seen.high, 0.0)
    scale = max((high - low) / (info.max - info.min), float(np.finfo(np.float32).tiny))
    zero = np.clip(np.rint(info.min - low / scale), info.min, info.max)
    return Numbers(np.asarray(scale, np.float32), np.asarray(zero).astype(dtype))


def symmetric(weight: np.ndarray, axis: int | None) -> tuple[np.ndarray, np.ndarray]:
    """A weight in int8 from -127 to 127, and its scale, for each position of `axis` or one."""
    axes = tuple(a for a in range(weight.ndim) if a != axis)
    largest = np.abs(weight).max(axis=axes if axis is not None else None)
    scale = np.where(largest > 0, largest / 127, 1).astype(np.float32)
    along = scale.reshape([-1 if a == axis else 1 for a in range(weight.ndim)]) if axis is not None else scale
    return np.clip(np.rint(weight / along), -127, 127).astype(np.int8), scale


class _Writer:
    def __init__(
        self,
        graph: Graph,
        contractions: list[Contraction],
        numbers: dict[str, Numbers],
        flowing: set[str],
        per_channel: bool,
    ) -> None:
        self.graph, self.numbers, self.flowing, self.per_channel = graph, numbers, flowing, per_channel
        self.contractions = {p.node.output[0]: p for p in contractions}
        self.weights: dict[tuple[str, int], tuple[str, np.ndarray]] = {}

    def write(self) -> onnx.ModelProto:
        nodes: list[onnx.NodeProto] = []
        for name in (i.name for i in self.graph.inputs):
            nodes += self._around(name)
        for node in self.graph.graph.node:
            contraction = self.contractions.get(node.output[0]) if node.output else None
            copy = onnx.NodeProto()
            copy.CopyFrom(node)
            if contraction is not None:
                nodes += self._quantised(copy, contraction)
            for position, name in enumerate(node.input):
                if self._is_read_quantised(node, position, name, contraction):
                    copy.input[position] = _dequantised(name)
            nodes.append(copy)
            for name in node.output:
                nodes += self._around(name)
        self.graph.replace(nodes)
        return self.graph.model

    def _is_read_quantised(
        self, node: onnx.NodeProto, position: int, name: str, contraction: Contraction | None
    ) -> bool:
        if name not in self.numbers:
            return False
        return (contraction is not None and position == 0) or (name in self.flowing and node.op_type in FOLLOWS)

    def _around(self, name: str) -> list[onnx.NodeProto]:
        """A tensor quantised, and back."""
        if name not in self.numbers:
            return []
        numbers = self.numbers[name]
        scale = self.graph.constant(f"{name}_scale", numbers.scale)
        parameters = [scale, self.graph.constant(f"{name}_zero_point", numbers.zero)]
        return [
            _node("QuantizeLinear", [name, *parameters], f"{name}_quantized"),
            _node("DequantizeLinear", [f"{name}_quantized", *parameters], _dequantised(name)),
        ]

    def _quantised(self, node: onnx.NodeProto, contraction: Contraction) -> list[onnx.NodeProto]:
        """The nodes of a contraction's quantised weight and bias."""
        nodes: list[onnx.NodeProto] = []
        axis = contraction.axis if self.per_channel else None
        if (contraction.weight, contraction.axis) not in self.weights:
            weight = self.graph.array(contraction.weight)
            assert weight is not None
            whole, scale = symmetric(weight, axis)
            parts = self._constants(contraction.weight, whole, scale)
            self.weights[contraction.weight, contraction.axis] = (f"{parts[0]}_dequantized", scale)
            nodes.append(_node("DequantizeLinear", parts, f"{parts[0]}_dequantized", axis))
        node.input[1], scale = self.weights[contraction.weight, contraction.axis]
        bias = None if contraction.bias is None else self.graph.array(contraction.bias)
        if bias is None or contraction.bias is None:
            return nodes
        units = (self.numbers[contraction.node.input[0]].scale * scale).astype(np.float32)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            whole = np.rint(bias.astype(np.float64) / units)
        if np.isfinite(whole).all() and (np.abs(whole) < 2**31).all():
            parts = self._constants(contraction.bias, whole.astype(np.int32), np.asarray(units))
            nodes.append(_node("DequantizeLinear", parts, f"{parts[0]}_dequantized", 0 if units.ndim else None))
            node.input[2] = f"{parts[0]}_dequantized"
        return nodes

    def _constants(self, name: str, whole: np.ndarray, scale: np.ndarray) -> list[str]:
        zero = np.zeros(scale.shape, whole.dtype)
        return [
            self.graph.constant(f"{name}_quantized", whole),
            self.graph.constant(f"{name}_scale", scale),
            self.graph.constant(f"{name}_zero_point", zero),
        ]


def _dequantised(name: str) -> str:
    return f"{name}_dequantized"


def _node(kind: str, inputs: Sequence[str], output: str, axis: int | None = None) -> onnx.NodeProto:
    node = helper.make_node(kind, list(inputs), [output], name=f"{output}_{kind}")
    if axis is not None:
        node.attribute.append(helper.make_attribute("axis", axis))
    return node
