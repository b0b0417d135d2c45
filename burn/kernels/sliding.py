"""Sliding windows in loop kernels: index maps that read a position `stride * moving + dilation * tap`.

A convolution reads its input at such positions, and its weight at the tap alone. `slides` finds these pairs of loops in a
scalar body, and rewrites the body to read the position as a loop variable of its own. Iterations with equal positions then
read equal expressions, so a back end can load an element once for all windows that it belongs to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import gcd

from burn.dialect.dims import Call, Dim, Expr, LoopVar, atoms, coefficient, estimate, exact_div, substitute, terms
from burn.kernels.body import Fetched, Rewriter, Scalar, own_dims, walk


@dataclass(frozen=True)
class Slide:
    """One axis of a window: the body reads `position` = stride * moving + dilation * tap, and the tap alone."""

    moving: LoopVar
    tap: LoopVar
    position: LoopVar
    stride: int
    dilation: int

    @property
    def reached(self) -> Dim:
        """The position of an iteration of both loops."""
        return Expr.of(self.moving) * self.stride + Expr.of(self.tap) * self.dilation

    @property
    def sharing(self) -> float:
        """The number of windows that an element belongs to, if both loops are long; at most 1 if windows do not overlap."""
        return estimate(self.moving.extent) * estimate(self.tap.extent) / max(1, estimate(self.position.extent))


def slides(body: Scalar, moving: Sequence[LoopVar], taps: Sequence[LoopVar]) -> tuple[Scalar, tuple[Slide, ...]]:
    """The body over positions, and its sliding axes: pairs of a loop of `moving` and one of `taps` with a known extent, whose
    windows overlap. No pairs if indices are read from data."""
    dims = [d for node in walk(body) for d in own_dims(node)]
    if any(isinstance(atom, Fetched) for d in dims for atom in atoms(d)):
        return body, ()
    found: list[Slide] = []
    for tap in taps:
        if not isinstance(tap.extent, int) or tap.extent < 2:
            continue
        free = [loop for loop in moving if all(loop != slide.moving for slide in found)]
        candidates = [slide for loop in free if (slide := _slide(dims, loop, tap)) is not None]
        best = max(candidates, key=lambda slide: slide.sharing, default=None)
        if best is not None and best.sharing > 1:
            found.append(best)
            body = Rewriter(partial(_over_position, best))(body)
            dims = [d for node in walk(body) for d in own_dims(node)]
    return body, tuple(found)


def _over_position(slide: Slide, dim: Dim) -> Dim:
    made = _at_position(dim, slide)
    return dim if made is None else made


def _slide(dims: Iterable[Dim], moving: LoopVar, tap: LoopVar) -> Slide | None:
    """The slide by which every index that depends on both loops depends on them only through the position."""
    both = [d for d in dims if {moving, tap} <= atoms(d)]
    assert isinstance(tap.extent, int)
    for stride, dilation in dict.fromkeys(pair for d in both for pair in _steps(d, moving, tap)):
        length = (moving.extent - 1) * stride + (dilation * (tap.extent - 1) + 1)
        slide = Slide(moving, tap, LoopVar(f"{moving.name}{tap.name}", length), stride, dilation)
        if all(_at_position(d, slide) is not None for d in both):
            return slide
    return None


def _steps(dim: Dim, moving: LoopVar, tap: LoopVar) -> Iterator[tuple[int, int]]:
    """Candidates for (stride, dilation), also from the arguments of quotients and remainders."""
    a, b = coefficient(dim, moving), coefficient(dim, tap)
    if isinstance(a, int) and isinstance(b, int):
        if a > 0 and b > 0:
            yield a // gcd(a, b), b // gcd(a, b)
    elif a is not None and b is not None and a != 0 and b != 0:
        for large, small, many in ((a, b, True), (b, a, False)):
            ratio = exact_div(large, small)
            if isinstance(ratio, int) and ratio > 0:
                yield (ratio, 1) if many else (1, ratio)
    else:
        for monomial, _ in terms(dim):
            for atom in monomial:
                if isinstance(atom, Call):
                    for argument in atom.args:
                        yield from _steps(argument, moving, tap)


def _at_position(dim: Dim, slide: Slide) -> Dim | None:
    """The expression over the position; None if it depends on the loops in another way, or not on both."""
    if not {slide.moving, slide.tap} <= atoms(dim):
        return None
    position = Expr.of(slide.position)
    if slide.stride == 1:
        made = substitute(dim, {slide.moving: position, slide.tap: 0})
    elif slide.dilation == 1:
        made = substitute(dim, {slide.moving: 0, slide.tap: position})
    else:
        step = coefficient(dim, slide.moving)
        each = None if step is None else exact_div(step, slide.stride)
        if each is None:
            return None
        made = substitute(dim, {slide.moving: 0, slide.tap: 0}) + position * each
    return made if substitute(made, {slide.position: slide.reached}) == dim else None
