"""Sources of programs that draw random numbers: they take no further argument, and draw what the program draws."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import burn
from burn.exporters.python.generate import generate
from burn.importers.onnx import import_onnx


def value(name: str, shape: list[int | str], dtype: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def model(nodes: list[onnx.NodeProto], outputs: dict[str, list[int | str]]) -> bytes:
    graph = helper.make_graph(nodes, "graph", [value("x", ["n", 5])], [value(n, s) for n, s in outputs.items()])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    onnx.checker.check_model(made)
    return made.SerializeToString()


NODES = {
    "one draw": [helper.make_node("RandomUniformLike", ["x"], ["y"])],
    "two draws, told apart": [
        helper.make_node("RandomNormalLike", ["x"], ["a"]),
        helper.make_node("RandomNormalLike", ["x"], ["b"]),
        helper.make_node("Sub", ["a", "b"], ["y"]),
    ],
    "beside a seed": [
        helper.make_node("RandomNormalLike", ["x"], ["a"], seed=3.0),
        helper.make_node("RandomUniformLike", ["x"], ["b"]),
        helper.make_node("Add", ["a", "b"], ["y"]),
    ],
    "the first draw is used last": [
        helper.make_node("RandomUniformLike", ["x"], ["a"]),
        helper.make_node("RandomUniformLike", ["x"], ["b"]),
        helper.make_node("Add", ["x", "b"], ["c"]),
        helper.make_node("Exp", ["c"], ["d"]),
        helper.make_node("Sub", ["d", "a"], ["y"]),
    ],
}


def loop() -> list[onnx.NodeProto]:
    """Each iteration draws anew; another draw stands behind the loop."""
    body = helper.make_graph(
        [
            helper.make_node("RandomUniformLike", ["x"], ["drawn"]),
            helper.make_node("Add", ["sum_in", "drawn"], ["sum_out"]),
            helper.make_node("Identity", ["go_in"], ["go_out"]),
            helper.make_node("Identity", ["drawn"], ["each"]),
        ],
        "body",
        [value("i", [], TensorProto.INT64), value("go_in", [], TensorProto.BOOL), value("sum_in", ["n", 5])],
        [value("go_out", [], TensorProto.BOOL), value("sum_out", ["n", 5]), value("each", ["n", 5])],
    )
    return [
        helper.make_node("Constant", [], ["count"], value_int=3),
        helper.make_node("Loop", ["count", "", "x"], ["total", "rows"], body=body),
        helper.make_node("RandomUniformLike", ["x"], ["behind"]),
        helper.make_node("Add", ["total", "behind"], ["y"]),
    ]


def runs(made: bytes) -> tuple[burn.Executable, burn.Executable]:
    """The program, and its source compiled."""
    source = generate(import_onnx(made), plain=False)
    assert "random_state" not in source.text
    return burn.load(made, cache=False), burn.compile(source.load())


@pytest.mark.parametrize("name", NODES)
def test_draws(name: str) -> None:
    program, source = runs(model(NODES[name], {"y": ["n", 5]}))
    x = np.full((7, 5), 0.5, np.float32)
    first, second = source(x), source(x)
    assert not np.array_equal(first, second)
    program.seed(11)
    source.seed(11)
    np.testing.assert_allclose(source(x), program(x), rtol=1e-6)


def test_an_unused_draw_is_not_written() -> None:
    nodes = [helper.make_node("RandomUniformLike", ["x"], ["unused"]), helper.make_node("Bernoulli", ["x"], ["y"])]
    source = generate(import_onnx(model(nodes, {"y": ["n", 5]})), plain=False)
    assert source.text.count("next_key()") == 1
    drawn = np.asarray(burn.compile(source.load())(np.full((40, 5), 0.5, np.float32)))
    assert set(np.unique(drawn)) == {0, 1}


def test_draws_in_loops() -> None:
    program, source = runs(model(loop(), {"y": ["n", 5], "rows": [3, "n", 5]}))
    x = np.zeros((7, 5), np.float32)
    y, rows = source(x)
    assert not np.array_equal(rows[0], rows[1]) and not np.array_equal(rows[1], rows[2])
    behind = np.asarray(y) - np.asarray(rows).sum(0)
    assert (behind > -1e-5).all() and (behind < 1 + 1e-5).all()
    assert all(not np.allclose(behind, row) for row in np.asarray(rows))
    assert [a.shape for a in program(x)] == [a.shape for a in (y, rows)]
