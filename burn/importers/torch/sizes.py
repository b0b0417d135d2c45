"""torch's symbolic numbers (sympy expressions over s0, u0 ...) become burn's sizes. Enter at `Sizes`.

Size arithmetic in a graph (`mul`, `floordiv`, `sym_max` ...) needs no builders: torch has each call's result as one
expression over its symbols, and that is what is read here.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import reduce
from typing import Any

import sympy
import torch

from burn.dialect import ops
from burn.dialect.compose import dim_value, number
from burn.dialect.dims import Dim, ceildiv, dim_max, dim_min, exact_div, floordiv, mod, product
from burn.dialect.mlir import ir

MAX_POWER = 8


class Unrepresentable(Exception):
    """An expression that burn's sizes cannot say; the message names it."""


class Sizes:
    """The dims of torch's symbols, and the conversion of expressions over them."""

    def __init__(self) -> None:
        self.symbols: dict[sympy.Symbol, Dim] = {}
        self.floats: dict[sympy.Symbol, ir.Value] = {}
        """The values of float symbols, which were elements of tensors: float64 scalars."""
        self.general: set[sympy.Symbol] = set()
        """Sizes of results that torch takes for neither 0 nor 1, and that may be both."""

    def bind(self, symint: Any, dim: Dim) -> None:
        """Says what a symbol is. An expression that is no plain symbol is not bound: its symbols have other sources."""
        for expression in (expression_of(symint), asked_of(symint)):
            if isinstance(expression, sympy.Symbol):
                self.symbols.setdefault(expression, dim)

    def bind_general(self, symint: Any, dim: Dim) -> None:
        """`bind`, for a size that the operator's fake result takes for at least 2 although it may be smaller."""
        self.bind(symint, dim)
        if isinstance(expression := expression_of(symint), sympy.Symbol):
            self.general.add(expression)

    def has(self, value: Any) -> bool:
        """True if every symbol in a size has been bound."""
        if isinstance(value, int):
            return True
        return all(s in self.symbols for s in expression_of(value).free_symbols)

    def dim(self, value: Any) -> Dim:
        """A Python int or a SymInt as a size. Raises Unrepresentable."""
        if isinstance(value, torch.SymInt):
            value = expression_of(value)
        return int(value) if isinstance(value, int) else self._dim(value)

    def _dim(self, e: Any) -> Dim:
        if isinstance(e, sympy.Integer):
            return int(e)
        if isinstance(e, sympy.Symbol):
            if e not in self.symbols:
                raise Unrepresentable(f"the size {e} is not known from the inputs' shapes")
            return self.symbols[e]
        name = type(e).__name__
        if name in ("ToFloat", "Identity"):
            return self._dim(e.args[0])
        if isinstance(e, (sympy.Add, sympy.Mul)):  # may have rational parts that cancel
            numerator, denominator = self._ratio(e)
            whole = numerator if denominator == 1 else exact_div(numerator, denominator)
            if whole is not None:
                return whole
        if name in _DIMS:
            return reduce(_DIMS[name], map(self._dim, e.args))
        if isinstance(e, sympy.Pow) and isinstance(e.exp, sympy.Integer) and 0 <= int(e.exp) <= MAX_POWER:
            return reduce(lambda a, b: a * b, [self._dim(e.base)] * int(e.exp), 1)
        if isinstance(e, sympy.Piecewise):
            return self._chosen(e.args)
        if name in _ROUNDED:
            numerator, denominator = self._ratio(e.args[0])
            return _ROUNDED[name](numerator, denominator)
        raise Unrepresentable(f"the size {e} ({name}) cannot be expressed")

    def _chosen(self, branches: Any) -> Dim:
        """The value of the first branch whose condition holds."""
        (value, condition), *others = branches
        if condition == sympy.true or not others:
            return self._dim(value)
        holds = self.truth(condition)
        return holds * self._dim(value) + (1 - holds) * self._chosen(others)

    def truth(self, condition: Any) -> Dim:
        """1 where a condition over sizes holds, else 0. Raises Unrepresentable."""
        if condition in (sympy.true, sympy.false):
            return int(bool(condition))
        if isinstance(condition, sympy.Not):
            return 1 - self.truth(condition.args[0])
        if isinstance(condition, sympy.And):
            return product(map(self.truth, condition.args))
        if isinstance(condition, sympy.Or):
            return 1 - product(1 - self.truth(a) for a in condition.args)
        if type(condition) not in RELATIONS:
            raise Unrepresentable(f"the condition {condition}")
        a, b = self._dim(condition.lhs), self._dim(condition.rhs)

        def at_most(a: Dim, b: Dim) -> Dim:
            return dim_min(1, dim_max(0, b - a + 1))

        match RELATIONS[type(condition)]:
            case "<=":
                return at_most(a, b)
            case "<":
                return at_most(a + 1, b)
            case ">=":
                return at_most(b, a)
            case ">":
                return at_most(b + 1, a)
            case "==":
                return at_most(a, b) * at_most(b, a)
            case _:
                return 1 - at_most(a, b) * at_most(b, a)

    def _ratio(self, e: Any) -> tuple[Dim, int]:
        """An exact fraction of a size and a positive number, for expressions that go through floats."""
        if isinstance(e, (sympy.Rational, sympy.Float)):
            exact = Fraction(int(e.p), int(e.q)) if isinstance(e, sympy.Rational) else Fraction(float(e))
            return exact.numerator, exact.denominator
        name = type(e).__name__
        if name in ("ToFloat", "Identity"):
            return self._ratio(e.args[0])
        if name in ("IntTrueDiv", "FloatTrueDiv"):
            (a, b), (c, d) = map(self._ratio, e.args)
            if isinstance(c, int) and c > 0:
                return a * d, b * c
            raise Unrepresentable(f"the quotient {e} of two sizes that vary cannot be expressed")
        if isinstance(e, sympy.Mul):
            parts = [self._ratio(a) for a in e.args]
            return reduce(lambda x, y: x * y, [a for a, _ in parts]), reduce(lambda x, y: x * y, [b for _, b in parts])
        if isinstance(e, sympy.Add):
            total, denominator = self._ratio(e.args[0])
            for argument in e.args[1:]:
                a, b = self._ratio(argument)
                total, denominator = total * b + a * denominator, denominator * b
            return total, denominator
        return self._dim(e), 1

    # ---- as values ---------------------------------------------------------------------------------------------------
    def value(self, symbolic: Any) -> ir.Value:
        """A SymFloat or SymBool as a scalar tensor: float64 or bool."""
        e = expression_of(symbolic)
        return self.condition(e) if isinstance(symbolic, torch.SymBool) else self._float(e)

    def _float(self, e: Any) -> ir.Value:
        if isinstance(e, (sympy.Float, sympy.Rational)):
            return number(float(e), "float64")
        if e in self.floats:
            return self.floats[e]
        name = type(e).__name__
        if name in ("ToFloat", "Identity"):
            return self._float(e.args[0])
        if name in _FLOATS:
            return reduce(_FLOATS[name], map(self._float, e.args))
        if name in _FUNCTIONS:
            return _FUNCTIONS[name](self._float(e.args[0]))
        if isinstance(e, sympy.Pow) or name in ("FloatPow", "PowByNatural"):
            return ops.pow(*map(self._float, e.args))
        return dim_value(self._dim(e), "float64")

    def condition(self, e: Any) -> ir.Value:
        """A condition as a bool scalar. Raises Unrepresentable."""
        if e in (sympy.true, sympy.false):
            return number(bool(e), "bool")
        if isinstance(e, sympy.Not):
            return ops.not_(self.condition(e.args[0]))
        if isinstance(e, (sympy.And, sympy.Or)):
            return reduce(ops.and_ if isinstance(e, sympy.And) else ops.or_, map(self.condition, e.args))
        if type(e) in _RELATIONS:
            return _RELATIONS[type(e)](*map(self._float, e.args))
        raise Unrepresentable(f"the condition {e} cannot be expressed")


