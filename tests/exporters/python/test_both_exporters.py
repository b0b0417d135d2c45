"""Whole ONNX models through both exporters: the source that is written, and the ONNX model, compute what ONNX Runtime does."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper

from tests.fuzz.onnx import reference, ways

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
Feed = dict[str, np.ndarray]
node = helper.make_node


def info(name: str, dtype: int = FLOAT, shape: Sequence[int | str] | None = None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[str],
    **constants: np.ndarray,
) -> onnx.ModelProto:
    """constants: initializers by name."""
    results = [onnx.ValueInfoProto(name=name) for name in outputs]
    stored = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    graph = helper.make_graph(list(nodes), "g", list(inputs), results, stored)
    domains = {n.domain for n in nodes} - {""}
    versions = [helper.make_opsetid("", 20), *(helper.make_opsetid(domain, 1) for domain in domains)]
    return helper.make_model(graph, opset_imports=versions, ir_version=8)


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def agree(made: onnx.ModelProto, feed: Feed, *, opset: int = 21) -> str:
    """Compares the written source, and the exported model in burn and in ONNX Runtime, with ONNX Runtime; returns the
    source."""
    want = reference.outputs(reference.session(made), feed)
    for way in (ways.source, ways.export):
        for name, got in way(made, None, opset)(feed).items():
            expected = want[name.removeprefix(ways.BACK)]
            assert np.shape(got) == np.shape(expected), (way.__name__, name)
            np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5, err_msg=f"{way.__name__}: {name}")
    return ways.written(made).text


# ---- parameters with several users -------------------------------------------------------------------------------------


def linear(x: str, y: str, weight: str, bias: str) -> list[onnx.NodeProto]:
    return [node("MatMul", [x, weight], [f"{y}_product"]), node("Add", [f"{y}_product", bias], [y])]


def test_two_layers_that_share_a_bias() -> None:
    nodes = [*linear("x", "h", "first.weight", "first.bias"), *linear("h", "y", "second.weight", "first.bias")]
    constants = {"first.weight": numbers(8, 8), "second.weight": numbers(8, 8) * 2, "first.bias": numbers(8)}
    text = agree(model(nodes, [info("x", FLOAT, ["n", "t", 8])], ["y"], **constants), {"x": numbers(2, 3, 8)})
    assert "self.second = nn.Linear(8, 8, bias=False)" in text
    assert "self.second(self.first(x)) + self.first.bias" in text


def test_equal_biases_that_an_exporter_merged() -> None:
    """A new model's biases are zeros; each layer has its own again."""
    nodes = [*linear("x", "h", "first.weight", "first.bias"), *linear("h", "y", "second.weight", "first.bias")]
    constants = {"first.weight": numbers(8, 8), "second.weight": numbers(8, 8) * 2}
    constants["first.bias"] = np.zeros(8, np.float32)
    text = agree(model(nodes, [info("x", FLOAT, ["n", "t", 8])], ["y"], **constants), {"x": numbers(2, 3, 8)})
    assert "return self.second(self.first(x))" in text


def test_a_layer_that_is_called_twice() -> None:
    nodes = [*linear("x", "h", "fc.weight", "fc.bias"), *linear("h", "y", "fc.weight", "fc.bias")]
    constants = {"fc.weight": numbers(8, 8), "fc.bias": np.zeros(8, np.float32)}
    text = agree(model(nodes, [info("x", FLOAT, ["n", 8])], ["y"], **constants), {"x": numbers(2, 8)})
    assert text.count("nn.Linear") == 1


def test_convolutions_that_share_a_bias_and_norms_that_share_a_scale() -> None:
    nodes = [
        node("Conv", ["x", "w1", "b"], ["h"], pads=[1] * 4),
        node("Conv", ["h", "w2", "b"], ["k"], pads=[1] * 4),
        node("BatchNormalization", ["k", "s", "b", "m", "s"], ["l"]),
        node("InstanceNormalization", ["l", "s", "s"], ["y"]),
    ]
    constants = {"w1": numbers(4, 4, 3, 3), "w2": numbers(4, 4, 3, 3) + 1, "b": numbers(4), "m": numbers(4) + 1}
    constants["s"] = np.abs(numbers(4)) + 1
    agree(model(nodes, [info("x", FLOAT, ["n", 4, 5, 5])], ["y"], **constants), {"x": numbers(2, 4, 5, 5)})


