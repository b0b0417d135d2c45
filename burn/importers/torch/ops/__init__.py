"""The builders, by family of operators. `load_builders` enters them all into `node.BUILDERS`."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module


@cache
def load_builders() -> None:
    for module in pkgutil.iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")
