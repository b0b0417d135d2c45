"""Drawn forests, walked in numpy: depths, shared leaves, NaN, modes, sets, trees of one node, batches of any size."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import burn
from burn.codegen.cpu.target import compact, host_target
from burn.dialect.trees import TreeLeaves
from burn.errors import ModelError, RunError
from burn.importers.onnx import import_onnx
from burn.runtime.host import features as cpu_features

TESTS = (np.less_equal, np.less, np.greater_equal, np.greater, np.equal, np.not_equal)
LEQ, LT, GTE, GT, EQ, NEQ, MEMBER = range(7)
INFINITE = np.array([-np.inf, -1, -0.5, 0, 0.5, 1, np.inf])


class Forest:
    """TreeEnsemble's attributes, of random trees."""

    def __init__(
        self,
        seed: int,
        trees: int,
        features: int,
        deepest: int,
        modes: tuple[int, ...] = (LEQ,),
        shared: bool = False,
        missing: float = 0.5,
        splits: np.ndarray = INFINITE[1:-1],
        dtype: str = "float32",
    ) -> None:
        self.random = np.random.default_rng(seed)
        self.features, self.modes, self.shared, self.missing, self.dtype = features, modes, shared, missing, dtype
        self.splits = splits
        self.nodes: list[list[Any]] = []  # feature, split, mode, missing, true, is leaf, false, is leaf
        self.sets: dict[int, np.ndarray] = {}
        self.weights: list[tuple[int, float]] = []
        self.roots = [self.inner(int(self.random.integers(1, deepest + 1))) for _ in range(trees)]

    def inner(self, depth: int) -> int:
        at, draw = len(self.nodes), self.random
        mode = int(draw.choice(self.modes))
        if mode == MEMBER:
            self.sets[at] = draw.choice(self.splits, int(draw.integers(1, 4)))
        self.nodes.append(
            [int(draw.integers(self.features)), float(draw.choice(self.splits)), mode, draw.random() < self.missing]
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

    def model(self, features: int | str | None = None) -> onnx.ModelProto:
        """features: the size of the input's last axis."""
        feature, split, mode, missing, true, true_leaf, false, false_leaf = (
            list(a) for a in zip(*self.nodes, strict=True)
        )

        def tensor(values: Any, dtype: Any) -> onnx.TensorProto:
            return numpy_helper.from_array(np.array(values, dtype))

        members = [value for at in sorted(self.sets) for value in (*self.sets[at], np.nan)]
        node = helper.make_node(
            "TreeEnsemble", ["x"], ["y"], domain="ai.onnx.ml", n_targets=2, aggregate_function=1, tree_roots=self.roots,
            nodes_featureids=feature, nodes_splits=tensor(split, self.dtype), nodes_modes=tensor(mode, np.uint8),
            nodes_missing_value_tracks_true=[int(m) for m in missing], nodes_truenodeids=true, nodes_trueleafs=true_leaf,
            nodes_falsenodeids=false, nodes_falseleafs=false_leaf, leaf_targetids=[t for t, _ in self.weights],
            leaf_weights=tensor([w for _, w in self.weights], self.dtype),
        )  # fmt: skip
        if members:
            node.attribute.append(helper.make_attribute("membership_values", tensor(members, self.dtype)))
        value, type_ = helper.make_tensor_value_info, helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype))
        graph = helper.make_graph(
            [node], "g", [value("x", type_, ["n", features or self.features])], [value("y", type_, ["n", 2])]
        )
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("ai.onnx.ml", 5), helper.make_opsetid("", 21)]
        )

    def leads_to_true(self, at: int, value: float) -> bool:
        _, split, mode, missing, *_ = self.nodes[at]
        same = bool((self.sets[at] == value).any()) if mode == MEMBER else bool(TESTS[mode](value, split))
        return same or (missing and bool(np.isnan(value)))

    def __call__(self, x: np.ndarray) -> np.ndarray:
        result = np.zeros((len(x), 2))
        for row, values in enumerate(x):
            for root in self.roots:
                at, is_leaf = root, 0
                while not is_leaf:
                    feature, *_, true, true_leaf, false, false_leaf = self.nodes[at]
                    at, is_leaf = (true, true_leaf) if self.leads_to_true(at, values[feature]) else (false, false_leaf)
                target, weight = self.weights[at]
                result[row, target] += weight
        return result

    def rows(self, draw: np.random.Generator, count: int) -> np.ndarray:
        """Values on the splits, between them and beyond, NaN, infinities and zeros of both signs."""
        x = (draw.integers(-3, 4, (count, self.features)) / 2).astype(self.dtype)
        x[draw.random(x.shape) < 0.15] = np.nan
        x[draw.random(x.shape) < 0.1] = np.inf
        x[draw.random(x.shape) < 0.1] = -np.inf
        x[draw.random(x.shape) < 0.1] = -0.0
        return x

    def check(
        self, features: int | str | None = None, batches: tuple[int, ...] = (0, 1, 7, 33), **options: Any
    ) -> None:
        run, draw = burn.load(self.model(features), cache=False, **options), np.random.default_rng(1)
        for batch in batches:
            x = self.rows(draw, batch)
            np.testing.assert_allclose(run(x), self(x), rtol=1e-5, atol=1e-5)

    def comparison(self) -> str:
        """That of the op."""
        program = import_onnx(self.model())
        (found,) = [o.opview for o in program.block.operations if isinstance(o.opview, TreeLeaves)]
        return found.comparison


