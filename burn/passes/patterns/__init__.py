"""Patterns of small ops that exporters write, and the composites that they implement: one file for each family of
composites.

A pattern is a law (`burn.passes.algebra.law`) in a table of its own. It is anchored at its last op; its docstring shows
the formula. Patterns expect programs simplified without `absorb`: constants are on the rhs, powers and roots are in
their cheapest form.
"""

from __future__ import annotations

from importlib import import_module

FAMILIES = ("activation", "normalization", "attention", "attention_masks")


def load() -> None:
    """Registers every pattern."""
    for family in FAMILIES:
        import_module(f"burn.passes.patterns.{family}")
