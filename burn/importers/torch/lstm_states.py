"""Shapes of an LSTM's last states, as torch's releases up to 2.11 describe them, mended. Enter at `sized_states`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torch import Tensor
from torch._decomp import decompositions


@contextmanager
def sized_states() -> Iterator[None]:
    """The last states of a layer have the shapes of the first ones. In torch's own function, by which it describes results, they
    have an axis too many up to release 2.11: it squeezes axis 1 where axis 0 is meant."""
    described = decompositions.one_layer_lstm

    def sized(x: Any, states: Sequence[Tensor], *rest: Any, **named: Any) -> Any:
        y, last = described(x, states, *rest, **named)
        return y, tuple(new.reshape(first.shape) for new, first in zip(last, states, strict=True))

    decompositions.one_layer_lstm = sized
    try:
        yield
    finally:
        decompositions.one_layer_lstm = described
