"""Reductions of losses, which make parts of a batch, and batches of an epoch, add up to the overall mean.

A mean is a sum divided by a weight: the number of elements, or the sum of the targets' weights. `collecting` records both
for every loss that is reduced inside. For a batch in parts, `normalised` makes each part's loss its
contribution to the mean of the whole batch, so ignored targets and unequal parts give the same result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from burn.dialect.mlir import ir
from burn.tensors import Tensor
from burn.tensors.concatenation import where
from burn.tensors.promotion import lift
from burn.tensors.tracer import active


@dataclass(frozen=True)
class Mean:
    """A loss reduced to a mean. value: the loss layer's result; total, weight: float scalars, the mean is total / weight;
    sized: the weight depends on sizes alone."""

    value: Tensor
    total: Tensor
    weight: Tensor
    sized: bool


@dataclass
class Means:
    """The recorded means, in order. It excludes those inside of loops and branches, whose values do not exist
    outside. zero: a mean with weight 0 is 0 meanwhile, instead of NaN."""

    found: list[Mean] = field(default_factory=list)
    block: Any = None
    zero: bool = False

    def add(self, mean: Mean) -> None:
        if _is_here(self.block):
            self.found.append(mean)


@dataclass
class _Whole:
    """The whole batch of a part. share: the part's fraction of its rows; weights: those of the batch's means, in order."""

    share: Tensor
    weights: Sequence[Tensor]
    block: Any
    used: int = 0

    def divisor(self) -> Tensor | None:
        """The divisor of the next mean's total; None inside of a loop or branch."""
        if not _is_here(self.block) or self.used == len(self.weights):
            return None
        self.used += 1
        return self.weights[self.used - 1] * self.share


_listening: ContextVar[tuple[Means, ...]] = ContextVar("listening", default=())
_whole: ContextVar[_Whole | None] = ContextVar("whole", default=None)


def _block() -> Any:
    return None if active() is None else ir.InsertionPoint.current.block


def _is_here(block: Any) -> bool:
    """True if ops are being added to this block, or, for None, recorded."""
    here = _block()
    return here is block if here is None or block is None else here == block


@contextmanager
def collecting(zero: bool = False) -> Iterator[Means]:
    """Records every mean of a loss layer inside. zero: see `Means`."""
    means = Means(block=_block(), zero=zero)
    token = _listening.set((*_listening.get(), means))
    try:
        yield means
    finally:
        _listening.reset(token)


@contextmanager
def normalised(share: Tensor, weights: Sequence[Tensor]) -> Iterator[None]:
    """Makes loss layers inside return this part's contribution to the whole batch, divided by its fraction of the rows.
    weights: those of the whole batch's means, in order of computation."""
    token = _whole.set(_Whole(share, weights, _block()))
    try:
        yield
    finally:
        _whole.reset(token)


def mean(loss: Tensor) -> Tensor:
    """The mean over all elements."""
    if not _listening.get() and _whole.get() is None:
        return loss.mean()
    weight = lift(loss.size, "float64")
    return _mean(loss.sum(), weight, loss.mean(), sized=True)


def weighted(total: Tensor, weight: Tensor) -> Tensor:
    """total / weight, scalars; NaN where the weight is 0."""
    return _mean(total, weight, total / weight, sized=False)


def summed(loss: Tensor) -> Tensor:
    """The sum over all elements."""
    whole = _whole.get()
    total = loss.sum()
    if whole is None or not _is_here(whole.block):
        return total
    return total * (1.0 / whole.share).astype(total.dtype)


def _mean(total: Tensor, weight: Tensor, value: Tensor, sized: bool) -> Tensor:
    whole = _whole.get()
    divisor = None if whole is None else whole.divisor()
    if divisor is not None:
        value = total * (1.0 / divisor.astype("float64")).astype(total.dtype)
    if any(means.zero for means in _listening.get()):
        value = where(weight == 0, 0.0, value)
    for means in _listening.get():
        means.add(Mean(value, total, weight, sized))
    return value
