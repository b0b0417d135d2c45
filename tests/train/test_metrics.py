"""Metrics against formulas written out in plain loops: counted by compiled programs, batch by batch, of sizes that vary."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import burn
from burn.errors import BurnError, TypeMismatch
from burn.train.metrics import (
    AUROC,
    CER,
    MAE,
    R2,
    RMSE,
    WER,
    Accuracy,
    ConfusionMatrix,
    CpuLoad,
    FBeta,
    Gauge,
    GpuLoad,
    Memory,
    Metric,
    Perplexity,
    Precision,
    Recall,
    Tally,
    Throughput,
    TopK,
)
from burn.train.metrics.text import distance

SIZES = (7, 1, 13, 0, 5)
rng = np.random.default_rng(5)


def _told(metrics: Sequence[Metric], batches: Sequence[tuple[Any, Any]]) -> Tally:
    """Metrics of batches counted by one program; and the same with a checkpoint in the middle."""

    def counts(p: burn.Tensor, t: burn.Tensor) -> Any:
        return {m.name: m.counts(p, t) for m in metrics}

    counted = burn.jit(counts, dynamic={"p": {0: "n"}, "t": {0: "n"}})
    tally = Tally(metrics)
    for p, t in batches:
        other = Tally(metrics)
        other.load_state_dict(tally.state_dict())
        other.add(float(len(t)), len(t), counted(p, t))
        tally = other
    assert len(counted.programs) == 1
    sizes = [len(t) for _, t in batches]
    assert tally.values()["loss"] == sum(n * n for n in sizes) / sum(sizes)
    return tally


def _rates(predicted: np.ndarray, truth: np.ndarray, c: int, beta: float) -> tuple[float, float, float, int]:
    right = sum(p == t == c for p, t in zip(predicted, truth, strict=True))
    given, true = int((predicted == c).sum()), int((truth == c).sum())
    precision, recall = right / given if given else 0.0, right / true if true else 0.0
    below = beta**2 * precision + recall
    return precision, recall, (1 + beta**2) * precision * recall / below if below else 0.0, true


def test_classes() -> None:
    classes, ignored = 5, 4
    batches = [(rng.standard_normal((n, classes)).astype(np.float32), rng.integers(0, 5, n)) for n in SIZES]
    metrics: list[Metric] = [Accuracy(), Accuracy(ignore_index=ignored, name="some"), TopK(2), ConfusionMatrix(classes)]
    averages = ("macro", "micro", "weighted")
    for average in averages:
        metrics += [
            Precision(average, name=f"p {average}"),
            Recall(average, name=f"r {average}"),
            FBeta(2.0, average, name=f"f {average}"),
        ]
    metrics += [AUROC(), Perplexity(), Perplexity(ignore_index=ignored, name="of some")]
    tally = _told(metrics, batches)
    told = tally.values()
    scores, truth = (np.concatenate(parts) for parts in zip(*batches, strict=True))
    wide, predicted = scores.astype(np.float64), scores.argmax(1)
    kept = truth != ignored
    assert told["accuracy"] == (predicted == truth).mean()
    assert told["some"] == (predicted == truth)[kept].mean()
    best = np.argsort(-wide, 1)[:, :2]
    assert told["top2"] == np.mean([t in row for t, row in zip(truth, best, strict=True)])
    table = np.zeros((classes, classes), int)
    for t, p in zip(truth, predicted, strict=True):
        table[t, p] += 1
    np.testing.assert_array_equal(tally.told()[1]["confusion"], table)
    rates = [_rates(predicted, truth, c, 2.0) for c in range(classes)]
    for i, kind in enumerate("prf"):
        values, counts = [r[i] for r in rates], [r[3] for r in rates]
        assert told[f"{kind} macro"] == pytest.approx(np.mean(values))
        assert told[f"{kind} weighted"] == pytest.approx(np.average(values, weights=counts))
        assert told[f"{kind} micro"] == pytest.approx(told["accuracy"])  # of one class each, all three are the same
    surprise = np.log(np.exp(wide).sum(1)) - wide[np.arange(len(truth)), truth]
    assert told["perplexity"] == pytest.approx(math.exp(surprise.mean()), rel=1e-6)
    assert told["of some"] == pytest.approx(math.exp(surprise[kept].mean()), rel=1e-6)
    areas = [_area(wide[:, c], truth == c) for c in range(classes)]
    assert told["auroc"] == pytest.approx(np.mean(areas))


def _area(scores: np.ndarray, true: np.ndarray) -> float:
    pairs = [(a > b) + 0.5 * (a == b) for a, b in itertools.product(scores[true], scores[~true])]
    return float(np.mean(pairs))


def test_yes_and_no() -> None:
    batches = [
        (rng.integers(-3, 4, n).astype(np.float32) / 2, rng.integers(0, 2, n)) for n in SIZES
    ]  # with equal scores
    metrics = [Accuracy(), Precision("binary"), Recall("binary"), FBeta(0.5, "binary"), AUROC()]
    told = _told(metrics, batches).values()
    scores, truth = (np.concatenate(parts) for parts in zip(*batches, strict=True))
    precision, recall, f, _ = _rates((scores > 0).astype(int), truth, 1, 0.5)
    assert told["accuracy"] == ((scores > 0) == truth).mean()
    assert (told["precision"], told["recall"], told["f0.5"]) == pytest.approx((precision, recall, f))
    assert told["auroc"] == pytest.approx(_area(scores, truth == 1))


def test_labels_of_which_several_are_true() -> None:
    batches = [(rng.random((n, 3), np.float32), rng.integers(0, 2, (n, 3)).astype(np.float32)) for n in SIZES]
    metrics = [
        Accuracy(threshold=0.5),
        FBeta(average="macro", threshold=0.5),
        FBeta(average="micro", threshold=0.5, name="m"),
    ]
    told = _told(metrics, batches).values()
    given, truth = (np.concatenate(parts) > 0.5 for parts in zip(*batches, strict=True))
    assert told["accuracy"] == (given == truth).mean()
    assert told["f1"] == pytest.approx(np.mean([_rates(given[:, c], truth[:, c], 1, 1.0)[2] for c in range(3)]))
    assert told["m"] == pytest.approx(_rates(given.reshape(-1), truth.reshape(-1), 1, 1.0)[2])


def test_numbers() -> None:
    batches = [(rng.standard_normal((n, 2)), rng.standard_normal((n, 2)) + 1e4) for n in SIZES if n]
    told = _told([MAE(), RMSE(), R2()], batches).values()
    p, t = (np.concatenate(parts) for parts in zip(*batches, strict=True))
    assert told["mae"] == pytest.approx(np.abs(p - t).mean(), rel=1e-12)
    assert told["rmse"] == pytest.approx(math.sqrt(((p - t) ** 2).mean()), rel=1e-12)
    assert told["r2"] == pytest.approx(1 - ((p - t) ** 2).sum() / ((t - t.mean()) ** 2).sum(), rel=1e-9)


def _edits(a: tuple[Any, ...], b: tuple[Any, ...]) -> int:
    if not a or not b:
        return len(a) + len(b)
    return min(_edits(a[1:], b) + 1, _edits(a, b[1:]) + 1, _edits(a[1:], b[1:]) + (a[0] != b[0]))


def test_edits() -> None:
    for _ in range(60):
        a, b = (tuple(rng.integers(0, 3, rng.integers(0, 6)).tolist()) for _ in range(2))
        assert distance(a, b) == _edits(a, b)


def test_error_rates() -> None:
    pad, space, blank = 0, 1, 5
    # "ab c" for "ab d": words of ids 2, 3, 4 between spaces, ends filled up
    true = np.array([[2, 3, 1, 4, 0, 0], [3, 3, 3, 1, 2, 2]])
    written = np.array([[2, 3, 1, 1, 2, 0], [3, 3, 1, 2, 0, 0]])
    scores = np.eye(6, dtype=np.float32)[written]
    metrics = [CER(pad), WER(space, pad), WER(pad=pad, name="ids")]
    told = _told(metrics, [(scores[:1], true[:1]), (scores[1:], true[1:])]).values()
    assert told["cer"] == (2 + 2) / (4 + 6)  # a space too many and another letter; two letters are missing
    assert told["wer"] == (1 + 2) / (2 + 2)
    assert told["ids"] == told["cer"]
    paths = np.array([[2, 2, blank, 2, 3, blank]])
    assert _told([CER(pad, blank)], [(paths, np.array([[2, 2, 3, 0, 0, 0]]))]).values()["cer"] == 0


def test_nothing_counted_is_no_number() -> None:
    tally = Tally([Accuracy()])
    assert math.isnan(tally.values()["loss"])
    tally.add(1.0, 0, {"accuracy": {"right": np.array(0), "count": np.array(0)}})
    assert math.isnan(tally.values()["accuracy"])


def test_a_class_that_is_none_is_an_error() -> None:
    p, t = burn.tensor(rng.standard_normal((2, 3))), burn.tensor([0, 7])
    for metric in (TopK(1), Perplexity(), ConfusionMatrix(3)):
        with pytest.raises(BurnError, match="out of range"):
            {k: v.numpy() for k, v in metric.counts(p, t).items()}


@pytest.mark.parametrize(
    ("metric", "p", "t", "told"),
    [
        (Accuracy(), burn.zeros(4, 1), burn.zeros(4, dtype="int64"), "squeeze the axis"),
        (Accuracy(), burn.zeros(4, 2, 2), burn.zeros(4, dtype="int64"), "Accuracy takes"),
        (Precision("binary"), burn.zeros(4, 3), burn.zeros(4, dtype="int64"), "two classes"),
        (TopK(9), burn.zeros(4, 3), burn.zeros(4, dtype="int64"), "at least 9 classes"),
        (CER(), burn.zeros(4, 3), burn.zeros(4, 3, dtype="int64"), r"ids \[N, T\]"),
        (MAE(), burn.zeros(4, 3), burn.zeros(4), "one shape"),
        (AUROC(), burn.zeros(4, dtype="int64"), burn.zeros(4), "float scores"),
    ],
    ids=lambda v: type(v).__name__ if isinstance(v, Metric) else "",
)
def test_what_metrics_refuse(metric: Metric, p: burn.Tensor, t: burn.Tensor, told: str) -> None:
    with pytest.raises(TypeMismatch, match=told):
        metric.counts(p, t)


def test_gauges() -> None:
    gauges: list[Gauge] = [Throughput(), Memory(), CpuLoad()]
    read = [g.read(10, 0.5) for g in gauges]
    assert read[0] == 20.0 and 1 < read[1] < 1e6 and 0 <= read[2] <= 100.0 + 1e-6
    assert gauges[0].of_epoch(999.0, 100, 2.0) == 50.0
    try:
        assert 0 <= GpuLoad().read(1, 1.0) <= 100
    except BurnError as error:
        assert "finds no GPU" in str(error)
