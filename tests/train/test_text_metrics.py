"""BLEU, ROUGE-L, AUC-PR, Hamming and Dice: by their definitions on drawn cases, and numbers of other libraries.

The numbers are those of sacrebleu 2.6.0 and rouge_score 0.1.2:
`BLEU(tokenize="none", force=True, smooth_method=..).corpus_score(hypotheses, [references]).score / 100` (smooth_method "exp" and
"none"), and
`RougeScorer(["rougeL"]).score(target, prediction)["rougeL"].fmeasure`.
"""

from __future__ import annotations

import math
from collections import Counter
from functools import cache
from typing import Any

import numpy as np
import pytest

import burn
from burn.errors import TypeMismatch
from burn.train import metrics
from burn.train.metrics import Tally

HYPOTHESES = [
    "the cat sat on the mat",
    "a quick brown fox jumps",
    "to be or not",
    "deep learning compilers are fun to write",
]
REFERENCES = [
    "the cat is on the mat",
    "the quick brown fox jumped",
    "to be or not to be",
    "compilers for deep learning are fun",
]


def measured(metric: Any, batches: list[tuple[np.ndarray, np.ndarray]]) -> Any:
    tally, count = Tally([metric]), burn.jit(lambda p, t: metric.counts(p, t))
    for p, t in batches:
        tally.add(0.0, len(p), {metric.name: count(p, t)})
    return tally.values()[metric.name]


def ids(texts: list[str], names: dict[str, int]) -> np.ndarray:
    rows = [[names.setdefault(word, len(names) + 1) for word in text.split()] for text in texts]
    longest = max(map(len, rows))
    return np.array([row + [0] * (longest - len(row)) for row in rows])


def batches() -> list[tuple[np.ndarray, np.ndarray]]:
    names: dict[str, int] = {}
    return [(ids(HYPOTHESES[i : i + 2], names), ids(REFERENCES[i : i + 2], names)) for i in (0, 2)]  # of other lengths


def test_numbers_of_other_libraries() -> None:
    whole = batches()
    for smooth in ("exp", None):
        np.testing.assert_allclose(measured(metrics.BLEU(smooth=smooth, pad=0), whole), 0.3180026686112314, rtol=1e-12)  # type: ignore[arg-type]
    middle = [(whole[0][0][1:], whole[0][1][1:]), (whole[1][0][:1], whole[1][1][:1])]
    np.testing.assert_allclose(measured(metrics.BLEU(pad=0), middle), 0.4623059551242212, rtol=1e-12)
    last = [(whole[1][0][1:], whole[1][1][1:])]
    np.testing.assert_allclose(measured(metrics.BLEU(smooth="exp", pad=0), last), 0.1964073254502566, rtol=1e-12)
    assert measured(metrics.BLEU(pad=0), last) == 0
    want = np.mean([0.8333333333333334, 0.6, 0.8, 0.6153846153846153])
    np.testing.assert_allclose(measured(metrics.ROUGEL(pad=0), whole), want, rtol=1e-12)


def bleu64(pairs: list[tuple[list[int], list[int]]], order: int) -> float:
    right, given = [0] * order, [0] * order
    for own, true in pairs:
        for n in range(1, order + 1):
            a, b = ([tuple(s[i : i + n]) for i in range(len(s) - n + 1)] for s in (own, true))
            right[n - 1] += sum(min(c, Counter(b)[g]) for g, c in Counter(a).items())
            given[n - 1] += len(a)
    written, true = (sum(map(len, s)) for s in zip(*pairs, strict=True))
    if not all(right):
        return 0.0
    return math.exp(min(0, 1 - true / written)) * math.prod(r / g for r, g in zip(right, given, strict=True)) ** (
        1 / order
    )


