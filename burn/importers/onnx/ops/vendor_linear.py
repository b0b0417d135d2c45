"""Linear attention and causal convolutions of com.microsoft, with the states that they carry."""

from __future__ import annotations

from burn.dialect.compose import reshape, transpose
from burn.dialect.dims import product
from burn.dialect.mlir import ir
from burn.dialect.types import type_of
from burn.importers.onnx.node import Node, onnx_op
from burn.importers.onnx.ops import attention
from burn.importers.onnx.ops.vendor import DOMAIN


def _one_state(node: Node) -> None:
    if node.int("state_window", 0):
        node.fail("states of several positions are not supported", "state_window")


@onnx_op("LinearAttention", domain=DOMAIN, ranks=(3, 3, 3, 4, 3, 3))
def linear_attention(node: Node) -> list[ir.Value]:
    _one_state(node)
    return attention.linear_attention(node)


@onnx_op("CausalConvWithState", domain=DOMAIN, ranks=(None, 3, 1))
def causal_conv_with_state(node: Node) -> list[ir.Value]:
    """Channels come first, [b, c, l], or last, [b, l, c..], the state's as the operand's."""
    _one_state(node)
    if node.int("ndim", 1) != 1:
        node.fail("must be 1: other convolutions are not supported", "ndim")
    dilation, x, past = node.int("dilation", 1), node.required(0), node.input(3)
    if dilation < 1:
        node.fail(f"must be at least 1, not {dilation}", "dilation")
    if node.int("channels_last", 0) != 1:
        node.need_ranks(3, 3, 1, 3)
        return attention.causal_convolution(node, x, past, dilation)
    shape = type_of(x).shape
    out, state = attention.causal_convolution(node, _first(x), None if past is None else _first(past), dilation)
    return [_last(out, shape[2:]), _last(state, shape[2:])]


def _first(x: ir.Value) -> ir.Value:
    """[b, l, c..] as [b, c, l]."""
    batch, length, *channels = type_of(x).shape
    return transpose(reshape(x, (batch, length, product(channels))), (0, 2, 1))


def _last(x: ir.Value, channels: tuple) -> ir.Value:
    """[b, c, l] as [b, l, c..]."""
    batch, _, length = type_of(x).shape
    return reshape(transpose(x, (0, 2, 1)), (batch, length, *channels))
