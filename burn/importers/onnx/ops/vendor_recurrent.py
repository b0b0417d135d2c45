"""Recurrent layers of com.microsoft with quantised weights.

ONNX Runtime also rounds what the weights are multiplied with to bytes, by the range of each step. Here it stays as it is.
"""

from __future__ import annotations

from burn.dialect import ops
from burn.dialect.compose import convert, reshape, transpose
from burn.dialect.mlir import ir
from burn.dialect.types import type_of
from burn.importers.onnx.node import Node, onnx_op
from burn.importers.onnx.ops.recurrent import common
from burn.importers.onnx.ops.vendor import DOMAIN


@onnx_op("DynamicQuantizeLSTM", domain=DOMAIN)
def dynamic_quantize_lstm(node: Node) -> list[ir.Value]:
    """The weights are [dirs, in, 4 hidden], with scales and zero points [dirs] or [dirs, 4 hidden]."""
    recurrent = _weight(node, 2, 10)
    options = {**common(node.standard(14), recurrent), "couple": node.int("input_forget", 0) == 1}
    x, w = node.required(0), _weight(node, 1, 8)
    rest = [node.input(i) for i in (3, 4, 5, 6, 7)]
    return ops.lstm(x, w, recurrent, *rest, **options)


def _weight(node: Node, index: int, scale: int) -> ir.Value:
    """A weight as floats [dirs, 4 hidden, in]; its scale and zero point are operands `scale` and `scale` + 1."""
    node.need_ranks(*(None,) * index, 3)
    weight = node.required(index)

    def column(parameter: ir.Value) -> ir.Value:
        type_ = type_of(parameter)
        shape = (*type_.shape, 1) if type_.rank == 1 else type_.shape
        return reshape(convert(parameter, "float32"), (shape[0], 1, shape[1]))

    values = ops.sub(convert(weight, "float32"), column(node.required(scale + 1)))
    return transpose(ops.mul(values, column(node.required(scale))), (0, 2, 1))
