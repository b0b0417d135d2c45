"""Arithmetic on sizes in the entry function.

Models and inputs determine sizes, and sizes determine memory. So additions and multiplications are checked.
`overflowed` collects overflows until `EntryBuilder.settle` aborts the run, before any use of the sizes. A division by a
size treats 0 as 1: the quotient is a size that is then checked like any other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from burn.codegen.host.emit import Function, Int, Value
from burn.dialect.dims import Atom, Call, Dim, Expr, Symbol, at_most, coefficient, symbols
from burn.dialect.dims.expression import normal, remove
from burn.errors import CompileError, Problem

LIMIT = 1 << 63
_PAIR = "!llvm.struct<(i64, i1)>"


class Sizes:
    """`dim(expression)` is its value, an int or an i64. `bindings` are the values of symbols."""

    def __init__(self, code: Function) -> None:
        self.code = code
        self.bindings: dict[Atom, Int] = {}
        self.overflowed: list[Value] = []
        self._memo: list[dict[Dim | Atom, Int]] = [{}]

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Values computed and bound inside are not available outside: one scope per region of the printed code."""
        self._memo.append({})
        bindings = dict(self.bindings)
        yield
        self.bindings = bindings
        self._memo.pop()

    def known(self, *dims: Dim) -> bool:
        """True if all symbols of the expressions have values."""
        return all(Symbol(name) in self.bindings for dim in dims for name in symbols(dim))

    def dim(self, dim: Dim) -> Int:
        if isinstance(dim, int):
            return self._fitting(dim)
        for memo in self._memo:
            if dim in memo:
                return memo[dim]
        total = self._sum(dim)
        self._memo[-1][dim] = total
        return total

    def _sum(self, dim: Expr) -> Int:
        """Factors out an atom of several terms: the elements of a tensor padded on four axes are a polynomial of
        hundreds of terms, but four sums in factored form."""
        counts = Counter(atom for monomial, _ in dim.terms for atom in dict.fromkeys(monomial))
        atom, most = max(counts.items(), key=lambda item: item[1], default=(None, 0))
        if atom is not None and most > 1:
            inside = normal({remove(m, (atom,)) or (): c for m, c in dim.terms if atom in m})
            outside = normal({m: c for m, c in dim.terms if atom not in m})
            return self.plus(self.times(self._atom(atom), self.dim(inside)), self.dim(outside))
        total: Int = 0
        for monomial, count in dim.terms:
            power: Int = 1
            for factor in monomial:
                power = self.times(power, self._atom(factor))
            total = self.plus(total, self.times(power, self._fitting(count)))
        return total

    def value(self, dim: Dim) -> Value:
        return self.code.value(self.dim(dim))

    def _atom(self, atom: Atom) -> Int:
        if not isinstance(atom, Call):
            if atom not in self.bindings:
                raise CompileError(
                    "a size cannot be computed",
                    [Problem(f"nothing says what {atom} is", hint="an input's axis must be it, or a multiple of it")],
                )
            return self.bindings[atom]
        first, *others = [self.dim(a) for a in atom.args]
        match atom.op:
            case "min" | "max" | "broadcast":
                for other in others:
                    first = getattr(self.code, atom.op)(first, other)
                return first
            case "floordiv" | "mod":
                return self._divided(atom.op, first, self.code.max(others[0], 1), at_most(0, atom.args[0]))
        raise CompileError("a size cannot be computed", [Problem(f"there is no rule for '{atom.op}'")])

    def _divided(self, op: str, dividend: Int, divisor: Int, positive: bool) -> Int:
        if op == "floordiv":
            return (self.code.udiv if positive else self.code.floordiv)(dividend, divisor)
        return (self.code.urem if positive else self.code.mod)(dividend, divisor)

    # ---- checked arithmetic ----------------------------------------------------------------------------------------
    def times(self, a: Int, b: Int) -> Int:
        if isinstance(a, int) and isinstance(b, int):
            return self._fitting(a * b)
        if a in (0, 1) or b in (0, 1):
            return 0 if 0 in (a, b) else b if a == 1 else a
        return self._checked("smul", a, b)

    def plus(self, a: Int, b: Int) -> Int:
        if isinstance(a, int) and isinstance(b, int):
            return self._fitting(a + b)
        if a == 0 or b == 0:
            return b if a == 0 else a
        return self._checked("sadd", a, b)

    def _checked(self, operation: str, a: Int, b: Int) -> Value:
        left, right = self.code.value(a), self.code.value(b)
        text = f'"llvm.intr.{operation}.with.overflow"({left}, {right}) : (i64, i64) -> {_PAIR}'
        before = self.code.position
        pair = self.code.pure(text, _PAIR)
        if self.code.position != before:
            self.overflowed.append(self.code.raw(f"llvm.extractvalue {pair}[1] : {_PAIR}", "i1"))
        return self.code.pure(f"llvm.extractvalue {pair}[0] : {_PAIR}", "i64")

    @staticmethod
    def _fitting(number: int) -> int:
        if not -LIMIT <= number < LIMIT:
            raise CompileError("a size is too large", [Problem(f"{number} does not fit 64 bits")])
        return number


def linear_in(dim: Expr, unknown: str) -> tuple[int, Dim] | None:
    """(c, rest) with dim == c * unknown + rest for an int c > 0; None if there is none."""
    factor = coefficient(dim, Symbol(unknown))
    if not isinstance(factor, int) or factor <= 0:
        return None
    rest = dim - factor * Expr.of(Symbol(unknown))
    return None if unknown in symbols(rest) else (factor, rest)
