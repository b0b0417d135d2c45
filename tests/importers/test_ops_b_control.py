"""If, Loop, Scan and sequences against ONNX Runtime: sizes that change, conditions from data, nesting. Compiled
programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from burn.adapters.onnx import load_onnx
from burn.errors import ModelError
from burn.importers.onnx import import_onnx
from tests.importers.models import model, tensor, value
from tests.importers.reference import evaluate

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
ONE = tensor("one", np.array([1.0], np.float32))
TRUE = tensor("yes", np.array(True))


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    """A node; operands are separated by spaces, a dash stands for one that is left out."""
    names = ["" if word == "-" else word for word in inputs.split()]
    return helper.make_node(op, names, outputs.split(), **attributes)


def graph(nodes: list[Any], inputs: list[Any], outputs: list[Any]) -> onnx.GraphProto:
    return helper.make_graph(nodes, "body", inputs, outputs)


def loop_body(nodes: list[Any], carried: list[Any], outputs: list[Any]) -> onnx.GraphProto:
    """A body whose condition is passed on."""
    inputs = [value("i", [], INT64), value("go", [], BOOL), *carried]
    return graph([*nodes, node("Identity", "go", "go_on")], inputs, [value("go_on", [], BOOL), *outputs])


def unknown(name: str, dtype: int = FLOAT) -> onnx.ValueInfoProto:
    return value(name, None, dtype)


def compare(proto: onnx.ModelProto, *inputs: Any, compiled: bool = True) -> None:
    names = [i.name for i in proto.graph.input]
    feeds = {n: np.asarray(a) for n, a in zip(names, inputs, strict=True)}
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    wanted = session.run(None, feeds)
    results = [list(evaluate(import_onnx(proto), feeds).values())]
    if compiled:
        results.append(list(load_onnx(proto).run(feeds).values()))
    for given in results:
        for have, want in zip(given, map(np.asarray, wanted), strict=True):
            assert have.shape == want.shape
            np.testing.assert_allclose(have, want, rtol=1e-5)


def growing_loop() -> onnx.ModelProto:
    nodes = [node("Concat", "c one", "c2", axis=0), node("ReduceSum", "c2", "s", keepdims=0)]
    body = loop_body(nodes, [value("c", ["length"])], [unknown("c2"), unknown("s")])
    return model(
        [node("Loop", "m - x", "y sums", body=body)],
        [value("m", [], INT64), value("x", ["n"])],
        [unknown("y"), unknown("sums")],
        [ONE],
    )


@pytest.mark.parametrize("trips", [5, 1, 0])
def test_a_carried_value_may_grow(trips: int) -> None:
    compare(growing_loop(), np.int64(trips), np.ones(2, np.float32))


def test_growth_gives_sizes_of_their_own() -> None:
    program = import_onnx(growing_loop())
    (loop,) = [op for op in program.block.operations if op.name == "burn.loop"]
    loop.check()
    sizes = {str(d) for t in program.output_types for d in t.shape}
    assert sizes < set(loop.symbols), "the final sizes are defined by the loop"


def test_a_condition_from_data_ends_the_loop() -> None:
    body = graph(
        [node("Mul", "c w", "c2"), node("Less", "c2 limit", "go_on")],
        [value("i", [], INT64), value("go", [], BOOL), value("c", [])],
        [unknown("go_on", BOOL), unknown("c2"), unknown("c2")],
    )
    proto = model(
        [node("Loop", "- yes x", "y all", body=body)],
        [value("x", []), value("w", []), value("limit", [])],
        [unknown("y"), unknown("all")],
        [TRUE],
    )
    compare(proto, np.float32(1), np.float32(2), np.float32(100))
    compare(proto, np.float32(1), np.float32(2), np.float32(0))


@pytest.mark.parametrize("trips", [0, 5])
def test_a_condition_that_is_false_at_the_start_ends_the_loop_there(trips: int) -> None:
    body = loop_body([node("Neg", "c", "c2")], [value("c", ["n"])], [unknown("c2")])
    proto = model(
        [node("Loop", "m no x", "y", body=body)],
        [value("x", ["n"])],
        [unknown("y")],
        [tensor("m", np.array(trips)), tensor("no", np.array(False))],
    )
    compare(proto, np.array([1, -2, 3], np.float32))


def test_a_loop_over_an_axis_keeps_its_size() -> None:
    nodes = [node("Gather", "x i", "row", axis=0), node("Add", "c row", "c2")]
    body = loop_body(nodes, [value("c", [3])], [unknown("c2"), unknown("c2")])
    proto = model(
        [node("Shape", "x", "shape"), node("Gather", "shape zero", "n"), node("Loop", "n yes c0", "y all", body=body)],
        [value("x", ["rows", 3]), value("c0", [3])],
        [unknown("y"), unknown("all")],
        [TRUE, tensor("zero", np.array(0))],
    )
    assert [str(t) for t in import_onnx(proto).output_types] == ["float32[3]", "float32[rows, 3]"]
    compare(proto, np.arange(12, dtype=np.float32).reshape(4, 3), np.zeros(3, np.float32))


def branches(first: list[Any], second: list[Any]) -> dict[str, onnx.GraphProto]:
    return {
        "then_branch": graph(first, [], [unknown(first[-1].output[0])]),
        "else_branch": graph(second, [], [unknown(second[-1].output[0])]),
    }


@pytest.mark.parametrize("condition", [True, False])
def test_branches_may_differ_in_size(condition: bool) -> None:
    parts = branches([node("Concat", "x x", "a", axis=0)], [node("Relu", "x", "b")])
    proto = model(
        [node("If", "c", "y", **parts), node("Neg", "y", "z")],
        [value("c", [], BOOL), value("x", ["n", 3])],
        [unknown("z")],
    )
    compare(proto, np.array(condition), np.ones((2, 3), np.float32))


def test_a_known_condition_leaves_no_branch() -> None:
    parts = branches([node("Neg", "x", "a")], [node("Reshape", "x flat", "b")])
    program = import_onnx(
        model([node("If", "yes", "y", **parts)], None, [unknown("y")], [TRUE, tensor("flat", np.array([-1]))])
    )
    assert [op.name for op in program.block.operations] == ["burn.neg", "burn.return"]


@pytest.mark.parametrize("trips", [7, 0])
def test_a_branch_inside_a_loop(trips: int) -> None:
    parts = branches([node("Concat", "c one", "a", axis=0)], [node("Identity", "c", "b")])
    nodes = [node("Mod", "i two", "rest"), node("Cast", "rest", "odd", to=BOOL), node("If", "odd", "c2", **parts)]
    body = loop_body(nodes, [value("c", ["length"])], [unknown("c2")])
    proto = model(
        [node("Loop", "m - x", "y", body=body)],
        [value("m", [], INT64), value("x", ["n"])],
        [unknown("y")],
        [ONE, tensor("two", np.array(2))],
    )
    compare(proto, np.int64(trips), np.ones(2, np.float32))


def test_a_loop_that_never_ends_is_refused() -> None:
    body = loop_body([node("Neg", "c", "c2")], [value("c", [])], [unknown("c2")])
    with pytest.raises(ModelError, match="never ends"):
        import_onnx(model([node("Loop", "- - x", "y", body=body)], [value("x", [])], [unknown("y")]))


def test_sequences_are_resolved_while_importing() -> None:
    nodes = [node("SequenceAt", "parts i", "e"), node("Mul", "e w", "f"), node("SequenceInsert", "acc f", "acc2")]
    carried = [helper.make_tensor_sequence_value_info("acc", FLOAT, None)]
    body = loop_body(nodes, carried, [helper.make_tensor_sequence_value_info("acc2", FLOAT, None)])
    proto = model(
        [
            node("SplitToSequence", "x", "parts", axis=0),
            node("SequenceEmpty", "", "none"),
            node("Loop", "three - none", "all", body=body),
            node("ConcatFromSequence", "all", "y", axis=1),
        ],
        [value("x", [3, 2]), value("w", [])],
        [unknown("y")],
        [tensor("three", np.array(3))],
    )
    compare(proto, np.arange(6, dtype=np.float32).reshape(3, 2), np.float32(3))


def test_scan_walks_and_stacks_along_any_axis_in_any_direction() -> None:
    body = graph(
        [node("Add", "state a", "next"), node("Mul", "next b", "out")],
        [value("state", [2]), value("a", [2]), value("b", [2])],
        [unknown("next"), unknown("out")],
    )
    proto = model(
        [
            node(
                "Scan",
                "s0 a_all b_all",
                "last outs",
                body=body,
                num_scan_inputs=2,
                scan_input_axes=[1, 0],
                scan_input_directions=[1, 0],
                scan_output_axes=[1],
                scan_output_directions=[1],
            )
        ],
        [value("s0", [2]), value("a_all", [2, "n"]), value("b_all", ["n", 2])],
        [unknown("last"), unknown("outs")],
    )
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 12)).astype(np.float32), rng.standard_normal((12, 2)).astype(np.float32)
    states = np.cumsum(a[:, ::-1], axis=1)
    feeds = {"s0": np.zeros(2, np.float32), "a_all": a, "b_all": b}
    wanted = [states[:, -1], (states * b.T)[:, ::-1]]
    for results in (evaluate(import_onnx(proto), feeds), load_onnx(proto).run(feeds)):
        for have, want in zip(results.values(), wanted, strict=True):
            np.testing.assert_allclose(have, want, rtol=1e-5)
