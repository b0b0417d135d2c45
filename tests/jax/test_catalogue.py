"""The catalogue of the sweep names every public function of its modules."""

from __future__ import annotations

from functools import reduce

import jax
import pytest

from tests.jax.catalogue import MODULES, names
from tests.jax.catalogue.omitted import OMITTED


@pytest.mark.parametrize("module", MODULES)
def test_every_function_has_a_recipe_or_a_reason(module: str) -> None:
    path = reduce(getattr, MODULES[module].split("."), jax)
    public = {n for n in dir(path) if not n.startswith("_") and callable(getattr(path, n))}
    public -= {n for n in public if isinstance(getattr(path, n), type) or n in SCALARS}
    drawn = {name.rpartition(".")[2] for name in names() if name.rpartition(".")[0] == module}
    assert not public - drawn - set(OMITTED[module])
    assert not drawn & set(OMITTED[module])


SCALARS = {n for n in dir(jax.numpy) if hasattr(getattr(jax.numpy, n), "dtype")}
"""Element types, such as jnp.float32."""
