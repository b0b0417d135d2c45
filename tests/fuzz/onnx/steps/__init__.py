"""Pieces that a random graph is made of: each step adds a few nodes to the piece that the graph then commits."""

from __future__ import annotations

from importlib import import_module

from .registry import STEPS

MODULES = (
    "composed",
    "contract",
    "control",
    "indexing",
    "layered",
    "normalize",
    "pointwise",
    "quantize",
    "recurrent",
    "reduce",
    "shape",
    "sizes",
    "vendor",
    "windows",
)
for _name in MODULES:
    import_module(f"{__name__}.{_name}")

__all__ = ["STEPS"]
