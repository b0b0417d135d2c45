"""Tensors in ONNX Runtime's blocked layout, and the size of their blocks. Enter at `Blocked` and `block_size`.

Files that ONNX Runtime optimised at its level "all" hold operators of the domain com.microsoft.nchwc. A tensor between them is
declared as [n, c, h, w], c a multiple of the block, but its elements lie in memory as [n, c / block, h, w, block]. The importer
keeps such a tensor as `Blocked`: the ordinary [n, c, h, w] tensor that it stands for. Operators of that domain become ordinary
operators of it, as do elementwise operators of other domains. Any other operator gets the elements in their stored order.

The block is 8 or 16 channels, by the CPU on which the file was written, and the file does not name it. Sizes of filters and
their operands mostly leave one of the two; otherwise the caller names it, as the size "nchwc_block".
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx
from onnx import numpy_helper

from burn.dialect.compose import reshape, transpose
from burn.dialect.mlir import ir
from burn.dialect.types import type_of
from burn.errors import ModelError, Problem
from burn.importers.onnx.order import subgraphs

DOMAIN = "com.microsoft.nchwc"
SIZE = "nchwc_block"
"""The name by which a caller gives the block."""

BLOCKS = (8, 16)
"""The blocks that ONNX Runtime has: 16 on CPUs with AVX-512 and on some ARM CPUs, else 8."""

UNARY = frozenset(
    (
        *(
            "Abs",
            "Celu",
            "Clip",
            "Elu",
            "Erf",
            "Exp",
            "FastGelu",
            "Gelu",
            "HardSigmoid",
            "HardSwish",
            "Identity",
            "LeakyRelu",
        ),
        *(
            "Log",
            "Mish",
            "Neg",
            "QuickGelu",
            "Reciprocal",
            "Relu",
            "Selu",
            "Sigmoid",
            "Softplus",
            "Softsign",
            "Sqrt",
            "Swish",
        ),
        *("Tanh", "ThresholdedRelu"),
    )
)
BINARY = frozenset(("Add", "Div", "Max", "Min", "Mul", "Sub", "Sum"))
ELEMENTWISE = UNARY | BINARY
"""Operators, of ONNX or of com.microsoft, whose results keep the layout of their operands."""


@dataclass(frozen=True)
class Blocked:
    """A blocked tensor. value: the ordinary tensor [n, c, h, w], c a known multiple of `block`."""

    value: ir.Value
    block: int

    def stored(self) -> ir.Value:
        """[n, c, h, w] with the elements in the order of the blocked tensor's memory."""
        n, c, h, w = type_of(self.value).shape
        assert isinstance(c, int)
        blocks = reshape(self.value, (n, c // self.block, self.block, h, w))
        return reshape(transpose(blocks, (0, 1, 3, 4, 2)), (n, c, h, w))


def blocked(stored: ir.Value, block: int) -> Blocked:
    """The converse of `Blocked.stored`."""
    n, c, h, w = type_of(stored).shape
    assert isinstance(c, int)
    blocks = reshape(stored, (n, c // block, h, w, block))
    return Blocked(reshape(transpose(blocks, (0, 1, 4, 2, 3)), (n, c, h, w)), block)


def keeps_layout(proto: onnx.NodeProto, inputs: Sequence[Any]) -> bool:
    """True if an operator of another domain, applied to what blocked operands stand for, gives what its blocked result
    stands for."""
    given = [v for v in inputs if v is not None]
    all_blocked = [v for v in given if isinstance(v, Blocked)]
    if proto.op_type == "Concat":
        axis = next((a.i for a in proto.attribute if a.name == "axis"), None)
        return axis in (1, -3) and len(all_blocked) == len(given)
    if proto.op_type not in ELEMENTWISE:
        return False
    alike = len({type_of(v.value) for v in all_blocked}) == 1
    others = (type_of(v) for v in given if isinstance(v, ir.Value))
    return alike and all(t.elements == 1 and t.rank <= 4 for t in others)


# ---- the size of a block -----------------------------------------------------------------------------------------------
def block_size(graph: onnx.GraphProto, given: int | None) -> int:
    """The block of a model's com.microsoft.nchwc operators. given: what the caller says. Raises ModelError if the file's sizes
    contradict that, or each other, or leave several blocks and the caller says nothing."""
    fits = [b for b in ((given,) if given is not None else BLOCKS) if b > 0 and not _contradiction(graph, b)]
    if len(fits) == 1:
        return fits[0]
    if not fits:
        tried = given if given is not None else BLOCKS[0]
        text = _contradiction(graph, tried) if tried > 0 else "it must be at least 1"
        raise ModelError("the model cannot be imported", [Problem(f"blocks of {tried} channels do not fit: {text}")])
    blocks = " or ".join(map(str, fits))
    text = f"tensors of {DOMAIN} are in blocks of {blocks} channels, and the file does not say of which"
    hint = (
        f"it is 16 if the CPU that optimised the file has AVX-512, else 8: give dims={{'{SIZE}': 8}}, or --dim {SIZE}=8"
    )
    raise ModelError("the model cannot be imported", [Problem(text, hint=hint)])


def _contradiction(graph: onnx.GraphProto, block: int) -> str:
    """A size in the file that blocks of so many channels do not permit, or nothing."""
    return next(_Walk(block).graph(graph, {}), "")


class _Walk:
    """Follows the channels of blocked tensors through the nodes, for one size of the block."""

    def __init__(self, block: int) -> None:
        self.block = block
        self.channels: dict[str, int | None] = {}  # of blocked tensors by name; None where they are not known
        self.plain: dict[
            str, Sequence[int]
        ] = {}  # sizes of inputs and of declared tensors of four axes; 0 for open ones

    def graph(self, graph: onnx.GraphProto, outer: Mapping[str, onnx.TensorProto]) -> Iterator[str]:
        """Contradictions, in the order of the nodes."""
        tensors = {**outer, **{t.name: t for t in graph.initializer}}
        for value in (*graph.input, *graph.value_info):
            dims = value.type.tensor_type.shape.dim
            if len(dims) == 4:
                self.plain[value.name] = [d.dim_value for d in dims]
        for node in graph.node:
            for inner in subgraphs(node):
                yield from self.graph(inner, tensors)
            if node.input and node.output:
                yield from self._node(node, tensors)

    def _node(self, node: onnx.NodeProto, tensors: Mapping[str, onnx.TensorProto]) -> Iterator[str]:
        x, y = node.input[0], node.output[0]
        if node.domain != DOMAIN:
            yield from self._other(node, tensors)
        elif node.op_type == "Conv" and len(node.input) > 1 and node.input[1] in tensors:
            yield from self._filter(node, list(tensors[node.input[1]].dims))
        elif node.op_type == "ReorderInput":
            last = any(a.name == "channels_last" and a.i for a in node.attribute)
            channels = self.plain.get(x, (0,) * 4)[3 if last else 1]
            self.channels[y] = math.ceil(channels / self.block) * self.block if channels else None
        elif node.op_type == "ReorderOutput":
            have, want = self.channels.get(x), next((a.i for a in node.attribute if a.name == "channels"), 0)
            if have is not None and not 0 <= have - want < self.block:
                yield f"{want} of {have} channels are taken out of blocks ({y})"
        else:  # pools and Upsample
            self.channels[y] = self.channels.get(x)
        have = self.channels.get(y)
        if have is not None and have % self.block:
            yield f"'{y}' has {have} channels"

    def _other(self, node: onnx.NodeProto, tensors: Mapping[str, onnx.TensorProto]) -> Iterator[str]:
        """Operators of other domains: their results are blocked if operands are."""
        of = [self.channels[i] for i in node.input if i in self.channels]
        if not of:
            return
        known = [c for c in of if c is not None]
        if node.op_type == "Reshape" and len(node.input) == 2 and node.input[1] in tensors:
            shape = numpy_helper.to_array(tensors[node.input[1]])
            if shape.size == 5 and shape[-1] != self.block:
                yield f"'{node.output[0]}' has blocks of {shape[-1]} channels"
            self.channels[node.output[0]] = None
            return
        if node.op_type == "Concat":
            self.channels[node.output[0]] = sum(known) if len(known) == len(of) else None
        else:
            self.channels[node.output[0]] = next(iter(known), None)

    def _filter(self, node: onnx.NodeProto, dims: Sequence[int]) -> Iterator[str]:
        """A convolution's filter [outputs, inputs of a group, h, w], and the channels of its operand."""
        x, y = node.input[0], node.output[0]
        outputs, inputs = dims[:2] if len(dims) == 4 else (0, 0)
        groups = next((a.i for a in node.attribute if a.name == "group"), 1)
        self.channels[y] = outputs
        if (inputs < self.block) == (x in self.channels) and not (groups > 1 and inputs == 1):
            yield f"a filter {list(dims)} is for {'a blocked' if inputs >= self.block else 'an ordinary'} operand ({y})"
        if inputs >= self.block and inputs % self.block:
            yield f"a filter {list(dims)} has {inputs} input channels ({y})"
        if groups > 1 and inputs != 1 and outputs // groups % self.block:
            yield f"a filter {list(dims)} has {outputs} output channels in {groups} groups ({y})"
        have = self.channels.get(x)
        if have is not None and have != inputs * groups:
            yield f"a filter {list(dims)} is for {inputs * groups} channels, not {have} ({y})"
