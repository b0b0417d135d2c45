"""Operators of com.microsoft.nchwc, applied to the ordinary tensors of blocked ones (burn/importers/onnx/nchwc.py)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from burn.dialect import ops
from burn.dialect.compose import number, part, reshape, transpose
from burn.dialect.dims import Dim
from burn.dialect.mlir import ir
from burn.dialect.types import type_of
from burn.importers.onnx.nchwc import DOMAIN, Blocked, blocked
from burn.importers.onnx.node import Node, onnx_op
from burn.importers.onnx.ops import pool
from burn.importers.onnx.ops.contract import conv
from burn.importers.onnx.ops.resize import Plan, resample
from burn.importers.onnx.ops.vendor import activated
from burn.importers.onnx.reads import Operands

OPSET = 19
"""The standard opset whose operators those of the same name here are."""

COORDINATES = ("asymmetric", "align_corners", "half_pixel")


def _ordinary(node: Node, *indices: int) -> Node:
    """The node as one of the standard's: the blocked operands, at these indices, are what they stand for."""
    inputs = list(node.inputs.peek())
    for index in indices:
        value = inputs[index] if index < len(inputs) else None
        if isinstance(value, Blocked):
            inputs[index] = value.value
        elif value is not None:
            inputs[index] = blocked(_with_channels(node, index), node.importer.nchwc_block).value
    return replace(node, inputs=Operands(inputs, node.reads), opset=OPSET)


def _with_channels(node: Node, index: int) -> ir.Value:
    """An operand in the order of a blocked tensor's memory, as whole blocks of channels."""
    node.need_ranks(*(None,) * index, 4)
    channels = node.type(index).shape[1]
    if not isinstance(channels, int) or channels % node.importer.nchwc_block:
        node.fail(f"operand {index} ({node.type(index)}) is not in blocks of {node.importer.nchwc_block} channels")
    return node.required(index)


def _result(node: Node, value: ir.Value) -> Blocked:
    block = node.importer.nchwc_block
    if type_of(value).rank != 4 or not _divides(block, type_of(value).shape[1]):
        node.fail(f"its result {type_of(value)} is not in blocks of {block} channels")
    return Blocked(value, block)


def _divides(block: int, size: Dim) -> bool:
    return isinstance(size, int) and size % block == 0


# ---- into blocks and out of them --------------------------------------------------------------------------------------
@onnx_op("ReorderInput", domain=DOMAIN, ranks=(4,))
def reorder_input(node: Node) -> Blocked:
    """[n, c, h, w], or [n, h, w, c] if `channels_last`, in blocks of channels; zeros fill the last block."""
    x = node.required(0)
    if node.int("channels_last", 0):
        x = transpose(x, (0, 3, 1, 2))
    channels = type_of(x).shape[1]
    if not isinstance(channels, int):
        node.fail(f"the number of channels of {node.type(0)} is not known")
    missing = -channels % node.importer.nchwc_block
    if missing:
        x = ops.pad(x, number(0, type_of(x).dtype), low=(0,) * 4, high=(0, missing, 0, 0))
    return _result(node, x)


@onnx_op("ReorderOutput", domain=DOMAIN)
def reorder_output(node: Node) -> ir.Value:
    """The first `channels` of a blocked tensor as [n, c, h, w], or as [n, h, w, c] if `channels_last`."""
    x = _ordinary(node, 0).required(0)
    channels, have = node.int("channels", 0), type_of(x).shape[1]
    if not isinstance(have, int) or not have - node.importer.nchwc_block < channels <= have or channels < 1:
        node.fail(f"{channels} channels do not fill the blocks of {type_of(x)}", "channels")
    x = part(x, 1, 0, channels)
    return transpose(x, (0, 2, 3, 1)) if node.int("channels_last", 0) else x


