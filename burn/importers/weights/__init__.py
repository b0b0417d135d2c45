"""Weight files of every kind, and how their tensors get into a module. Enter at `read` and at `load_into` (apply.py).

Nothing in a file is trusted and nothing in it is run: sizes and places are checked before anything is allocated, and
everything wrong is listed in one error.
"""

from __future__ import annotations

from burn.importers.weights.checkpoint import Checkpoint
from burn.importers.weights.formats import read, write

__all__ = ["Checkpoint", "read", "write"]
