"""Symbolic integers: sizes of tensors and indices into them.

A `Dim` is a Python int or an `Expr`: a polynomial with integer coefficients over atoms. Atoms are named sizes (`Symbol`), loop
variables (`LoopVar`, 0 <= v < extent) and calls (`floordiv`, `mod`, `min`, `max`) that do not simplify away. Expressions are
kept in one normal form, so that equality is structural; results that are constant come back as ints. Enter at `symbol`,
`parse`, the Python operators, and `floordiv`/`mod`/`dim_min`/`dim_max`.

Simplification of `//` and `%` proves ranges: sizes are taken to be at least 1, because an index is only ever formed inside a
loop over them, and a loop over an empty size does not run.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from functools import reduce as fold_left
from math import gcd
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Symbol:
    """A named size, known when the program runs; at least 0."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class LoopVar:
    """A loop's counter: 0 <= v < extent."""

    name: str
    extent: Dim

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Call:
    """`floordiv(a, b)`, `mod(a, b)`, `min(...)` or `max(...)` of expressions."""

    op: str
    args: tuple[Dim, ...]

    def __str__(self) -> str:
        if self.op in ("min", "max"):
            return f"{self.op}({', '.join(map(str, self.args))})"
        left, right = (f"({a})" if isinstance(a, Expr) and not a.is_symbol else str(a) for a in self.args)
        return f"({left} {'//' if self.op == 'floordiv' else '%'} {right})"


Atom = Symbol | LoopVar | Call
Monomial = tuple[Atom, ...]


def _order(monomial: Monomial) -> tuple[int, str]:
    return (-len(monomial), "*".join(map(str, monomial)))


class Expr:
    """A polynomial: a sum of `coefficient * atom * atom ...` in a fixed order. Immutable; build with the operators."""

    __slots__ = ("_hash", "terms")
    terms: tuple[tuple[Monomial, int], ...]

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        self.terms = tuple(sorted(((m, c) for m, c in terms.items() if c), key=lambda term: _order(term[0])))
        self._hash = hash(self.terms)

    @staticmethod
    def of(atom: Atom) -> Expr:
        return Expr({(atom,): 1})

    @property
    def is_symbol(self) -> bool:
        """Whether this is one atom that prints as a name."""
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
        terms = dict(self.terms)
        for monomial, coefficient in _terms(other):
            terms[monomial] = terms.get(monomial, 0) + coefficient
        return _normal(terms)

    def __neg__(self) -> Dim:
        return self * -1

    def __sub__(self, other: Dim) -> Dim:
        return self + other * -1 if isinstance(other, (int, Expr)) else NotImplemented

    def __rsub__(self, other: Dim) -> Dim:
        return self * -1 + other

    def __mul__(self, other: Dim) -> Dim:
        if not isinstance(other, (int, Expr)):
            return NotImplemented
        terms: dict[Monomial, int] = {}
        for a, x in self.terms:
            for b, y in _terms(other):
                monomial = tuple(sorted(a + b, key=str))
                terms[monomial] = terms.get(monomial, 0) + x * y
        return _normal(terms)

    __radd__ = __add__
    __rmul__ = __mul__

    def __floordiv__(self, other: Dim) -> Dim:
        return floordiv(self, other)

    def __rfloordiv__(self, other: int) -> Dim:
        return floordiv(other, self)

    def __mod__(self, other: Dim) -> Dim:
        return mod(self, other)

    def __rmod__(self, other: int) -> Dim:
        return mod(other, self)


Dim = int | Expr


def _terms(dim: Dim) -> Iterable[tuple[Monomial, int]]:
    return dim.terms if isinstance(dim, Expr) else (((), dim),)


def _normal(terms: Mapping[Monomial, int]) -> Dim:
    if all(m == () or c == 0 for m, c in terms.items()):
        return terms.get((), 0)
    return Expr(terms)


def symbol(name: str) -> Expr:
    if not name.isidentifier():
        raise ValueError(f"a size's name must be an identifier, not {name!r}")
    return Expr.of(Symbol(name))


