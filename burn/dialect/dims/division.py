"""Quotients, remainders and extremes, simplified where a range can be proven."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from math import gcd

from burn.dialect.dims.bounds import non_negative
from burn.dialect.dims.expression import DIVISION, Call, Dim, Expr, Monomial, normal, plain, remove, terms

_REMEMBERED = 1 << 15


def floordiv(a: Dim, b: Dim) -> Dim:
    """a // b for b > 0, rounding down."""
    return _floordiv(plain(a), plain(b))


def mod(a: Dim, b: Dim) -> Dim:
    """a - b * (a // b), in [0, b) for b > 0."""
    return _mod(plain(a), plain(b))


DIVISION.update(floordiv=floordiv, mod=mod)


@lru_cache(_REMEMBERED)
def _floordiv(a: Dim, b: Dim) -> Dim:
    quotient, remainder = _divide(a, b)
    if _within(remainder, b):
        return quotient
    if isinstance(remainder, int) and isinstance(b, int):
        return quotient + remainder // b
    common, coarse, _ = _common_factor(remainder, b)
    if common > 1:  # (g * x + y) // (g * z) = x // z for 0 <= y < g
        return quotient + floordiv(coarse, b // common)
    return quotient + Expr.of(Call("floordiv", (remainder, b)))


@lru_cache(_REMEMBERED)
def _mod(a: Dim, b: Dim) -> Dim:
    _, remainder = _divide(a, b)
    if _within(remainder, b):
        return remainder
    if isinstance(remainder, int) and isinstance(b, int):
        return remainder % b
    common, coarse, fine = _common_factor(remainder, b)
    if common > 1:
        return common * mod(coarse, b // common) + fine
    return Expr.of(Call("mod", (remainder, b)))


def _within(dim: Dim, bound: Dim) -> bool:
    """True if 0 <= dim < bound is proven; bound is a divisor, so at least 1."""
    return non_negative(dim, bound) and non_negative(bound - 1 - dim, bound)


def _common_factor(dim: Dim, b: Dim) -> tuple[int, Dim, Dim]:
    """(g, x, y) with dim = g * x + y, 0 <= y < g, where g > 1 divides b; g = 1 if there is none."""
    if not isinstance(b, int) or isinstance(dim, int):
        return 1, dim, 0
    for common in sorted({gcd(c, b) for _, c in dim.terms if gcd(c, b) > 1}, reverse=True):
        coarse = normal({m: c // common for m, c in dim.terms if c % common == 0})
        fine = normal({m: c for m, c in dim.terms if c % common})
        if coarse != 0 and _within(fine, common):
            return common, coarse, fine
    return 1, dim, 0


def ceildiv(a: Dim, b: Dim) -> Dim:
    return floordiv(a + (b - 1), b)


def exact_div(a: Dim, b: Dim) -> Dim | None:
    """a / b if it divides exactly as polynomials, else None; 0 divides nothing."""
    a, b = plain(a), plain(b)
    if b == 0:
        return None
    if a == b:
        return 1
    quotient, remainder = _divide(a, b)
    return quotient if remainder == 0 else None


def factor(size: Dim) -> int:
    """A number that divides a size and is no larger, unless the size is 0."""
    return size if isinstance(size, int) else gcd(*(count for _, count in size.terms))


def _divide(a: Dim, b: Dim) -> tuple[Dim, Dim]:
    """(q, r) with a == q * b + r; q takes every term that b divides."""
    if b == 0:
        raise ZeroDivisionError("division of a size by zero")
    if isinstance(b, int) and isinstance(a, int):
        return a // b, a % b
    if isinstance(b, Expr) and len(b.terms) > 1:
        return (1, 0) if a == b else _divide_long(a, b)
    (divisor, factor), *_ = terms(b)
    quotient: dict[Monomial, int] = {}
    remainder: dict[Monomial, int] = {}
    for monomial, coefficient in terms(a):
        rest = remove(monomial, divisor)
        if rest is not None and coefficient % factor == 0:
            quotient[rest] = coefficient // factor
        elif rest is not None and monomial == () and isinstance(b, int):
            quotient[()] = coefficient // factor
            remainder[()] = coefficient % factor
        else:
            remainder[monomial] = coefficient
    return normal(quotient), normal(remainder)


def _divide_long(a: Dim, b: Expr) -> tuple[Dim, Dim]:
    """Long division by b's leading term; either exact or nothing (q = 0, r = a)."""
    quotient: Dim = 0
    rest: Dim = a
    lead, factor = b.terms[0]
    for _ in range(8):
        if rest == 0:
            return quotient, 0
        monomial, coefficient = next(iter(terms(rest)))
        left = remove(monomial, lead)
        if left is None or coefficient % factor:
            break
        step = normal({left: coefficient // factor})
        quotient, rest = quotient + step, rest - step * b
    return (quotient, 0) if rest == 0 else (0, a)


# ---- extremes ----------------------------------------------------------------------------------------------------------


def dim_max(*dims: Dim) -> Dim:
    return _extreme("max", tuple(map(plain, dims)))


def dim_min(*dims: Dim) -> Dim:
    return _extreme("min", tuple(map(plain, dims)))


@lru_cache(_REMEMBERED)
def _extreme(op: str, dims: tuple[Dim, ...]) -> Dim:
    kept: list[Dim] = []
    for dim in _parts(op, dims):
        if dim in kept:
            continue
        better = non_negative if op == "max" else (lambda d: non_negative(d * -1))
        if any(better(other - dim) for other in kept):
            continue
        kept = [other for other in kept if not better(dim - other)] + [dim]
    return kept[0] if len(kept) == 1 else Expr.of(Call(op, tuple(sorted(kept, key=str))))


def dim_broadcast(*dims: Dim) -> Dim:
    """The size that axes of these sizes broadcast to: they are equal, except for sizes of 1. A number other than 1
    decides; n decides over min(512, n). The program checks the others at run time. Raises ValueError for two different
    such numbers."""
    parts = [d for d in dict.fromkeys(_parts("broadcast", tuple(map(plain, dims)))) if d != 1]
    parts = [d for d in parts if not any(_is_cut(d, other) for other in parts)]
    numbers = sorted(d for d in parts if isinstance(d, int))
    if len(numbers) > 1:
        raise ValueError(f"sizes {numbers} do not broadcast")
    if numbers or len(parts) < 2:
        return (numbers or parts or [1])[0]
    return Expr.of(Call("broadcast", tuple(sorted(parts, key=str))))


def _is_cut(dim: Dim, other: Dim) -> bool:
    """True if a size is the minimum of another one and of numbers of at least 1: if it is smaller and still broadcasts,
    it is 1."""
    parts = tuple(_parts("min", (dim,)))
    rest = [d for d in parts if d != other]
    return len(rest) < len(parts) and bool(rest) and all(isinstance(d, int) and d >= 1 for d in rest)


def _parts(op: str, dims: Iterable[Dim]) -> Iterable[Dim]:
    """The dims, with nested calls of this op flattened."""
    for dim in dims:
        if isinstance(dim, Expr) and len(dim.terms) == 1:
            ((monomial, count),) = dim.terms
            if count == 1 and len(monomial) == 1 and isinstance(monomial[0], Call) and monomial[0].op == op:
                yield from monomial[0].args
                continue
        yield dim