def test_a_quantised_weight_with_two_users() -> None:
    nodes = [
        node("DequantizeLinear", ["q", "scale", "zero"], ["w"], axis=1),
        node("DequantizeLinear", ["qb", "scale", "zero32"], ["b"], axis=0),
        *linear("x", "h", "w", "b"),
        *linear("h", "k", "w", "b"),
        node("Mul", ["k", "b"], ["l"]),
        node("Gather", ["w", "i"], ["row"]),
        node("Add", ["l", "row"], ["y"]),
    ]
    constants = {"q": (numbers(8, 8) * 40).astype(np.int8), "qb": (numbers(8) * 900).astype(np.int32)}
    constants |= {"scale": np.abs(numbers(8)) / 90 + 0.001, "zero": np.zeros(8, np.int8), "i": np.array(3)}
    constants["zero32"] = np.zeros(8, np.int32)
    agree(model(nodes, [info("x", FLOAT, ["n", 8])], ["y"], **constants), {"x": numbers(2, 8)})


# ---- what layers do not take -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operator", ["SkipLayerNormalization", "SkipSimplifiedLayerNormalization"])
def test_axes_counted_from_the_last(operator: str) -> None:
    inputs = ["x", "k", "g", "c"] if operator == "SkipLayerNormalization" else ["x", "k", "g"]
    made = model(
        [node(operator, inputs, ["y"], domain="com.microsoft")],
        [info("x", FLOAT, ["n", "t", 8]), info("k", FLOAT, ["n", "t", 8])],
        ["y"],
        g=numbers(8),
        **({"c": numbers(8)} if len(inputs) == 4 else {}),
    )
    agree(made, {"x": numbers(2, 3, 8), "k": numbers(2, 3, 8) + 1})


@pytest.mark.parametrize("operator", ["Softmax", "LogSoftmax", "LpNormalization", "Gather", "CumSum", "GatherElements"])
@pytest.mark.parametrize("axis", [-1, -2, -3])
def test_every_negative_axis(operator: str, axis: int) -> None:
    indices = {"i": np.array([1, 0])} if operator == "Gather" else {"i": np.zeros((2, 4, 3), np.int64)}
    if operator == "CumSum":
        made = node(operator, ["x", "i"], ["y"])
        indices = {"i": np.array(axis)}
    elif operator.startswith("Gather"):
        made = node(operator, ["x", "i"], ["y"], axis=axis)
    else:
        made, indices = node(operator, ["x"], ["y"], axis=axis), {}
    agree(model([made], [info("x", FLOAT, ["n", 4, 3])], ["y"], **indices), {"x": numbers(2, 4, 3)})


def test_a_transposed_convolution_with_negative_padding() -> None:
    made = node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2], output_shape=[10, 9])
    x = info("x", FLOAT, ["n", 2, 4, 4])
    agree(model([made], [x], ["y"], w=numbers(2, 3, 3, 3)), {"x": numbers(1, 2, 4, 4)})


# ---- constants without elements ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(0,), (0, 4), (4, 0), (2, 0, 3), (0, 0)])
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.bool_])
def test_a_constant_without_elements(shape: tuple[int, ...], dtype: type) -> None:
    nodes = [node("Concat", ["e", "x"], ["y"], axis=0), node("Identity", ["e"], ["z"])]
    x = np.ones((2, *shape[1:]), dtype)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    made = model(nodes, [info("x", kind, ["k", *shape[1:]])], ["y", "z"], e=np.zeros(shape, dtype))
    agree(made, {"x": x})


def test_a_loop_that_starts_from_nothing() -> None:
    body = helper.make_graph(
        [node("Identity", ["ci"], ["co"]), node("Concat", ["a", "x"], ["a2"], axis=0)],
        "b",
        [info("i", INT64, []), info("ci", BOOL, []), info("a")],
        [info("co", BOOL, []), info("a2")],
    )
    made = node("Loop", ["n", "", "a0"], ["y"], body=body)
    inputs = [info("n", INT64, []), info("x", FLOAT, ["k", 4])]
    agree(model([made], inputs, ["y"], a0=np.zeros((0, 4), np.float32)), {"n": np.array(3), "x": numbers(2, 4)})


# ---- control flow ------------------------------------------------------------------------------------------------------


def test_a_scan_that_carries_nothing() -> None:
    body = helper.make_graph([node("Neg", ["xi"], ["o"])], "b", [info("xi", FLOAT, [2])], [info("o", FLOAT, [2])])
    made = node("Scan", ["x"], ["y"], body=body, num_scan_inputs=1)
    agree(model([made], [info("x", FLOAT, ["t", 2])], ["y"]), {"x": numbers(3, 2)})


def test_a_loop_that_carries_nothing() -> None:
    nodes = [node("Cast", ["i"], ["f"], to=FLOAT), node("Mul", ["f", "x"], ["o"]), node("Identity", ["c"], ["co"])]
    body = helper.make_graph(
        nodes, "b", [info("i", INT64, []), info("c", BOOL, [])], [info("co", BOOL, []), info("o", FLOAT, [2])]
    )
    made = model([node("Loop", ["n", ""], ["y"], body=body)], [info("n", INT64, []), info("x", FLOAT, [2])], ["y"])
    agree(made, {"n": np.array(3), "x": numbers(2)})


