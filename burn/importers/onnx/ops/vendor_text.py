"""Tokens and words in com.microsoft: hashes, n-grams, embeddings by characters."""

from __future__ import annotations

from burn.dialect import ops
from burn.dialect.compose import check_size, convert, dim_value, number, number_like, part, reshape
from burn.dialect.dims import Dim, decide, dim_max
from burn.dialect.mlir import ir
from burn.dialect.types import DTYPES, type_of
from burn.importers.onnx.node import Node, onnx_op
from burn.importers.onnx.ops.vendor import DOMAIN


# ---- hashes ---------------------------------------------------------------------------------------------------------------
def word(value: int) -> ir.Value:
    return number(value, "uint32")


def rotated(x: ir.Value, by: int) -> ir.Value:
    return ops.or_(ops.shift_left(x, word(by)), ops.shift_right(x, word(32 - by)))


@onnx_op("MurmurHash3", domain=DOMAIN)
def murmur_hash3(node: Node) -> ir.Value:
    """MurmurHash3_x86_32 of the bytes of each element, which must be a number of 32 or 64 bits."""
    x, dtype = node.required(0), node.type(0).dtype
    if dtype not in ("int32", "uint32", "int64", "uint64", "float32", "float64"):
        node.fail(f"hashes of {dtype} are not supported")
    bits = DTYPES[dtype].bits
    raw = x if dtype == f"uint{bits}" else ops.bitcast(x, dtype=f"uint{bits}")
    words = [raw]
    if bits == 64:
        low = ops.and_(raw, number(0xFFFFFFFF, "uint64"))
        words = [ops.cast(w, dtype="uint32") for w in (low, ops.shift_right(raw, number(32, "uint64")))]
    h = ops.full(shape=type_of(x).shape, dtype="uint32", bits=node.int("seed", 0) % 2**32)
    for k in words:
        k = ops.mul(rotated(ops.mul(k, word(0xCC9E2D51)), 15), word(0x1B873593))
        h = ops.add(ops.mul(rotated(ops.xor(h, k), 13), word(5)), word(0xE6546B64))
    h = ops.xor(h, word(bits // 8))
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        h = ops.mul(ops.xor(h, ops.shift_right(h, word(shift))), word(factor))
    h = ops.xor(h, ops.shift_right(h, word(16)))
    return h if node.int("positive", 1) else ops.bitcast(h, dtype="int32")


# ---- n-grams --------------------------------------------------------------------------------------------------------------
@onnx_op("NGramRepeatBlock", domain=DOMAIN, ranks=(2, 2))
def ngram_repeat_block(node: Node) -> ir.Value:
    """Scores [b, v] of the next token, minus infinity where it would complete an n-gram that the ids [b, s] have."""
    ids, scores, size = convert(node.required(0), "int64"), node.required(1), node.int("ngram_size")
    batch, length = type_of(ids).shape
    if size < 1:
        node.fail(f"must be at least 1, not {size}", "ngram_size")
    count = dim_max(length - (size - 1), 0)
    position = ops.iota(shape=(count,), axis=0)
    match = ops.full(shape=(batch, count), dtype="bool", value=1.0)
    for j in range(size - 1):
        own = ops.gather(ids, ops.add(position, number(j, "int64")), axis=1)
        last = ops.max(dim_value(length - (size - 1) + j), number(0, "int64"))
        match = ops.and_(match, ops.eq(own, ops.gather(ids, reshape(last, (1,)), axis=1)))
    banned = ops.gather(ids, ops.add(position, number(size - 1, "int64")), axis=1)
    dtype = type_of(scores).dtype
    low = ops.select(match, number(float("-inf"), dtype), number(float("inf"), dtype))
    return ops.scatter_elements(scores, banned, low, axis=1, reduction="min")


@onnx_op("NGramHashMapping", domain=DOMAIN, ranks=(2, 1, 1, 2, 1, (0, 1), 2))
def ngram_hash_mapping(node: Node) -> list[ir.Value | None]:
    """Hashes of the n-grams that end at each token [b, s], of orders 2 to `max_ngram_size`, several heads for each order."""
    ids, dtype = node.required(0), node.type(0).dtype
    batch, length = type_of(ids).shape
    size, heads = node.int("max_ngram_size"), node.int("n_head_per_ngram")
    if size < 2 or heads < 1:
        node.fail(f"{heads} hashes of n-grams of up to {size} tokens are not possible", "max_ngram_size")
    eos = reshape(node.required(5), ()) if node.has_input(5) else None
    pad = number(node.int("pad_id"), dtype)
    fill = pad if eos is None else eos
    past = node.input(3)
    if past is None:
        past = ops.broadcast_to(reshape(fill, (1, 1)), shape=(batch, size - 1))
    whole = ops.concat([past, ids], axis=1)
    before = [part(whole, 1, size - 1 - k, length) for k in range(size)]
    reset = node.int("reset_on_eos", 0) != 0 and eos is not None
    breaks = _breaks(node, length) if node.has_input(6) else None
    mixed, hidden = ops.mul(before[0], _element(node, 1, 0)), None
    columns = []
    for k in range(1, size):
        token = before[k]
        if reset:
            hidden = _either(hidden, ops.eq(token, eos))
        if breaks is not None:
            hidden = _either(hidden, _shifted(breaks, k - 1, batch, length))
        if hidden is not None:
            token = ops.select(hidden, fill, token)
        mixed = ops.xor(mixed, ops.mul(token, _element(node, 1, k)))
        for head in range(heads):
            at = (k - 1) * heads + head
            hashed = ops.mod(mixed, _element(node, 2, at))
            if node.has_input(4):
                hashed = ops.add(hashed, _element(node, 4, at))
            columns.append(reshape(hashed, (batch, length, 1)))
    present = part(whole, 1, length, size - 1) if node.needs_output(1) else None
    return [ops.concat(columns, axis=2), present]


def _element(node: Node, index: int, at: int) -> ir.Value:
    return reshape(part(node.required(index), 0, at, 1), ())


def _either(a: ir.Value | None, b: ir.Value) -> ir.Value:
    return b if a is None else ops.or_(a, b)


def _breaks(node: Node, length: Dim) -> ir.Value:
    """Where a token [b, s] begins a segment: its id differs from the one before. The first token begins none."""
    segments = node.required(6)
    before = ops.concat([part(segments, 1, 0, 1), segments], axis=1)
    return ops.ne(segments, part(before, 1, 0, length))


def _shifted(flags: ir.Value, by: int, batch: Dim, length: Dim) -> ir.Value:
    """Flags [b, s] of `by` tokens earlier; false before the first."""
    if not by:
        return flags
    empty = ops.full(shape=(batch, by), dtype="bool")
    return part(ops.concat([empty, flags], axis=1), 1, 0, length)


@onnx_op("BifurcationDetector", domain=DOMAIN, ranks=(1, 1, (0, 1), 1))
def bifurcation_detector(node: Node) -> list[ir.Value]:
    """Tokens with those predicted that agree with the source, and one more; and where the source goes on as they end.

    The source must hold the last n tokens exactly once; n grows from `min_ngram_size` to `max_ngram_size`."""
    source, tokens = node.required(0), node.required(1)
    low, high = node.int("min_ngram_size", 1), node.int("max_ngram_size", 3)
    if not 1 <= low <= high:
        node.fail(f"n-grams of {low} to {high} tokens are not possible", "min_ngram_size")
    if node.has_input(3):
        tokens = ops.concat([tokens, _agreed(node, source, node.required(3))], axis=0)
    else:
        node.type_only(2)
    (total,), (size,) = type_of(source).shape, type_of(tokens).shape
    suffix, alive = number(-1, "int64"), number(True, "bool")
    for n in range(low, high + 1):
        alive = ops.and_(alive, ops.ge(dim_value(size), number(n, "int64")))
        match = _matches(source, tokens, n)
        found = ops.reduce(match, kind="any", axes=(0,))
        several = ops.gt(ops.reduce(ops.cast(match, dtype="int64"), kind="sum", axes=(0,)), number(1, "int64"))
        after = ops.add(ops.arg_reduce(ops.cast(match, dtype="int32"), kind="max", axis=0), number(n, "int64"))
        ends = ops.ge(after, dim_value(total))
        unclear = ops.and_(several, ops.not_(ends))
        wanted = ops.select(unclear, number(-1, "int64"), after)
        suffix = ops.select(ops.and_(alive, found), wanted, suffix)
        alive = ops.and_(alive, ops.and_(found, ops.not_(ends)))
    return [tokens, reshape(suffix, node.type(2).shape)]


def _agreed(node: Node, source: ir.Value, predicted: ir.Value) -> ir.Value:
    """The predicted tokens up to the first that differs from the source, which goes on at operand 2."""
    start = node.read_one(2)
    (total,), (count,) = type_of(source).shape, type_of(predicted).shape
    check_size(
        total - start + 1, "==", count, "there is a predicted token for each of the source that is left, and one more"
    )
    same = ops.eq(part(source, 0, start, count - 1), part(predicted, 0, 0, count - 1))
    run = ops.cumulative(ops.cast(same, dtype="int64"), kind="prod", axis=0)
    agreed = node.read_dim(ops.reduce(run, kind="sum", axes=(0,)), hint="agreed")
    return part(predicted, 0, 0, agreed + 1)


def _matches(source: ir.Value, tokens: ir.Value, n: int) -> ir.Value:
    """Where in the source [s] the last n tokens begin."""
    (total,), (size,) = type_of(source).shape, type_of(tokens).shape
    position = ops.iota(shape=(total,), axis=0)
    match = ops.le(ops.add(position, number(n, "int64")), dim_value(total))
    for j in range(n):
        at = ops.min(ops.add(position, number(j, "int64")), dim_value(total - 1))
        last = ops.max(dim_value(size - n + j), number(0, "int64"))
        match = ops.and_(match, ops.eq(ops.gather(source, at, axis=0), ops.gather(tokens, last, axis=0)))
    return match


# ---- words ----------------------------------------------------------------------------------------------------------------
@onnx_op("WordConvEmbedding", domain=DOMAIN, ranks=(2, 4, 1, 2))
def word_conv_embedding(node: Node) -> ir.Value:
    """Words [s, w] of characters, 0 behind their end, embedded: the largest of tanh(convolution) over a word's windows.

    A word without characters gives zeros."""
    words, weight, table = node.required(0), node.required(1), node.required(3)
    (count, width), (filters, _, window, depth) = type_of(words).shape, type_of(weight).shape
    for attribute, size in (("embedding_size", filters), ("conv_window_size", window), ("char_embedding_size", depth)):
        given = node.int(attribute, -1)
        if given not in (-1, size):
            node.fail(f"is {given}, but the weight is {type_of(weight)}", attribute)
    if decide(width, ">=", window) is False:
        node.fail(f"words of {width} characters have no window of {window}")
    letters = ops.gather(table, words, axis=0)
    image = reshape(letters, (count, 1, width, depth))
    zeros, ones = (0, 0), (1, 1)
    out = ops.conv(image, weight, strides=ones, dilations=ones, low=zeros, high=zeros, groups=1)
    windows = type_of(out).shape[2]
    out = reshape(out, (count, filters, windows))
    out = ops.tanh(ops.add(out, reshape(node.required(2), (filters, 1))))
    present = ops.gt(words, number_like(0, words))
    length = ops.reduce(ops.cast(present, dtype="int64"), kind="sum", axes=(1,), keepdims=True)
    empty = ops.not_(part(present, 1, 0, 1))
    last = ops.sub(ops.max(length, dim_value(window)), dim_value(window))
    counts = ops.le(ops.iota(shape=(1, windows), axis=1), last)
    low = number(float("-inf"), type_of(out).dtype)
    best = ops.reduce(ops.select(reshape(counts, (count, 1, windows)), out, low), kind="max", axes=(2,))
    return ops.select(empty, number_like(0.0, best), best)
