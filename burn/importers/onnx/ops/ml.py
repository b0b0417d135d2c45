"""Classical machine learning (domain ai.onnx.ml): feature preparation, lookups and linear models.

Trees are in trees.py, support vector machines in svm.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from burn.dialect import ops
from burn.dialect.compose import check_size, convert, number, number_like, reshape
from burn.dialect.mlir import ir
from burn.dialect.types import FLOATS, type_of
from burn.dialect.weights import Weight
from burn.importers.onnx.lists import Maps
from burn.importers.onnx.node import Node, onnx_op

DOMAIN = "ai.onnx.ml"


def floating(x: ir.Value) -> ir.Value:
    """Features as floats: float64 stays, all else becomes float32."""
    return x if type_of(x).dtype == "float64" else convert(x, "float32")


def rows(node: Node, index: int = 0) -> ir.Value:
    """The features as floats [n, features]; one row if they come as [features]."""
    x = floating(node.required(index))
    type_ = type_of(x)
    if type_.rank not in (1, 2):
        node.fail(f"takes features [n, c], not {type_}")
    return reshape(x, (1, *type_.shape)) if type_.rank == 1 else x


def constant(node: Node, values: np.ndarray | tuple[float, ...], like: ir.Value) -> ir.Value:
    return convert(node.array(np.asarray(values, np.float32)), type_of(like).dtype)


# ---- scores ---------------------------------------------------------------------------------------------------------
def post_transform(node: Node, scores: ir.Value) -> ir.Value:
    """Applies the attribute `post_transform` to the last axis of [n, classes]."""
    kind = node.string("post_transform", "NONE")
    return transform_scores(node, scores, kind)


def transform_scores(node: Node, scores: ir.Value, kind: str) -> ir.Value:
    if kind == "NONE":
        return scores
    if kind == "LOGISTIC":
        return ops.sigmoid(scores)
    if kind in ("SOFTMAX", "SOFTMAX_ZERO"):
        e = ops.exp(ops.sub(scores, ops.reduce(scores, kind="max", axes=(1,), keepdims=True)))
        if kind == "SOFTMAX_ZERO":  # a score of zero means that a class is out of the question
            zero = number_like(0.0, scores)
            e = ops.select(ops.le(ops.abs(scores), number_like(1e-7, scores)), zero, e)
        return ops.div(e, ops.reduce(e, kind="sum", axes=(1,), keepdims=True))
    if kind != "PROBIT":
        node.fail(f"'{kind}' is none of NONE, LOGISTIC, SOFTMAX, SOFTMAX_ZERO, PROBIT", "post_transform")
    return _probit(scores)


def _probit(p: ir.Value) -> ir.Value:
    """sqrt(2) erf^-1(2 p - 1), by Winitzki's approximation, which is how the operator has always been computed."""

    def c(value: float) -> ir.Value:
        return number_like(value, p)

    x = ops.sub(ops.mul(p, c(2.0)), c(1.0))
    log = ops.log(ops.mul(ops.sub(c(1.0), x), ops.add(c(1.0), x)))
    a = 0.147
    half = ops.add(ops.mul(log, c(0.5)), c(2.0 / (np.pi * a)))
    inner = ops.sub(ops.sqrt(ops.sub(ops.mul(half, half), ops.mul(log, c(1.0 / a)))), half)
    return ops.mul(ops.mul(ops.sign(x), ops.sqrt(inner)), c(2.0**0.5))


def class_labels(node: Node, integers: str) -> np.ndarray:
    """The labels that the classes stand for."""
    if node.strings("classlabels_strings", ()):
        return np.array(node.strings("classlabels_strings"), object)
    return np.array(node.ints(integers, ()), np.int64)


def best_label(node: Node, scores: ir.Value, labels: np.ndarray) -> ir.Value:
    """The label of the class with the largest score."""
    found_at = ops.arg_reduce(scores, kind="max", axis=1)
    return (
        found_at if np.array_equal(labels, np.arange(len(labels))) else ops.gather(node.array(labels), found_at, axis=0)
    )


