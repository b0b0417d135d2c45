"""Variance in one pass over memory: sums of squared deviations, formed together with the mean.

A variance has two stages: sum x, then sum the squared deviations from the mean. In blocks of rows the second need not
wait for the first. A block sums its deviations from its first row, and their squares, which gives the squared
deviations from the block's own mean. For any m

    sum of (x - m)^2 = sum over blocks of [ sum of (x - mean of the block)^2 + rows of the block * (mean of the block - m)^2 ]

No subtrahend exceeds the difference by more than a block's number of rows, so a float32 loses no significant digits.
Source: Chan, Golub and LeVeque, "Algorithms for computing the sample variance", 1983.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from burn.dialect.dims import Dim, LoopVar
from burn.kernels.body import (
    Apply,
    Const,
    Convert,
    Index,
    Reduced,
    Reduction,
    Rewriter,
    Scalar,
    Stage,
    identity,
    loop_atoms,
    own_dims,
    walk,
)

KINDS = ("float32", "float64")


Near = Callable[[Reduction], Scalar]
"""Returns the value that a reduction adds at the first row of a block."""


@dataclass(frozen=True)
class Variance:
    """The reduction `name` sums the squared deviations of the operand of the reduction `of` from `mean`."""

    name: str
    of: str
    mean: Scalar


@dataclass(frozen=True)
class Variances:
    each: tuple[Variance, ...]

    @property
    def names(self) -> set[str]:
        """The reductions whose operands' deviations are summed."""
        return {variance.of for variance in self.each}

    def in_block(
        self, formed: Sequence[Reduction], near: Near, rows: Dim, guarded: Callable[[Scalar, Scalar], Scalar]
    ) -> tuple[list[Reduction], dict[str, Scalar]]:
        """The reductions of a block of `rows` rows, made from the first stage's, and the block's partial results by
        name. `guarded`: guards a body with a replacement for rows that do not exist."""
        shifted = {s.of: s for s in self.each}
        made = [replace(r, body=guarded(r.body, identity_of(r))) for r in formed if r.name not in shifted]
        parts: dict[str, Scalar] = {r.name: Reduced(r.dtype, r.name) for r in formed}
        for r in formed:
            if variance := shifted.get(r.name):
                start = _finite(near(r))
                apart = _binary("sub", guarded(r.body, start), start)
                made += [replace(r, body=apart), Reduction(variance.name, "sum", r.dtype, _binary("mul", apart, apart))]
                total = parts[r.name]
                off = _binary("div", _binary("mul", total, total), _number(rows, r.dtype))
                parts[variance.name] = _binary("sub", Reduced(r.dtype, variance.name), off)
        return made, parts

    def combined(
        self, first: Sequence[Reduction], parts: Mapping[str, Scalar], near: Near, rows: Dim, read: Rewriter
    ) -> tuple[list[Reduction], list[Reduction]]:
        """Both stages' reductions over the blocks. `parts`: a block's partial results by name; `rows`: its number of
        rows."""
        shifted = {s.of: s for s in self.each}
        sums, further = [replace(r, body=parts[r.name]) for r in first if r.name not in shifted], []
        for r in first:
            if variance := shifted.get(r.name):
                start, count = _finite(near(r)), _number(rows, r.dtype)
                sums.append(replace(r, body=_binary("add", parts[r.name], _binary("mul", count, start))))
                mean = _binary("div", parts[r.name], count)  # relative to `start`, so that both keep their precision
                apart = _binary("add", _binary("sub", start, read(variance.mean)), mean)
                off = _binary("mul", count, _binary("mul", apart, apart))
                further.append(Reduction(variance.name, "sum", r.dtype, _binary("add", parts[variance.name], off)))
        return sums, further


def variances(first: Stage, second: Stage) -> Variances | None:
    """The second stage, if it only sums squared deviations from values that are invariant within a row."""
    if second.loops != first.loops or second.writes or not second.reductions:
        return None
    found = [_variance(r, first) for r in second.reductions]
    each = tuple(s for s in found if s is not None)
    alone = len({s.of for s in each}) == len(each)
    return Variances(each) if len(each) == len(found) and alone else None


def _variance(r: Reduction, first: Stage) -> Variance | None:
    body = r.body
    if r.kind != "sum" or r.dtype not in KINDS or not isinstance(body, Apply) or body.function != "mul":
        return None
    apart, again = body.args
    if apart is not again or not isinstance(apart, Apply) or apart.function != "sub":
        return None
    x, mean = apart.args
    of = next((s.name for s in first.reductions if s.kind == "sum" and s.dtype == r.dtype and s.body is x), None)
    return Variance(r.name, of, mean) if of is not None and not _depends(mean, first.loops) else None


def _depends(scalar: Scalar, loops: Sequence[LoopVar]) -> bool:
    return any(not loop_atoms(d).isdisjoint(loops) for node in walk(scalar) for d in own_dims(node))


def identity_of(r: Reduction) -> Scalar:
    """The identity element of a reduction."""
    return Const(r.body.dtype, identity(r.kind, r.body.dtype))


def _finite(scalar: Scalar) -> Scalar:
    """The value itself, or 0 instead of an infinity, because deviations from that would be NaN."""
    zero = Const(scalar.dtype, 0.0)
    known = Apply("bool", "eq", (_binary("sub", scalar, scalar), zero))
    return Apply(scalar.dtype, "select", (known, scalar, zero))


def _number(dim: Dim, dtype: str) -> Scalar:
    return Convert(dtype, Index("int64", dim))


def _binary(function: str, a: Scalar, b: Scalar) -> Scalar:
    return Apply(a.dtype, function, (a, b))
