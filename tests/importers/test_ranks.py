"""Operands of the wrong rank or size: every node that has one is named, in one error."""

from __future__ import annotations

from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from burn.errors import BurnError, ModelError
from burn.importers.onnx import import_onnx
from tests.onnx_suite.cases import load_cases


def model() -> onnx.ModelProto:
    """A convolution with a matrix for a weight, a matmul whose sizes do not fit, and a node that is right."""

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
        ("CausalConvWithState", [[2, 4, 8, 3], [4, 1, 4]], "operand 0 must have 3 axes"),
        ("CausalConvWithState", [[2, 0, 8], [4, 1, 4]], "needs a channel and a tap"),
        ("AffineGrid", [[2], [4]], "operand 0 must have 3 axes"),
        ("Attention", [[1, 2, 2, 8, 3]] * 3, "operand 0 must have 3 or 4 axes"),
        ("Attention", [[1, 2, 8], [2, 6, 30, 3], [2, 6, 30, 3]], "must have one rank"),
    ],
)
def test_ranks_that_an_operator_does_not_take(op: str, shapes: list[list[int]], reason: str) -> None:
    names = [f"x{i}" for i in range(len(shapes))]
    kinds = [
        TensorProto.INT64 if op in ("CumSum", "AffineGrid") and i == 1 else TensorProto.FLOAT
        for i in range(len(shapes))
    ]
    attributes: dict[str, Any] = {"q_num_heads": 2, "kv_num_heads": 2} if op == "Attention" else {}
    graph = helper.make_graph(
        [
            helper.make_node(
                op, names, ["y", "state"][: 2 if op == "CausalConvWithState" else 1], name="node", **attributes
            )
        ],
        "ranks",
        [helper.make_tensor_value_info(n, k, s) for n, k, s in zip(names, kinds, shapes, strict=True)],
        [
            helper.make_tensor_value_info(
                "y", TensorProto.INT64 if op == "NonMaxSuppression" else TensorProto.FLOAT, None
            )
        ],
    )
    with pytest.raises(ModelError, match=reason):
        import_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 27)]))


def test_no_builder_stumbles_over_a_rank() -> None:
    """A node test of each operator, its operands one after another with other numbers of axes."""
    stumbled = []
    for name, proto in one_of_each().items():
        for given in proto.graph.input:
            shape = given.type.tensor_type.shape.dim
            kept = [onnx.TensorShapeProto.Dimension.FromString(d.SerializeToString()) for d in shape]
            for rank in (0, 1, 2, 3, 5):
                del shape[:]
                shape.extend([onnx.TensorShapeProto.Dimension(dim_value=2)] * rank)
                given.type.tensor_type.shape.SetInParent()
                try:
                    import_onnx(proto)
                except BurnError as error:
                    if "could not be imported" in str(error):
                        stumbled.append(f"{name}, operand {given.name}, {rank} axes: {error}")
            del shape[:]
            shape.extend(kept)
    assert not stumbled, "\n".join(stumbled)


def one_of_each() -> dict[str, onnx.ModelProto]:
    found: dict[str, onnx.ModelProto] = {}
    for case in load_cases(("node",)):
        if case.family in found or "_expanded" in case.name:
            continue
        proto = onnx.load_from_string(case.model)
        tensors = all(value.type.HasField("tensor_type") for value in proto.graph.input)
        if tensors and len(proto.graph.node) == 1:
            found[case.family] = proto
    return found


def test_a_number_beyond_64_bits_is_named() -> None:
    graph = helper.make_graph(
        [helper.make_node("Size", ["x"], ["y"])],
        "large",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 2**62, 5])],
        [helper.make_tensor_value_info("y", TensorProto.INT64, None)],
    )
    with pytest.raises(ModelError, match="does not fit into 64 bits"):
        import_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)]))


def test_a_window_without_end_is_refused() -> None:
    graph = helper.make_graph(
        [helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[3, 2**62], auto_pad="SAME_UPPER")],
        "large",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 5, 5])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    with pytest.raises(ModelError, match="a window of 13835058055282163712 elements"):
        import_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)]))


def test_a_batched_scan_of_more_operands_than_there_are() -> None:
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 2])
    body = helper.make_graph(
        [helper.make_node("Identity", ["a"], ["b"])],
        "body",
        [helper.make_tensor_value_info("a", TensorProto.FLOAT, [2])],
        [helper.make_tensor_value_info("b", TensorProto.FLOAT, [2])],
    )
    scan = helper.make_node("Scan", ["", "x"], ["y"], num_scan_inputs=2**63 - 1, body=body)
    graph = helper.make_graph([scan], "scan", [value], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    with pytest.raises(ModelError, match="is 9223372036854775807 of 1 operands"):
        import_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 8)]))
