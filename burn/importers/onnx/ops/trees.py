"""Decision trees: TreeEnsemble, TreeEnsembleRegressor and TreeEnsembleClassifier.

The attributes become a `Forest`, whose nodes are numbered in `burn/importers/onnx/forest.py`. `burn.tree_leaves` finds the rows'
leaves, and `gather_votes` sums their weights.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from burn.dialect import ops
from burn.dialect.compose import convert, limit, number, number_like
from burn.dialect.mlir import ir
from burn.dialect.types import type_of
from burn.importers.onnx.forest import MEMBER, MODES, Forest, Walked
from burn.importers.onnx.node import Node, onnx_op
from burn.importers.onnx.ops.ml import DOMAIN, best_label, class_labels, post_transform, rows, transform_scores

MAX_VOTES = 2**28  # entries of the table of votes, which is dense


def gather_votes(node: Node, walked: Walked, aggregate: str, dtype: str) -> ir.Value:
    """The leaves' weights [n, targets], aggregated over the trees."""
    weights = ops.gather(convert(node.array(walked.votes), dtype), walked.leaf, axis=0)
    if aggregate in ("SUM", "AVERAGE"):
        total = ops.reduce(weights, kind="sum", axes=(1,))
        return ops.div(total, number(walked.trees, dtype)) if aggregate == "AVERAGE" else total
    kind = aggregate.lower()
    if kind not in ("min", "max"):
        node.fail(f"'{aggregate}' is none of SUM, AVERAGE, MIN, MAX", "aggregate_function")
    if not walked.voted.all():
        silent = limit(dtype, highest=kind == "min")
        weights = ops.select(ops.gather(node.array(walked.voted), walked.leaf, axis=0), weights, silent)
    return ops.reduce(weights, kind=kind, axes=(1,))


HIT_RATES = "they say how often a node is met, for the order of evaluation"


# ---- the older operators: one list of nodes, by tree and number -----------------------------------------------------
def _floats(node: Node, name: str) -> np.ndarray:
    if node.has(f"{name}_as_tensor"):
        return np.asarray(node.tensor(f"{name}_as_tensor").array()).reshape(-1)
    return np.array(node.floats(name, ()), np.float32)


def listed_forest(node: Node, prefix: str, targets: int) -> Forest:
    """From nodes_*, and target_* or class_*."""
    trees, numbers = node.ints("nodes_treeids"), node.ints("nodes_nodeids")
    node.no_effect("nodes_hitrates", "nodes_hitrates_as_tensor", because=HIT_RATES)
    at = {pair: i for i, pair in enumerate(zip(trees, numbers, strict=True))}
    names = node.strings("nodes_modes")
    count = len(trees)
    if unknown := sorted(set(names) - {*MODES, "LEAF"}):
        node.fail(f"unknown {', '.join(unknown)}", "nodes_modes")
    leaf = np.array([name == "LEAF" for name in names])
    own = np.arange(count)
    children = []
    for attribute in ("nodes_truenodeids", "nodes_falsenodeids"):
        ids = node.ints(attribute)
        if len(ids) != count or len(names) != count:
            node.fail(f"has {len(ids)} entries for {count} nodes", attribute)
        try:
            children_at = [i if leaf[i] else at[trees[i], ids[i]] for i in range(count)]
        except KeyError as error:
            node.fail(f"names node {error.args[0][1]} of tree {error.args[0][0]}, which does not exist", attribute)
        children.append(np.array(children_at, np.int64))
    missing = np.array(node.ints("nodes_missing_value_tracks_true", (0,) * count), bool)
    split = _floats(node, "nodes_values")
    feature = np.array(node.ints("nodes_featureids"), np.int64)
    if not len(missing) == len(split) == len(feature) == count:
        node.fail(f"the lists of nodes differ in length from {count}", "nodes_values")
    seen: dict[int, int] = {}
    is_child = set(children[0][~leaf].tolist()) | set(children[1][~leaf].tolist())
    for index in own:
        if int(index) not in is_child:
            seen.setdefault(trees[index], int(index))
    votes, voted = no_votes(node, count, targets, split.dtype)
    weights = _floats(node, f"{prefix}_weights")
    entries = zip(
        node.ints(f"{prefix}_treeids"), node.ints(f"{prefix}_nodeids"), node.ints(f"{prefix}_ids"), weights, strict=True
    )
    for tree, number_, target, weight in entries:
        if (tree, number_) not in at or not 0 <= target < targets:
            node.fail(f"names node {number_} of tree {tree} or target {target}, which does not exist", f"{prefix}_ids")
        votes[at[tree, number_], target] += weight
        voted[at[tree, number_], target] = True
    codes = np.array([0 if name == "LEAF" else MODES.index(name) for name in names], np.int64)
    roots = np.array(list(seen.values()), np.int64)
    return Forest(roots, np.where(leaf, 0, feature), split, codes, children[0], children[1], missing, votes, voted)


