"""Heuristics for scatters of rows: the pass `order_scatters` sorts their updates by target."""

from __future__ import annotations

NARROW = 64
"""Rows of fewer elements stay in the program's order. One after the other they are in the cache, and a kernel of ordered ones has
no loop over vectors. An estimate for float32 and vectors of 256 bits."""
