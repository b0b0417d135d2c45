"""How losses become one number, so that parts of a batch, and batches of an epoch, add up to the mean of all of it.

A mean is a sum divided by a weight: the number of elements, or the weights of the targets that count. `collecting` records both
for every loss that is reduced inside. Where a batch is taken in parts, `normalised` makes each part's loss what the part
contributes to the mean of the whole batch, so that ignored targets and parts of unequal size change nothing.
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
    """A loss that was reduced to a mean. value: what the loss layer returned; total, weight: the mean is total / weight, float
    scalars; sized: whether the weight follows from the sizes of tensors alone."""

    value: Tensor
    total: Tensor
    weight: Tensor
    sized: bool


@dataclass
class Means:
    """The means that were computed while this was listening, in order; those inside of loops and branches are not among them, as
    their values do not exist outside. zero: whether a mean of nothing is 0 meanwhile, and not NaN."""

    found: list[Mean] = field(default_factory=list)
    block: Any = None
    zero: bool = False

    def add(self, mean: Mean) -> None:
        if _is_here(self.block):
            self.found.append(mean)


@dataclass
class _Whole:
    """The batch that a part is of. share: the part's share of its rows; weights: those of the batch's means, in order."""

    share: Tensor
    weights: Sequence[Tensor]
    block: Any
    used: int = 0

    def divisor(self) -> Tensor | None:
        """What the next mean's total is divided by; None inside of a loop or branch."""
        if not _is_here(self.block) or self.used == len(self.weights):
            return None
        self.used += 1
        return self.weights[self.used - 1] * self.share


_listening: ContextVar[tuple[Means, ...]] = ContextVar("listening", default=())
_whole: ContextVar[_Whole | None] = ContextVar("whole", default=None)


def _block() -> Any:
    return None if active() is None else ir.InsertionPoint.current.block


def _is_here(block: Any) -> bool:
    """Whether ops are added to a block, or, for None, recorded."""
    here = _block()
    return here is block if here is None or block is None else here == block


@contextmanager
def collecting(zero: bool = False) -> Iterator[Means]:
    """Inside, every mean of a loss layer is recorded. zero: see `Means`."""
    means = Means(block=_block(), zero=zero)
    token = _listening.set((*_listening.get(), means))
    try:
        yield means
    finally:
        _listening.reset(token)


@contextmanager
def normalised(share: Tensor, weights: Sequence[Tensor]) -> Iterator[None]:
    """Inside, a loss layer returns what this part contributes to the whole batch, divided by the part's share of the rows.
    weights: of the whole batch's means, in the order in which they are computed."""
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
