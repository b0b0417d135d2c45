"""Weight files of every kind, and how their tensors get into a module. Enter at `read` and at `load_into` (apply.py).

Files are untrusted, and nothing in them is executed. Sizes and offsets are checked before memory is allocated, and one error
lists all problems.
"""

from __future__ import annotations

from burn.importers.weights.checkpoint import Checkpoint
from burn.importers.weights.formats import read, write

__all__ = ["Checkpoint", "read", "write"]
