"""Drawn forests, walked in numpy: depths, shared leaves, NaN, several modes, trees of one node, batches of any size."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import burn
from burn.errors import ModelError
from burn.importers.onnx.ops.trees import LANES, parts

TESTS = (np.less_equal, np.less, np.greater_equal, np.greater, np.equal, np.not_equal)


class Forest:
    """TreeEnsemble's attributes, of random trees."""

    def __init__(self, seed: int, trees: int, features: int, deepest: int, modes: int, shared: bool) -> None:
        self.random = np.random.default_rng(seed)
        self.features, self.modes, self.shared = features, modes, shared
        self.nodes: list[list[Any]] = []  # feature, split, mode, true, is leaf, false, is leaf, missing
        self.weights: list[tuple[int, float]] = []
        self.roots = [self.inner(int(self.random.integers(1, deepest + 1))) for _ in range(trees)]

    def inner(self, depth: int) -> int:
        at, draw = len(self.nodes), self.random
        split = float(np.float32(draw.integers(-2, 3) / 2))
        self.nodes.append(
            [int(draw.integers(self.features)), split, int(draw.integers(self.modes)), bool(draw.integers(2))]
        )
        self.nodes[at] += [*self.child(depth - 1), *self.child(depth - 1 - int(draw.integers(3)))]
        return at

    def child(self, depth: int) -> tuple[int, int]:
        if depth > 0:
            return self.inner(depth), 0
        if self.shared and self.weights and self.random.integers(2):
            return int(self.random.integers(len(self.weights))), 1
        self.weights.append((int(self.random.integers(2)), float(np.float32(self.random.standard_normal()))))
        return len(self.weights) - 1, 1

    def model(self) -> onnx.ModelProto:
        feature, split, mode, missing, true, true_leaf, false, false_leaf = (
            list(a) for a in zip(*self.nodes, strict=True)
        )

        def tensor(values: Any, dtype: Any) -> onnx.TensorProto:
            return numpy_helper.from_array(np.array(values, dtype))

        node = helper.make_node(
            "TreeEnsemble", ["x"], ["y"], domain="ai.onnx.ml", n_targets=2, aggregate_function=1, tree_roots=self.roots,
            nodes_featureids=feature, nodes_splits=tensor(split, np.float32), nodes_modes=tensor(mode, np.uint8),
            nodes_missing_value_tracks_true=[int(m) for m in missing], nodes_truenodeids=true, nodes_trueleafs=true_leaf,
            nodes_falsenodeids=false, nodes_falseleafs=false_leaf, leaf_targetids=[t for t, _ in self.weights],
            leaf_weights=tensor([w for _, w in self.weights], np.float32),
        )  # fmt: skip
        value = helper.make_tensor_value_info
        graph = helper.make_graph(
            [node],
            "g",
            [value("x", TensorProto.FLOAT, ["n", self.features])],
            [value("y", TensorProto.FLOAT, ["n", 2])],
        )
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("ai.onnx.ml", 5), helper.make_opsetid("", 21)]
        )

    def __call__(self, x: np.ndarray) -> np.ndarray:
        result = np.zeros((len(x), 2))
        for row, values in enumerate(x):
            for root in self.roots:
                at, is_leaf = root, 0
                while not is_leaf:
                    feature, split, mode, missing, true, true_leaf, false, false_leaf = self.nodes[at]
                    taken = TESTS[mode](values[feature], split) or (missing and np.isnan(values[feature]))
                    at, is_leaf = (true, true_leaf) if taken else (false, false_leaf)
                target, weight = self.weights[at]
                result[row, target] += weight
        return result


@pytest.mark.parametrize(
    ("trees", "features", "deepest", "modes", "shared"),
    [(1, 1, 1, 1, False), (3, 5, 4, 6, False), (17, 3, 6, 1, True), (40, 9, 9, 2, False), (64, 4, 3, 6, True)],
)
def test_drawn_forests(trees: int, features: int, deepest: int, modes: int, shared: bool) -> None:
    forest = Forest(trees, trees, features, deepest, modes, shared)
    run = burn.load(forest.model(), cache=False)
    draw = np.random.default_rng(1)
    for batch in (0, 1, 7, 33):
        x = (draw.integers(-3, 4, (batch, features)) / 2).astype(np.float32)
        x[draw.random(x.shape) < 0.1] = np.nan
        x[draw.random(x.shape) < 0.05] = np.inf
        np.testing.assert_allclose(run(x), forest(x), rtol=1e-5, atol=1e-5)


def test_parts_cover_all_trees_in_order() -> None:
    draw = np.random.default_rng(0)
    for count in (1, 15, 16, 17, 100, 300):
        depths = np.sort(draw.integers(0, 40, count))[::-1]
        found = parts(depths)
        assert [start for start, _ in found] == [0, *(stop for _, stop in found[:-1])] and found[-1][1] == count
        assert all(start % LANES == 0 for start, _ in found)
    assert parts(np.full(100, 9)) == [(0, 100)]
    assert parts(np.array([40] * 32 + [3] * 320)) == [(0, 32), (32, 352)]


@pytest.mark.parametrize("own", [(0, 0), (1, 0)])
def test_circles_are_refused(own: tuple[int, int]) -> None:
    forest = Forest(0, 2, 2, 3, 1, False)
    forest.nodes[0][4 + 2 * own[0] : 6 + 2 * own[0]] = [0, 0]  # a root that is its own child
    with pytest.raises(ModelError, match="run in circles"):
        burn.load(forest.model(), cache=False)


def test_trees_may_share_nodes() -> None:
    forest = Forest(0, 2, 2, 3, 1, False)
    forest.nodes[-1][4:6] = [0, 0]  # the second tree ends in the first one
    x = np.random.default_rng(0).standard_normal((9, 2)).astype(np.float32)
    np.testing.assert_allclose(burn.load(forest.model(), cache=False)(x), forest(x), rtol=1e-5, atol=1e-6)