# ---- linear models --------------------------------------------------------------------------------------------------
def affine(node: Node, x: ir.Value, outputs: int | None) -> ir.Value:
    """x times the coefficients, plus the intercepts: [n, outputs]."""
    coefficients = np.array(node.floats("coefficients"), np.float32)
    features = type_of(x).shape[1]
    if not isinstance(features, int) or not features or coefficients.size % features:
        node.fail(f"{coefficients.size} coefficients do not fit {features} features", "coefficients")
    count = coefficients.size // features
    if outputs is not None and outputs != count:
        node.fail(
            f"{coefficients.size} coefficients do not fit {features} features and {outputs} outputs", "coefficients"
        )
    weight = constant(node, coefficients.reshape(count, features), x)
    scores = ops.dot_general(x, weight, lhs_contract=(1,), rhs_contract=(1,))
    intercepts = node.floats("intercepts", ())
    if not intercepts:
        return scores
    if len(intercepts) not in (1, count):
        node.fail(f"{len(intercepts)} do not fit {count} outputs", "intercepts")
    return ops.add(scores, constant(node, intercepts, x))


@onnx_op("LinearRegressor", domain=DOMAIN)
def linear_regressor(node: Node) -> ir.Value:
    return post_transform(node, affine(node, rows(node), node.int("targets", 1)))


@onnx_op("LinearClassifier", domain=DOMAIN)
def linear_classifier(node: Node) -> list[ir.Value]:
    labels = class_labels(node, "classlabels_ints")
    node.no_effect("multi_class", because="it says how the coefficients were fitted")
    scores = affine(node, rows(node), None)
    count = type_of(scores).shape[1]
    if count == 1 and len(labels) == 2:  # one score tells two classes apart
        scores = ops.concat([ops.neg(scores), scores], axis=1)
        count = 2
    if count != 1:
        if len(labels) not in (0, count):
            node.fail(f"{len(labels)} labels do not name {count} classes", "classlabels_ints")
        final = post_transform(node, scores)
        return [best_label(node, final, labels if len(labels) else np.arange(int(str(count)))), final]
    final = post_transform(node, scores)
    threshold = 0.0 if node.string("post_transform", "NONE") == "NONE" else 0.5
    chosen = ops.ge(reshape(final, type_of(final).shape[:1]), number_like(threshold, final))
    label = labels[:1] if len(labels) else np.ones(1, np.int64)
    other = np.array([""] if label.dtype == object else [0], label.dtype)
    return [ops.select(chosen, *(reshape(node.array(value), ()) for value in (label, other))), final]


@onnx_op("ZipMap", domain=DOMAIN)
def zip_map(node: Node) -> Maps:
    """Each row of [n, classes] as a map from the classes' labels; a vector is one row."""
    x = node.required(0)
    if type_of(x).rank not in (1, 2):
        node.fail(f"takes rows of scores [n, classes], not {type_of(x)}")
    if type_of(x).rank == 1:
        x = reshape(x, (1, *type_of(x).shape))
    names, numbers = node.strings("classlabels_strings", ()), node.ints("classlabels_int64s", ())
    if bool(names) == bool(numbers):
        node.fail("needs either names or numbers of classes", "classlabels_strings")
    keys: Any = names or numbers
    count = type_of(x).shape[1]
    if count != len(keys):
        if isinstance(count, int):
            node.fail(f"{len(keys)} labels do not name {count} columns", "classlabels_strings")
        check_size(count, "==", len(keys), "ZipMap has so many labels")
        x = reshape(x, (type_of(x).shape[0], len(keys)))
    if len(set(keys)) != len(keys):
        node.fail("a label is there twice", "classlabels_strings")
    return Maps(x, tuple(keys))


# ---- features -------------------------------------------------------------------------------------------------------
@onnx_op("ArrayFeatureExtractor", domain=DOMAIN)
def array_feature_extractor(node: Node) -> ir.Value:
    x = node.required(0)
    rank = node.type(0).rank
    indices = reshape(node.required(1), (node.type(1).elements,))
    result = ops.gather(x, indices, axis=rank - 1)
    return reshape(result, (1, *type_of(result).shape)) if rank == 1 else result


@onnx_op("Binarizer", domain=DOMAIN)
def binarizer(node: Node) -> ir.Value:
    x = node.required(0)
    return convert(ops.gt(x, number_like(node.float("threshold", 0.0), x)), type_of(x).dtype)