# ---- convolution -------------------------------------------------------------------------------------------------------
@onnx_op("Conv", domain=DOMAIN)
def blocked_conv(node: Node) -> Blocked:
    """act(conv(X, W) + B + Sum). An X of less channels than a block is an ordinary tensor."""
    if len(node.inputs) < 2:
        node.fail("operand 1 is missing")
    node.need_ranks(None, 4)
    block, (outputs, inputs, *_) = node.importer.nchwc_block, node.type(1).shape
    groups = node.int("group", 1)
    if not _divides(block, outputs) or not isinstance(inputs, int):
        node.fail(f"the filter {node.type(1)} is not in blocks of {block} channels")
    depthwise = groups > 1 and inputs == 1
    if inputs >= block and inputs % block:
        node.fail(f"the filter {node.type(1)} is not in blocks of {block} channels")
    ordinary = _ordinary(node, *(() if inputs < block and not depthwise else (0,)), 3)
    values = list(ordinary.inputs.peek())
    values[1] = _filter(ordinary.required(1), block)
    summand = ordinary.input(3)
    result = conv(replace(ordinary, inputs=Operands(values[:3], node.reads)))
    if summand is not None:
        if type_of(summand).shape[1] != outputs:
            node.fail(f"the sum {type_of(summand)} does not have the {outputs} channels of the result")
        result = ops.add(result, summand)
    return _result(node, activated(node, result))


def _filter(stored: ir.Value, block: int) -> ir.Value:
    """[o, i, h, w] whose elements are in the order of OIHWBiBo, or of OIHWBo if the input channels are no blocks, as an ordinary
    filter."""
    o, i, h, w = type_of(stored).shape
    assert isinstance(o, int) and isinstance(i, int)
    if i >= block:
        blocks = reshape(stored, (o // block, i // block, h, w, block, block))
        return reshape(transpose(blocks, (0, 5, 1, 4, 2, 3)), (o, i, h, w))
    return reshape(transpose(reshape(stored, (o // block, i, h, w, block)), (0, 4, 1, 2, 3)), (o, i, h, w))


# ---- pools and Upsample ------------------------------------------------------------------------------------------------
@onnx_op("MaxPool", domain=DOMAIN)
def max_pool(node: Node) -> Any:
    return _result(node, pool.max_pool(_ordinary(node, 0)))


@onnx_op("AveragePool", domain=DOMAIN)
def average_pool(node: Node) -> Any:
    return _result(node, pool.average_pool(_ordinary(node, 0)))


@onnx_op("GlobalMaxPool", "GlobalAveragePool", domain=DOMAIN)
def global_pool(node: Node) -> Any:
    return _result(node, pool.global_pool(_ordinary(node, 0)))


@onnx_op("Upsample", domain=DOMAIN)
def upsample(node: Node) -> Blocked:
    """Heights and widths times whole numbers. A nearest element is the one at the coordinate rounded down, whatever the mode of
    coordinates."""
    ordinary = _ordinary(node, 0)
    shape, scales = type_of(ordinary.required(0)).shape, node.ints("scales")
    if len(scales) != 4 or scales[:2] != (1, 1) or min(scales) < 1:
        node.fail(f"{list(scales)} are not 1, 1 and two numbers of at least 1", "scales")
    mode = node.string("mode", "nearest")
    if mode not in ("nearest", "linear"):
        node.fail(f"'{mode}' is neither nearest nor linear", "mode")
    coordinates = node.string("coordinate_transformation_mode", "asymmetric")
    if coordinates not in COORDINATES:
        node.fail(f"'{coordinates}' is none of {', '.join(COORDINATES)}", "coordinate_transformation_mode")
    if mode == "nearest":
        coordinates = "asymmetric"
    sizes = [shape[axis] * scales[axis] for axis in (2, 3)]
    factors = None if coordinates == "align_corners" else [float(scales[axis]) for axis in (2, 3)]
    options = {"mode": mode, "transformation": coordinates, "rounding": "floor"}
    return _result(node, resample(ordinary, Plan([2, 3], sizes, factors), options))
