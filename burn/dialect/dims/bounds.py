"""Proofs about sizes and indices, for all values that they may take.

A named size is at least 0; a loop variable is in its range. An expression with a loop variable is evaluated only inside
that loop, so its extent is at least 1. `Facts` collects the lower bounds that follow for the sizes in the extent.
Divisors are at least 1, or the quotient has no meaning.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from burn.dialect.dims.expression import Atom, Call, Dim, Expr, LoopVar, Monomial, plain, product, replace, terms

EFFORT = 300
"""The most replacements in one proof; longer proofs fail."""
WIDEST = 6
"""The most atoms in a monomial that is multiplied out."""

RELATIONS = ("==", "!=", "<=", "<", ">=", ">")


def non_negative(dim: Dim, *given: Dim) -> bool:
    """True if dim >= 0 is proven, given that each of `given` is at least 1."""
    return dim >= 0 if isinstance(dim, int) else _non_negative(plain(dim), tuple(map(plain, given)))


def at_most(dim: Dim, bound: Dim, *given: Dim) -> bool:
    """True if dim <= bound is proven, given that each of `given` is at least 1."""
    return non_negative(bound - dim, *given)


def decide(a: Dim, relation: str, b: Dim) -> bool | None:
    """True if the relation of a to b holds for all sizes, False if for none, None if it depends on them."""
    match relation:
        case "<=":
            return True if at_most(a, b) else False if at_most(b + 1, a) else None
        case "<":
            return decide(a + 1, "<=", b)
        case ">=":
            return decide(b, "<=", a)
        case ">":
            return decide(b + 1, "<=", a)
        case "==":
            if plain(a) == plain(b):
                return True
            return False if at_most(a + 1, b) or at_most(b + 1, a) else None
        case "!=":
            equal = decide(a, "==", b)
            return None if equal is None else not equal
    raise ValueError(f"there is no relation '{relation}'")


@lru_cache(maxsize=1 << 16)
def _non_negative(dim: Expr, given: tuple[Dim, ...]) -> bool:
    facts = Facts()
    facts.running(dim)
    for other in given:
        facts.running(other)
        facts.learn(other, 1)
    return facts.proves(dim)


class Facts:
    """Lower bounds of atoms, beyond the 0 that holds for every size."""

    def __init__(self) -> None:
        self.least: dict[Atom, int] = {}
        self._seen: set[LoopVar] = set()
        self._steps = 0

    # ---- collecting --------------------------------------------------------------------------------------------------
    def running(self, dim: Dim) -> None:
        """The extents of the loop variables in dim are at least 1."""
        for monomial, _ in terms(dim):
            for atom in monomial:
                if isinstance(atom, LoopVar) and atom not in self._seen:
                    self._seen.add(atom)
                    self.running(atom.extent)
                    self.learn(atom.extent, 1)
                elif isinstance(atom, Call):
                    for argument in atom.args:
                        self.running(argument)

    def learn(self, dim: Dim, bound: int) -> None:
        """Adds the bounds of atoms that follow from dim >= bound."""
        varying = [(m, c) for m, c in terms(dim) if m]
        if len(varying) != 1:
            return
        ((monomial, count),) = varying
        if count < 0:
            return
        constant = sum(c for m, c in terms(dim) if not m)
        least = -((constant - bound) // count)
        if least < 1 or (len(monomial) > 1 and not all(map(self.is_natural, monomial))):
            return
        for atom in monomial:
            self._learn(atom, least if len(monomial) == 1 else 1)

    def _learn(self, atom: Atom, bound: int) -> None:
        self.least[atom] = max(bound, self.least.get(atom, 0))
        if not isinstance(atom, Call):
            return
        match atom.op:
            case "min":
                for argument in atom.args:
                    self.learn(argument, bound)
            case "broadcast":  # a size of 0 among them would make it 0
                for argument in atom.args:
                    self.learn(argument, 1)
            case "max":
                larger = [a for a in atom.args if not isinstance(a, int) or a >= bound]
                if len(larger) == 1:
                    self.learn(larger[0], bound)
            case "floordiv":
                numerator, denominator = atom.args
                self.learn(numerator, bound * denominator if isinstance(denominator, int) else bound)

    # ---- proving -----------------------------------------------------------------------------------------------------
    def is_natural(self, atom: Atom) -> bool:
        """True if an atom is known to be at least 0."""
        if not isinstance(atom, Call) or atom.op == "mod" or atom in self.least:
            return True
        if atom.op == "floordiv":
            return self.proves(atom.args[0])
        return (any if atom.op == "max" else all)(self.proves(a) for a in atom.args)

    def proves(self, dim: Dim) -> bool:
        """True if dim >= 0 is proven."""
        if isinstance(dim, int):
            return dim >= 0
        self._steps += 1
        if self._steps > EFFORT:
            return False
        for atom in _bounded(dim):
            return self._at_ends(dim, atom)
        return self._dominated(dim) or self._without_quotient(dim)

    def _at_ends(self, dim: Expr, atom: LoopVar | Call) -> bool:
        """Proves dim with an atom at its worst: dim is linear in it, or monotonic in it."""
        signs = {c > 0 for m, c in dim.terms if atom in m}
        alone = all(m.count(atom) == 1 for m, _ in dim.terms if atom in m)
        known = all(self.is_natural(a) for m, _ in dim.terms if atom in m for a in m if a != atom)
        falls_or_grows = len(signs) == 1 and known
        if isinstance(atom, LoopVar) or atom.op == "mod":
            if not (alone or falls_or_grows):
                return False
            last = (atom.extent if isinstance(atom, LoopVar) else atom.args[1]) - 1
            ends = (0 if True in signs else last,) if falls_or_grows else (0, last)
            return all(self.proves(replace(dim, atom, end)) for end in ends)
        # its value equals one of the arguments, and min(a, b) is at most either
        one_is_enough = falls_or_grows and atom.op != "broadcast" and (True in signs) == (atom.op == "max")
        bounds = (self.proves(replace(dim, atom, argument)) for argument in atom.args)
        return any(bounds) if one_is_enough else all(bounds)

    def _without_quotient(self, dim: Expr) -> bool:
        """Proves dim times d for a term c * (n // d): (n - d + 1) / d <= n // d <= n / d."""
        for monomial, count in dim.terms:
            if len(monomial) != 1 or not isinstance(monomial[0], Call) or monomial[0].op != "floordiv":
                continue
            numerator, denominator = monomial[0].args
            if isinstance(denominator, int) and denominator > 0:
                rest = (dim - Expr({monomial: count})) * denominator
                bound = numerator if count < 0 else numerator - (denominator - 1)
                return self.proves(rest + bound * count)
        return False

    def _dominated(self, dim: Expr) -> bool:
        """True if larger positive terms outweigh every negative term."""
        negative = [(m, -c) for m, c in dim.terms if c < 0]
        if not all(self.is_natural(atom) for monomial, _ in dim.terms for atom in monomial):
            return False
        if not negative:
            return True
        return self._matched(negative, [(m, c) for m, c in dim.terms if c > 0]) or self._shifted(dim)

    def _matched(self, negative: list[tuple[Monomial, int]], positive: list[tuple[Monomial, int]]) -> bool:
        """c * m <= k * m * rest if k * (the lower bound of rest) is at least c; each positive term is used once."""
        left = dict(positive)
        for monomial, count in negative:
            for larger in sorted(left, key=len):
                scale = self._ratio(larger, monomial)
                if not scale:
                    continue
                spent = min(left[larger], -(-count // scale))
                left[larger] -= spent
                count -= spent * scale
                if count <= 0:
                    break
            if count > 0:
                return False
        return True

    def _ratio(self, larger: Monomial, smaller: Monomial) -> int:
        """A lower bound of the quotient of two monomials; 0 if there is none."""
        rest = list(larger)
        for atom in smaller:
            if atom not in rest:
                return 0
            rest.remove(atom)
        result = 1
        for atom in rest:
            result *= self.least.get(atom, 0)
        return result

    def _shifted(self, dim: Expr) -> bool:
        """Proves the same with every atom as its lower bound plus a natural number: (n - 1) * (m - 1)."""
        bounded = [atom for atom in _distinct(dim.terms) if self.least.get(atom, 0)]
        if not bounded or max(len(m) for m, _ in dim.terms) > WIDEST:
            return False
        shifted: Dim = 0
        for monomial, count in dim.terms:
            shifted = shifted + product([count, *(Expr.of(a) + self.least.get(a, 0) for a in monomial)])
        return all(count >= 0 for _, count in terms(shifted))


def _bounded(dim: Expr) -> Iterable[LoopVar | Call]:
    """Atoms with two bounds, or with a choice of values."""
    for monomial, _ in dim.terms:
        for atom in monomial:
            if isinstance(atom, LoopVar) or (isinstance(atom, Call) and atom.op != "floordiv"):
                yield atom


def _distinct(pairs: Iterable[tuple[Monomial, int]]) -> list[Atom]:
    return list(dict.fromkeys(atom for monomial, _ in pairs for atom in monomial))