@onnx_op("Scaler", domain=DOMAIN)
def scaler(node: Node) -> ir.Value:
    x = convert(node.required(0), "float32")
    offset, scale = (constant(node, node.floats(name), x) for name in ("offset", "scale"))
    return ops.mul(ops.sub(x, offset), scale)


@onnx_op("Normalizer", domain=DOMAIN)
def normalizer(node: Node) -> ir.Value:
    """Each row divided by its largest magnitude, the sum of its magnitudes, or its length. A row of zeros stays."""
    x = convert(node.required(0), "float32")
    axes = (type_of(x).rank - 1,)
    norms = {
        "MAX": lambda: ops.reduce(ops.abs(x), kind="max", axes=axes, keepdims=True),
        "L1": lambda: ops.reduce(ops.abs(x), kind="sum", axes=axes, keepdims=True),
        "L2": lambda: ops.sqrt(ops.reduce(ops.mul(x, x), kind="sum", axes=axes, keepdims=True)),
    }
    kind = node.string("norm", "MAX")
    if kind not in norms:
        node.fail(f"'{kind}' is none of {', '.join(norms)}", "norm")
    norm = norms[kind]()
    return ops.div(x, ops.select(ops.eq(norm, number_like(0.0, x)), number_like(1.0, x), norm))


@onnx_op("Imputer", domain=DOMAIN)
def imputer(node: Node) -> ir.Value:
    x, type_ = node.required(0), node.type(0)
    if type_.dtype in FLOATS:
        missing = node.float("replaced_value_float", 0.0)
        found = ops.isnan(x) if np.isnan(missing) else ops.eq(x, number_like(missing, x))
        values = convert(node.array(np.array(node.floats("imputed_value_floats"), np.float32)), type_.dtype)
    else:
        found = ops.eq(x, number(node.int("replaced_value_int64", 0), type_.dtype))
        values = convert(node.array(np.array(node.ints("imputed_value_int64s"), np.int64)), type_.dtype)
    return ops.select(found, values, x)


@onnx_op("FeatureVectorizer", domain=DOMAIN)
def feature_vectorizer(node: Node) -> ir.Value:
    parts = [convert(x, "float32") for x in node.tensors()]
    parts = [reshape(x, (1, *type_of(x).shape)) if type_of(x).rank == 1 else x for x in parts]
    return ops.concat(parts, axis=1)


@onnx_op("OneHotEncoder", domain=DOMAIN)
def one_hot_encoder(node: Node) -> ir.Value:
    """A new last axis with a one at the element's category. Without `zeros`, a run with an element of none ends."""
    if node.type(0).dtype == "string":
        x, names = node.required(0), np.array(node.strings("cats_strings"), object)
    else:
        x, names = convert(node.required(0), "int64"), np.array(node.ints("cats_int64s"), np.int64)
    found = ops.eq(reshape(x, (*type_of(x).shape, 1)), node.array(names))
    if node.int("zeros", 1) == 0:
        rank = type_of(found).rank
        known = ops.reduce(found, kind="any", axes=(rank - 1,))
        strangers = ops.reduce(ops.cast(ops.not_(known), dtype="int64"), kind="sum", axes=tuple(range(rank - 1)))
        says = "elements that are of no category, which OneHotEncoder without zeros refuses"
        check_size(node.read_dim(strangers, hint="unknown"), "==", 0, says)
    return ops.cast(found, dtype="float32")


# ---- lookups --------------------------------------------------------------------------------------------------------
def _table(node: Node, name: str) -> np.ndarray | None:
    """Keys or values, from whichever attribute holds them."""
    if node.has(f"{name}_tensor"):
        return np.asarray(node.tensor(f"{name}_tensor").array()).reshape(-1)
    if node.has(f"{name}_strings"):
        return np.array(node.strings(f"{name}_strings"), object)
    if node.has(f"{name}_floats"):
        return np.array(node.floats(f"{name}_floats"), np.float32)
    if node.has(f"{name}_int64s"):
        return np.array(node.ints(f"{name}_int64s"), np.int64)
    return None