def no_votes(node: Node, nodes: int, targets: int, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """The tables of votes, and of who votes, still empty. Sizes come from the file: they are checked first."""
    if targets < 1 or nodes * targets > MAX_VOTES:
        node.fail(f"{nodes} nodes with votes for {targets} targets are not supported", "n_targets")
    return np.zeros((nodes, targets), dtype), np.zeros((nodes, targets), bool)


def with_base(node: Node, scores: ir.Value) -> ir.Value:
    base = _floats(node, "base_values")
    return ops.add(scores, convert(node.array(base), type_of(scores).dtype)) if base.size else scores


@onnx_op("TreeEnsembleRegressor", domain=DOMAIN)
def tree_ensemble_regressor(node: Node) -> ir.Value:
    forest = listed_forest(node, "target", node.int("n_targets"))
    walked = forest.walk(node, rows(node))
    scores = gather_votes(node, walked, node.string("aggregate_function", "SUM"), str(forest.votes.dtype))
    return convert(post_transform(node, with_base(node, scores)), "float32")


@onnx_op("TreeEnsembleClassifier", domain=DOMAIN)
def tree_ensemble_classifier(node: Node) -> list[ir.Value]:
    labels = class_labels(node, "classlabels_int64s")
    forest = listed_forest(node, "class", max(len(labels), 1))
    scores = gather_votes(node, forest.walk(node, rows(node)), "SUM", str(forest.votes.dtype))
    scores = convert(with_base(node, scores), "float32")
    if len(labels) <= 2 and len(set(node.ints("class_ids"))) == 1:
        return _binary(node, scores, labels)
    final = post_transform(node, scores)
    return [best_label(node, final, labels), final]


def _binary(node: Node, scores: ir.Value, labels: np.ndarray) -> list[ir.Value]:
    """All votes are for one class: its score also tells the other's.

    Where no vote is negative the score is a share of one, and the other class has the rest; else its sign decides."""
    only = node.ints("class_ids")[0]
    shares = bool((_floats(node, "class_weights") >= 0).all())
    positive = ops.slice(scores, starts=(0, only), sizes=(type_of(scores).shape[0], 1), steps=(1, 1))
    other = ops.sub(number_like(1.0, positive), positive) if shares else ops.neg(positive)
    final = ops.concat([other, positive], axis=1)
    kind = node.string("post_transform", "NONE")
    if not shares or kind not in ("NONE", "LOGISTIC"):
        final = transform_scores(node, final, kind)
    if len(labels) < 2:
        first: Any = "" if labels.dtype == object else 0
        labels = np.array([first, labels[0] if len(labels) else 1], labels.dtype)
    return [best_label(node, final, labels), final]


# ---- TreeEnsemble: inner nodes and leaves apart ---------------------------------------------------------------------
AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


@onnx_op("TreeEnsemble", domain=DOMAIN)
def tree_ensemble(node: Node) -> ir.Value:
    forest = split_forest(node)
    x = rows(node)
    code, transform = node.int("aggregate_function", 1), node.int("post_transform", 0)
    if not 0 <= code < len(AGGREGATES):
        node.fail(f"must be 0 to {len(AGGREGATES) - 1}, not {code}", "aggregate_function")
    if not 0 <= transform < len(TRANSFORMS):
        node.fail(f"must be 0 to {len(TRANSFORMS) - 1}, not {transform}", "post_transform")
    scores = gather_votes(node, forest.walk(node, x), AGGREGATES[code], type_of(x).dtype)
    return transform_scores(node, scores, TRANSFORMS[transform])


def split_forest(node: Node) -> Forest:
    """Inner nodes first, then leaves, in one numbering."""
    feature = np.array(node.ints("nodes_featureids"), np.int64)
    node.no_effect("nodes_hitrates", because=HIT_RATES)
    split, mode = (np.asarray(node.tensor(f"nodes_{name}").array()).reshape(-1) for name in ("splits", "modes"))
    inner, weights = len(feature), np.asarray(node.tensor("leaf_weights").array()).reshape(-1)
    leaves, targets = len(weights), node.int("n_targets")
    target = np.array(node.ints("leaf_targetids"), np.int64)
    total = inner + leaves
    children: dict[str, np.ndarray] = {}
    for side in ("true", "false"):
        ids, is_leaf = (np.array(node.ints(f"nodes_{side}{kind}"), np.int64) for kind in ("nodeids", "leafs"))
        if not len(ids) == len(is_leaf) == inner:
            node.fail(f"has {len(ids)} entries for {inner} nodes", f"nodes_{side}nodeids")
        children_at = np.where(is_leaf != 0, ids + inner, ids)
        if ((children_at < 0) | (children_at >= total) | ((is_leaf == 0) & (ids >= inner))).any():
            node.fail("names a node that does not exist", f"nodes_{side}nodeids")
        children[side] = np.concatenate([children_at, np.arange(inner, total)])
    missing = np.array(node.ints("nodes_missing_value_tracks_true", (0,) * inner), bool)
    roots = np.array(node.ints("tree_roots"), np.int64)
    if not len(split) == len(mode) == len(missing) == inner or len(target) != leaves:
        node.fail("the lists of nodes, or of leaves, differ in length", "nodes_splits")
    if ((roots < 0) | (roots >= inner)).any() or ((target < 0) | (target >= targets)).any() or (mode > MEMBER).any():
        node.fail("a root, a target or a mode does not exist", "tree_roots")
    votes, voted = no_votes(node, total, targets, weights.dtype)
    votes[np.arange(inner, total), target] = weights
    voted[np.arange(inner, total), target] = True

    def padded(values: np.ndarray) -> np.ndarray:
        return np.concatenate([values, np.zeros(leaves, values.dtype)])

    forest = Forest(
        roots,
        padded(feature),
        padded(split),
        padded(mode.astype(np.int64)),
        children["true"],
        children["false"],
        padded(missing),
        votes,
        voted,
    )
    if (mode == MEMBER).any():
        forest.members = _members(node, np.flatnonzero(mode == MEMBER))
    return forest


def _members(node: Node, nodes: np.ndarray) -> dict[int, np.ndarray]:
    """`membership_values` holds the sets of these nodes one after another, each followed by NaN."""
    values = np.asarray(node.tensor("membership_values").array()).reshape(-1).astype(np.float64)
    ends = np.flatnonzero(np.isnan(values))
    if len(ends) != len(nodes):
        node.fail(f"holds {len(ends)} sets for {len(nodes)} nodes", "membership_values")
    starts = np.concatenate([[0], ends[:-1] + 1])
    sets = {int(n): values[a:b] for n, a, b in zip(nodes, starts, ends, strict=True)}
    if any(not len(s) for s in sets.values()):
        node.fail("holds an empty set", "membership_values")
    return sets
