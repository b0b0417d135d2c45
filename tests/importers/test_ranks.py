"""Operands of the wrong rank or size: every node that has one is named, in one error."""

from __future__ import annotations

from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from burn.errors import ModelError
from burn.importers.onnx import import_onnx


def model() -> onnx.ModelProto:
    """A convolution with a matrix for a weight, a product whose sizes do not fit, and a node that is right."""

    def value(name: str, *shape: int) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    nodes = [
        helper.make_node("Conv", ["image", "matrix"], ["a"], name="conv_of_a_matrix"),
        helper.make_node("MatMul", ["matrix", "matrix"], ["b"], name="product_that_does_not_fit"),
        helper.make_node("Relu", ["matrix"], ["c"], name="fine"),
    ]
    inputs = [value("image", 1, 3, 8, 8), value("matrix", 4, 3)]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "abc"]
    return helper.make_model(
        helper.make_graph(nodes, "ranks", inputs, outputs), opset_imports=[helper.make_opsetid("", 20)]
    )


def test_wrong_ranks_and_sizes_are_listed_together() -> None:
    with pytest.raises(ModelError) as caught:
        import_onnx(model())
    text = str(caught.value)
    assert "conv_of_a_matrix" in text and "product_that_does_not_fit" in text
    assert "Conv (opset" in text and "fine" not in text
    assert len(caught.value.problems) == 2


@pytest.mark.parametrize(
    ("op", "shapes", "reason"),
    [
        ("CumSum", [[], [1]], "must have an axis"),
        ("NonMaxSuppression", [[1], [1, 1, 1]], r"boxes must be \[batch, n, 4\]"),
        ("LSTM", [[3, 4], [1, 8, 4], [1, 8, 2]], "operand 0 must have 3 axes"),
        ("RNN", [[3, 2, 4], [], []], "operand 1 must have 3 axes"),
        ("DeformConv", [[1, 1, 4, 4], [2, 2], [1, 8, 3, 3]], "operand 1 must have 4 axes"),
        ("GridSample", [[1, 1, 4, 4], [2, 2]], "operand 1 must have 4 axes"),
        ("Attention", [[1, 2, 8], [2, 6, 30, 3], [2, 6, 30, 3]], "must have one rank"),
    ],
)
def test_ranks_that_an_operator_does_not_take(op: str, shapes: list[list[int]], reason: str) -> None:
    names = [f"x{i}" for i in range(len(shapes))]
    kinds = [TensorProto.INT64 if op == "CumSum" and i == 1 else TensorProto.FLOAT for i in range(len(shapes))]
    attributes: dict[str, Any] = {"q_num_heads": 2, "kv_num_heads": 2} if op == "Attention" else {}
    graph = helper.make_graph(
        [helper.make_node(op, names, ["y"], name="node", **attributes)],
        "ranks",
        [helper.make_tensor_value_info(n, k, s) for n, k, s in zip(names, kinds, shapes, strict=True)],
        [
            helper.make_tensor_value_info(
                "y", TensorProto.INT64 if op == "NonMaxSuppression" else TensorProto.FLOAT, None
            )
        ],
    )
    with pytest.raises(ModelError, match=reason):
        import_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)]))
