"""Functions: calls of a model's own functions, and of standard operators with function bodies, are inlined."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import AttributeProto, TensorProto, helper
from onnx.reference import ReferenceEvaluator

from burn.errors import ModelError
from burn.importers.onnx.check import check_model
from burn.importers.onnx.file import read_model
from burn.importers.onnx.functions import MAX_NODES, expand, inline_functions, opset_of, opsets
from tests.onnx_suite.cases import Case, load_cases
from tests.onnx_suite.compare import compare

from .models import model, node, tensor, value

X = np.array([[-1.0, 2.0, 0.5], [3.0, -4.0, 0.0]], np.float32)
DOMAIN = "local"


def function(
    name: str,
    nodes: list[onnx.NodeProto],
    inputs: str = "a",
    outputs: str = "b",
    attributes: tuple[str, ...] = (),
    defaults: tuple[AttributeProto, ...] = (),
    opset: int = 18,
    domain: str = DOMAIN,
) -> onnx.FunctionProto:
    imports = [helper.make_opsetid("", opset), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_function(
        domain, name, inputs.split(), outputs.split(), nodes, imports, list(attributes), list(defaults)
    )


def call(name: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    return node(name, inputs, outputs, f"call_{name}_{outputs.split()[0]}", domain=DOMAIN, **attributes)


def reference(name: str, kind: int, of: str) -> AttributeProto:
    """An attribute whose value is that of the function's attribute `of`."""
    return AttributeProto(name=name, type=kind, ref_attr_name=of)  # type: ignore[arg-type]


def with_attributes(made: onnx.NodeProto, *attributes: AttributeProto) -> onnx.NodeProto:
    made.attribute.extend(attributes)
    return made


