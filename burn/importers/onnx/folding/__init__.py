"""Constant folding of the shape arithmetic of ONNX graphs, during import. Enter at `evaluate`.

Exporters compute sizes with ordinary nodes: Shape, Gather, Mul, Concat, Reshape. `RULES` maps each operator to a function from
the known contents of small operands to those of the outputs (contents.py). A node with known outputs becomes a constant, and
the nodes that it came from have no uses left.

    rules.py         the table
    moving.py        where contents begin, and operators that move elements
    arithmetic.py    operators that compute
"""

from __future__ import annotations

from burn.importers.onnx.folding import arithmetic, moving  # they fill the table
from burn.importers.onnx.folding.moving import slice_of_shape
from burn.importers.onnx.folding.rules import RULES, evaluate

__all__ = ["RULES", "arithmetic", "evaluate", "moving", "slice_of_shape"]
