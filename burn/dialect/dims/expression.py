"""Polynomials over sizes and loop variables, in one normal form."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from functools import reduce as fold_left

from burn.errors import WrongArgument


@dataclass(frozen=True)
class Symbol:
    """A named size, at least 0, whose value is known at run time."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class LoopVar:
    """A loop's induction variable: 0 <= v < extent. It is only evaluated inside the loop, so the extent is at least 1."""

    name: str
    extent: Dim

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Call:
    """`floordiv(a, b)` or `mod(a, b)` for b >= 1, `min(...)`, `max(...)`, or `broadcast(...)`: the size that sizes
    which are equal or 1 broadcast to."""

    op: str
    args: tuple[Dim, ...]

    @cached_property
    def _text(self) -> str:
        if self.op not in ("floordiv", "mod"):
            return f"{self.op}({', '.join(map(str, self.args))})"
        left, right = (f"({a})" if isinstance(a, Expr) and not a.is_symbol else str(a) for a in self.args)
        return f"({left} {'//' if self.op == 'floordiv' else '%'} {right})"

    @cached_property
    def _hash(self) -> int:
        return hash((self.op, self.args))

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return self._text


Atom = Symbol | LoopVar | Call
Monomial = tuple[Atom, ...]


@lru_cache(maxsize=1 << 16)
def _order(monomial: Monomial) -> tuple[int, str]:
    return (-len(monomial), "*".join(map(str, monomial)))


def _by_order(term: tuple[Monomial, int]) -> tuple[int, str]:
    return _order(term[0])


DIVISION: dict[str, Callable[[Dim, Dim], Dim]] = {}
"""`//` and `%`, set by `division`, which simplifies them by proofs about polynomials."""


class Expr:
    """A polynomial: a sum of `coefficient * atom * atom ...` in a fixed order. Immutable; build with the operators."""

    __slots__ = ("_hash", "terms")
    terms: tuple[tuple[Monomial, int], ...]

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        self.terms = tuple(sorted(((m, c) for m, c in terms.items() if c), key=_by_order))
        self._hash = hash(self.terms)

    @staticmethod
    def of(atom: Atom) -> Expr:
        return Expr({(atom,): 1})

    @property
    def is_symbol(self) -> bool:
        """True if this is one atom that prints as a name."""
        return (
            len(self.terms) == 1
            and self.terms[0][1] == 1
            and len(self.terms[0][0]) == 1
            and not isinstance(self.terms[0][0][0], Call)
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expr) and self._hash == other._hash and self.terms == other.terms

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"Expr({self})"

    def __str__(self) -> str:
        text = ""
        for monomial, coefficient in self.terms:
            factors = [str(atom) for atom in monomial]
            if abs(coefficient) != 1 or not factors:
                factors.insert(0, str(abs(coefficient)))
            sign = ("-" if coefficient < 0 else "") if not text else (" - " if coefficient < 0 else " + ")
            text += sign + "*".join(factors)
        return text

    def __add__(self, other: Dim) -> Dim:
        if not isinstance(other, (int, Expr)):
            return NotImplemented
        if other == 0 and type(self) is Expr:
            return self
        sums = dict(self.terms)
        for monomial, coefficient in terms(other):
            sums[monomial] = sums.get(monomial, 0) + coefficient
        return normal(sums)

    def __neg__(self) -> Dim:
        return self * -1

    def __sub__(self, other: Dim) -> Dim:
        return self + other * -1 if isinstance(other, (int, Expr)) else NotImplemented

    def __rsub__(self, other: Dim) -> Dim:
        return self * -1 + other

    def __mul__(self, other: Dim) -> Dim:
        if not isinstance(other, (int, Expr)):
            return NotImplemented
        if isinstance(other, int):
            if other == 1 and type(self) is Expr:
                return self
            return Expr({m: c * other for m, c in self.terms}) if other else 0
        terms_of: dict[Monomial, int] = {}
        for a, x in self.terms:
            for b, y in other.terms:
                monomial = tuple(sorted(a + b, key=str))
                terms_of[monomial] = terms_of.get(monomial, 0) + x * y
        return normal(terms_of)

    __radd__ = __add__
    __rmul__ = __mul__

    def __floordiv__(self, other: Dim) -> Dim:
        return DIVISION["floordiv"](self, other) if isinstance(other, (int, Expr)) else NotImplemented

    def __rfloordiv__(self, other: int) -> Dim:
        return DIVISION["floordiv"](other, self)

    def __mod__(self, other: Dim) -> Dim:
        return DIVISION["mod"](self, other) if isinstance(other, (int, Expr)) else NotImplemented

    def __rmod__(self, other: int) -> Dim:
        return DIVISION["mod"](other, self)


