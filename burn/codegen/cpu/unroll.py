"""Unrolled reduction loops: an iteration takes several elements and computes their addresses once."""

from __future__ import annotations

from collections.abc import Callable

from burn.codegen.cpu.scalars import ScalarEmitter
from burn.codegen.host.emit import Function, Int, Value

Body = Callable[[Int, int, list[Value]], list[Value]]
"""Prints one iteration: given the unrolled iteration's first index, the offset in it, and the accumulators so far."""


def unrolled(
    emitter: ScalarEmitter,
    start: Int,
    stop: Int,
    together: int,
    sums: list[Value],
    body: Body,
    ragged: bool = True,
    before: Callable[[Int], None] = lambda first: None,
) -> list[Value]:
    """The accumulators after a range. together: the unroll factor; ragged: a remainder may exist; before: printed
    before an unrolled iteration, given its first index."""
    code = emitter.code
    length = code.sub(stop, start)
    ragged = ragged and (length % together != 0 if isinstance(length, int) else together > 1)
    whole = code.add(start, code.mul(code.udiv(length, together), together)) if ragged else stop
    with code.for_(start, whole, together, sums) as loop, emitter.scope():
        before(loop.iv)
        sums = loop.carried
        for offset in range(together):
            sums = body(loop.iv, offset, sums)
        loop.yield_(*sums)
    if not ragged:
        return loop.results
    with code.for_(whole, stop, 1, loop.results) as rest, emitter.scope():
        rest.yield_(*body(rest.iv, 0, rest.carried))
    return rest.results


def behind(code: Function, first: Int, offset: int, step: Int) -> Int:
    """The distance of an unrolled element from a range's start, if elements are a step apart."""
    return code.add(code.mul(first, step), code.mul(offset, step))