FORESTS: dict[str, dict[str, Any]] = {
    "one node": {"trees": 1, "features": 1, "deepest": 1},
    "comparisons": {"trees": 3, "features": 5, "deepest": 4, "modes": (LEQ, LT, GTE, GT, EQ, NEQ)},
    "shared leaves": {"trees": 17, "features": 3, "deepest": 6, "shared": True},
    "less or equal, or greater": {"trees": 40, "features": 9, "deepest": 9, "modes": (LEQ, GT)},
    "many": {"trees": 64, "features": 4, "deepest": 3, "modes": (LEQ, LT, GTE, GT, EQ, NEQ), "shared": True},
    "sets": {"trees": 18, "features": 6, "deepest": 7, "modes": (LEQ, EQ, MEMBER)},
    "infinite splits": {"trees": 9, "features": 4, "deepest": 5, "modes": (LT, GTE), "splits": INFINITE},
    "no splits": {
        "trees": 9,
        "features": 4,
        "deepest": 5,
        "modes": (LEQ, LT, NEQ, EQ),
        "splits": np.array([np.nan, 0.5]),
    },
    "NaN is true": {"trees": 19, "features": 4, "deepest": 5, "modes": (LT,), "missing": 1.0},
    "float64": {"trees": 19, "features": 4, "deepest": 5, "modes": (LEQ, GT, MEMBER), "dtype": "float64"},
}
"""Options of `Forest`."""


@pytest.mark.parametrize("name", FORESTS)
def test_drawn_forests(name: str) -> None:
    Forest(len(name), **FORESTS[name]).check()


@pytest.mark.parametrize("name", ["sets", "infinite splits", "no splits", "float64"])
def test_walks_in_parallel_steps(name: str) -> None:
    """The decomposition of `tree_leaves`, which devices without the library use."""
    Forest(len(name), **FORESTS[name]).check(target=compact(host_target(cpu_features())), batches=(1, 33))


@pytest.mark.parametrize(
    ("modes", "missing", "comparison"),
    [
        ((LEQ,), 0.0, "le"), ((LEQ,), 0.5, "le"), ((LEQ,), 1.0, "gt"), ((LEQ, GT), 0.3, "le"), ((LT,), 0.5, "lt"),
        ((GTE, LT), 0.0, "lt"),
        ((GTE,), 0.0, "ge"), ((EQ,), 0.0, "eq"), ((LEQ, LT), 0.0, ""), ((LEQ, EQ), 0.0, ""), ((MEMBER,), 0.0, ""),
    ],
)  # fmt: skip
def test_nodes_share_a_comparison(modes: tuple[int, ...], missing: float, comparison: str) -> None:
    """NaN that leads to different children does not make comparisons differ."""
    forest = Forest(3, 20, 4, 5, modes, missing=missing)
    assert forest.comparison() == comparison
    forest.check(batches=(19,))


def test_a_split_that_rules_a_shared_comparison_out() -> None:
    """NaN as minus infinity is not less than a split of minus infinity."""
    forest = Forest(3, 20, 4, 5, (LT,), splits=np.array([-np.inf, 0]))
    assert not forest.comparison()
    forest.check(batches=(19,))


def test_features_of_an_open_number() -> None:
    forest = Forest(5, 9, 6, 4)
    forest.check("f", batches=(0, 1, 18))
    with pytest.raises(RunError):
        burn.load(forest.model("f"), cache=False)(np.zeros((2, 3), np.float32))


def test_more_nodes_than_a_word_has_room_for() -> None:
    """A word of 32 bits has room for 2^27 nodes times features."""
    forest = Forest(5, 600, 2, 8)
    forest.features = 1 << 16
    for node in forest.nodes:
        node[0] *= forest.features - 1
    forest.check(batches=(1, 18))


@pytest.mark.parametrize("own", [(0, 0), (1, 0)])
def test_circles_are_refused(own: tuple[int, int]) -> None:
    forest = Forest(0, 2, 2, 3)
    forest.nodes[0][4 + 2 * own[0] : 6 + 2 * own[0]] = [0, 0]  # a root that is its own child
    with pytest.raises(ModelError, match="run in circles"):
        burn.load(forest.model(), cache=False)


def test_trees_may_share_nodes() -> None:
    forest = Forest(0, 2, 2, 3)
    forest.nodes[-1][4:6] = [0, 0]  # the second tree ends in the first one
    forest.check(batches=(9,))
