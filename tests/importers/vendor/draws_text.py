"""Random cases of com.microsoft's hashes, n-grams and embeddings by characters."""

from __future__ import annotations

import numpy as np

from tests.importers.vendor.case import Case, Draw, draws

I64 = np.int64


@draws("MurmurHash3")
def murmur_hash3(d: Draw) -> Case:
    dtype = d.pick(np.int32, np.uint32, I64, np.uint64, np.float32, np.float64)
    x = d.f(d.size(), d.size(), scale=1e3)
    if np.dtype(dtype).kind in "iu":
        x = d.rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, x.shape, dtype)
    attributes = {"seed": d.pick(None, 0, 42), "positive": d.pick(None, 0, 1)}
    return Case("MurmurHash3", [x.astype(dtype)], attributes, open={0: (0, 1)})


@draws("NGramRepeatBlock")
def ngram_repeat_block(d: Draw) -> Case:
    ids = d.ints(0, 3, d.size(1, 2), d.size(1, 4, 9), dtype=I64)
    attributes = {"ngram_size": d.size(1, 2, 3)}
    return Case("NGramRepeatBlock", [ids, d.f(ids.shape[0], 5)], attributes, open={0: (0, 1), 1: (0, 1)})


@draws("NGramHashMapping")
def ngram_hash_mapping(d: Draw) -> Case:
    dtype, batch, length, size, heads = (
        d.pick(np.int32, I64),
        d.size(1, 2),
        d.size(1, 3, 7),
        d.size(2, 3, 4),
        d.size(1, 2),
    )
    count = (size - 1) * heads
    large = np.iinfo(dtype).max // 3
    operands = [
        d.ints(0, 4, batch, length, dtype=dtype),
        d.rng.integers(-large, large, size + d.pick(0, 1)).astype(dtype),
        d.ints(5, 99, count, dtype=dtype),
        d.maybe(d.ints(0, 4, batch, size - 1, dtype=dtype)),
        d.maybe(d.ints(0, 1000, count, dtype=dtype)),
        d.maybe(np.array(1, dtype)),
        d.maybe(np.sort(d.ints(0, 3, batch, length), axis=1)),
    ]
    attributes = {"max_ngram_size": size, "n_head_per_ngram": heads, "pad_id": 2, "reset_on_eos": d.pick(None, 0, 1)}
    free = {0: (0, 1), 3: (0,), 6: (0, 1)}
    return Case("NGramHashMapping", operands, attributes, 2, open=free)


@draws("BifurcationDetector")
def bifurcation_detector(d: Draw) -> Case:
    source = d.ints(0, d.pick(2, 4), d.size(1, 5, 9), dtype=I64)
    start = int(d.ints(0, len(source) + 1))
    rest = source[start:]
    agreed = int(d.ints(0, len(rest) + 1))
    predicted = np.concatenate([rest[:agreed], d.ints(0, 4, len(rest) + 1 - agreed, dtype=I64)])
    operands = [source, d.ints(0, 4, d.size(1, 3), dtype=I64), np.array([start], I64), d.maybe(predicted)]
    attributes = {"min_ngram_size": d.pick(None, 1, 2), "max_ngram_size": d.pick(None, 2, 4)}
    return Case("BifurcationDetector", operands, attributes, 2, d.pick((), (2,)), open={0: (0,), 1: (0,), 3: (0,)})


@draws("WordConvEmbedding")
def word_conv_embedding(d: Draw) -> Case:
    count, window, depth, filters = d.size(1, 3), d.size(1, 2, 3), d.size(1, 4), d.size(1, 5)
    width = window + d.size(0, 1, 4)
    lengths = d.ints(1, width + 1, count, 1)
    words = np.where(np.arange(width) < lengths, d.ints(1, 8, count, width), 0).astype(np.int32)
    operands = [words, d.f(filters, 1, window, depth), d.f(filters), d.f(8, depth)]
    attributes = {
        "embedding_size": d.pick(None, filters), "conv_window_size": d.pick(None, window),
        "char_embedding_size": d.pick(None, depth),
    }  # fmt: skip
    return Case("WordConvEmbedding", operands, attributes, open={0: (0,)})
