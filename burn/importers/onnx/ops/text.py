"""Text as tokens, numbers or strings: counting n-grams."""

from __future__ import annotations

from typing import Any

import numpy as np

from burn.dialect import ops
from burn.dialect.compose import convert, number, reshape
from burn.dialect.dims import Dim, dim_max
from burn.dialect.mlir import ir
from burn.dialect.types import type_of
from burn.importers.onnx.node import Node, onnx_op

MAX_COLUMNS = 2**24
MAX_SKIPS = 1000


@onnx_op("TfIdfVectorizer", ranks=((1, 2),))
def tf_idf_vectorizer(node: Node) -> ir.Value:
    """How often each n-gram of the pool occurs in a row of token numbers [c] or [n, c], or whether, with its weight.

    An n-gram also counts with up to max_skip_count tokens left out between each two of its own."""
    counts, indexes = node.ints("ngram_counts"), node.ints("ngram_indexes")
    low, high = node.int("min_gram_length"), node.int("max_gram_length")
    pool: tuple = node.strings("pool_strings", ()) or node.ints("pool_int64s")
    if (node.type(0).dtype == "string") != bool(node.strings("pool_strings", ())):
        node.fail(f"the tokens are {node.type(0).dtype}, the pool is not", "pool_strings")
    most = node.int("max_skip_count")
    if most < 0:
        node.fail(f"{most} tokens cannot be left out", "max_skip_count")
    mode = node.string("mode")
    if mode not in ("TF", "IDF", "TFIDF"):
        node.fail(f"'{mode}' is none of TF, IDF, TFIDF", "mode")
    kind: Any = object if node.type(0).dtype == "string" else np.int64
    x = node.required(0) if kind is object else convert(node.required(0), "int64")
    batched = node.type(0).rank == 2
    if not batched:
        x = reshape(x, (1, *type_of(x).shape))
    rows = type_of(x).shape[0]
    columns: list[ir.Value] = []
    covered: list[int] = []
    first = 0  # the pool's n-grams are listed by length
    for length, (begin, end) in enumerate(zip(counts, (*counts[1:], len(pool)), strict=True), start=1):
        if not 0 <= begin <= end <= len(pool) or (end - begin) % length:
            node.fail(f"{list(counts)} does not divide a pool of {len(pool)}", "ngram_counts")
        grams = np.array(pool[begin:end], kind).reshape(-1, length)
        numbers = range(first, first + len(grams))
        first += len(grams)
        if low <= length <= high and len(grams):
            skips = range(min(most, _useful(type_of(x).shape[1], length)) + 1) if length > 1 else range(1)
            if len(skips) > MAX_SKIPS:
                node.fail(f"needs {len(skips)} distances between tokens, more than {MAX_SKIPS}", "max_skip_count")
            occurrences = [_occurrences(node, x, grams, skip + 1) for skip in skips]
            total = occurrences[0]
            for other in occurrences[1:]:
                total = ops.add(total, other)
            columns.append(total)
            covered += numbers
    if first != len(indexes) or any(i < 0 for i in indexes):
        node.fail(f"{len(indexes)} entries do not fit {first} n-grams", "ngram_indexes")
    columns.append(ops.full(shape=(rows, 1), dtype="float32"))  # what no n-gram that is counted stands for
    width = max(indexes, default=0) + 1
    if width > MAX_COLUMNS:
        node.fail(f"needs {width} columns, more than {MAX_COLUMNS}", "ngram_indexes")
    source = [len(covered)] * width
    for column, gram in enumerate(covered):
        source[indexes[gram]] = column
    result = ops.gather(ops.concat(columns, axis=1), node.array(np.array(source, np.int64)), axis=1)
    if mode == "TF":
        node.no_effect("weights", because="mode TF counts only")
    if mode != "TF":
        weights, given = np.ones(len(source), np.float32), node.floats("weights", ())
        if len(given) not in (0, len(indexes)):
            node.fail(f"{len(given)} weights for {len(indexes)} n-grams", "weights")
        for gram, weight in enumerate(given):
            weights[indexes[gram]] = weight
        if mode == "IDF":
            result = ops.min(result, number(1.0, "float32"))
        result = ops.mul(result, node.array(weights))
    return result if batched else reshape(result, (len(source),))


def _useful(tokens: Dim, length: int) -> int:
    """How many tokens may be left out, at most, for an n-gram of `length` to fit among `tokens`."""
    return max(0, (tokens - 1) // (length - 1) - 1) if isinstance(tokens, int) else MAX_SKIPS


def _occurrences(node: Node, x: ir.Value, grams: np.ndarray, stride: int) -> ir.Value:
    """How often each n-gram [g, n] occurs in the rows of x with its tokens `stride` apart: [rows, g]."""
    rows, tokens = type_of(x).shape
    windows = dim_max(tokens - (grams.shape[1] - 1) * stride, 0)
    matches = None
    for word in range(grams.shape[1]):
        part = ops.slice(x, starts=(0, word * stride if windows != 0 else 0), sizes=(rows, windows), steps=(1, 1))
        wanted = reshape(node.array(np.ascontiguousarray(grams[:, word])), (1, len(grams), 1))
        same = ops.eq(reshape(part, (rows, 1, windows)), wanted)
        matches = same if matches is None else ops.and_(matches, same)
    assert matches is not None
    return ops.reduce(ops.cast(matches, dtype="float32"), kind="sum", axes=(2,))
