"""Traversals and rewrites of expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from functools import reduce as fold_left
from typing import TypeVar

from burn.dialect.dims.division import dim_broadcast, dim_max, dim_min, floordiv, mod
from burn.dialect.dims.expression import Atom, Call, Dim, Expr, LoopVar, Symbol, normal, remove, terms

T = TypeVar("T")


def interpret(dim: Dim, leaf: Callable[[Atom], T], const: Callable[[int], T], op: Callable[[str, T, T], T]) -> T:
    """Folds an expression bottom-up with binary ops `add mul floordiv mod min max broadcast`."""
    if isinstance(dim, int):
        return const(dim)
    total: T | None = None
    for monomial, coefficient in dim.terms:
        value: T | None = None
        for atom in monomial:
            if isinstance(atom, Call):
                parts = [interpret(a, leaf, const, op) for a in atom.args]
                factor = fold_left(lambda x, y, name=atom.op: op(name, x, y), parts)
            else:
                factor = leaf(atom)
            value = factor if value is None else op("mul", value, factor)
        if value is None:
            value = const(coefficient)
        elif coefficient != 1:
            value = op("mul", value, const(coefficient))
        total = value if total is None else op("add", total, value)
    assert total is not None
    return total


_OPS: dict[str, Callable[[Dim, Dim], Dim]] = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "floordiv": floordiv,
    "mod": mod,
    "min": dim_min,
    "max": dim_max,
    "broadcast": dim_broadcast,
}


def _broadcast(a: int, b: int) -> int:
    if a != b and 1 not in (a, b):
        raise ValueError(f"sizes {[a, b]} do not broadcast")
    return b if a == 1 else a


_NUMBERS: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "min": min,
    "max": max,
    "broadcast": _broadcast,
}


def substitute(dim: Dim, values: Mapping[Atom, Dim]) -> Dim:
    """Replaces atoms and simplifies the result. Extents of loop variables stay unchanged."""
    if isinstance(dim, int):
        return dim
    return interpret(
        dim, lambda a: values[a] if a in values else Expr.of(a), lambda c: c, lambda n, a, b: _OPS[n](a, b)
    )


def evaluate(dim: Dim, sizes: Mapping[str, int]) -> int:
    """The value for given sizes. Raises KeyError for a size that is not given, ValueError for sizes that do not broadcast, and
    ZeroDivisionError."""
    if isinstance(dim, int):
        return dim
    missing = symbols(dim) - sizes.keys()
    if missing or any(isinstance(atom, LoopVar) for atom in atoms(dim)):
        raise KeyError(", ".join(sorted(missing)) or str(dim))
    return interpret(dim, lambda a: sizes[a.name], lambda c: c, lambda n, a, b: _NUMBERS[n](a, b))  # type: ignore[union-attr]


TYPICAL = 64
"""The value that stands for a named size without a hint when the compiler makes a choice."""


def estimate(dim: Dim, typical: int = TYPICAL) -> int:
    """An estimate of a size, with every named size `typical`. Sizes that contradict each other (axes that must
    broadcast) raise no error."""

    def apply(name: str, a: int, b: int) -> int:
        if name in ("floordiv", "mod"):
            return 0 if b == 0 else a // b if name == "floordiv" else a % b
        return {"add": a + b, "mul": a * b, "min": min(a, b), "max": max(a, b), "broadcast": max(a, b)}[name]

    return interpret(dim, lambda atom: typical, lambda number: number, apply)


@lru_cache(maxsize=1 << 14)
def atoms(dim: Dim) -> frozenset[Atom]:
    """Every symbol and loop variable that dim depends on."""
    found: set[Atom] = set()
    for monomial, _ in terms(dim):
        for atom in monomial:
            if isinstance(atom, Call):
                for argument in atom.args:
                    found |= atoms(argument)
            else:
                found.add(atom)
    return frozenset(found)


_NONE: frozenset[str] = frozenset()


def symbols(dim: Dim) -> frozenset[str]:
    return _NONE if isinstance(dim, int) else _symbols(dim)


@lru_cache(maxsize=1 << 14)
def _symbols(dim: Dim) -> frozenset[str]:
    return frozenset(atom.name for atom in atoms(dim) if isinstance(atom, Symbol))


def coefficient(dim: Dim, atom: Atom) -> Dim | None:
    """The factor c in `dim == c * atom + rest` with rest free of atom; None if dim is not linear in it."""
    result: Dim = 0
    for monomial, count in terms(dim):
        inside = any(isinstance(a, Call) and any(atom in atoms(x) for x in a.args) for a in monomial)
        if inside or monomial.count(atom) > 1:
            return None
        if atom in monomial:
            rest = remove(monomial, (atom,))
            assert rest is not None
            result = result + normal({rest: count})
    return result
