"""Einsum: the mechanism is the dialect's (`burn/dialect/einsum.py`)."""

from __future__ import annotations

from burn.dialect import einsum as sums
from burn.dialect.mlir import ir
from burn.importers.onnx.node import Node, onnx_op


@onnx_op("Einsum")
def einsum(node: Node) -> ir.Value:
    try:
        return sums.einsum(node.string("equation"), node.tensors())
    except sums.Malformed as error:
        node.fail(str(error), "equation")