# ---- division and comparison -------------------------------------------------------------------------------------------


def floordiv(a: Dim, b: Dim) -> Dim:
    """a // b for b > 0, rounding down."""
    quotient, remainder = _divide(a, b)
    if _within(remainder, b):
        return quotient
    if isinstance(remainder, int) and isinstance(b, int):
        return quotient + remainder // b
    common, coarse, _ = _common_factor(remainder, b)
    if common > 1:  # (g * x + y) // (g * z) = x // z for 0 <= y < g
        return quotient + floordiv(coarse, b // common)
    return quotient + Expr.of(Call("floordiv", (remainder, b)))


def _common_factor(dim: Dim, b: Dim) -> tuple[int, Dim, Dim]:
    """(g, x, y) with dim = g * x + y, 0 <= y < g, where g > 1 divides b; g = 1 where there is none."""
    if not isinstance(b, int) or isinstance(dim, int):
        return 1, dim, 0
    for common in sorted({gcd(c, b) for _, c in dim.terms if gcd(c, b) > 1}, reverse=True):
        coarse = _normal({m: c // common for m, c in dim.terms if c % common == 0})
        fine = _normal({m: c for m, c in dim.terms if c % common})
        if coarse != 0 and _within(fine, common):
            return common, coarse, fine
    return 1, dim, 0


def mod(a: Dim, b: Dim) -> Dim:
    """a - b * (a // b), in [0, b) for b > 0."""
    _, remainder = _divide(a, b)
    if _within(remainder, b):
        return remainder
    if isinstance(remainder, int) and isinstance(b, int):
        return remainder % b
    common, coarse, fine = _common_factor(remainder, b)
    if common > 1:
        return common * mod(coarse, b // common) + fine
    return Expr.of(Call("mod", (remainder, b)))


def ceildiv(a: Dim, b: Dim) -> Dim:
    return floordiv(a + (b - 1), b)


def exact_div(a: Dim, b: Dim) -> Dim | None:
    """a / b where it divides exactly as polynomials, else None."""
    if a == b:
        return 1
    quotient, remainder = _divide(a, b)
    return quotient if remainder == 0 else None


def _divide(a: Dim, b: Dim) -> tuple[Dim, Dim]:
    """(q, r) with a == q * b + r, taking into q every term that b divides."""
    if b == 0:
        raise ZeroDivisionError("division of a size by zero")
    if isinstance(b, int) and isinstance(a, int):
        return a // b, a % b
    if isinstance(b, Expr) and len(b.terms) > 1:
        return (1, 0) if a == b else _divide_long(a, b)
    (divisor, factor), *_ = _terms(b)
    quotient: dict[Monomial, int] = {}
    remainder: dict[Monomial, int] = {}
    for monomial, coefficient in _terms(a):
        rest = _remove(monomial, divisor)
        if rest is not None and coefficient % factor == 0:
            quotient[rest] = coefficient // factor
        elif rest is not None and monomial == () and isinstance(b, int):
            quotient[()] = coefficient // factor
            remainder[()] = coefficient % factor
        else:
            remainder[monomial] = coefficient
    return _normal(quotient), _normal(remainder)


def _divide_long(a: Dim, b: Expr) -> tuple[Dim, Dim]:
    """Long division by b's leading term; exact or nothing (q = 0, r = a)."""
    quotient: Dim = 0
    rest: Dim = a
    lead, factor = b.terms[0]
    for _ in range(8):
        if rest == 0:
            return quotient, 0
        monomial, coefficient = next(iter(_terms(rest)))
        left = _remove(monomial, lead)
        if left is None or coefficient % factor:
            break
        step = _normal({left: coefficient // factor})
        quotient, rest = quotient + step, rest - step * b
    return (quotient, 0) if rest == 0 else (0, a)


def _remove(monomial: Monomial, divisor: Monomial) -> Monomial | None:
    rest = list(monomial)
    for atom in divisor:
        if atom not in rest:
            return None
        rest.remove(atom)
    return tuple(rest)


def dim_max(*dims: Dim) -> Dim:
    return _extreme("max", dims)


def dim_min(*dims: Dim) -> Dim:
    return _extreme("min", dims)


def _extreme(op: str, dims: tuple[Dim, ...]) -> Dim:
    kept: list[Dim] = []
    for dim in (part for d in dims for part in _parts(op, d)):
        if dim in kept:
            continue
        better = non_negative if op == "max" else (lambda d: non_negative(d * -1))
        if any(better(other - dim) for other in kept):
            continue
        kept = [other for other in kept if not better(dim - other)] + [dim]
    return kept[0] if len(kept) == 1 else Expr.of(Call(op, tuple(sorted(kept, key=str))))


def _parts(op: str, dim: Dim) -> tuple[Dim, ...]:
    """The arguments of a dim that is itself such a call, else the dim."""
    if isinstance(dim, Expr) and len(dim.terms) == 1:
        ((monomial, count),) = dim.terms
        if count == 1 and len(monomial) == 1 and isinstance(monomial[0], Call) and monomial[0].op == op:
            return monomial[0].args
    return (dim,)


def non_negative(dim: Dim) -> bool:
    """Whether dim >= 0 is proven, for sizes >= 1 and loop variables in their ranges."""
    return _lower_is(dim, 0)


RELATIONS = ("==", "!=", "<=", "<", ">=", ">")


def decide(a: Dim, relation: str, b: Dim) -> bool | None:
    """Whether a stands in a relation to b for all sizes (True), for none (False), or it depends on them (None)."""
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
            if a == b:
                return True
            return False if at_most(a + 1, b) or at_most(b + 1, a) else None
        case "!=":
            equal = decide(a, "==", b)
            return None if equal is None else not equal
    raise ValueError(f"there is no relation '{relation}'")


def _within(dim: Dim, bound: Dim) -> bool:
    """Whether 0 <= dim < bound is proven."""
    return non_negative(dim) and non_negative(bound - 1 - dim)


def at_most(dim: Dim, bound: Dim) -> bool:
    """Whether dim <= bound is proven, for sizes that may be 0."""
    return _lower_is(bound - dim, 0, 0)


def _lower_is(dim: Dim, depth: int, least: int = 1) -> bool:
    """least: what sizes are at the least."""
    if isinstance(dim, int):
        return dim >= 0
    if depth > 6:
        return False
    for monomial, coefficient in dim.terms:  # a loop variable stands at its worst end
        for atom in monomial:
            extent = atom.extent if isinstance(atom, LoopVar) else None
            extent = atom.args[1] if isinstance(atom, Call) and atom.op == "mod" else extent
            if extent is not None:
                signs = {c > 0 for m, c in dim.terms if atom in m}
                if len(signs) == 1:
                    return _lower_is(_replace(dim, atom, 0 if coefficient > 0 else extent - 1), depth + 1, least)
                return _lower_is(_replace(dim, atom, 0), depth + 1, least) and _lower_is(
                    _replace(dim, atom, extent - 1), depth + 1, least
                )
            if isinstance(atom, Call) and atom.op in ("min", "max"):
                bounds = (_lower_is(_replace(dim, atom, argument), depth + 1, least) for argument in atom.args)
                # -min(a, b) is at least -a and at least -b; min(a, b) is a or b
                return any(bounds) if (coefficient < 0) == (atom.op == "min") else all(bounds)
            if isinstance(atom, Call) and coefficient < 0 and atom.op == "floordiv" and len(monomial) == 1:
                numerator, denominator = atom.args  # -c * (n // d) >= -c * n / d, for d >= 1
                if isinstance(denominator, int) and denominator > 0:
                    rest = dim - _normal({monomial: coefficient})
                    return _lower_is(rest * denominator + numerator * coefficient, depth + 1, least)
    shifted: Dim = 0  # size = least + (size - least): non-negative when no coefficient is negative after the shift
    for monomial, coefficient in dim.terms:
        factors: list[Dim] = [Expr.of(a) + least if isinstance(a, Symbol) else Expr.of(a) for a in monomial]
        if any(isinstance(a, Call) and not _call_non_negative(a) for a in monomial):
            return False
        shifted = shifted + fold_left(lambda x, y: x * y, factors, coefficient)
    return all(coefficient >= 0 for _, coefficient in _terms(shifted))


def _call_non_negative(call: Call) -> bool:
    if call.op == "mod":
        return True
    if call.op == "floordiv":
        return non_negative(call.args[0])
    return (any if call.op == "max" else all)(non_negative(a) for a in call.args)


def _replace(dim: Expr, atom: Atom, value: Dim) -> Dim:
    result: Dim = 0
    for monomial, coefficient in dim.terms:
        result = result + fold_left(
            lambda x, y: x * y, [value if a == atom else Expr.of(a) for a in monomial], coefficient
        )
    return result


# ---- walking -----------------------------------------------------------------------------------------------------------


def interpret(dim: Dim, leaf: Callable[[Atom], T], const: Callable[[int], T], op: Callable[[str, T, T], T]) -> T:
    """Folds an expression bottom-up with binary ops `add mul floordiv mod min max`."""
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
}


def substitute(dim: Dim, values: Mapping[Atom, Dim]) -> Dim:
    """Replaces atoms and simplifies again. Loop variables' extents are left as they are."""
    if isinstance(dim, int):
        return dim
    return interpret(
        dim, lambda a: values[a] if a in values else Expr.of(a), lambda c: c, lambda n, a, b: _OPS[n](a, b)
    )


def evaluate(dim: Dim, sizes: Mapping[str, int]) -> int:
    """The value for given sizes. Raises KeyError for a size that is not given."""
    result = substitute(dim, {Symbol(name): value for name, value in sizes.items()})
    if not isinstance(result, int):
        raise KeyError(", ".join(sorted(symbols(result) - sizes.keys())) or str(dim))
    return result


def atoms(dim: Dim) -> set[Atom]:
    """Every symbol and loop variable that dim depends on."""
    found: set[Atom] = set()
    for monomial, _ in _terms(dim):
        for atom in monomial:
            if isinstance(atom, Call):
                for argument in atom.args:
                    found |= atoms(argument)
            else:
                found.add(atom)
    return found


def symbols(dim: Dim) -> set[str]:
    return {atom.name for atom in atoms(dim) if isinstance(atom, Symbol)}


def product(dims: Iterable[Dim]) -> Dim:
    return fold_left(lambda a, b: a * b, dims, 1)


def coefficient(dim: Dim, atom: Atom) -> Dim | None:
    """The factor c in `dim == c * atom + rest` with rest free of atom; None where dim is not linear in it."""
    result: Dim = 0
    for monomial, count in _terms(dim):
        inside = any(isinstance(a, Call) and any(atom in atoms(x) for x in a.args) for a in monomial)
        if inside or monomial.count(atom) > 1:
            return None
        if atom in monomial:
            rest = _remove(monomial, (atom,))
            assert rest is not None
            result = result + _normal({rest: count})
    return result


@lru_cache(maxsize=1 << 14)
def parse(text: str) -> Dim:
    """Reads what `str` writes. Raises ValueError for anything else."""
    try:
        return _from_ast(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, RecursionError, ZeroDivisionError) as error:
        raise ValueError(f"not a size: {text!r}") from error


def _from_ast(node: ast.expr) -> Dim:
    match node:
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            return value
        case ast.Name(id=name):
            return symbol(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _from_ast(operand) * -1
        case ast.BinOp(left=left, op=op, right=right):
            a, b = _from_ast(left), _from_ast(right)
            match op:
                case ast.Add():
                    return a + b
                case ast.Sub():
                    return a - b
                case ast.Mult():
                    return a * b
                case ast.FloorDiv():
                    return floordiv(a, b)
                case ast.Mod():
                    return mod(a, b)
        case ast.Call(func=ast.Name(id="min" | "max" as name), args=args, keywords=[]):
            return _extreme(name, tuple(_from_ast(a) for a in args))
    raise ValueError(f"not a size: {ast.unparse(node)!r}")
