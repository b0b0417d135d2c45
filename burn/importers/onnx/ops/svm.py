"""Support vector machines: SVMRegressor, and SVMClassifier, also with calibrated probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from burn.dialect import ops
from burn.dialect.compose import convert, number, number_like, part, reshape
from burn.dialect.mlir import ir
from burn.dialect.types import type_of
from burn.importers.onnx.loops import Step, Trips, repeat
from burn.importers.onnx.node import Node, onnx_op
from burn.importers.onnx.ops.ml import DOMAIN, best_label, class_labels, constant, post_transform, rows

KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")


def kernel(node: Node, x: ir.Value, vectors: np.ndarray) -> ir.Value:
    """The kernel of every row [n, c] with every vector [m, c]: [n, m]."""
    kind = node.string("kernel_type", "LINEAR")
    if kind not in KERNELS:
        node.fail(f"'{kind}' is none of {', '.join(KERNELS)}", "kernel_type")
    gamma, offset, degree = (*node.floats("kernel_params", ()), 0.0, 0.0, 0.0)[:3]
    dot = ops.dot_general(x, constant(node, vectors, x), lhs_contract=(1,), rhs_contract=(1,))
    if kind == "LINEAR":
        return dot
    if kind == "RBF":  # |x - v|^2 from its three parts
        own = ops.reduce(ops.mul(x, x), kind="sum", axes=(1,), keepdims=True)
        other = constant(node, (vectors.astype(np.float64) ** 2).sum(1), x)
        distance = ops.sub(ops.add(own, other), ops.mul(dot, number_like(2.0, dot)))
        return ops.exp(ops.mul(ops.max(distance, number_like(0.0, dot)), number_like(-gamma, dot)))
    inner = ops.add(ops.mul(dot, number_like(gamma, dot)), number_like(offset, dot))
    return ops.pow(inner, number_like(degree, dot)) if kind == "POLY" else ops.tanh(inner)


def matrix(node: Node, name: str, height: int | None, width: int | None) -> np.ndarray:
    values = np.array(node.floats(name), np.float32)
    known = height if height is not None else width
    if not known or values.size % known or (height and width and values.size != height * width):
        node.fail(f"{values.size} numbers do not fit [{height}, {width}]", name)
    return values.reshape(height or -1, width or values.size // known)


def features_of(node: Node, x: ir.Value) -> int:
    features = type_of(x).shape[1]
    if not isinstance(features, int):
        node.fail(f"the number of features must be known, not {features}")
    return features


@onnx_op("SVMRegressor", domain=DOMAIN)
def svm_regressor(node: Node) -> ir.Value:
    x = rows(node)
    supports, features = node.int("n_supports", 0), features_of(node, x)
    if supports:
        kernels = kernel(node, x, matrix(node, "support_vectors", supports, features))
        coefficients = constant(node, matrix(node, "coefficients", 1, supports), x)
        scores = ops.dot_general(kernels, coefficients, lhs_contract=(1,), rhs_contract=(1,))
    else:
        scores = kernel(node, x, matrix(node, "coefficients", 1, features))
    scores = ops.add(scores, number_like(node.floats("rho")[0], scores))
    if node.int("one_class", 0) == 1:
        one = number_like(1.0, scores)
        return ops.select(ops.gt(scores, number_like(0.0, scores)), one, ops.neg(one))
    return post_transform(node, scores)


@onnx_op("SVMClassifier", domain=DOMAIN)
def svm_classifier(node: Node) -> list[ir.Value]:
    """Every pair of classes votes for one of them; the score of a class pair is its decision value."""
    labels = class_labels(node, "classlabels_ints")
    x = rows(node)
    features = features_of(node, x)
    per_class = node.ints("vectors_per_class", ())
    rho = node.floats("rho")
    calibration = [node.floats(name, ()) for name in ("prob_a", "prob_b")]
    if not per_class:
        if any(calibration):
            node.fail("calibrates pairs of classes, and there are no support vectors of any", "prob_a")
        weights = matrix(node, "coefficients", len(labels), features)
        scores = ops.add(kernel(node, x, weights), number_like(rho[0], x))
        final = post_transform(node, scores)
        return [best_label(node, final, labels), final]
    classes, supports = len(per_class), sum(per_class)
    if len(labels) != classes or len(rho) < classes * (classes - 1) // 2:
        node.fail(f"{len(labels)} labels and {len(rho)} offsets do not fit {classes} classes", "vectors_per_class")
    kernels = kernel(node, x, matrix(node, "support_vectors", supports, features))
    coefficients = matrix(node, "coefficients", classes - 1, supports)
    starts = np.concatenate([[0], np.cumsum(per_class)])
    pairs = [(i, j) for i in range(classes) for j in range(i + 1, classes)]
    weights = np.zeros((len(pairs), supports), np.float32)
    for row, (i, j) in enumerate(pairs):
        weights[row, starts[i] : starts[i + 1]] = coefficients[j - 1, starts[i] : starts[i + 1]]
        weights[row, starts[j] : starts[j + 1]] = coefficients[i, starts[j] : starts[j + 1]]
    scores = ops.dot_general(kernels, constant(node, weights, x), lhs_contract=(1,), rhs_contract=(1,))
    scores = ops.add(scores, constant(node, rho[: len(pairs)], x))
    first = ops.cast(ops.gt(scores, number_like(0.0, scores)), dtype="float32")
    ahead, behind = np.zeros((classes, len(pairs)), np.float32), np.zeros((classes, len(pairs)), np.float32)
    for row, (i, j) in enumerate(pairs):
        ahead[i, row] = behind[j, row] = 1.0
    votes = ops.add(
        ops.dot_general(first, node.array(ahead), lhs_contract=(1,), rhs_contract=(1,)),
        ops.dot_general(
            ops.sub(number(1.0, "float32"), first), node.array(behind), lhs_contract=(1,), rhs_contract=(1,)
        ),
    )
    if any(calibration):
        if any(len(values) != len(pairs) for values in calibration):
            node.fail(f"{' and '.join(str(len(v)) for v in calibration)} numbers for {len(pairs)} pairs", "prob_a")
        final = post_transform(node, probabilities(node, scores, pairs, classes, calibration))
        return [best_label(node, votes, labels), final]
    if classes == 2:  # the one decision value, as the usual runtimes report it for either class
        scores = ops.concat([ops.neg(scores), scores], axis=1)
    return [best_label(node, votes, labels), reshape(post_transform(node, scores), type_of(scores).shape)]


# ---- probabilities ----------------------------------------------------------------------------------------------------
SURE = 1e-7
"""Of two classes neither is less likely than this."""

MOST_STEPS = 100


def probabilities(
    node: Node, scores: ir.Value, pairs: list[tuple[int, int]], classes: int, calibration: Sequence[tuple[float, ...]]
) -> ir.Value:
    """The classes' probabilities [n, classes] from the decision values of pairs [n, pairs].

    Platt's sigmoid gives the probability of each class against each other. The second method of Wu, Lin and Weng (2004) combines
    them, in libsvm's steps, which end once no gradient is larger than 0.005 / classes."""
    a, b = (constant(node, values, scores) for values in calibration)
    one = number_like(1.0, scores)
    first = ops.sigmoid(ops.neg(ops.add(ops.mul(scores, a), b)))
    first = ops.min(ops.max(first, number_like(SURE, scores)), number_like(1.0 - SURE, scores))
    count = len(pairs)
    rows = type_of(scores).shape[0]
    columns = [first, ops.sub(one, first), ops.full(shape=(rows, 1), dtype=type_of(scores).dtype)]
    indices = np.full((classes, classes), 2 * count, np.int64)
    for pair, (i, j) in enumerate(pairs):
        indices[i, j], indices[j, i] = pair, count + pair
    table = ops.concat(columns, axis=1)  # every probability of one class against another, and zero

    def against(which: np.ndarray) -> ir.Value:
        flat = ops.gather(table, node.array(np.ascontiguousarray(which.reshape(-1))), axis=1)
        return reshape(flat, (rows, classes, classes))

    won, lost = against(indices), against(indices.T)
    squares = ops.reduce(ops.mul(lost, lost), kind="sum", axes=(2,), keepdims=True)
    diagonal = node.array(np.eye(classes, dtype=np.float32).reshape(1, classes, classes))
    q = ops.sub(ops.mul(convert(diagonal, type_of(scores).dtype), squares), ops.mul(won, lost))
    start = ops.full(shape=(rows, classes), value=1.0 / classes, dtype=type_of(scores).dtype)
    going = ops.full(shape=(rows, 1), value=True, dtype="bool")

    def body(iteration: ir.Value, condition: ir.Value, carried: list[Any]) -> Step:
        p, going = _refined(node, q, carried[0], carried[1], classes)
        again = ops.reduce(going, kind="any", axes=(0, 1))
        return Step(again, [p, going], [])

    trips = Trips(number(MOST_STEPS, "int64"), MOST_STEPS, number(True, "bool"))
    finals, _ = repeat(node, trips, [start, going], 0, body, 1, goes_on=False)
    return finals[0]