def find_text(node: Node, x: ir.Value, keys: np.ndarray, values: np.ndarray, fallback: np.ndarray) -> ir.Value:
    """For each string the value beside its last occurrence among the keys, or the fallback [1]."""
    table = dict(zip(keys.tolist(), values.tolist(), strict=True))
    column = np.empty(len(table) + 1, values.dtype)
    column[:] = [*table.values(), *fallback.tolist()]
    found_at = ops.string_find(x, node.array(np.array(list(table), object)))
    missing = ops.lt(found_at, number(0, "int64"))
    return ops.gather(node.array(column), ops.select(missing, number(len(table), "int64"), found_at), axis=0)


@onnx_op("LabelEncoder", domain=DOMAIN)
def label_encoder(node: Node) -> ir.Value:
    """Each element looked up among the keys: the value beside it, or the default. The last of equal keys counts."""
    x = node.required(0)
    if node.has("classes_strings"):  # version 1: between a class's name and its number
        classes = np.array(node.strings("classes_strings"), object)
        numbers = np.arange(classes.size)
        keys, values = (classes, numbers) if type_of(x).dtype == "string" else (numbers, classes)
    else:
        keys, values = _table(node, "keys"), _table(node, "values")
    if keys is None or values is None or keys.size != values.size:
        node.fail("needs as many keys as values", "keys_tensor")
    default: Weight | None = node.tensor("default_tensor", None)
    others = ("default_string", "default_int64", "default_float")
    node.no_effect(*others, because="the default of the values' type counts, and default_tensor before it")
    if default is not None:
        fallback = np.asarray(default.array()).reshape(-1)[:1]
    elif values.dtype == object:
        fallback = np.array([node.string("default_string", "_Unused")], object)
    elif values.dtype == np.int64:
        fallback = np.array([node.int("default_int64", -1)], np.int64)
    else:
        fallback = np.array([node.float("default_float", -0.0)], values.dtype)
    if fallback.dtype != values.dtype:
        node.fail(f"is {fallback.dtype}, but the values are {values.dtype}", "default_tensor")
    if (type_of(x).dtype == "string") != (keys.dtype == object):
        node.fail(f"takes {type_of(x).dtype}, but the keys are {keys.dtype}", "keys_tensor")
    if keys.dtype == object:
        return find_text(node, x, keys, values, fallback)
    column = reshape(x, (*type_of(x).shape, 1))
    table = convert(node.array(keys), type_of(x).dtype)
    found = ops.eq(column, table)
    if type_of(x).dtype in FLOATS:
        found = ops.or_(found, ops.and_(ops.isnan(column), ops.isnan(table)))
    axis = type_of(found).rank - 1
    hit = ops.cast(found, dtype="int32")
    found_at = ops.arg_reduce(hit, kind="max", axis=axis, last=True)
    known = ops.reduce(found, kind="any", axes=(axis,))
    found_at = ops.select(known, found_at, number(keys.size, "int64"))
    return ops.gather(node.array(np.concatenate([values, fallback])), found_at, axis=0)


@onnx_op("CategoryMapper", domain=DOMAIN)
def category_mapper(node: Node) -> ir.Value:
    """Between the names of categories and their numbers."""
    x, names = node.required(0), np.array(node.strings("cats_strings", ()), object)
    numbers = np.array(node.ints("cats_int64s", ()), np.int64)
    if names.size != numbers.size:
        node.fail(f"{names.size} names and {numbers.size} numbers", "cats_int64s")
    node.no_effect("default_int64", "default_string", because="the default of the result's type counts")
    if type_of(x).dtype == "string":
        return find_text(node, x, names, numbers, np.array([node.int("default_int64", -1)]))
    table = dict(zip(numbers.tolist(), names.tolist(), strict=True))
    found = ops.eq(reshape(x, (*type_of(x).shape, 1)), node.array(np.array(list(table), np.int64)))
    axis = type_of(found).rank - 1
    found_at = ops.arg_reduce(ops.cast(found, dtype="int32"), kind="max", axis=axis)
    known = ops.reduce(found, kind="any", axes=(axis,))
    column = np.array([*table.values(), node.string("default_string", "_Unused")], object)
    return ops.gather(node.array(column), ops.select(known, found_at, number(len(table), "int64")), axis=0)
