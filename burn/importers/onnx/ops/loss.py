"""Losses: NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss."""

from __future__ import annotations

from typing import Any

from burn.dialect import ops
from burn.dialect.mlir import ir
from burn.importers.onnx.node import Node, onnx_op


def options(node: Node) -> dict[str, Any]:
    return {"reduction": node.string("reduction", "mean"), "ignore": node.int("ignore_index", None)}


@onnx_op("NegativeLogLikelihoodLoss")
def negative_log_likelihood(node: Node) -> ir.Value:
    return ops.nll_loss(node.input(0), node.input(1), node.input(2), **options(node))


@onnx_op("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy(node: Node) -> list[ir.Value]:
    return ops.cross_entropy(node.input(0), node.input(1), node.input(2), **options(node))
