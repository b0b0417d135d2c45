"""The rules, one file for each family of ops. `load_rules` fills the table."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache


@cache
def load_rules() -> None:
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