RELATIONS: dict[Any, str] = {
    sympy.Eq: "==",
    sympy.Ne: "!=",
    sympy.Lt: "<",
    sympy.Le: "<=",
    sympy.Gt: ">",
    sympy.Ge: ">=",
}
"""Relations of sizes, and how Python writes them."""
_DIMS: dict[str, Callable[[Dim, Dim], Dim]] = {
    "FloorDiv": floordiv,
    "CleanDiv": floordiv,
    "Mod": mod,
    "PythonMod": mod,
    "Max": dim_max,
    "Min": dim_min,
}
_ROUNDED: dict[str, Callable[[Dim, int], Dim]] = {
    "FloorToInt": floordiv,
    "TruncToInt": floordiv,  # sizes are not negative
    "CeilToInt": ceildiv,
}
_FLOATS: dict[str, Any] = {
    "Add": lambda a, b: ops.add(a, b),
    "Mul": lambda a, b: ops.mul(a, b),
    "IntTrueDiv": lambda a, b: ops.div(a, b),
    "FloatTrueDiv": lambda a, b: ops.div(a, b),
    "Max": lambda a, b: ops.max(a, b),
    "Min": lambda a, b: ops.min(a, b),
}
_FUNCTIONS: dict[str, Any] = {
    "OpaqueUnaryFn_sqrt": lambda a: ops.sqrt(a),
    "OpaqueUnaryFn_log": lambda a: ops.log(a),
    "OpaqueUnaryFn_exp": lambda a: ops.exp(a),
    "OpaqueUnaryFn_sin": lambda a: ops.sin(a),
    "OpaqueUnaryFn_cos": lambda a: ops.cos(a),
}
_RELATIONS: dict[Any, Any] = {
    sympy.Eq: lambda a, b: ops.eq(a, b),
    sympy.Ne: lambda a, b: ops.ne(a, b),
    sympy.Lt: lambda a, b: ops.lt(a, b),
    sympy.Le: lambda a, b: ops.le(a, b),
    sympy.Gt: lambda a, b: ops.gt(a, b),
    sympy.Ge: lambda a, b: ops.ge(a, b),
}


def linear(expression: Any, symbol: sympy.Symbol) -> tuple[int, Any] | None:
    """(factor, rest) with expression == factor * symbol + rest, and a rest without the symbol; None for other expressions."""
    expanded = sympy.expand(expression)
    factor = expanded.coeff(symbol)
    rest = sympy.expand(expanded - factor * symbol)
    return (int(factor), rest) if factor.is_Integer and not rest.has(symbol) else None


def expression_of(symbolic: Any) -> Any:
    """The sympy expression behind a SymInt, SymFloat or SymBool, with torch's replacements applied."""
    return symbolic.node.expr if hasattr(symbolic, "node") else sympy.sympify(symbolic)


def asked_of(symbolic: Any) -> Any:
    """The expression as the program wrote it. torch's replacements include what the program asserts, so an assertion on the
    replaced expression would check nothing."""
    return symbolic.node._expr if hasattr(symbolic, "node") else sympy.sympify(symbolic)
