"""The losses beside torch's: rows of the table in `torch_table.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from burn import nn
from burn.nn.loss.base import Reduction
from tests.nn.torch_table import LAYERS, Draw, Drawn, layer

torch = pytest.importorskip("torch")

# Losses of two tensors of one shape: their options, and their inputs.
ALIKE: dict[str, tuple[Callable[[Draw], dict[str, Any]], Callable[..., list[np.ndarray]]]] = {
    "MSELoss": (lambda d: {}, lambda d, s: [d.normal(*s), d.normal(*s)]),
    "L1Loss": (lambda d: {}, lambda d, s: [d.normal(*s), d.normal(*s)]),
    "HuberLoss": (lambda d: {"delta": d.number(0.1, 2)}, lambda d, s: [d.normal(*s), d.normal(*s)]),
    "SmoothL1Loss": (lambda d: {"beta": d.one_of(0.0, d.number(0.1, 2))}, lambda d, s: [d.normal(*s), d.normal(*s)]),
    "PoissonNLLLoss": (
        lambda d: {"log_input": d.flag(), "full": d.flag()},
        lambda d, s: [d.positive(*s), d.whole(5, *s).astype(np.float32)],
    ),
    "SoftMarginLoss": (lambda d: {}, lambda d, s: [d.normal(*s), signs(d, *s)]),
    "HingeEmbeddingLoss": (lambda d: {"margin": d.number(0, 2)}, lambda d, s: [d.normal(*s), signs(d, *s)]),
    "KLDivLoss": (lambda d: {"reduction": d.one_of("none", "mean", "sum", "batchmean")}, lambda d, s: divergence(d, s)),
}


def signs(draw: Draw, *shape: int) -> np.ndarray:
    return (2 * draw.whole(2, *shape) - 1).astype(np.float32)


def divergence(draw: Draw, shape: tuple[int, ...]) -> list[np.ndarray]:
    target = draw.positive(*shape)
    target[draw.rng.random(shape) < 0.2] = 0.0
    return [draw.normal(*shape), target]


def reduction(draw: Draw) -> Reduction:
    return draw.one_of("none", "mean", "sum")


def _alike(name: str) -> Callable[[Draw], Drawn]:
    def row(draw: Draw) -> Drawn:
        options, inputs = ALIKE[name]
        given = {"reduction": reduction(draw)} | options(draw)
        shape = draw.sizes(draw.size(1, 3))
        return Drawn(getattr(nn, name)(**given), getattr(torch.nn, name)(**given), inputs(draw, shape))

    return row


for _name in ALIKE:
    LAYERS[_name] = _alike(_name)


@layer("LpLoss")
def _lp(draw: Draw) -> Drawn:
    p, how, shape = draw.one_of(1.0, 2.0, 3.0, 0.5), reduction(draw), draw.sizes(2)
    reduced = {"none": lambda t: t, "mean": torch.mean, "sum": torch.sum}[how]
    return Drawn(
        nn.LpLoss(p, how), lambda a, b: reduced((a - b).abs() ** p), [draw.normal(*shape), draw.normal(*shape)]
    )


@layer("GaussianNLLLoss")
def _gaussian(draw: Draw) -> Drawn:
    options = {"full": draw.flag(), "reduction": reduction(draw)}
    shape = draw.sizes(2)
    variance = draw.positive(*draw.one_of(shape, shape[:1], (shape[0], 1)))
    inputs = [draw.normal(*shape), draw.normal(*shape), variance]
    return Drawn(nn.GaussianNLLLoss(**options), torch.nn.GaussianNLLLoss(**options), inputs)


def _classes(name: str) -> Callable[[Draw], Drawn]:
    def row(draw: Draw) -> Drawn:
        classes, outer = draw.size(2, 6), (draw.size(), *draw.sizes(draw.size(0, 2)))
        weight = draw.one_of(None, draw.positive(classes))
        options: dict[str, Any] = {"reduction": reduction(draw)}
        target = draw.whole(classes, *outer)
        scores = draw.normal(outer[0], classes, *outer[1:])
        if name == "CrossEntropyLoss":
            options["label_smoothing"] = draw.one_of(0.0, draw.number(0, 0.5))
            if draw.size(1, 3) == 1:
                target = np.exp(draw.normal(*scores.shape))
                target = (target / target.sum(1, keepdims=True)).astype(np.float32)
        else:
            scores = np.log(np.exp(scores) / np.exp(scores).sum(1, keepdims=True)).astype(np.float32)
        if target.dtype != np.float32 and draw.flag():
            options["ignore_index"] = draw.one_of(-100, 1)
            target = np.where((draw.rng.random(target.shape) < 0.3) & (target != 0), options["ignore_index"], target)
            target.reshape(-1)[0] = 0  # one at least counts
        theirs = getattr(torch.nn, name)(None if weight is None else torch.from_numpy(weight), **options)
        ours = getattr(nn, name)(weight, **options)
        return Drawn(ours, theirs, [scores, target])

    return row


LAYERS["CrossEntropyLoss"], LAYERS["NLLLoss"] = _classes("CrossEntropyLoss"), _classes("NLLLoss")


def _binary(name: str) -> Callable[[Draw], Drawn]:
    def row(draw: Draw) -> Drawn:
        shape, how = draw.sizes(2), reduction(draw)
        weight = draw.one_of(None, draw.positive(shape[1]))
        theirs_weight = None if weight is None else torch.from_numpy(weight)
        target = draw.rng.random(shape).astype(np.float32)
        if name == "BCELoss":
            x = draw.rng.random(shape).astype(np.float32)
            x.reshape(-1)[:1] = draw.one_of(0.0, 1.0, 0.5)
            return Drawn(nn.BCELoss(weight, how), torch.nn.BCELoss(theirs_weight, reduction=how), [x, target])
        positive = draw.one_of(None, draw.positive(shape[1]))
        theirs = torch.nn.BCEWithLogitsLoss(
            theirs_weight, reduction=how, pos_weight=None if positive is None else torch.from_numpy(positive)
        )
        if positive is None:
            ours: nn.Module = draw.one_of(nn.BCELoss(weight, how, logits=True), nn.BCEWithLogitsLoss(weight, how))
        else:
            ours = nn.BCEWithLogitsLoss(weight, how, positive)
        return Drawn(ours, theirs, [4 * draw.normal(*shape), target])

    return row


LAYERS["BCELoss"], LAYERS["BCEWithLogitsLoss"] = _binary("BCELoss"), _binary("BCEWithLogitsLoss")


@layer("MultiMarginLoss")
def _multi_margin(draw: Draw) -> Drawn:
    batch, classes, p = draw.size(), draw.size(2, 6), draw.one_of(1, 2)
    weight, margin, how = draw.one_of(None, draw.positive(classes)), draw.number(0.2, 2), reduction(draw)
    # torch has no float64 weights beside float32 ones here: the module's are converted with it.
    theirs = torch.nn.MultiMarginLoss(p, margin, None if weight is None else torch.from_numpy(weight), reduction=how)
    ours = nn.MultiMarginLoss(p, margin, weight, how)
    return Drawn(ours, theirs, [draw.normal(batch, classes), draw.whole(classes, batch)])


@layer("CosineEmbeddingLoss")
def _cosine(draw: Draw) -> Drawn:
    (n, d), options = draw.sizes(2), {"margin": draw.number(-0.5, 0.5), "reduction": reduction(draw)}
    inputs = [draw.normal(n, d), draw.normal(n, d), signs(draw, n)]
    return Drawn(nn.CosineEmbeddingLoss(**options), torch.nn.CosineEmbeddingLoss(**options), inputs)


@layer("MarginRankingLoss")
def _ranking(draw: Draw) -> Drawn:
    shape, options = draw.sizes(2), {"margin": draw.number(0, 1), "reduction": reduction(draw)}
    inputs = [draw.normal(*shape), draw.normal(*shape), signs(draw, *shape)]
    return Drawn(nn.MarginRankingLoss(**options), torch.nn.MarginRankingLoss(**options), inputs)


@layer("TripletMarginLoss")
def _triplet(draw: Draw) -> Drawn:
    shape = draw.sizes(2)
    options = {"margin": draw.number(0, 2), "p": draw.one_of(1.0, 2.0, 3.0), "swap": draw.flag()}
    options["reduction"] = reduction(draw)
    inputs = [draw.normal(*shape) for _ in range(3)]
    return Drawn(nn.TripletMarginLoss(**options), torch.nn.TripletMarginLoss(**options), inputs)


@layer("CTCLoss")
def _ctc(draw: Draw) -> Drawn:
    steps, batch, classes, longest = draw.size(6, 12), draw.size(1, 4), draw.size(3, 6), draw.size(1, 4)
    options = {"blank": draw.one_of(0, classes - 1), "reduction": reduction(draw), "zero_infinity": draw.flag()}
    scores = draw.normal(steps, batch, classes)
    log_p = (scores - np.log(np.exp(scores).sum(2, keepdims=True))).astype(np.float32)
    labels = [c for c in range(classes) if c != options["blank"]]
    targets = np.array(labels)[draw.whole(len(labels), batch, longest)]
    lengths = draw.rng.integers(draw.one_of(0, 1), longest + 1, batch)
    inputs = draw.rng.integers(draw.one_of(1, steps), steps + 1, batch)  # too short a one makes an infinity
    if draw.flag():
        targets = np.concatenate([t[:n] for t, n in zip(targets, lengths, strict=True)])
    if not options["zero_infinity"]:
        inputs[:] = steps
    return Drawn(nn.CTCLoss(**options), torch.nn.CTCLoss(**options), [log_p, targets, inputs, lengths], batch_axis=None)
