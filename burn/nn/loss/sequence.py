"""Losses of sequences with unknown alignment: CTC and the transducer. Both sum the probabilities of all alignments,
step by step along time (`burn.scan`), for all samples of a batch at once, as logarithms."""

from __future__ import annotations

from functools import reduce

from burn import ops
from burn.dialect import compose
from burn.errors import TypeMismatch
from burn.nn.loss.base import Loss, Reduction
from burn.nn.loss.reductions import mean
from burn.tensors import Tensor, constant
from burn.tensors.control import scan
from burn.tensors.functions import concat

LEAST = float("-inf")


def log_sum(*terms: Tensor) -> Tensor:
    """log(exp a + exp b + ...); minus infinity, with gradient 0, where all terms are."""
    top = reduce(ops.max, terms)
    none = top == LEAST
    top = ops.select(none, 0.0, top)
    total = reduce(lambda a, b: a + b, [(t - top).exp() for t in terms])
    return ops.select(none, LEAST, ops.select(none, 1.0, total).log() + top)


def shifted(x: Tensor, by: int) -> Tensor:
    """The last axis shifted towards its end, filled with minus infinity. Shapes: x [N, n] -> [N, n]."""
    size = x.shape[-1]
    return x.pad([(0, 0), (by, 0)], "constant", LEAST)[:, :size]


class CTCLoss(Loss):
    """The negative log likelihood of labels under all alignments with repeats and blanks (Graves et al., "Connectionist temporal
    classification", 2006).

    Shapes: log_probs [T, N, C] log probabilities; targets [N, S] classes (elements past a target's length are not read) or
    [sum of lengths]; input_lengths and target_lengths [N] integers -> [] or [N]. Without the batch: [T, C], [S], [] and [].

    The mean first divides each loss by its target's length. zero_infinity: a sample without an alignment gives 0 instead of
    infinity."""

    def __init__(self, blank: int = 0, reduction: Reduction = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction)
        self.blank, self.zero_infinity = blank, zero_infinity

    def forward(self, log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor) -> Tensor:
        single = log_probs.ndim == 2
        if single:
            log_probs, targets = log_probs.unsqueeze(1), targets.unsqueeze(0)
            input_lengths, target_lengths = input_lengths.reshape(1), target_lengths.reshape(1)
        if log_probs.ndim != 3 or targets.ndim not in (1, 2) or input_lengths.ndim != 1 or target_lengths.ndim != 1:
            given = ", ".join(str(t.type) for t in (log_probs, targets, input_lengths, target_lengths))
            raise TypeMismatch(
                "CTCLoss takes log_probs [T, N, C], targets [N, S], and lengths [N] twice", [f"not {given}"]
            )
        lengths = target_lengths.astype("int64")
        loss = self._losses(log_probs, _rows(targets.astype("int64"), lengths), input_lengths.astype("int64"), lengths)
        if self.zero_infinity:
            loss = ops.select(loss == float("inf"), 0.0, loss)
        if self.reduction == "mean":
            return mean(loss / ops.max(lengths, 1).astype(loss.dtype))
        return self._reduced(loss.reshape(()) if single and self.reduction == "none" else loss)

    def _losses(self, log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor) -> Tensor:
        steps, batch, _ = log_probs.shape
        # elements past a target's length are not read; labels do not count from the end
        inside = ops.iota(shape=(1, targets.shape[1]), axis=1) < target_lengths.unsqueeze(1)
        targets = ops.from_start(ops.select(inside, targets, self.blank))
        # Labels with blanks before, between and after them: [N, 2 S + 1].
        blanks = ops.full(shape=(batch, targets.shape[1], 1), dtype="int64", value=float(self.blank))
        pairs = concat([blanks, targets.unsqueeze(2)], 2).flatten(1)
        labels = pairs.pad([(0, 0), (0, 1)], value=self.blank)
        count = labels.shape[1]
        emitted = log_probs.take_along_axis(labels.unsqueeze(0).broadcast_to(steps, batch, count), 2)
        # A blank may be left out between two different labels.
        before = labels.pad([(0, 0), (2, 0)], "constant", self.blank)[:, :count]
        skips = (labels != self.blank) & (labels != before)
        position = ops.iota(shape=(1, count), axis=1)
        # An alignment begins with the first blank or the first label.
        start = ops.select(position <= 1, 0.0, ops.full(shape=(batch, count), dtype=log_probs.dtype, value=LEAST))

        def step(carry: tuple[Tensor, Tensor], row: Tensor) -> tuple:
            alpha, time = carry
            two = ops.select(skips, shifted(alpha, 2), LEAST)
            moved = log_sum(alpha, shifted(alpha, 1), two)
            new = ops.select(time == 0, start, moved) + row
            return (ops.select((time < input_lengths).unsqueeze(1), new, alpha), time + 1), ()

        (alpha, _), _ = scan(step, (start, constant(0, "int64")), emitted)
        ends = (target_lengths * 2).unsqueeze(1)
        last = alpha.take_along_axis(ends, 1)
        other = ops.select(ends > 0, alpha.take_along_axis(ops.max(ends - 1, 0), 1), LEAST)
        loss = -log_sum(last, other).squeeze(1)
        # Without frames only a target without labels has an alignment.
        nothing = ops.select(target_lengths > 0, float("inf"), ops.full(shape=(batch,), dtype=loss.dtype, value=0.0))
        return ops.select(input_lengths > 0, loss, nothing)