def blocks(count: int, inner: str) -> onnx.ModelProto:
    """Layers with a Scan, a Loop or an If that reads a parameter of its layer from inside."""
    nodes, constants, x = [], {}, "x"
    for i in range(count):
        at = f"layers.{i}"
        constants |= {f"{at}.fc.weight": numbers(4, 4) * (i + 1), f"{at}.fc.bias": numbers(4) + i}
        constants |= {f"{at}.decay": numbers(4) / (i + 2), "trips": np.array(3), "on": np.array(True)}
        matmul, h, y = f"/layers.{i}/fc/MatMul_output", f"/layers.{i}/fc/Add_output", f"/layers.{i}/Add_output"
        nodes += [node("MatMul", [x, f"{at}.fc.weight"], [matmul], f"/layers.{i}/fc/MatMul")]
        nodes += [node("Add", [matmul, f"{at}.fc.bias"], [h], f"/layers.{i}/fc/Add")]
        state = f"/layers.{i}/state"
        step = [node("Mul", ["s", f"{at}.decay"], ["d"]), node("Add", ["d", h], ["s2"])]
        if inner == "Loop":
            body = helper.make_graph(
                [*step, node("Identity", ["c"], ["c2"])],
                "b",
                [info("i", INT64, []), info("c", BOOL, []), info("s")],
                [info("c2", BOOL, []), info("s2")],
            )
            nodes += [node("Loop", ["trips", "on", h], [state], f"/layers.{i}/Loop", body=body)]
        elif inner == "Scan":
            step = [node("Mul", ["s", f"{at}.decay"], ["d"]), node("Add", ["d", "p"], ["s2"])]
            body = helper.make_graph(
                [*step, node("Identity", ["s2"], ["o"])], "b", [info("s"), info("p")], [info("s2"), info("o")]
            )
            first, last = f"/layers.{i}/Gather_output", f"/layers.{i}/last"
            nodes += [node("ReduceMax", [h, "zero"], [first], f"/layers.{i}/ReduceMax", keepdims=0)]
            nodes += [node("Scan", [first, h], [last, state], f"/layers.{i}/Scan", body=body, num_scan_inputs=1)]
            constants["zero"] = np.array([0])
        else:
            then = helper.make_graph([node("Mul", [h, f"{at}.decay"], ["t"])], "t", [], [info("t")])
            other = helper.make_graph([node("Neg", [h], ["e"])], "e", [], [info("e")])
            nodes += [node("ReduceMean", [h], [f"/layers.{i}/m"], f"/layers.{i}/ReduceMean", keepdims=0)]
            nodes += [node("Greater", [f"/layers.{i}/m", "bound"], [f"/layers.{i}/g"], f"/layers.{i}/Greater")]
            nodes += [node("If", [f"/layers.{i}/g"], [state], f"/layers.{i}/If", then_branch=then, else_branch=other)]
            constants["bound"] = np.float32(0)
        nodes += [node("Add", [state, x], [y], f"/layers.{i}/Add")]
        x = y
    nodes.append(node("Identity", [x], ["y"]))
    used = {name for n in nodes for name in reference.free_names([n])}
    kept = {name: array for name, array in constants.items() if name in used}
    return model(nodes, [info("x", FLOAT, ["n", 4])], ["y"], **kept)


@pytest.mark.parametrize(("count", "inner"), list(itertools.product((1, 3), ("Loop", "Scan", "If"))))
def test_control_flow_in_layers(count: int, inner: str) -> None:
    text = agree(blocks(count, inner), {"x": numbers(5, 4)})
    if count > 1 and inner != "Loop":  # a loop of three iterations is unrolled
        assert "for layer in self.layers:" in text and text.count("def body(" if inner == "Scan" else "def then(") == 1


@pytest.mark.parametrize("direction", [0, 1])
def test_a_scan_beside_a_range_with_an_end_of_run_time(direction: int) -> None:
    scan = helper.make_graph(
        [node("Add", ["s", "e"], ["w"]), node("Mul", ["w", "e"], ["u"])],
        "b",
        [info("s"), info("e")],
        [info("w", FLOAT, ["N", 1, 6]), info("u", FLOAT, ["N", 1, 6])],
    )
    loop = helper.make_graph(
        [node("Tanh", ["st"], ["t"]), node("Abs", ["t"], ["o"]), node("Identity", ["k"], ["ko"])],
        "l",
        [info("i", INT64, []), info("k", BOOL, []), info("st")],
        [info("ko", BOOL, []), info("t"), info("o")],
    )
    nodes = [
        node("Loop", ["trips", "on", "x"], ["last", "z"], body=loop),
        node("Gather", ["z", "zero"], ["s0"], axis=0),
        node("Scan", ["s0", "z"], ["f", "y"], body=scan, num_scan_inputs=1, scan_input_directions=[direction]),
        node("Range", ["one", "n", "two"], ["r"]),
    ]
    constants = {
        "trips": np.array(3),
        "on": np.array(True),
        "zero": np.array(0),
        "one": np.array(1),
        "two": np.array(2),
    }
    made = model(nodes, [info("x", FLOAT, ["N", 1, 6]), info("n", INT64, [])], ["y", "r"], **constants)
    text = agree(made, {"x": numbers(2, 1, 6), "n": np.array(8)})
    assert not re.search(r"ops\.sub\(burn\.constant", text), "arithmetic of known numbers is left in the source"


