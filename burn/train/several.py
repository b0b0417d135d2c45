"""A step over several batches of other sizes: gradients are summed in buffers, one update follows.

Loss and gradients equal those of one batch with all rows, as those of `accumulate` do: a first program weighs each batch's means
(`burn.nn.loss.reductions`). Batches need not have the same shape, so sequences may be padded to other lengths in each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from burn.errors import TypeMismatch
from burn.jitted import Jit
from burn.nn.loss.reductions import normalised
from burn.nn.parameter import Buffer
from burn.tensors import Tensor
from burn.tensors.concatenation import stack
from burn.tensors.creation import zeros
from burn.tensors.gradients import Gradients
from burn.tracing.arguments import bound
from burn.train.accumulate import rows_of, weights_of

if TYPE_CHECKING:
    from burn.train.step import Step

Batch = tuple[tuple[Any, ...], Mapping[str, Any]]
"""Positional and named entries."""


class Several:
    """The programs of a step for several batches, and the sums between them."""

    def __init__(self, step: Step) -> None:
        self._step = step
        self._sums: dict[str, Buffer] = {}
        self._loss, self._share = Buffer(np.zeros((), np.float64)), Buffer(np.ones((), np.float64))
        self._weights: Buffer | None = None  # of the means, of all batches
        self._unused: set[str] | None = None
        self._weigh: Jit | None = None
        self._add: Jit | None = None
        self._update: Jit | None = None

    def __call__(self, batches: Sequence[Batch]) -> tuple[Any, list[Any]]:
        """The loss of all batches, and their other results. A batch that fails leaves parameters and the optimizer's state as
        they were."""
        if not batches:
            raise TypeMismatch("a step takes at least one batch", ["none was given"])
        step = self._step
        self._clear()
        if any(rows := [rows_of(args, kwargs) for args, kwargs in batches]):  # a share of 0 would divide by it
            batches = [batch for batch, count in zip(batches, rows, strict=True) if count]
            rows = [count for count in rows if count]
        weights = [self._weighed(batch) for batch in batches]
        total = np.sum([np.asarray(w) for w in weights], axis=0)
        if self._weights is None or self._weights.shape != total.shape:
            self._weights, self._add = Buffer(total), None
        self._weights.assign(total)
        statistics = [(buffer, buffer.weight) for _, buffer in step.model.named_buffers()]
        extras = []
        for (args, kwargs), count in zip(batches, rows, strict=True):
            self._share.assign(np.array(count / max(sum(rows), 1)))
            extras.append(self._added(args, kwargs))
        loss, moved = self._updated()
        if not bool(moved):
            for buffer, before in statistics:
                buffer.assign(before)
        return loss, extras

    def _clear(self) -> None:
        """Sums of zeros, for the parameters that the optimizer moves now."""
        moved = self._step.optimizer.parameters
        types = {path: p.type for path, p in moved.items()}
        if {path: b.type for path, b in self._sums.items()} != types:
            self._sums = {path: Buffer(tuple(p.shape), p.dtype) for path, p in moved.items()}
            self._add = self._update = self._unused = None
            for path, buffer in self._sums.items():
                buffer.move(moved[path].placement)
        for buffer in self._sums.values():
            buffer.assign(zeros(buffer.shape, dtype=buffer.dtype))
        self._loss.assign(np.zeros((), np.float64))

    def _weighed(self, batch: Batch) -> Any:
        step = self._step

        def weigh(*args: Any, **kwargs: Any) -> Any:
            found = weights_of(step._forward, step.model, args, kwargs)
            return stack(found) if found else zeros((0,), dtype="float64")

        if self._weigh is None:
            self._weigh = self._compiled(weigh, batch)
        return self._weigh(*batch[0], **batch[1])

    def _added(self, *batch: Any) -> Any:
        step = self._step

        def add(*args: Any, **kwargs: Any) -> Any:
            assert self._weights is not None
            weights = [self._weights[i] for i in range(self._weights.shape[0])]
            with normalised(self._share * 1, weights):
                loss, extra, gradients = step._gradients(*args, **kwargs)
            self._unused = set(gradients.unused) if self._unused is None else self._unused & gradients.unused
            for path, buffer in self._sums.items():
                buffer.assign(buffer + gradients[path] * self._share.astype(buffer.dtype))
            self._loss.assign(self._loss + loss.astype("float64") * self._share)
            return loss, extra

        if self._add is None:
            self._add = self._compiled(add, batch)
        return self._add(*batch[0], **batch[1])[1]

    def _updated(self) -> tuple[Any, Any]:
        """The loss, and false if gradients overflowed, which changes no parameter."""
        step = self._step

        def update() -> tuple[Tensor, Tensor]:
            given = Gradients({path: buffer * 1 for path, buffer in self._sums.items()}, self._unused or ())
            finite = step._move(given)
            return (self._loss * 1).astype("float32"), finite

        if self._update is None:
            self._update = Jit(update, {}, (), opens=True)
        return self._update()

    def _compiled(self, function: Any, batch: Batch) -> Jit:
        step = self._step
        given = bound(step.signature, *batch, getattr(step.loss, "__name__", "step"))
        return step._of_batches(function, given)
