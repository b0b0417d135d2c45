"""Support vector machines: SVMRegressor, and SVMClassifier without calibrated probabilities."""

from __future__ import annotations

import numpy as np

from burn.dialect import ops
from burn.dialect.compose import number, number_like, reshape
from burn.dialect.mlir import ir
from burn.dialect.types import type_of
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
        products = kernel(node, x, matrix(node, "support_vectors", supports, features))
        coefficients = constant(node, matrix(node, "coefficients", 1, supports), x)
        scores = ops.dot_general(products, coefficients, lhs_contract=(1,), rhs_contract=(1,))
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
    if node.floats("prob_a", ()):
        node.fail("calibrated probabilities are not supported", "prob_a", hint="export the model without probabilities")
    labels = class_labels(node, "classlabels_ints")
    x = rows(node)
    features = features_of(node, x)
    per_class = node.ints("vectors_per_class", ())
    rho = node.floats("rho")
    if not per_class:
        weights = matrix(node, "coefficients", len(labels), features)
        scores = ops.add(kernel(node, x, weights), number_like(rho[0], x))
        final = post_transform(node, scores)
        return [best_label(node, final, labels), final]
    classes, supports = len(per_class), sum(per_class)
    if len(labels) != classes or len(rho) < classes * (classes - 1) // 2:
        node.fail(f"{len(labels)} labels and {len(rho)} offsets do not fit {classes} classes", "vectors_per_class")
    products = kernel(node, x, matrix(node, "support_vectors", supports, features))
    coefficients = matrix(node, "coefficients", classes - 1, supports)
    starts = np.concatenate([[0], np.cumsum(per_class)])
    pairs = [(i, j) for i in range(classes) for j in range(i + 1, classes)]
    weights = np.zeros((len(pairs), supports), np.float32)
    for row, (i, j) in enumerate(pairs):
        weights[row, starts[i] : starts[i + 1]] = coefficients[j - 1, starts[i] : starts[i + 1]]
        weights[row, starts[j] : starts[j + 1]] = coefficients[i, starts[j] : starts[j + 1]]
    scores = ops.dot_general(products, constant(node, weights, x), lhs_contract=(1,), rhs_contract=(1,))
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
    if classes == 2:  # the one decision value, as the usual runtimes report it for either class
        scores = ops.concat([ops.neg(scores), scores], axis=1)
    return [best_label(node, votes, labels), reshape(post_transform(node, scores), type_of(scores).shape)]
