"""Families of functions that the sweep draws from. A builder takes a `Draw` and returns a case."""

from __future__ import annotations

from collections.abc import Callable

from tests.jax.case import Case
from tests.jax.draw import Draw

Builder = Callable[[Draw], Case]
BUILDERS: dict[str, Builder] = {}
"""A function's name -> its builder."""


def entered(name: str, builder: Builder) -> None:
    if name in BUILDERS:
        raise ValueError(f"{name} has two builders")
    BUILDERS[name] = builder


def load() -> dict[str, Builder]:
    """The table with all families."""
    from tests.jax.families import arrays, control, linalg, neural, pointwise, rand, reduction, structural  # noqa: F401

    return BUILDERS
