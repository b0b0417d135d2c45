"""Models whose integer matmuls are computed without saturation.

On CPUs without VNNI, ONNX Runtime multiplies uint8 by int8 with instructions that add pairs in 16 bits and saturate. A reference
must not: here MatMulInteger becomes a matmul of float64, which is exact for these operands.
"""

from __future__ import annotations

import onnx
from onnx import TensorProto, helper


def exact(model: onnx.ModelProto) -> bool:
    """Rewrites the nodes of the main graph in place. Returns False if there is none to rewrite."""
    nodes: list[onnx.NodeProto] = []
    for node in model.graph.node:
        nodes += _matmul(node) if node.op_type == "MatMulInteger" else [node]
    found = len(nodes) != len(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return found


def _matmul(node: onnx.NodeProto) -> list[onnx.NodeProto]:
    """(a - a_zero) @ (b - b_zero). A zero point of a is per tensor or per row, one of b per tensor or per column."""
    made: list[onnx.NodeProto] = []
    operands: list[str] = []
    for number, name in enumerate(node.input[:2]):
        wide = f"{node.output[0]}/exact/{number}"
        made.append(helper.make_node("Cast", [name], [wide], to=TensorProto.DOUBLE))
        zero = node.input[2 + number] if len(node.input) > 2 + number else ""
        if zero:
            made.append(helper.make_node("Cast", [zero], [f"{wide}/zero"], to=TensorProto.DOUBLE))
            made.append(helper.make_node("Sub", [wide, f"{wide}/zero"], [f"{wide}/shifted"]))
            wide = f"{wide}/shifted"
        operands.append(wide)
    result = f"{node.output[0]}/exact/result"
    made.append(helper.make_node("MatMul", operands, [result]))
    made.append(helper.make_node("Cast", [result], [node.output[0]], to=TensorProto.INT32))
    return made
