"""The shape arithmetic of ONNX graphs, worked out while a model is imported. Enter at `evaluate`.

Exporters compute sizes with ordinary nodes: Shape, Gather, Mul, Concat, Reshape. `RULES` says how each operator passes
on what is known of small tensors (contents.py). A node whose outputs are known this way needs no code of its own: its
value is written down, and the nodes that it came from are left without a use.

    rules.py         the table
    moving.py        where contents begin, and operators that move elements
    arithmetic.py    operators that compute
"""

from __future__ import annotations

from burn.importers.onnx.folding import arithmetic, moving  # they fill the table
from burn.importers.onnx.folding.moving import slice_of_shape
from burn.importers.onnx.folding.rules import RULES, evaluate

__all__ = ["RULES", "arithmetic", "evaluate", "moving", "slice_of_shape"]
