"""Values that are printed once, and index expressions as text."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from burn.dialect.dims import Atom, Call, Dim, Symbol, non_negative, symbols
from burn.errors import CompileError
from burn.kernels.body import Fetched


class ExpressionPrinter:
    """The base of a language's printer of scalar expressions. `sites` collects the names of source nodes for run-time errors.
    `_memo` has the texts of values by node, for each scope that is open."""

    sites: list[str]
    _memo: list[dict[object, str]]

    # ---- values ------------------------------------------------------------------------------------------------------------
    def _known(self, key: object) -> str | None:
        return next((memo[key] for memo in reversed(self._memo) if key in memo), None)

    def _hold(self, key: object, text: str) -> str:
        self._memo[-1][key] = text
        return text

    def forget(self) -> None:
        """Forgets values, because memory may have changed."""
        for memo in self._memo:
            memo.clear()

    def site(self, atom: Fetched) -> int:
        """The number of the source node of an index from data, from 1 on."""
        if atom.site not in self.sites:
            self.sites.append(atom.site)
        return self.sites.index(atom.site) + 1

    # ---- index expressions -------------------------------------------------------------------------------------------------
    def dim(self, dim: Dim) -> str:
        """The text of an index expression, in parentheses if it is more than a name or a number."""
        if isinstance(dim, int):
            return self.number(dim)
        text = ""
        for monomial, count in dim.terms:
            factors = [self._atom(atom) for atom in monomial]
            if "0" in factors or count == 0:
                continue
            size = abs(count) if text else count
            term = " * ".join(factors if size == 1 and factors else [*factors, self.number(size)])
            text += f"{' - ' if count < 0 else ' + '}{term}" if text else term
        if not text:
            return "0"
        return text if text.isidentifier() or text.isdigit() else f"({text})"

    def _atom(self, atom: Atom) -> str:
        if (bound := self.bound(atom)) is not None:
            return bound
        if isinstance(atom, Symbol):
            return self.size(atom)
        if isinstance(atom, Fetched):
            return self.fetched(atom)
        if not isinstance(atom, Call):
            raise CompileError(f"internal: {atom} is used outside its loop")
        args = [self.dim(a) for a in atom.args]
        if atom.op in ("min", "max", "broadcast"):
            result = args[0]
            for other in args[1:]:
                result = self.joined(atom.op, result, other)
            return result
        if not isinstance(atom.args[1], int):  # a size of 0 is a divisor only in loops that do not run
            args[1] = self.joined("max", args[1], "1")
        plain = non_negative(atom.args[0]) and not (self.signed_arguments and has_arguments(atom.args[0]))
        return self.quotient(atom.op, args[0], args[1], plain)

    signed_arguments = False
    """True if arguments of `parametrize` in a dividend may make it negative."""

    def number(self, value: int) -> str:
        """A constant of an index expression."""
        return str(value)

    @abstractmethod
    def bound(self, atom: Atom) -> str | None:
        """The text of a loop variable's index; None for other atoms."""

    def size(self, symbol: Symbol) -> str:
        """The name of a size's argument."""
        return symbol.name

    @abstractmethod
    def fetched(self, atom: Fetched) -> str:
        """An index that is read from data, checked."""

    @abstractmethod
    def joined(self, function: str, a: str, b: str) -> str:
        """min, max, or broadcast: b if a is 1, else a."""

    @abstractmethod
    def quotient(self, function: str, a: str, b: str, is_plain: bool) -> str:
        """floordiv or mod. is_plain: a is not negative."""

    # ---- conditions --------------------------------------------------------------------------------------------------------
    def ranged(self, ranges: Sequence[tuple[Dim, Dim]]) -> list[tuple[str, str, bool]]:
        """For each test 0 <= e < n: the texts of e and n, and if e may be negative."""
        return [
            (self.dim(index), self.dim(extent), has_arguments(index) or not non_negative(index))
            for index, extent in ranges
        ]


def has_arguments(dim: Dim) -> bool:
    """True if an expression has arguments of `parametrize`, which may be negative."""
    return any(name.startswith("_") for name in symbols(dim))