@pytest.mark.parametrize("operator", ["Unique", "NonZero"])
@pytest.mark.parametrize("within", [False, True])
def test_only_the_size_of_a_result_is_used(operator: str, within: bool) -> None:
    """The op that defines a size stays, though nothing reads what it gives; also inside of a branch."""
    size = [node(operator, ["x"], ["u"]), node("Shape", ["u"], ["s"]), node("Gather", ["s", "last"], ["n"])]
    nodes = [*size, node("Range", ["zero", "n", "one"], ["y"])]
    if within:
        other = helper.make_graph([node("Neg", ["ones"], ["e"])], "e", [], [info("e", INT64)])
        then = helper.make_graph([*nodes[:3], node("Mul", ["n", "ones"], ["t"])], "t", [], [info("t", INT64)])
        nodes = [
            node("ReduceMax", ["x"], ["m"], keepdims=0),
            node("Greater", ["m", "bound"], ["c"]),
            node("If", ["c"], ["y"], then_branch=then, else_branch=other),
        ]
    constants = {"last": np.array(-1), "zero": np.array(0), "one": np.array(1), "ones": np.array([1, 1])}
    constants["bound"] = np.float32(0)  # type: ignore[assignment]
    used = {name for n in nodes for name in reference.free_names([n])}
    kept = {name: array for name, array in constants.items() if name in used}
    made = model(nodes, [info("x", FLOAT, [5])], ["y"], **kept)
    agree(made, {"x": np.array([1, 2, 1, 0, 3], np.float32)})


# ---- the command -------------------------------------------------------------------------------------------------------


def test_a_traceback_is_that_of_the_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    from burn.cli.common import command

    def fails() -> Any:
        raise KeyError("not written")

    monkeypatch.setenv("BURN_TRACEBACK", "1")
    result = CliRunner().invoke(command(fails))
    assert result.exit_code == 1
    assert "in fails" in result.output and "NoneType" not in result.output


# ---- names -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["option_1", "_", "?", "class", "self", "x", "float", "größe", "two words", "it's", "2n"]
)
def test_sizes_of_any_name(name: str) -> None:
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["n"], axis=0),
        node("Gather", ["s", "last"], ["m"], axis=0),
        node("Range", ["zero", "n", "one"], ["r"]),
        node("Range", ["zero", "m", "one"], ["q"]),
    ]
    constants = {"zero": np.array(0), "one": np.array(1), "last": np.array(2)}
    x = info("x", FLOAT, [name, 3, f"{name}_"])
    agree(model(nodes, [x], ["r", "q"], **constants), {"x": numbers(2, 3, 4)})


ODD = ["None", "a b", "größe", "it's", 'say "x"', "back\\slash", "two\nlines", "self", "burn", "a/b:0", "1", "forward"]


def test_values_and_parameters_of_any_name() -> None:
    """A chain of layers whose values, parameters and outputs have names that Python does not allow."""
    nodes, constants, x = [], {}, ODD[0]
    for i, name in enumerate(ODD[1:]):
        constants[f"{name}.weight"] = numbers(4, 4) * (i + 1) / 10
        constants[f"{name} weight"] = numbers(4) * (i + 1)
        nodes += [
            node("MatMul", [x, f"{name}.weight"], [f"{name}.h"]),
            node("Add", [f"{name}.h", f"{name} weight"], [name]),
        ]
        x = name
    made = model(nodes, [info(ODD[0], FLOAT, ["n", 4])], [ODD[-1], ODD[3], ODD[0]], **constants)
    agree(made, {ODD[0]: numbers(2, 4)})


# ---- special numbers in layers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [np.inf, 1e-45, 0.1])
def test_scale_of_a_rounded_tensor(scale: float) -> None:
    """Tools that quantise a mask of minus infinity write an infinite scale."""
    nodes = [node("QuantizeLinear", ["x", "s", "z"], ["q"]), node("DequantizeLinear", ["q", "s", "z"], ["y"])]
    constants = {"s": np.asarray(scale, np.float32), "z": np.asarray(3, np.int8)}
    text = agree(model(nodes, [info("x", shape=[2, 3])], ["y"], **constants), {"x": numbers(2, 3)})
    assert "nn.FakeQuantize(" in text