@pytest.mark.parametrize("seed", range(6))
def test_drawn_texts(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = [(rng.integers(0, 5, (n, s)), rng.integers(0, 5, (n, t))) for n, s, t in rng.integers(1, 12, (3, 3))]
    pairs = [
        ([i for i in p if i], [i for i in t if i]) for a, b in rows for p, t in zip(a.tolist(), b.tolist(), strict=True)
    ]
    for order in (1, 2, 4):
        np.testing.assert_allclose(measured(metrics.BLEU(order, pad=0), rows), bleu64(pairs, order), rtol=1e-12)

    def lcs(a: tuple[int, ...], b: tuple[int, ...]) -> int:
        @cache
        def longest(i: int, j: int) -> int:
            if not i or not j:
                return 0
            same = longest(i - 1, j - 1) + 1 if a[i - 1] == b[j - 1] else 0
            return max(same, longest(i - 1, j), longest(i, j - 1))

        return longest(len(a), len(b))

    scores = [2 * lcs(tuple(a), tuple(b)) / (len(a) + len(b)) if a or b else 0.0 for a, b in pairs]
    np.testing.assert_allclose(measured(metrics.ROUGEL(pad=0), rows), np.mean(scores), rtol=1e-12)


def test_empty_texts_and_words() -> None:
    nothing = np.zeros((2, 3), np.int64)
    assert math.isnan(measured(metrics.BLEU(pad=0), [(nothing, nothing)]))
    assert measured(metrics.BLEU(pad=0), [(nothing, nothing + 1)]) == 0
    assert measured(metrics.ROUGEL(pad=0), [(nothing, nothing)]) == 0
    assert math.isnan(measured(metrics.ROUGEL(), [(nothing[:0], nothing[:0])]))
    words = np.array([[1, 2, 9, 3, 9, 4, 4]])  # of ids between spaces
    assert (
        measured(metrics.BLEU(3, space=9), [(words, words)]) == measured(metrics.ROUGEL(space=9), [(words, words)]) == 1
    )
    assert measured(metrics.BLEU(4, space=9), [(words, words)]) == 0  # there are 3 words
    with pytest.raises(TypeMismatch, match="smooth"):
        metrics.BLEU(smooth="add")  # type: ignore[arg-type]


def ap64(scores: np.ndarray, true: np.ndarray) -> float:
    """Average precision by its definition: over all thresholds."""
    before, total = 0.0, 0.0
    for threshold in sorted(set(scores.tolist()), reverse=True):
        given = scores >= threshold
        recall = (given & true).sum() / true.sum()
        total += (recall - before) * (given & true).sum() / given.sum()
        before = recall
    return total


def test_average_precision() -> None:
    rng = np.random.default_rng(0)
    scores = np.round(rng.random(40).astype(np.float32), 1)  # with ties
    true = rng.integers(0, 2, 40).astype(np.int64)
    parts = [(scores[:7], true[:7]), (scores[7:], true[7:])]
    np.testing.assert_allclose(measured(metrics.AUCPR(), parts), ap64(scores, true == 1), rtol=1e-12)
    many, classes = rng.random((30, 4)).astype(np.float32), rng.integers(0, 3, 30)  # class 3 never occurs
    want = np.mean([ap64(many[:, c], classes == c) for c in range(3)])
    np.testing.assert_allclose(measured(metrics.AUCPR(), [(many, classes)]), want, rtol=1e-12)
    assert math.isnan(measured(metrics.AUCPR(), [(scores, np.zeros(40, np.int64))]))
    with pytest.raises(TypeMismatch, match="AUCPR takes"):
        metrics.AUCPR().counts(burn.ones(3, 1), burn.zeros((3,), dtype="int64"))


def test_labels_and_masks() -> None:
    rng = np.random.default_rng(0)
    scores, labels = rng.standard_normal((9, 5)).astype(np.float32), rng.integers(0, 2, (9, 5))
    np.testing.assert_allclose(measured(metrics.HammingScore(), [(scores, labels)]), ((scores > 0) == labels).mean())
    with pytest.raises(TypeMismatch, match=r"\[N, labels\]"):
        metrics.HammingScore().counts(burn.ones(3, 2), burn.zeros((3,), dtype="int64"))
    masks, truth = rng.standard_normal((4, 3, 6, 5)).astype(np.float32), rng.integers(0, 3, (4, 6, 5))
    given = masks.argmax(1)
    dice = [2 * ((given == c) & (truth == c)).sum() / ((given == c).sum() + (truth == c).sum()) for c in range(3)]
    parts = [(masks[:1], truth[:1]), (masks[1:], truth[1:]), (masks[:0], truth[:0])]
    np.testing.assert_allclose(measured(metrics.Dice(), parts), np.mean(dice), rtol=1e-12)
    np.testing.assert_allclose(measured(metrics.Dice(background=False), parts), np.mean(dice[1:]), rtol=1e-12)
    binary = measured(metrics.Dice("binary"), [(masks[:, 0], (truth == 0).astype(np.int64))])
    a, b = masks[:, 0] > 0, truth == 0
    np.testing.assert_allclose(binary, 2 * (a & b).sum() / (a.sum() + b.sum()), rtol=1e-12)
