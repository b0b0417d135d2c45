"""A step for every row of the table of the tensor API, used as the row says: the names that have no step of their own."""

from __future__ import annotations

from tests.api.rows import ROWS
from tests.fuzz.tensors.draft import Draft, Unfit, Value
from tests.fuzz.tensors.shared import words
from tests.fuzz.tensors.steps.registry import step

LEFT_OUT = frozenset(
    words(
        "signbit copysign array_equal allclose bitcast power log_softmax fft.fftfreq fft.rfftfreq logspace astype asarray"
    )
)
"""Rows that answer one bit, or tell zeros apart that only rounding signs, or reckon from sizes alone."""
USED = tuple(row for row in ROWS if row.key not in LEFT_OUT)


@step(10)
def row(d: Draft) -> None:
    row = d.random.choice(USED)
    if d.named and not row.traced:
        raise Unfit
    extents: dict[str, int] = {}
    operands: list[str] = []
    dtype = ""
    for letters in row.inputs:
        fixed = {str(n): n for n in range(10)}
        known = {**fixed, **extents}
        value = _fitting(d, letters, known, dtype, row.dtypes, row.least)
        dtype = value.dtype
        extents |= dict(zip(letters, value.shape, strict=True))
        operands.append(f"m.domain({row.domain!r}, {value.name})")
    d.add(f"m.row({row.key!r}, {', '.join(operands)})")


def _fitting(d: Draft, letters: str, known: dict[str, int], dtype: str, dtypes: tuple[str, ...], least: int) -> Value:
    """A value with an axis for each letter, of the sizes that are known: one there is, one brought to that rank, or an input."""

    def fits(v: Value, shape: tuple[int, ...]) -> bool:
        wanted = (v.dtype == dtype) if dtype else v.dtype in dtypes
        sizes = all(s == known.get(c, s) and s >= least for c, s in zip(letters, shape, strict=True))
        return wanted and sizes and len(set(letters)) >= len(letters) - sum(c.isdigit() for c in letters)

    found = [v for v in d.values if v.ndim == len(letters) and fits(v, v.shape)]
    if found and d.random.random() < 0.8:
        return d.random.choice(found[-5:])
    if not any(c in known for c in letters) and letters:
        v = d.pick(lambda v: v.dtype == dtype if dtype else v.dtype in dtypes)
        if v.ndim != len(letters):
            v = d.add(f"m.ranked({v.name}, {len(letters)})")[0]
        if fits(v, v.shape):
            return v
    if len(d.program.inputs) > 6:
        raise Unfit
    sizes = {c: max(d.random.choice(d.extents), least) for c in letters}
    return d.input(tuple(known.get(c, sizes[c]) for c in letters), dtype or d.random.choice(dtypes))