Dim = int | Expr


def symbol(name: str) -> Expr:
    if not name.isidentifier():
        raise ValueError(f"a size's name must be an identifier, not {name!r}")
    return Expr.of(Symbol(name))


def plain(dim: Dim) -> Dim:
    """A size as the compiler uses it; `burn.Dim`, the user-facing class, is a kind of Expr that refuses comparisons."""
    if type(dim) is int or type(dim) is Expr:
        return dim
    if not isinstance(dim, Expr):
        try:
            return operator.index(dim)
        except TypeError:
            raise WrongArgument("a size is an integer", [f"not {dim!r:.80}"]) from None
    made = Expr.__new__(Expr)
    made.terms, made._hash = dim.terms, dim._hash
    return made


def product(dims: Iterable[Dim]) -> Dim:
    return fold_left(lambda a, b: a * b, dims, 1)


# ---- terms -------------------------------------------------------------------------------------------------------------


def terms(dim: Dim) -> Iterable[tuple[Monomial, int]]:
    return dim.terms if isinstance(dim, Expr) else (((), dim),)


def normal(sums: dict[Monomial, int]) -> Dim:
    """The size for a sum of terms."""
    for monomial in sums:
        for atom in monomial:
            if type(atom) is Call and atom.op == "mod":
                return _normal(_joined(sums))
    return _normal(sums)


def _normal(sums: Mapping[Monomial, int]) -> Dim:
    for monomial, coefficient in sums.items():
        if coefficient and monomial:
            return Expr(sums)
    return sums.get((), 0)


def _joined(sums: dict[Monomial, int]) -> dict[Monomial, int]:
    """Rewrites (x // s) * s + x % s to x, also if x is itself y // t and x // s has the form y // (t * s)."""
    for monomial, count in sums.items():
        for at, atom in enumerate(monomial):
            if not isinstance(atom, Call) or atom.op != "mod" or not count:
                continue
            x, s = atom.args
            if isinstance(s, Expr) and len(s.terms) > 1:
                continue
            rest = (*monomial[:at], *monomial[at + 1 :])
            (scale, factor), *_ = terms(s)
            for quotient in _quotients(x, s):
                partner = tuple(sorted((*rest, quotient, *scale), key=str))
                if sums.get(partner) == count * factor:
                    left = {m: c for m, c in sums.items() if m not in (monomial, partner)}
                    whole = product([count, *(Expr.of(a) for a in rest), x])
                    for m, c in terms(whole):
                        left[m] = left.get(m, 0) + c
                    return _joined(left)
    return sums


def _quotients(x: Dim, s: Dim) -> list[Call]:
    """The forms that x // s may have."""
    found = [Call("floordiv", (x, s))]
    if isinstance(x, Expr) and len(x.terms) == 1 and x.terms[0][1] == 1 and len(x.terms[0][0]) == 1:
        inner = x.terms[0][0][0]
        if isinstance(inner, Call) and inner.op == "floordiv":
            found.append(Call("floordiv", (inner.args[0], inner.args[1] * s)))
    return found


def remove(monomial: Monomial, divisor: Monomial) -> Monomial | None:
    """The other atoms of a monomial if it contains all of the divisor's, else None."""
    rest = list(monomial)
    for atom in divisor:
        if atom not in rest:
            return None
        rest.remove(atom)
    return tuple(rest)


def replace(dim: Expr, atom: Atom, value: Dim) -> Dim:
    result: Dim = 0
    for monomial, count in dim.terms:
        if atom in monomial:
            result = result + product([count, *(value if a == atom else Expr.of(a) for a in monomial)])
        else:
            result = result + Expr({monomial: count}) if monomial else result + count
    return result