def _rows(targets: Tensor, lengths: Tensor) -> Tensor:
    """Concatenated targets as [N, S], where S is the sum of lengths, because the longest length depends on the data."""
    if targets.ndim == 2:
        return targets
    total = targets.shape[0]
    starts = (lengths.cumsum(0) - lengths).unsqueeze(1)
    columns = starts + ops.iota(shape=(1, total), axis=1)
    return targets.take(ops.min(columns, ops.max(Tensor(compose.dim_value(total)) - 1, 0)))


class RNNTLoss(Loss):
    """The negative log likelihood of labels under all alignments of a transducer. At each (time, label) position it
    either emits the next label or advances in time with a blank (arXiv:1211.3711).

    Shapes: logits [N, T, U + 1, C] scores; targets [N, U] classes; logit_lengths and target_lengths [N] integers; result [] or
    [N].

    normalised: the scores are log probabilities. blank: a class; a negative one counts from the end."""

    def __init__(self, blank: int = -1, reduction: Reduction = "mean", normalised: bool = False) -> None:
        super().__init__(reduction)
        self.blank, self.normalised = blank, normalised

    def forward(self, logits: Tensor, targets: Tensor, logit_lengths: Tensor, target_lengths: Tensor) -> Tensor:
        if logits.ndim != 4 or targets.ndim != 2 or logit_lengths.ndim != 1 or target_lengths.ndim != 1:
            given = ", ".join(str(t.type) for t in (logits, targets, logit_lengths, target_lengths))
            raise TypeMismatch(
                "RNNTLoss takes logits [N, T, U + 1, C], targets [N, U], and lengths [N] twice", [f"not {given}"]
            )
        batch, steps, columns, classes = logits.shape
        log_p = logits if self.normalised else logits.log_softmax(-1)
        blank = log_p[:, :, :, self.blank if self.blank >= 0 else classes + self.blank]  # [N, T, U + 1]
        inside = ops.iota(shape=(1, columns - 1), axis=1) < target_lengths.astype("int64").unsqueeze(1)
        labels = ops.from_start(ops.select(inside, targets.astype("int64"), 0))
        index = labels.reshape(batch, 1, columns - 1, 1).broadcast_to(batch, steps, columns - 1, 1)
        label = (
            log_p[:, :, : columns - 1].take_along_axis(index, 3).squeeze(3).pad([(0, 0), (0, 0), (0, 1)], value=LEAST)
        )
        # alpha can be computed by diagonals: step d holds (d - u, u) for every u
        last_time = logit_lengths.astype("int64") - 1
        ends = (last_time + target_lengths.astype("int64")).unsqueeze(1)
        here = ops.iota(shape=(1, columns), axis=1)
        is_last = here == target_lengths.astype("int64").unsqueeze(1)
        rows = (_diagonals(blank), _diagonals(label))
        empty = ops.full(shape=(batch, columns), dtype=log_p.dtype, value=LEAST)
        start = ops.select(here == 0, 0.0, empty)

        def step(carry: tuple[Tensor, Tensor, Tensor], row: tuple[Tensor, Tensor]) -> tuple:
            alpha, total, diagonal = carry
            quiet, spoken = alpha + row[0], shifted(alpha + row[1], 1)
            total = ops.select((ends == diagonal) & is_last, quiet, total)
            return (log_sum(quiet, spoken), total, diagonal + 1), ()

        (_, total, _), _ = scan(step, (start, empty, constant(0, "int64")), rows)
        return self._reduced(-total.max(1))


def _diagonals(x: Tensor) -> Tensor:
    """x [N, T, U] by diagonals: [T + U - 1, N, U], element (d, n, u) being x[n, d - u, u], or minus infinity outside."""
    batch, steps, columns = x.shape
    time = ops.iota(shape=(steps + columns - 1, columns), axis=0) - ops.iota(
        shape=(steps + columns - 1, columns), axis=1
    )
    last = Tensor(compose.dim_value(steps)) - 1
    inside = (time >= 0) & (time <= last)
    held = ops.max(ops.min(time, last), 0).unsqueeze(0).broadcast_to(batch, steps + columns - 1, columns)
    return ops.select(inside, x.take_along_axis(held, 1), LEAST).permute(1, 0, 2)
