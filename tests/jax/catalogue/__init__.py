"""Every public function of jax.lax, jax.numpy, jax.nn and jax.scipy.special, for the sweep over name x element type x shape.

A recipe takes a `Sample` (an element type, a shape) and the function, and returns a function of the operands and the operands.
`RECIPES` and `OMITTED` (omitted.py) together name every public function: tests/jax/test_catalogue.py reads the modules.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import jax

from tests.jax.case import Case
from tests.jax.catalogue.sample import Sample
from tests.jax.draw import Draw

Recipe = Callable[[Sample, Callable[..., Any]], tuple[Callable[..., Any], tuple[Any, ...]]]
RECIPES: dict[str, Recipe] = {}
"""A function's name, such as jnp.add -> its recipe."""
POINTWISE: set[str] = set()
"""Functions whose result's elements depend on one element of each operand."""
BOUNDS: dict[str, float] = {}
"""A factor of the allowed error: functions that JAX itself computes with a series or an iteration."""

MODULES = {
    "lax": "lax",
    "lax.linalg": "lax.linalg",
    "jnp": "numpy",
    "jnp.linalg": "numpy.linalg",
    "jnp.fft": "numpy.fft",
    "nn": "nn",
    "scipy.special": "scipy.special",
}
"""A module's short name -> its path in jax."""


def recipe(module: str, names: str, pointwise: bool = False, bound: float = 1.0) -> Callable[[Recipe], Recipe]:
    """Enters a recipe for several functions of a module, given as words."""

    def register(build: Recipe) -> Recipe:
        for name in names.split():
            full = f"{module}.{name}"
            if full in RECIPES:
                raise ValueError(f"{full} has two recipes")
            RECIPES[full] = build
            if pointwise:
                POINTWISE.add(full)
            if bound != 1.0:
                BOUNDS[full] = bound
        return build

    return register


def function_of(name: str) -> Callable[..., Any]:
    """jnp.linalg.det -> jax.numpy.linalg.det. Raises AttributeError if this version of JAX lacks it."""
    module, _, own = name.rpartition(".")
    return getattr(reduce(getattr, MODULES[module].split("."), jax), own)


def builder(name: str) -> Callable[[Draw], Case]:
    """The family of cases of one function."""

    def build(draw: Draw) -> Case:
        sample = Sample(draw)
        function, operands = RECIPES[name](sample, function_of(name))
        return Case(
            name,
            function,
            operands,
            differentiable=True,
            bound=BOUNDS.get(name, 1.0),
            pointwise=name in POINTWISE,
            x64=sample.x64,
        )

    return build


def names() -> list[str]:
    """The functions that have a recipe and that this version of JAX has."""
    from tests.jax.catalogue import algebra, arrays, elements, indices, reductions, structures  # noqa: F401  enters recipes

    def exists(name: str) -> bool:
        try:
            function_of(name)
        except AttributeError:
            return False
        return True

    return [name for name in sorted(RECIPES) if exists(name)]
