"""Random numbers of ONNX models: new at each run unless seeded, and the same state in every form of a program."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import burn
from burn.compiler import executable
from burn.dialect.text import parse_text, to_text
from burn.importers.onnx import import_onnx

COUNT = 4000
F = TensorProto.FLOAT


def model(nodes: Sequence[onnx.NodeProto], outputs: Sequence[str], opset: int = 22) -> onnx.ModelProto:
    x = helper.make_tensor_value_info("x", F, [COUNT])
    graph = helper.make_graph(nodes, "random", [x], [onnx.ValueInfoProto(name=name) for name in outputs])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def node(op: str, output: str, *inputs: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op, inputs, [output], **attributes)


FIVE = {
    "uniform": (node("RandomUniform", "y", shape=[COUNT], low=-1.0, high=3.0), 1.0, 4 / 12**0.5),
    "uniform like": (node("RandomUniformLike", "y", "x"), 0.5, 1 / 12**0.5),
    "normal": (node("RandomNormal", "y", shape=[COUNT], mean=2.0, scale=3.0), 2.0, 3.0),
    "normal like": (node("RandomNormalLike", "y", "x"), 0.0, 1.0),
    "bernoulli": (node("Bernoulli", "y", "x"), 0.25, (0.25 * 0.75) ** 0.5),
}


@pytest.fixture(scope="module")
def five() -> Any:
    """All of them in one program."""
    nodes = []
    for number, (made, _, _) in enumerate(FIVE.values()):
        copy = onnx.NodeProto.FromString(made.SerializeToString())
        copy.output[0] = f"y{number}"
        nodes.append(copy)
    return executable(import_onnx(model(nodes, [f"y{n}" for n in range(len(nodes))])))


X = np.full(COUNT, 0.25, np.float32)


def test_runs_differ_and_have_the_right_moments(five: Any) -> None:
    assert [spec.name for spec in five.inputs] == ["x"]
    first, second = five(X), five(X)
    for name, a, b in zip(FIVE, first, second, strict=True):
        mean, deviation = FIVE[name][1:]
        assert not np.array_equal(a, b), name
        for drawn in (a, b):
            assert abs(drawn.mean() - mean) < 5 * deviation / COUNT**0.5, name
            assert abs(drawn.std() / deviation - 1) < 0.1, name
    assert np.abs(np.corrcoef([*first, *second]) - np.eye(10)).max() < 5 / COUNT**0.5


def test_a_seed_makes_runs_repeat(five: Any) -> None:
    five.seed(11)
    first = [five(X) for _ in range(2)]
    five.seed(11)
    for want in first:
        for a, b in zip(five(X), want, strict=True):
            np.testing.assert_array_equal(a, b)
    burn.manual_seed(5)
    other = executable(import_onnx(model([node("RandomNormal", "y", shape=[3])], ["y"])))
    drawn = other(X)
    burn.manual_seed(5)
    np.testing.assert_array_equal(other(X), drawn)


def test_threads_draw_apart(five: Any) -> None:
    drawn: list[bytes] = []

    def call() -> None:
        for _ in range(5):
            drawn.append(five(X)[0].tobytes())

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(drawn)) == 20


def test_seeded_nodes_give_the_same_numbers_at_every_run() -> None:
    nodes = [
        node("RandomNormal", "a", shape=[COUNT], seed=3.0),
        node("RandomNormal", "b", shape=[COUNT], seed=3.5),
        helper.make_node("Dropout", ["x", "", "yes"], ["c"], seed=4),
        helper.make_node("Constant", [], ["yes"], value=helper.make_tensor("", TensorProto.BOOL, [], [True])),
    ]
    program = executable(import_onnx(model([nodes[3], *nodes[:3]], ["a", "b", "c"])))
    assert not program.artefact.signature.random_state
    first, second = program(X), program(X)
    np.testing.assert_array_equal(np.stack(first), np.stack(second))
    assert not np.array_equal(first[0], first[1])


def test_iterations_of_a_loop_draw_apart() -> None:
    body = helper.make_graph(
        [node("Identity", "go", "going"), node("RandomUniform", "drawn", shape=[2])],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("going", TensorProto.BOOL, []),
        ],
        [helper.make_tensor_value_info("go", TensorProto.BOOL, []), helper.make_tensor_value_info("drawn", F, [2])],
    )
    trips = helper.make_node("Constant", [], ["trips"], value_int=50)
    program = executable(import_onnx(model([trips, helper.make_node("Loop", ["trips", ""], ["y"], body=body)], ["y"])))
    assert len(np.unique(program(X))) == 100


def test_the_state_survives_text_and_file(tmp_path: Path) -> None:
    program = import_onnx(model([node("RandomUniform", "y", shape=[5])], ["y"]))
    again = parse_text(to_text(program))
    assert again.random_state and to_text(again) == to_text(program)
    fast = executable(again)
    fast.artefact.save(tmp_path / "program.burn")
    loaded = burn.load(tmp_path / "program.burn")
    for each in (fast, loaded):
        each.seed(2)
    np.testing.assert_array_equal(fast(X), loaded(X))
    with pytest.raises(burn.errors.ModelError, match="last argument"):
        parse_text(to_text(program).replace("2xui64", "3xui64"))


@pytest.mark.usefixtures("own_cache")
def test_the_cache_does_not_keep_the_numbers(tmp_path: Path) -> None:
    onnx.save(model([node("RandomUniform", "y", shape=[5])], ["y"]), tmp_path / "m.onnx")
    draws = [burn.load(tmp_path / "m.onnx")(X).tolist() for _ in range(2)]
    assert draws[0] != draws[1]
