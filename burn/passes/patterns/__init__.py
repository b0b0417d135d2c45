"""What exporters write out in small ops, and the composite that it is: one file for each family of composites.

A pattern is a law (`burn.passes.algebra.law`) of a table of its own. It is anchored at the last op of what it recognises;
its docstring shows that as a formula. Patterns are written for programs simplified without `absorb`: constants stand on
the right, powers and roots are in their cheapest form.
"""

from __future__ import annotations

from importlib import import_module

FAMILIES = ("activation", "normalization", "attention")


def load() -> None:
    """Registers every pattern."""
    for family in FAMILIES:
        import_module(f"burn.passes.patterns.{family}")
