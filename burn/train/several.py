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
        self._weigh: Jit | None = None
        self._add: Jit | None = None
        self._updates: dict[tuple[frozenset[str], str], Jit] = {}  # by unused parameters and the loss's type

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
        may_overflow = step.scale is not None
        statistics = [(buffer, buffer.weight) for _, buffer in step.model.named_buffers()] if may_overflow else []
        extras, unused, dtypes = [], [], []
        for (args, kwargs), count in zip(batches, rows, strict=True):
            self._share.assign(np.array(count / max(sum(rows), 1)))
            extra, idle, dtype = self._added(args, kwargs)
            extras.append(extra)
            unused.append(frozenset(idle))
            dtypes.append(dtype)
        loss, moved = self._updated(frozenset.intersection(*unused), dtypes[0])
        if may_overflow and not bool(moved):
            for buffer, before in statistics:
                buffer.assign(before)
        return loss, extras

    @property
    def programs(self) -> int:
        """How many programs it was compiled to."""
        jits = (self._weigh, self._add, *self._updates.values())
        return sum(len(found) for jit in jits if jit is not None for found in jit.programs.values())

    def _clear(self) -> None:
        """Sums of zeros, for the parameters that the optimizer moves now."""
        moved = self._step.optimizer.parameters
        types = {path: p.type for path, p in moved.items()}
        if {path: b.type for path, b in self._sums.items()} != types:
            self._sums = {path: Buffer(tuple(p.shape), p.dtype) for path, p in moved.items()}
            self._add, self._updates = None, {}
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

    def _added(self, *batch: Any) -> tuple[Any, Sequence[str], str]:
        """Adds a batch to the sums. Its other result, the paths of parameters that its loss does not depend on, and the loss's
        element type."""
        step = self._step

        def add(*args: Any, **kwargs: Any) -> Any:
            assert self._weights is not None
            weights = [self._weights[i] for i in range(self._weights.shape[0])]
            with normalised(self._share * 1, weights):
                loss, extra, gradients = step._gradients(*args, **kwargs)
            for path, buffer in self._sums.items():
                buffer.assign(buffer + gradients[path] * self._share.astype(buffer.dtype))
            self._loss.assign(self._loss + loss.astype("float64") * self._share)
            return loss, extra, tuple(sorted(gradients.unused)), str(loss.dtype)

        if self._add is None:
            self._add = self._compiled(add, batch)
        return self._add(*batch[0], **batch[1])[1:]  # a program has at least one result: the loss

    def _updated(self, unused: frozenset[str], dtype: str) -> tuple[Any, Any]:
        """The loss in its element type, and false if gradients overflowed, which changes no parameter. unused: the parameters
        that no batch's loss depends on."""
        step = self._step

        def update() -> tuple[Tensor, Tensor]:
            given = Gradients({path: buffer * 1 for path, buffer in self._sums.items()}, unused)
            finite = step._move(given)
            return (self._loss * 1).astype(dtype), finite

        if (unused, dtype) not in self._updates:
            self._updates[unused, dtype] = Jit(update, {}, (), opens=True)
        return self._updates[unused, dtype]()

    def _compiled(self, function: Any, batch: Batch) -> Jit:
        step = self._step
        given = bound(step.signature, *batch, getattr(step.loss, "__name__", "step"))
        return step._of_batches(function, given)
