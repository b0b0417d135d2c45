"""Steps that sort, select and search."""

from __future__ import annotations

from tests.fuzz.tensors.draft import Draft
from tests.fuzz.tensors.steps.registry import step


@step(4)
def sorted_(d: Draft) -> None:
    v = d.any(1)
    axis = d.random.choice([None, *range(-v.ndim, v.ndim)])
    d.add(f"m.{d.random.choice(['sort', 'argsort'])}({v.name}, {axis})")


@step(2)
def largest(d: Draft) -> None:
    v = d.pick(
        lambda v: v.ndim > 0 and v.shape[-1] > 2 and v.dtype not in ("bool", "uint64") and v.is_finite and v.size > 0
    )
    d.add(f"m.topk({v.name}, {1 if d.named else d.random.randint(1, 3)})")


@step(2)
def distinct(d: Draft) -> None:
    d.add(f"m.unique({d.pick(lambda v: v.ndim > 0 and not v.is_float).name})")


@step(1.5)
def where_not_zero(d: Draft) -> None:
    d.add(f"m.{d.random.choice(['nonzero', 'argwhere'])}({d.any(1).name})")


@step(1.5)
def searched(d: Draft) -> None:
    v = d.pick(lambda v: v.dtype != "bool" and v.is_finite)
    w = d.pick(lambda w: w.dtype == v.dtype and w.ndim == 1 and w.is_finite)
    d.add(f"m.searchsorted(m.sort({w.name}), {v.name}, {d.random.choice(['left', 'right'])!r})")