def _refined(node: Node, q: ir.Value, p: ir.Value, going: ir.Value, classes: int) -> tuple[ir.Value, ir.Value]:
    """One step for the rows that are still going, [n, classes] and [n, 1]."""
    one, two = number_like(1.0, p), number_like(2.0, p)
    rows = type_of(p).shape[0]
    qp = ops.reduce(ops.mul(q, reshape(p, (rows, 1, classes))), kind="sum", axes=(2,))
    pqp = ops.reduce(ops.mul(p, qp), kind="sum", axes=(1,), keepdims=True)
    error = ops.reduce(ops.abs(ops.sub(qp, pqp)), kind="max", axes=(1,), keepdims=True)
    going = ops.and_(going, ops.ge(error, number_like(0.005 / classes, p)))
    new = p
    for t in range(classes):
        row = reshape(ops.slice(q, starts=(0, t, 0), sizes=(rows, 1, classes), steps=(1, 1, 1)), (rows, classes))
        own = part(row, 1, t, 1)
        mine = part(qp, 1, t, 1)
        by = ops.div(ops.sub(pqp, mine), own)
        whole = ops.add(one, by)
        pqp = ops.add(pqp, ops.mul(by, ops.add(ops.mul(by, own), ops.mul(two, mine))))
        pqp = ops.div(ops.div(pqp, whole), whole)
        here = constant(node, np.eye(classes, dtype=np.float32)[t : t + 1], p)
        new = ops.div(ops.add(new, ops.mul(here, by)), whole)
        qp = ops.div(ops.add(qp, ops.mul(by, row)), whole)
    return ops.select(going, new, p), going
