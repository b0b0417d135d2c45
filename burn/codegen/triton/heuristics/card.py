"""What choices take a card to be."""

from __future__ import annotations

WARPS = 4
"""That share a program's block, where nothing else is said."""

STAGES = 3
"""Blocks of a product that are on their way from memory at once."""

PROCESSORS = 132
"""Of the card: as many tiles are worked on at a time."""

ENOUGH = 2 * PROCESSORS
"""Programs that keep a card busy."""

LEAST = 16
"""Rows, columns and depth of a block product at least."""
