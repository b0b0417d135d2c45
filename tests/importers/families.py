"""The files of the ONNX importer's builders in two sets. The node tests of each set have a test file of their own."""

from __future__ import annotations

import importlib
import pkgutil

from burn.importers.onnx import ops

FIRST = (
    *("activation", "constant", "contract", "indexing", "math", "normalize"),
    *("pad", "pool", "reduce", "shape", "slice"),
)
"""Builders whose models test_build_nodes.py evaluates."""


def modules(first: bool) -> set[str]:
    """The modules of one set. A new file belongs to the second."""
    names = {each.name for each in pkgutil.iter_modules(ops.__path__)}
    assert names > set(FIRST)
    return {
        importlib.import_module(f"{ops.__name__}.{name}").__name__ for name in (FIRST if first else names - set(FIRST))
    }
