"""Einstein summation over operands with named axes, contracted pair by pair. Enter at `einsum`.

A `Term` is a value and one label for each of its axes. Axes that no other term needs are summed first, equal labels
within a term become a diagonal, and `join` contracts two terms. Finally the axes are put in the result's order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from burn.dialect import ops
from burn.dialect.compose import broadcast_to, reshape, transpose
from burn.dialect.dims import Dim, dim_broadcast
from burn.dialect.mlir import ir
from burn.dialect.types import type_of


class Malformed(ValueError):
    """The equation is malformed, or the operands do not fit it; the message says how."""


@dataclass
class Term:
    value: ir.Value
    labels: list[str]

    @property
    def sizes(self) -> dict[str, Dim]:
        return dict(zip(self.labels, type_of(self.value).shape, strict=True))


def einsum(equation: str, operands: Sequence[ir.Value]) -> ir.Value:
    """The sum that the equation ("bij,bjk->bik") describes. Raises Malformed. Source: numpy.einsum."""
    inputs, output = parse(equation, len(operands))
    terms = []
    for value, labels in zip(operands, inputs, strict=True):
        labels = _name_ellipsis(labels, type_of(value).rank)
        terms.append(diagonal(Term(value, labels)))
    dots = max((label for t in terms for label in t.labels if label.isdigit()), key=int, default=None)
    ellipsis = [] if dots is None else [str(i) for i in range(int(dots), -1, -1)]
    if output is None:
        counts = Counter(label for labels in inputs for label in labels if label != ".")
        output = [*ellipsis, *sorted(label for label, count in counts.items() if count == 1)]
    else:
        output = [name for label in output for name in (ellipsis if label == "." else [label])]
    sizes = _sizes(terms)
    if (unknown := sorted(set(output) - sizes.keys())) or len(set(output)) != len(output):
        raise Malformed(f"the result's labels {unknown or output} must each be an operand's, and occur once")
    terms = [_fitted(term, sizes) for term in terms]
    result = terms[0]
    for index, term in enumerate(terms):
        later = {label for t in terms[index + 1 :] for label in t.labels} | set(output)
        if index:
            kept_by_term = later | set(result.labels)
            result = join(result, sum_out(term, kept_by_term), later)
        else:
            result = sum_out(result, later)
    value = transpose(result.value, tuple(result.labels.index(label) for label in output if label in result.labels))
    shape = tuple(sizes[label] if label in result.labels else 1 for label in output)
    return broadcast_to(reshape(value, shape), tuple(sizes[label] for label in output))


def parse(equation: str, count: int) -> tuple[list[list[str]], list[str] | None]:
    """The operands' labels and the result's (None if the equation omits it); '.' stands for an ellipsis."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = [part.replace("...", ".") for part in (*left.split(","), right)]
    for term in terms:
        if not all((c.isalpha() and c.isascii()) or c == "." for c in term) or term.count(".") > 1:
            raise Malformed(f"'{equation}' is not an Einstein sum")
    if len(terms) - 1 != count:
        raise Malformed(f"'{equation}' names {len(terms) - 1} operands, not {count}")
    return [list(term) for term in terms[:-1]], list(terms[-1]) if arrow else None


def _name_ellipsis(labels: list[str], rank: int) -> list[str]:
    """Numbers the axes of an ellipsis from the last, since they are aligned there."""
    extra = rank - len([label for label in labels if label != "."])
    if extra < 0 or (extra and "." not in labels):
        raise Malformed(f"'{''.join(labels)}' does not label an operand of rank {rank}")
    numbers = [str(i) for i in range(extra - 1, -1, -1)]
    return [name for label in labels for name in (numbers if label == "." else [label])]


def _sizes(terms: Iterable[Term]) -> dict[str, Dim]:
    """Every label's size: the sizes of its axes, equal or 1, broadcast together."""
    sizes: dict[str, Dim] = {}
    for term in terms:
        for label, size in term.sizes.items():
            known = sizes.setdefault(label, size)
            if isinstance(known, int) and isinstance(size, int) and 1 != known != size != 1:
                raise Malformed(f"axis '{label}' has sizes {known} and {size}")
            sizes[label] = dim_broadcast(known, size)
    return sizes


def _fitted(term: Term, sizes: dict[str, Dim]) -> Term:
    """The term without axes of size 1 that are larger in other operands. An axis that may have size 1 at run time is
    broadcast."""
    kept = [label for label, size in term.sizes.items() if size != 1 or sizes[label] == 1]
    value = reshape(term.value, tuple(term.sizes[label] for label in kept))
    return Term(broadcast_to(value, tuple(sizes[label] for label in kept)), kept)


def diagonal(term: Term) -> Term:
    """For a repeated label, keeps only the elements with equal indices."""
    value, labels = term.value, list(term.labels)
    for label in sorted({c for c in labels if labels.count(c) > 1}):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            shape = type_of(value).shape
            column = (*shape[:second], 1, *shape[second + 1 :])
            value = ops.gather_elements(value, ops.iota(shape=column, axis=first), axis=second)
            value = reshape(value, (*shape[:second], *shape[second + 1 :]))
            del labels[second]
    return Term(value, labels)


def sum_out(term: Term, needed: set[str]) -> Term:
    axes = tuple(i for i, label in enumerate(term.labels) if label not in needed)
    if not axes:
        return term
    return Term(ops.reduce(term.value, kind="sum", axes=axes), [label for label in term.labels if label in needed])


def join(a: Term, b: Term, needed: set[str]) -> Term:
    """Contracts two terms: sums over shared labels that no other term needs."""
    shared = [label for label in a.labels if label in b.labels]
    batch = [label for label in shared if label in needed]
    summed = [label for label in shared if label not in needed]
    labels = [*batch, *(x for x in a.labels if x not in shared), *(x for x in b.labels if x not in shared)]
    if not summed:
        return Term(ops.mul(_aligned(a, labels), _aligned(b, labels)), labels)
    axis_numbers = [[term.labels.index(x) for x in group] for group in (batch, summed) for term in (a, b)]
    names = ("lhs_batch", "rhs_batch", "lhs_contract", "rhs_contract")
    return Term(ops.dot_general(a.value, b.value, **dict(zip(names, map(tuple, axis_numbers), strict=True))), labels)


def _aligned(term: Term, labels: list[str]) -> ir.Value:
    """A term with axes in the order of `labels`; missing axes have size 1."""
    value = transpose(term.value, tuple(term.labels.index(x) for x in labels if x in term.labels))
    return reshape(value, tuple(term.sizes.get(x, 1) for x in labels))
