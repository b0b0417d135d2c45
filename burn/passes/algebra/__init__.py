"""The algebra of tensor programs: one file for each family of laws.

A law is a function `(Rewriter, Op) -> value or None` registered with `@law("op", ...)`; its docstring states the
equation. It builds ops before the given op and returns an equal value of the same type. `simplify` applies all laws to
a fixed point.
"""

from __future__ import annotations

from importlib import import_module

FAMILIES = (
    "identity",
    "combine",
    "strength",
    "views",
    "concat",
    "casts",
    "select",
    "reductions",
    "deviations",
    "absorb",
    "indexing",
    "positions",
    "scatter",
    "motion",
    "one_hot",
    "dots",
    "uniform",
    "attention",
)


def load() -> None:
    """Registers every law."""
    for family in FAMILIES:
        import_module(f"burn.passes.algebra.{family}")
