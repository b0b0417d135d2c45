"""Linear maps of a vector by a constant matrix, with few multiplications and additions."""

from __future__ import annotations

from collections.abc import Sequence

from burn.kernels.body import Apply, Const, Scalar


def rows_of(numbers: Sequence[float], columns: int) -> list[list[float]]:
    """A matrix that is given row by row."""
    return [list(numbers[at : at + columns]) for at in range(0, len(numbers), columns)]


def matvec(matrix: list[list[float]], vector: list[Scalar]) -> list[Scalar]:
    """matrix * vector. Evaluation points come in pairs x and -x: common subexpressions of rows or columns are computed
    once."""
    matrix, vector = _paired(matrix, vector)
    sums = _Sums(vector)
    return [sums.row(row) for row in matrix]


def _paired(matrix: list[list[float]], vector: list[Scalar]) -> tuple[list[list[float]], list[Scalar]]:
    """Replaces neighbouring columns that differ only in signs by the columns of their sum and difference."""
    columns = [list(column) for column in zip(*matrix, strict=True)]
    at = 0
    vector = list(vector)
    while at + 1 < len(columns):
        a, b = columns[at], columns[at + 1]
        if any(a) and all(abs(p) == abs(q) for p, q in zip(a, b, strict=True)):
            x, y = vector[at], vector[at + 1]
            columns[at] = [p if p == q else 0.0 for p, q in zip(a, b, strict=True)]
            columns[at + 1] = [p if p == -q else 0.0 for p, q in zip(a, b, strict=True)]
            vector[at : at + 2] = [Apply(x.dtype, "add", (x, y)), Apply(x.dtype, "sub", (x, y))]
            at += 1
        at += 1
    return [list(row) for row in zip(*columns, strict=True)], vector


class _Sums:
    """Linear combinations of a vector's elements. The partial sums over even and odd elements are kept: rows may differ
    only in the sign of one of them."""

    def __init__(self, vector: list[Scalar]) -> None:
        self.vector = vector
        self.dtype = vector[0].dtype
        self.kept: dict[tuple[tuple[int, float], ...], Scalar] = {}

    def row(self, numbers: list[float]) -> Scalar:
        parts = []
        for start in (0, 1):
            terms = [(at, numbers[at]) for at in range(start, len(numbers), 2) if numbers[at]]
            if terms:
                negative = terms[0][1] < 0
                parts.append((negative, self.sum(tuple((at, -n if negative else n) for at, n in terms))))
        if not parts:
            return Const(self.dtype, 0)
        parts.sort(key=lambda part: part[0])  # subtracted sums come last
        negative, total = parts[0]
        if negative:
            total = Apply(self.dtype, "neg", (total,))
        for negative, part in parts[1:]:
            total = Apply(self.dtype, "sub" if negative else "add", (total, part))
        return total

    def sum(self, terms: tuple[tuple[int, float], ...]) -> Scalar:
        if terms not in self.kept:
            total: Scalar | None = None
            # terms without a multiplication come first
            for at, number in sorted(terms, key=lambda term: abs(term[1]) != 1):
                total = self._with(total, number, self.vector[at])
            assert total is not None
            self.kept[terms] = total
        return self.kept[terms]

    def _with(self, total: Scalar | None, number: float, x: Scalar) -> Scalar:
        if abs(number) == 1:
            if total is None:
                return x if number == 1 else Apply(self.dtype, "neg", (x,))
            return Apply(self.dtype, "add" if number == 1 else "sub", (total, x))
        scaled = Apply(self.dtype, "mul", (x, Const(self.dtype, number)))
        return scaled if total is None else Apply(self.dtype, "add", (total, scaled))
