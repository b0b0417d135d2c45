"""One error lists all problems of a model, each with its node, operator and opset."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import AttributeProto, TensorProto, helper

from burn.errors import ModelError
from burn.importers.onnx.check import MAX_PROBLEMS, check_model
from burn.importers.onnx.file import read_model
from tests.growth import lines
from tests.onnx_suite.cases import load_cases

from .models import model, node, tensor, value

INT64 = TensorProto.INT64


def problems(proto: onnx.ModelProto, **options: Any) -> list[str]:
    try:
        check_model(read_model(proto.SerializeToString()), **options)
    except ModelError as error:
        return [str(problem) for problem in error.problems]
    return []


def graph(nodes: list[onnx.NodeProto], outputs: list[str], inputs: list[str] | None = None) -> onnx.GraphProto:
    ins = [value(name, None) for name in inputs or []]
    return helper.make_graph(nodes, "body", ins, [value(name, None) for name in outputs])


def branch(**attributes: Any) -> onnx.ModelProto:
    """y = If(b); x is also an input."""
    inputs = [value("b", [], TensorProto.BOOL), value("x")]
    return model([node("If", "b", "y", "if", **attributes)], inputs, [value("y", None)])


def loop(body: onnx.GraphProto) -> onnx.ModelProto:
    inputs = [value("n", [], INT64), value("b", [], TensorProto.BOOL), value("x")]
    return model([node("Loop", "n b x", "y", "loop", body=body)], inputs, [value("y", None)])


def changed(change: Callable[[onnx.ModelProto], Any]) -> onnx.ModelProto:
    """y = Relu(x), with a change."""
    proto = model([node("Relu", "x", "y", "relu")])
    change(proto)
    return proto


def attribute(name: str, **fields: Any) -> onnx.ModelProto:
    """y = Concat(x, x) along axis 0 with one attribute more, or another one."""
    proto = model([node("Concat", "x x", "y", "cat", axis=0)], outputs=[value("y", None)])
    attributes = proto.graph.node[0].attribute
    if name == "axis":
        del attributes[:]
    attributes.append(AttributeProto(name=name, **fields))
    return proto


MODEL_FAULTS: list[tuple[str, onnx.ModelProto, str]] = [
    ("no graph", changed(lambda m: m.ClearField("graph")), "the model has no graph"),
    ("no IR version", changed(lambda m: m.ClearField("ir_version")), "does not say its IR version"),
    ("new IR version", changed(lambda m: setattr(m, "ir_version", 99)), "IR version 99 is not supported"),
    ("no opset", changed(lambda m: m.ClearField("opset_import")), "the model imports no operator set"),
    ("new opset", model([node("Relu", "x", "y")], opset=99), "imports version 99 of ai.onnx (1 to 28 are known)"),
    ("opset zero", model([node("Relu", "x", "y")], opset=0), "imports version 0 of ai.onnx"),
    (
        "two opsets",
        changed(lambda m: m.opset_import.add(domain="ai.onnx", version=9)),
        "the model imports two versions of ai.onnx: 18 and 9",
    ),
    (
        "new ml opset",
        model([node("Relu", "x", "y")], domains={"ai.onnx.ml": 99}),
        "imports version 99 of ai.onnx.ml (1 to 5 are known)",
    ),
    ("input without type", model([node("Relu", "x", "y")], [onnx.ValueInfoProto(name="x")]), "value 'x' has no type"),
    ("input of unknown type", model([node("Relu", "x", "y")], [value("x", [2], 99)]), "has unknown element type 99"),
    (
        "two inputs of a name",
        model([node("Relu", "x", "y")], [value("x"), value("x")]),
        "input 'x' of graph 'g' is defined twice",
    ),
    ("output not made", model([node("Relu", "x", "z")]), "output 'y' of graph 'g' is not defined"),
    (
        "output of another type",
        model([node("Relu", "x", "y")], outputs=[value("y", [2, 3], INT64)]),
        "output 'y' is declared tensor(int64), but is tensor(float)",
    ),
    (
        "two initializers of a name",
        model([node("Relu", "x", "y")], initializers=[tensor("w", [1.0]), tensor("w", [2.0])]),
        "initializer 'w' is defined twice",
    ),
    (
        "initializer of another shape",
        model([node("Relu", "x", "y")], initializers=[tensor("x", np.zeros((3, 3), np.float32))]),
        "initializer 'x' has shape [3, 3], its input [2, 3]",
    ),
    (
        "initializer of another rank",
        model([node("Relu", "x", "y")], initializers=[tensor("x", np.zeros(3, np.float32))]),
        "initializer 'x' has shape [3], its input [2, 3]",
    ),
    (
        "initializer of another type",
        model([node("Relu", "x", "y")], initializers=[tensor("x", np.zeros((2, 3)))]),
        "initializer 'x' is float64, its input float32",
    ),
    (
        "name not UTF-8",
        changed(lambda m: m.graph.node[0].MergeFromString(b"\x1a\x02\xff\xfe")),
        "a name in a node is not UTF-8",
    ),
]

NODE_FAULTS: list[tuple[str, onnx.ModelProto, str]] = [
    (
        "unknown operator",
        model([node("Rellu", "x", "y", "n")]),
        "Rellu (opset 18), node 'n': unknown operator (did you mean Relu?)",
    ),
    (
        "operator of a later opset",
        model([node("Gelu", "x", "y", "n")]),
        "Gelu (opset 18), node 'n': unknown operator (it was introduced in opset 20)",
    ),
    (
        "operator of another domain",
        model([node("Binarizer", "x", "y", "n")]),
        "Binarizer (opset 18), node 'n': unknown operator (it belongs to domain 'ai.onnx.ml')",
    ),
    (
        "operator of a vendor",
        model([node("FusedGelu", "x", "y", "n", domain="com.example")], domains={"com.example": 1}),
        "com.example::FusedGelu (opset 1), node 'n': unknown operator of domain 'com.example'",
    ),
    (
        "domain not imported",
        model([node("Relu", "x", "y", "n", domain="com.example")]),
        "com.example::Relu, node 'n': domain 'com.example' is not imported by the model",
    ),
    ("no operator", model([node("", "x", "y", "n")]), "node 'n': the node names no operator"),
    (
        "deprecated operator",
        model([node("Upsample", "x s", "y", "n")], [value("x"), value("s", [2])]),
        "Upsample (opset 18), node 'n': the operator is deprecated since opset 10",
    ),
    ("undefined input", model([node("Add", "x z", "y", "n")]), "Add (opset 18), node 'n': input 'z' is not defined"),
    ("too few inputs", model([node("Add", "x", "y", "n")]), "Add (opset 18), node 'n': 1 inputs, the operator has 2"),
    ("too many inputs", model([node("Relu", "x x", "y", "n")]), "2 inputs, the operator has 1"),
    ("no inputs", model([node("Concat", "", "y", "n", axis=0)]), "0 inputs, the operator has at least 1"),
    ("input left out", model([node("Add", "- x", "y", "n")]), "required input 0 (A) is left out"),
    ("too many outputs", model([node("Relu", "x", "y z", "n")]), "2 outputs, the operator has 1"),
    (
        "a name defined twice",
        model([node("Relu", "x", "y"), node("Abs", "x", "y", "n")]),
        "Abs (opset 18), node 'n': output 'y' is already defined (names are defined once)",
    ),
    (
        "a name of an input",
        model([node("Relu", "x", "x", "n")], outputs=[value("x")]),
        "Relu (opset 18), node 'n': output 'x' is already defined",
    ),
    (
        "a cycle",
        model([node("Add", "x c", "a", "first"), node("Relu", "a", "y", "second"), node("Abs", "y", "c", "third")]),
        "nodes wait for each other in a cycle: first -> second -> third",
    ),
    ("a node of itself", model([node("Add", "x y", "y", "self")]), "nodes wait for each other in a cycle: self"),
    (
        "wrong type",
        model([node("Not", "x", "y", "n")], outputs=[value("y", [2, 3], TensorProto.BOOL)]),
        "Not (opset 18), node 'n': input 'x' (X) is tensor(float), must be tensor(bool)",
    ),
    (
        "types that differ",
        model([node("Add", "x z", "y", "n")], [value("x"), value("z", [2], INT64)]),
        "input 'z' (B) is tensor(int64), but input 'x' (A) is tensor(float)",
    ),
    (
        "type of a computed value",
        model([node("Shape", "x", "s"), node("Sigmoid", "s", "y", "n")]),
        "Sigmoid (opset 18), node 'n': input 's' (X) is tensor(int64), must be one of tensor(float)",
    ),
    (
        "type of a cast",
        model([node("Cast", "x", "s", to=TensorProto.STRING), node("Sigmoid", "s", "y", "n")]),
        "Sigmoid (opset 18), node 'n': input 's' (X) is tensor(string)",
    ),
    (
        "type of a constant",
        model([node("Constant", "", "c", value_int=3), node("Add", "x c", "y", "n")]),
        "input 'c' (B) is tensor(int64), but input 'x' (A) is tensor(float)",
    ),
    (
        "sequence for a tensor",
        model([node("SequenceEmpty", "", "s", dtype=1), node("Relu", "s", "y", "n")]),
        "input 's' (X) is seq(",
    ),
    ("attribute missing", attribute("axis", type=AttributeProto.INT, ref_attr_name="a"), "outside of a function"),
    (
        "required attribute missing",
        model([node("Concat", "x x", "y", "n")], outputs=[value("y", None)]),
        "Concat (opset 18), node 'n', attribute 'axis': required attribute is missing",
    ),
    (
        "unknown attribute",
        attribute("axes", type=AttributeProto.INT, i=1),
        "Concat (opset 18), node 'cat', attribute 'axes': the operator has no such attribute",
    ),
    ("attribute of the wrong type", attribute("axis", type=AttributeProto.FLOAT, f=1.0), "is float, must be int"),
    ("attribute of no type", attribute("axis"), "attribute 'axis': has no usable type (0)"),
    (
        "attribute of two types",
        attribute("axis", i=1, f=2.0),
        "attribute 'axis': has no usable type (0)",
    ),
    (
        "tensor attribute of the wrong size",
        model([node("Constant", "", "y", "n", value=TensorProto(data_type=1, dims=[6], raw_data=b"123"))]),
        "Constant (opset 18), node 'n', attribute 'value': raw_data has 3 bytes, but float32 of shape [6] takes 24",
    ),
    (
        "string not UTF-8",
        model([node("DepthToSpace", "x", "y", "n", blocksize=1, mode=b"\xff\xfe")], [value("x", [1, 1, 1, 1])]),
        "attribute 'mode': is not UTF-8",
    ),
    ("branch missing", branch(then_branch=graph([node("Relu", "x", "a")], ["a"])), "attribute 'else_branch': required"),
    (
        "undefined name in a subgraph",
        branch(
            then_branch=graph([node("Relu", "q", "a", "inner")], ["a"]),
            else_branch=graph([node("Relu", "x", "a")], ["a"]),
        ),
        "Relu (opset 18), node 'inner': input 'q' is not defined",
    ),
    (
        "output of a subgraph not made",
        branch(then_branch=graph([], ["q"]), else_branch=graph([node("Relu", "x", "a")], ["a"])),
        "output 'q' of graph 'body' is not defined",
    ),
    (
        "inner name used outside",
        model(
            [
                node(
                    "If",
                    "b",
                    "i",
                    then_branch=graph([node("Relu", "x", "a")], ["a"]),
                    else_branch=graph([node("Abs", "x", "a")], ["a"]),
                ),
                node("Add", "i a", "y", "n"),
            ],
            [value("b", [], TensorProto.BOOL), value("x")],
        ),
        "Add (opset 18), node 'n': input 'a' is not defined",
    ),
]


@pytest.mark.parametrize(("proto", "message"), [f[1:] for f in MODEL_FAULTS], ids=[f[0] for f in MODEL_FAULTS])
def test_faults_of_a_model(proto: onnx.ModelProto, message: str) -> None:
    found = problems(proto)
    assert any(message in problem for problem in found), found
    assert not problems(model([node("Relu", "x", "y", "relu")]))


@pytest.mark.parametrize(("proto", "message"), [f[1:] for f in NODE_FAULTS], ids=[f[0] for f in NODE_FAULTS])
def test_faults_of_a_node(proto: onnx.ModelProto, message: str) -> None:
    found = problems(proto)
    assert len(found) == 1 and message in found[0], found


def test_an_attribute_given_twice() -> None:
    proto = model([node("Concat", "x x", "y", "n", axis=0)], outputs=[value("y", None)])
    proto.graph.node[0].attribute.add(name="axis", type=AttributeProto.INT, i=1)
    assert problems(proto) == ["Concat (opset 18), node 'n', attribute 'axis': given twice"]


def test_an_attribute_without_its_tensor() -> None:
    proto = model([node("Constant", "", "y", "n")])
    proto.graph.node[0].attribute.add(name="value", type=AttributeProto.TENSOR)
    assert any("attribute 'value': has no tensor" in problem for problem in problems(proto))


def test_everything_is_listed_at_once() -> None:
    nodes = [node("Rellu", "x", "a", "one"), node("Add", "a q", "b", "two"), node("Concat", "b b", "y", "three")]
    proto = model(nodes, initializers=[TensorProto(name="w", data_type=1, dims=[4], raw_data=b"1")])
    with pytest.raises(ModelError) as caught:
        check_model(read_model(proto))
    assert str(caught.value).splitlines() == [
        "the model is not a valid ONNX model",
        "  - initializer 'w': raw_data has 1 bytes, but float32 of shape [4] takes 16",
        "  - Rellu (opset 18), node 'one': unknown operator (did you mean Relu?)",
        "  - Add (opset 18), node 'two': input 'q' is not defined",
        "  - Concat (opset 18), node 'three', attribute 'axis': required attribute is missing",
    ]


def test_a_list_of_problems_has_an_end() -> None:
    nodes = [node("Rellu", "x", f"a{index}", f"n{index}") for index in range(1000)]
    found = problems(model([*nodes, node("Relu", "x", "y")]))
    assert len(found) == MAX_PROBLEMS + 1 and found[-1] == f"... and {1000 - MAX_PROBLEMS} more problems"


def test_an_operator_that_burn_has_beyond_onnx() -> None:
    proto = model([node("FusedGelu", "x", "y", "n", domain="com.example")], domains={"com.example": 1})
    assert problems(proto, known=[("com.example", "FusedGelu")]) == []


def test_old_opsets_say_that_they_are_old() -> None:
    found = problems(model([node("Nothing", "x", "y")], opset=6))
    assert found[-1] == "opset 6 is supported in part only (convert the model to opset 7 or newer)"
    assert problems(model([node("Relu", "x", "y")], opset=6)) == []


# Mistakes that are repaired


def test_nodes_out_of_order_are_sorted() -> None:
    nodes = [node("Abs", "c", "y"), node("Relu", "x", "b"), node("Neg", "b", "c")]
    file = read_model(model(nodes))
    check_model(file)
    assert [found.op_type for found in file.proto.graph.node] == ["Relu", "Neg", "Abs"]


def test_a_name_that_only_a_subgraph_uses_counts_for_the_order() -> None:
    body = graph([node("Add", "x late", "a")], ["a"])
    branches = node("If", "b", "y", then_branch=body, else_branch=body)
    inputs = [value("b", [], TensorProto.BOOL), value("x")]
    file = read_model(model([branches, node("Relu", "x", "late")], inputs, [value("y", None)]))
    check_model(file)
    assert [found.op_type for found in file.proto.graph.node] == ["Relu", "If"]


def test_the_alias_of_the_default_domain() -> None:
    proto = model([node("Relu", "x", "y", domain="ai.onnx")])
    proto.opset_import[0].domain = "ai.onnx"
    file = read_model(proto)
    check_model(file)
    assert file.proto.graph.node[0].domain == ""


def test_types_through_control_flow() -> None:
    body = helper.make_graph(
        [node("Identity", "k", "k2"), node("Shape", "x", "s")],
        "body",
        [value("i", [], INT64), value("k", [], TensorProto.BOOL), value("c", None)],
        [value("k2", [], TensorProto.BOOL), value("s", None, INT64)],
    )
    found = problems(loop(body))
    assert found == ["output 'y' is declared tensor(float), but is tensor(int64)"]


def test_no_model_of_the_conformance_suites_has_a_problem() -> None:
    assert {case.name: found for case in load_cases() if (found := problems(onnx.load_from_string(case.model)))} == {}


def test_work_grows_with_the_number_of_nodes() -> None:
    """Nodes that lie in the file last first: sorting them looks at each a few times, however many there are."""

    def check(count: int) -> None:
        nodes = [node("Relu" if index % 2 else "Abs", f"v{index}", f"v{index + 1}") for index in range(count)]
        file = read_model(model(nodes[::-1], [value("v0")], [value(f"v{count}")]))
        check_model(file)
        assert file.proto.graph.node[0].input[0] == "v0"

    check(10_000)
    check(200)  # what is looked up once a process is not counted
    assert lines(lambda: check(2000)) < 11 * lines(lambda: check(200))


@pytest.mark.parametrize("type_", [AttributeProto.GRAPH, AttributeProto.UNDEFINED])
def test_names_in_a_graph_that_are_no_text(type_: int) -> None:
    """Also where an attribute does not say that it is a graph."""
    proto = model([node("If", "c", "y", "choice")])
    attribute = proto.graph.node[0].attribute.add(name="else_branch", type=type_)
    attribute.g.node.add(op_type="Placeholder", output=["z"])
    attribute.g.output.add(name="z")
    content = proto.SerializeToString().replace(b"Placeholder", b"Place\xff\xfflder")
    with pytest.raises(ModelError, match="a name in a node is not UTF-8"):
        check_model(read_model(content))
