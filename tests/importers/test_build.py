"""The importer's mechanism: shape arithmetic, names of sizes, weights, problems, sizes that come from data."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from burn.dialect.program import Program
from burn.errors import ModelError
from burn.importers.onnx import import_onnx
from tests.importers.models import model, tensor, value
from tests.importers.reference import evaluate

INT64 = TensorProto.INT64
BOOL = TensorProto.BOOL


def node(op: str, inputs: str, outputs: str = "y", **attributes: Any) -> onnx.NodeProto:
    """A node by the names of its operands, separated by spaces; "-" is an absent one."""
    names = ["" if n == "-" else n for n in inputs.split()]
    return helper.make_node(op, names, outputs.split(), name=f"the_{op}", **attributes)


def op_names(program: Program) -> list[str]:
    return [op.name.removeprefix("burn.") for op in program.block.operations]


def shapes(program: Program) -> list[str]:
    return [str(t) for t in program.output_types]


def imported(
    nodes: list[onnx.NodeProto], inputs: list[Any], outputs: list[Any], *initializers: Any, **kw: Any
) -> Program:
    return import_onnx(model(nodes, inputs, outputs, list(initializers), **kw))


# ---- shape arithmetic ------------------------------------------------------------------------------------------------


def test_a_shape_chain_leaves_one_reshape() -> None:
    nodes = [
        node("Shape", "x", "s"),
        node("Gather", "s zero", "batch", axis=0),
        node("Unsqueeze", "batch zero_axis", "b"),
        node("Concat", "b minus_one", "target", axis=0),
        node("Reshape", "x target"),
    ]
    constants = [tensor("zero", np.int64(0)), tensor("zero_axis", np.array([0])), tensor("minus_one", np.array([-1]))]
    program = imported(nodes, [value("x", ["batch", "seq", 8])], [value("y", None)], *constants)
    assert op_names(program) == ["reshape", "return"]
    assert shapes(program) == ["float32[batch, 8*seq]"]


def test_sizes_through_floats_as_exporters_write_them() -> None:
    nodes = [
        node("Shape", "x", "s"),
        node("Gather", "s one", "n", axis=0),
        node("Cast", "n", "f", to=TensorProto.FLOAT),
        node("Div", "f two", "half"),
        node("Floor", "half", "floor"),
        node("Cast", "floor", "i", to=INT64),
        node("Unsqueeze", "i axis", "end"),
        node("Slice", "x start end axes"),
    ]
    constants = [
        tensor("one", np.int64(1)),
        tensor("two", np.float32(2)),
        tensor("axis", np.array([0])),
        tensor("start", np.array([0])),
        tensor("axes", np.array([1])),
    ]
    program = imported(nodes, [value("x", ["batch", "n"])], [value("y", None)], *constants)
    assert op_names(program) == ["slice", "return"]
    for n in (4, 5, 9):
        assert evaluate(program, {"x": np.zeros((2, n), np.float32)})["y"].shape == (2, n // 2)


def test_expand_with_minus_ones_replaced() -> None:
    """The way torch writes `expand(-1, n)`: Where(Equal(shape, -1), ones, shape)."""
    nodes = [
        node("Shape", "x", "s"),
        node("ConstantOfShape", "rank", "ones", value=tensor("", np.array([1]))),
        node("Mul", "ones minus", "minuses"),
        node("Equal", "wanted minuses", "open"),
        node("Where", "open s wanted", "target"),
        node("Expand", "x target"),
    ]
    constants = [tensor("rank", np.array([2])), tensor("minus", np.int64(-1)), tensor("wanted", np.array([-1, 5]))]
    program = imported(nodes, [value("x", ["batch", 1])], [value("y", None)], *constants)
    assert op_names(program) == ["broadcast_to", "return"]
    assert shapes(program) == ["float32[batch, 5]"]


def test_known_sizes_as_data_are_written_down() -> None:
    program = imported([node("Shape", "x")], [value("x", ["batch", 3])], [value("y", [2], INT64)])
    assert op_names(program) == ["dim_values", "return"]
    result = evaluate(program, {"x": np.zeros((4, 3), np.float32)})
    np.testing.assert_array_equal(result["y"], [4, 3])


def test_an_undecided_comparison_is_computed() -> None:
    nodes = [node("Shape", "x", "s"), node("Equal", "s other")]
    program = imported(nodes, [value("x", ["a", "b"])], [value("y", [2], BOOL)], tensor("other", np.array([3, 3])))
    assert "eq" in op_names(program)
    result = evaluate(program, {"x": np.zeros((3, 4), np.float32)})
    np.testing.assert_array_equal(result["y"], [True, False])


@pytest.mark.parametrize("target", [[2, -1], [-1, 2], [0, -1], [3, 2, 2]])
def test_reshape_to_a_shape_from_data(target: list[int]) -> None:
    x = (
        np.arange(12, dtype=np.float32).reshape(2, 6)
        if 0 not in target
        else np.arange(12, dtype=np.float32).reshape(3, 4)
    )
    inputs = [value("x", ["a", "b"]), value("target", [len(target)], INT64)]
    program = imported([node("Reshape", "x target")], inputs, [value("y", None)])
    assert "read_dim" in op_names(program)
    result = evaluate(program, {"x": x, "target": np.array(target)})
    shape = [x.shape[i] if d == 0 else d for i, d in enumerate(target)]
    np.testing.assert_array_equal(result["y"], x.reshape(shape))


@pytest.mark.parametrize(
    ("start", "end", "step"), [(1, 5, 1), (-3, 100, 1), (6, -100, -2), (5, 1, -1), (4, 4, 1), (-1, -8, -3)]
)
@pytest.mark.parametrize("known", ["axes steps", "steps", ""])
def test_slices_with_bounds_from_data(start: int, end: int, step: int, known: str) -> None:
    x = np.arange(21, dtype=np.float32).reshape(3, 7)
    feeds = {"starts": start, "ends": end, "axes": 1, "steps": step}
    arrays = {name: np.array([number]) for name, number in feeds.items()}
    constants = [tensor(name, arrays[name]) for name in known.split()]
    inputs = [value("x", ["a", "b"])] + [value(n, [1], INT64) for n in feeds if n not in known.split()]
    program = imported([node("Slice", "x starts ends axes steps")], inputs, [value("y", None)], *constants)
    given = {n: arrays[n] for n in feeds if n not in known.split()}
    result = evaluate(program, {"x": x, **given})
    np.testing.assert_array_equal(result["y"], x[:, start:end:step])


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("axes", [[1], [-1, 0], [0, 1, 2]])
@pytest.mark.parametrize("op", ["ReduceSum", "ReduceMax", "ReduceMean", "ReduceLogSumExp"])
def test_reductions_over_axes_from_data(op: str, axes: list[int], keepdims: int) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    inputs = [value("x", ["a", "b", "c"]), value("axes", [len(axes)], INT64)]
    program = imported([node(op, "x axes", keepdims=keepdims)], inputs, [value("y", None)])
    result = evaluate(program, {"x": x, "axes": np.array(axes)})["y"]
    functions: dict[str, Any] = {
        "ReduceSum": np.sum,
        "ReduceMax": np.max,
        "ReduceMean": np.mean,
        "ReduceLogSumExp": lambda v, axis, keepdims: np.log(np.sum(np.exp(v), axis=axis, keepdims=keepdims)),
    }
    wanted = functions[op](x, axis=tuple(axes), keepdims=bool(keepdims))
    np.testing.assert_allclose(result, wanted, rtol=1e-5)


def test_one_program_serves_every_size_with_automatic_padding() -> None:
    weight = np.random.default_rng(0).standard_normal((3, 2, 3, 3)).astype(np.float32)
    nodes = [
        node("Conv", "x w", "c", auto_pad="SAME_UPPER", strides=[2, 2]),
        node("AveragePool", "c", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
    ]
    proto = model(nodes, [value("x", ["n", 2, "h", "w"])], [value("y", None)], [tensor("w", weight)])
    program = import_onnx(proto)
    for height, width in ((4, 6), (5, 9), (7, 8), (8, 3)):
        x = np.random.default_rng(height).standard_normal((1, 2, height, width)).astype(np.float32)
        fixed = import_onnx(proto, dims={"n": 1, "h": height, "w": width})
        assert all(t.is_static for t in fixed.output_types)
        wanted = evaluate(fixed, {"x": x})["y"]
        result = evaluate(program, {"x": x})["y"]
        assert result.shape == (1, 3, (height + 3) // 4, (width + 3) // 4)
        np.testing.assert_allclose(result, wanted, rtol=1e-6)


# ---- names of sizes --------------------------------------------------------------------------------------------------


def test_odd_names_become_identifiers() -> None:
    inputs = [value("x", ["batch size", "3d", "class"])]
    program = imported([node("Relu", "x")], inputs, [value("y", None)])
    assert shapes(program) == ["float32[batch_size, _3d, class_]"]


def test_a_name_that_is_an_expression_of_other_names() -> None:
    inputs = [value("p", ["batch", "past"]), value("x", ["batch", "seq"]), value("mask", ["batch", "past + seq"])]
    nodes = [node("Concat", "p x", "both", axis=1), node("Add", "both mask")]
    assert shapes(imported(nodes, inputs, [value("y", None)])) == ["float32[batch, past + seq]"]


def test_sizes_without_a_name_get_one() -> None:
    inputs = [value("x", None)]
    inputs[0].type.tensor_type.shape.dim.add()
    inputs[0].type.tensor_type.shape.dim.add()
    assert shapes(imported([node("Relu", "x")], inputs, [value("y", None)])) == ["float32[x_0, x_1]"]


def test_given_sizes_are_put_in() -> None:
    proto = model([node("Relu", "x")], [value("x", ["batch", "seq"])], [value("y", None)])
    assert shapes(import_onnx(proto, dims={"batch": 4})) == ["float32[4, seq]"]
    with pytest.raises(ModelError, match="sizes were given for bach"):
        import_onnx(proto, dims={"bach": 4})


# ---- weights ---------------------------------------------------------------------------------------------------------


def test_large_constants_are_weights_and_unused_ones_are_dropped() -> None:
    large, small = np.arange(64, dtype=np.float32), np.arange(4, dtype=np.float32).reshape(4, 1)
    constants = [tensor("large", large), tensor("small", small), tensor("unused", np.ones(1000, np.float32))]
    nodes = [node("Add", "x large", "a"), node("Mul", "a small")]
    program = imported(nodes, [value("x", [4, 64])], [value("y", None)], *constants)
    assert op_names(program) == ["weight", "constant", "add", "mul", "return"]
    assert [key for key, _ in program.weights.items()] == ["large"]
    np.testing.assert_array_equal(program.weights.get("large"), large)


def test_integers_are_exact() -> None:
    big = np.array([2**63 - 1, -(2**63), 2**53 + 1])
    program = imported([node("Add", "x big")], [value("x", [3], INT64)], [value("y", None, INT64)], tensor("big", big))
    np.testing.assert_array_equal(evaluate(program, {"x": np.zeros(3, np.int64)})["y"], big)


def test_unsigned_integers_are_exact() -> None:
    big = np.array([2**64 - 1, 2**63], np.uint64)
    kind = TensorProto.UINT64
    program = imported([node("Max", "x big")], [value("x", [2], kind)], [value("y", None, kind)], tensor("big", big))
    np.testing.assert_array_equal(evaluate(program, {"x": np.zeros(2, np.uint64)})["y"], big)


# ---- problems --------------------------------------------------------------------------------------------------------


def test_every_problem_is_listed_and_dependants_are_passed_over() -> None:
    nodes = [
        node("Reshape", "x bad", "r"),
        node("Relu", "r", "after"),
        node("MatMul", "x x", "m"),
        node("Softmax", "x", "s", axis=7),
        node("Add", "after s", "y"),
    ]
    with pytest.raises(ModelError) as caught:
        imported(nodes, [value("x", [2, 3])], [value("y", None)], tensor("bad", np.array([5, 5])))
    text = str(caught.value)
    assert "6 elements (float32[2, 3]) do not fill shape [5, 5] of 25" in text
    assert "must be of one size" in text
    assert "axis 7 is out of range for rank 2" in text
    assert len(caught.value.problems) == 3
    assert {p.op for p in caught.value.problems} == {"Reshape", "MatMul", "Softmax"}
    assert {p.node for p in caught.value.problems} == {"the_Reshape", "the_MatMul", "the_Softmax"}


def test_a_problem_inside_an_expanded_definition_is_reported_once() -> None:
    text = "axis 5 is out of range"
    with pytest.raises(ModelError, match=text) as caught:
        imported([node("LpNormalization", "x", axis=5)], [value("x", [2, 3])], [value("y", None)])
    assert len(caught.value.problems) == 1


def test_inputs_of_unknown_rank_are_refused() -> None:
    unknown = helper.make_tensor_value_info("x", TensorProto.FLOAT, None)
    with pytest.raises(ModelError, match="the rank of input 'x' is not known"):
        imported([node("Relu", "x")], [unknown], [value("y", None)])


def test_ops_are_located_at_their_nodes() -> None:
    program = imported([node("Relu", "x")], [value("x")], [value("y", None)])
    assert '"the_Relu"' in str(next(iter(program.block.operations)).location)