def inlined(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The model without functions, checked before and after."""
    file = read_model(proto.SerializeToString())
    check_model(file)
    inline_functions(file.proto)
    assert not file.proto.functions
    check_model(file)
    return file.proto


def by_onnxruntime(proto: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> list[Any]:
    return list(ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, inputs))


def by_onnx(proto: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> list[Any]:
    """onnx's evaluator supports omitted outputs, but no functions that call functions."""
    return list(ReferenceEvaluator(proto).run(None, inputs))


def same(proto: onnx.ModelProto, run: Any = by_onnxruntime, **inputs: np.ndarray) -> onnx.ModelProto:
    """Both forms give the same outputs; returns the inlined one."""
    result = inlined(proto)
    for before, after in zip(run(proto, inputs), run(result, inputs), strict=True):
        np.testing.assert_array_equal(before, after)
    return result


def local(nodes: list[onnx.NodeProto], *functions: onnx.FunctionProto, **options: Any) -> onnx.ModelProto:
    return model(nodes, functions=functions, domains={DOMAIN: 1}, **options)


def test_names_of_two_calls_are_kept_apart() -> None:
    body = function("F", [node("Relu", "a", "t"), node("Add", "t a", "b")])
    result = same(local([call("F", "x", "t"), call("F", "t", "y")], body), x=X)
    names = [name for found in result.graph.node for name in found.output]
    assert len(set(names)) == 4 and "t" in names


def test_functions_that_call_functions() -> None:
    inner = function("G", [node("Neg", "a", "b")])
    outer = function("F", [call("G", "a", "t"), call("G", "t", "u"), node("Add", "t u", "b")])
    result = same(local([call("F", "x", "y")], outer, inner), x=X)
    assert [found.op_type for found in result.graph.node] == ["Neg", "Neg", "Add"]


def test_attributes_given_by_default_and_left_out() -> None:
    alpha = AttributeProto.FLOAT
    leaky = with_attributes(node("LeakyRelu", "a", "b"), reference("alpha", alpha, "slope"))
    given = function("F", [leaky], attributes=("slope",))
    default = function("G", [leaky], defaults=(helper.make_attribute("slope", 0.25),))
    calls = [call("F", "x", "f", slope=0.5), call("G", "x", "g"), call("G", "x", "h", slope=0.75)]
    result = same(local([*calls, node("Sum", "f g h", "y")], given, default), x=X)
    slopes = [found.attribute[0].f for found in result.graph.node[:3]]
    assert slopes == [0.5, 0.25, 0.75]


def test_an_attribute_of_an_attribute() -> None:
    leaky = with_attributes(node("LeakyRelu", "a", "b"), reference("alpha", AttributeProto.FLOAT, "slope"))
    through = with_attributes(call("F", "a", "b"), reference("slope", AttributeProto.FLOAT, "outer"))
    functions = (function("F", [leaky], attributes=("slope",)), function("G", [through], attributes=("outer",)))
    result = same(local([call("G", "x", "y", outer=0.5)], *functions), x=X)
    assert result.graph.node[0].attribute[0].f == 0.5


def test_inputs_and_outputs_left_out() -> None:
    clip = function("F", [node("Clip", "a lo hi", "b"), node("Neg", "b", "c")], "a lo hi", "b c")
    top = tensor("top", np.array(1.0, np.float32))
    result = same(local([call("F", "x - top", "y")], clip, initializers=[top]), by_onnx, x=X)
    assert list(result.graph.node[0].input) == ["x", "", "top"]


def test_an_input_that_is_an_output() -> None:
    body = function("F", [node("Neg", "a", "b")], outputs="a b")
    outputs = [value("y"), value("z")]
    same(local([call("F", "x", "y z")], body, outputs=outputs), by_onnx, x=X)


def if_graph(name: str, nodes: list[onnx.NodeProto], output: str) -> onnx.GraphProto:
    return helper.make_graph(nodes, name, [], [value(output, None)])


def test_names_inside_of_subgraphs() -> None:
    """Subgraphs read the function's names from around them, and define the same name twice."""
    branches: dict[str, Any] = {
        "then_branch": if_graph("then", [node("Add", "a t", "r")], "r"),
        "else_branch": if_graph("else", [node("Sub", "a t", "r")], "r"),
    }
    body = function("F", [node("Exp", "a", "t"), node("If", "c", "b", **branches)], "a c")
    inputs = [value("x"), value("c", [], TensorProto.BOOL)]
    proto = local([call("F", "x c", "r"), call("F", "r c", "y")], body, inputs=inputs, outputs=[value("y", None)])
    for condition in (True, False):
        same(proto, x=X, c=np.array(condition))


def test_calls_inside_of_subgraphs() -> None:
    body = function("F", [node("Exp", "a", "t"), node("Neg", "t", "b")])
    branches: dict[str, Any] = {
        "then_branch": if_graph("then", [call("F", "x", "r")], "r"),
        "else_branch": if_graph("else", [node("Abs", "x", "t"), call("F", "t", "r")], "r"),
    }
    inputs = [value("x"), value("c", [], TensorProto.BOOL)]
    proto = local([node("If", "c", "y", **branches)], body, inputs=inputs, outputs=[value("y", None)])
    for condition in (True, False):
        same(proto, x=X, c=np.array(condition))


def test_a_function_of_another_opset() -> None:
    """Softmax changed its meaning in opset 13; the function's nodes keep that of opset 11."""
    old = function("F", [node("Softmax", "a", "b")], opset=11)
    file = read_model(local([call("F", "x", "t"), node("Softmax", "t", "y")], old))
    check_model(file)
    inline_functions(file.proto)
    versions = opsets(file.proto.opset_import)
    assert [opset_of(found, versions) for found in file.proto.graph.node] == [11, 18]


def test_a_mark_that_the_file_brings_is_forgotten() -> None:
    proto = model([node("Relu", "x", "y")])
    proto.graph.node[0].metadata_props.add(key="burn.opset", value="not a number")
    proto.graph.node[0].metadata_props.add(key="theirs", value="kept")
    inline_functions(proto)
    assert [entry.key for entry in proto.graph.node[0].metadata_props] == ["theirs"]


def test_a_function_in_place_of_a_standard_operator() -> None:
    mine = function("Relu", [node("Neg", "a", "b")], domain="")
    file = read_model(model([node("Relu", "x", "y")], functions=[mine]))
    check_model(file)
    inline_functions(file.proto)
    assert [found.op_type for found in file.proto.graph.node] == ["Neg"]


def test_overloads() -> None:
    plain, other = function("F", [node("Neg", "a", "b")]), function("F", [node("Abs", "a", "b")])
    other.overload = "other"
    second = call("F", "t", "y")
    second.overload = "other"
    result = inlined(local([call("F", "x", "t"), second], plain, other))
    assert [found.op_type for found in result.graph.node] == ["Neg", "Abs"]


# Errors of functions


@pytest.mark.parametrize(
    ("proto", "message"),
    [
        (local([call("F", "x", "y")], function("F", [call("F", "a", "b")])), "functions call themselves, .*local::F"),
        (
            local([call("F", "x", "y")], function("F", [call("G", "a", "b")]), function("G", [call("F", "a", "b")])),
            "functions call themselves, .*local::F, local::G",
        ),
        (
            local([call("F", "x", "y")], *[function("F", [node("Neg", "a", "b")])] * 2),
            "function local::F is defined twice",
        ),
        (
            local([call("F", "x", "y")], function("F", [node("Nag", "a", "b")])),
            "in function local::F: unknown operator",
        ),
        (
            local([call("F", "x", "y")], function("F", [node("Neg", "q", "b")])),
            "in function local::F: input 'q' is not defined",
        ),
        (
            local([call("F", "x", "y")], function("F", [node("Neg", "a", "c")])),
            "in function local::F: output 'b' is not defined",
        ),
        (local([call("F", "x x", "y")], function("F", [node("Neg", "a", "b")])), "2 inputs for a function of 1"),
        (
            local([call("F", "x", "y")], function("F", [node("Neg", "a", "b")], attributes=("k",))),
            "attribute 'k': the function's attribute is missing",
        ),
        (
            local([call("F", "x", "y", k=1)], function("F", [node("Neg", "a", "b")])),
            "attribute 'k': the function has no such attribute",
        ),
        (
            local(
                [call("F", "x", "y")],
                function("F", [with_attributes(node("Elu", "a", "b"), reference("alpha", AttributeProto.FLOAT, "q"))]),
            ),
            "refers to 'q', which is no attribute of the function",
        ),
    ],
)
def test_malformed_functions(proto: onnx.ModelProto, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        check_model(read_model(proto))


def test_functions_that_expand_without_bound() -> None:
    """Thirty functions, and each calls the next one twice."""
    functions = [
        function(f"F{index}", [call(f"F{index + 1}", "a", "t"), call(f"F{index + 1}", "t", "b")]) for index in range(30)
    ]
    functions.append(function("F30", [node("Neg", "a", "b")]))
    file = read_model(local([call("F0", "x", "y")], *functions))
    check_model(file)
    with pytest.raises(ModelError, match=f"more than {MAX_NODES} nodes"):
        inline_functions(file.proto)


def test_functions_that_nest_too_deep() -> None:
    functions = [function(f"F{index}", [call(f"F{index + 1}", "a", "b")]) for index in range(3000)]
    functions.append(function("F3000", [node("Neg", "a", "b")]))
    file = read_model(local([call("F0", "x", "y")], *functions))
    check_model(file)
    with pytest.raises(ModelError, match="more than 100 deep"):
        inline_functions(file.proto)


# Standard operators


def expandable() -> list[Case]:
    """The conformance tests of one node whose operator ONNX defines by others."""
    found = []
    for case in load_cases(("node",)):
        proto = onnx.load_from_string(case.model)
        if len(proto.graph.node) == 1 and "bernoulli" not in case.name and not case.name.startswith("test_range_"):
            only, version = proto.graph.node[0], opsets(proto.opset_import)
            schema: Any = onnx.defs.get_schema(only.op_type, version[only.domain], only.domain)
            if schema.has_function or schema.has_context_dependent_function:
                found.append(case)
    return found


def test_standard_definitions_compute_what_the_operators_do() -> None:
    """All but Range, whose body onnx's own evaluator gets wrong, and Bernoulli, which is random."""
    cases = expandable()
    assert len(cases) > 400
    for case in cases:
        proto = onnx.load_from_string(case.model)
        only, versions = proto.graph.node[0], opsets(proto.opset_import)
        types = {info.name: info.type for info in proto.graph.input}
        nodes = expand(only, versions[only.domain], [types.get(name) for name in only.input], versions)
        assert nodes, case.name
        versions_used = {opset_of(made, versions) for made in nodes if made.domain == ""}
        assert len(versions_used) <= 1, case.name
        for made in nodes:
            del made.metadata_props[:]
        expanded = onnx.ModelProto()
        expanded.CopyFrom(proto)
        del expanded.graph.node[:], expanded.opset_import[:]
        expanded.graph.node.extend(nodes)
        expanded.opset_import.add(version=max(versions_used, default=18))
        check_model(read_model(expanded.SerializeToString()))
        names = [info.name for info in expanded.graph.input]
        with np.errstate(all="ignore"):
            for inputs, outputs in case.data_sets:
                got = ReferenceEvaluator(expanded).run(None, dict(zip(names, inputs, strict=True)))
                compare(outputs, list(got), case.rtol, case.atol)


def test_operators_without_a_definition() -> None:
    assert expand(node("Conv", "x w", "y"), 18, [None, None]) is None
    assert expand(node("Nothing", "x", "y"), 18, [None]) is None


def test_a_definition_that_needs_types() -> None:
    with pytest.raises(ModelError, match="depends on its inputs' types, which are not known"):
        expand(node("LayerNormalization", "x w", "y"), 18, [None, None])
