"""Which elements dropout keeps: `RandomKept`.

One call of the cipher (`threefry`) gives 64 bits, which several elements share. An element's bits depend on its row (the index of
all axes but the last) and on its index k in the last axis. Elements k, k ^ 1, k ^ 8 and k ^ 9 share a call, with 16 bits each, or
k and k ^ 8, with 32 bits each, if 16 bits are too coarse for the rate. A GPU's thread has such elements of a tensor core's result
(PTX ISA, matrix fragments of 16 bits), so that it calls the cipher once for several of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from burn.dialect import ops
from burn.dialect.compose import broadcast_to, number, reshape
from burn.dialect.dims import Dim, ceildiv, exact_div, product
from burn.dialect.mlir import ir
from burn.dialect.op import Op, Operand
from burn.dialect.random import check_key, element, threefry, words
from burn.dialect.types import TensorType

GROUP = 16
"""Neighbours whose bits come from the same few calls; a row begins with a group of its own."""

CONSTANT = "random_kept_constant"
"""The feature of a draw without random numbers, or of a scalar. No back end has a kernel for it."""

COARSE = 0.01
"""The least rate, and the least rate of kept elements, for which 16 bits are enough: it is met to 1 in 1,000."""


@dataclass(frozen=True)
class Draws:
    """How the bits of a call are divided: bits for each element, and the calls for a group."""

    bits: int

    @classmethod
    def of(cls, rate: float) -> Draws:
        return cls(16 if COARSE <= rate <= 1 - COARSE else 32)

    @property
    def calls(self) -> int:
        return GROUP * self.bits // 64

    def threshold(self, rate: float) -> int:
        """An element whose bits are at least this number is kept. 0 < rate < 1: some are kept, and some are not."""
        return min(max(round(rate * 2**self.bits), 1), 2**self.bits - 1)


def calls_of_row(draws: Draws, columns: Dim) -> Dim:
    return ceildiv(columns, GROUP) * draws.calls


def share(rate: float) -> float:
    """The factor of kept elements: 1 / (1 - rate); 0 if none is kept."""
    return 0.0 if rate == 1 else 1 / (1 - rate)


class RandomKept(Op, name="random_kept"):
    """True for elements that dropout keeps: each with probability 1 - rate. Shapes: key [2] uint32 -> shape; bool."""

    key: Operand
    shape: tuple[Dim, ...]
    rate: float

    @classmethod
    def infer(cls, key: TensorType, shape: tuple[Dim, ...], rate: float) -> TensorType:
        check_key(cls, key)
        if not 0 <= rate <= 1:
            cls.fail(f"the rate is a probability, not {rate}", "rate")
        return TensorType("bool", shape)

    def kernel_features(self) -> tuple[str, ...]:
        return () if self.shape and 0 < self.rate < 1 else (CONSTANT,)

    @classmethod
    def decompose(cls, key: ir.Value, shape: tuple[Dim, ...], rate: float) -> ir.Value:
        if rate in (0, 1):
            return ops.full(shape=shape, dtype="bool", value=1.0 - rate)
        draws = Draws.of(rate)
        if not shape:
            return reshape(ops.random_kept(key, shape=(1,), rate=rate), ())
        first, second = _words(key, shape, draws)
        column = ops.iota(shape=shape, axis=len(shape) - 1, dtype="uint32")
        zero = number(0, "uint32")
        word = ops.select(ops.eq(ops.and_(column, number(8, "uint32")), zero), first, second)
        if draws.bits == 16:
            parts = ops.and_(word, number(0xFFFF, "uint32")), ops.shift_right(word, number(16, "uint32"))
            word = ops.select(ops.eq(ops.and_(column, number(1, "uint32")), zero), *parts)
        return ops.ge(word, number(draws.threshold(rate), "uint32"))


def _words(key: ir.Value, shape: tuple[Dim, ...], draws: Draws) -> tuple[ir.Value, ...]:
    """The two words of the call of every element."""
    *lead, columns = shape
    rows, groups = product(lead), ceildiv(columns, GROUP)
    count = rows * groups * draws.calls
    dtype = "uint32" if isinstance(count, int) and count < 2**32 else "uint64"
    call = ops.iota(shape=(count,), axis=0, dtype=dtype)
    high, low = words(call) if dtype == "uint64" else (number(0, dtype), call)
    found = []
    for word in threefry(element(key, 0), element(key, 1), low, high):
        # a column in its group is 8 * second word + 2 * call + odd, or 8 * second word + call
        apart = reshape(word, (rows, groups, 1, draws.calls, 1))
        spread = broadcast_to(apart, (rows, groups, 2, draws.calls, 8 // draws.calls))
        spread = reshape(spread, (*lead, groups * GROUP))
        if exact_div(columns, GROUP) is None:
            spread = ops.slice(spread, starts=(0,) * len(shape), sizes=shape, steps=(1,) * len(shape))
        found.append(spread)
    return tuple(found)
