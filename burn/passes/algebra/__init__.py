"""The algebra of tensor programs: one file for each family of laws.

A law is a function `(Rewriter, Op) -> value or None` registered with `@law("op", ...)`; its docstring states the
equation. It builds at the op's place and returns what the op's result equals, of the same type. `simplify` applies all
laws to a fixed point.
"""

from __future__ import annotations

from importlib import import_module

FAMILIES = (
    "identity",
    "combine",
    "strength",
    "views",
    "joining",
    "casts",
    "select",
    "reductions",
    "absorb",
    "indexing",
    "positions",
    "motion",
    "one_hot",
    "uniform",
    "attending",
)


def load() -> None:
    """Registers every law."""
    for family in FAMILIES:
        import_module(f"burn.passes.algebra.{family}")
