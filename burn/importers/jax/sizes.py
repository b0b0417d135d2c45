"""JAX's symbolic sizes (`jax.export.symbolic_shape`) and burn's, in both directions. Enter at `Sizes`."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import jax.export

from burn.dialect.dims import Call, Dim, Expr, Symbol, dim_max, dim_min, floordiv, mod, plain, product, terms
from burn.errors import ModelError

_OPERATIONS: dict[str, Callable[[Dim, Dim], Dim]] = {
    "floordiv": floordiv,
    "mod": mod,
    "max": dim_max,
    "min": dim_min,
}


class Sizes:
    """One scope of symbols for a program: burn's sizes in JAX's terms and back."""

    def __init__(self) -> None:
        self.scope = jax.export.SymbolicScope()
        self._variables: dict[str, Dim] = {}
        self._atoms: dict[Any, Any] = {}

    def to_jax(self, dim: Dim) -> Any:
        """A size as an int or as JAX's expression. An atom that JAX cannot say becomes a variable of its own."""
        dim = plain(dim)
        if isinstance(dim, int):
            return dim
        total: Any = 0
        for monomial, count in terms(dim):
            total = total + reduce(lambda a, b: a * b, [self._atom(a) for a in monomial], count)
        return total

    def _atom(self, atom: Any) -> Any:
        if atom not in self._atoms:
            if isinstance(atom, Call) and atom.op in ("floordiv", "mod"):
                a, b = map(self.to_jax, atom.args)
                self._atoms[atom] = a // b if atom.op == "floordiv" else a % b
            else:
                self._atoms[atom] = self._variable(Expr.of(atom), atom.name if isinstance(atom, Symbol) else "size")
        return self._atoms[atom]

    def _variable(self, dim: Dim, hint: str) -> Any:
        name, number = hint, 1
        while name in self._variables:
            number += 1
            name = f"{hint}_{number}"
        self._variables[name] = dim
        (made,) = jax.export.symbolic_shape(name, scope=self.scope)
        return made

    def bind(self, size: Any, dim: Dim) -> None:
        """Says what a variable of the user's own scope is. An expression is not bound: its variables have other sources."""
        if isinstance(size, int):
            return
        name = _name(size)
        if name is not None:
            self._variables.setdefault(name, dim)

    def dim(self, size: Any) -> Dim:
        """JAX's size as burn's. Raises ModelError for a variable that no input defines."""
        if not hasattr(size, "_sorted_terms"):
            return int(size)
        return sum((self._term(term) * count for term, count in size._sorted_terms), 0)

    def shape(self, sizes: Any) -> tuple[Dim, ...]:
        return tuple(map(self.dim, sizes))

    def _term(self, term: Any) -> Dim:
        return product(product([self._factor(factor)] * exponent) for factor, exponent in term._factors)

    def _factor(self, factor: Any) -> Dim:
        if factor.var is not None:
            if factor.var not in self._variables:
                raise ModelError(SUMMARY, [f"the size {factor.var} is not known from the inputs' shapes"])
            return self._variables[factor.var]
        if factor.operation not in _OPERATIONS:
            raise ModelError(SUMMARY, [f"the size {factor} cannot be expressed"])
        return _OPERATIONS[factor.operation](*map(self.dim, factor.operands))


SUMMARY = "the JAX program cannot be imported"


def _name(size: Any) -> str | None:
    """The name of a size that is one variable."""
    if len(size._sorted_terms) != 1:
        return None
    term, count = size._sorted_terms[0]
    if count != 1 or len(term._factors) != 1 or term._factors[0][1] != 1:
        return None
    return term._factors[0][0].var
