"""Op traits: facts about every op of a class, which passes query by `op.has(Trait.VIEW)`.

A class states them in its definition, `class Reshape(Op, name="reshape", traits=Trait.VIEW)`. Facts that depend on an
op's operands are methods of `Op` instead (`flops`).
"""

from __future__ import annotations

from enum import Flag, auto


class Trait(Flag):
    """Combine with `|`. `op.has(a | b)` is true for either."""

    NONE = 0

    # ---- elements
    VIEW = auto()
    """Every element of the result is an element of the operand `x`."""
    CONSTANT = auto()
    """There are no operands: the elements follow from attributes and sizes alone."""
    GENERATED = auto()
    """A constant whose elements are computed from their index by each reader."""
    STORED = auto()
    """A constant whose elements are in the program's data: it needs no buffer."""
    ALIAS = auto()
    """The result is the operand's memory."""
    INDEXED = auto()
    """An operand holds indices, which are checked when the program runs."""

    # ---- arithmetic
    CONTRACTION = auto()
    """Multiplies operands and sums over a depth: a matrix kernel can compute it."""
    PACKED = auto()
    """A contraction whose rhs is in the target's memory layout (`packed.py`)."""
    ATTENTION = auto()
    """Softmax attention, or its gradient: q, k, v, mask and lengths are operands."""
    REDUCTION = auto()
    """Combines the elements along axes of `x` (`kernels.builders.rows.reduced_axes`)."""

    # ---- decisions of passes
    REPEATABLE = auto()
    """The backward pass may recompute it instead of keeping its result."""
    LOW_PRECISION = auto()
    """Mixed precision computes it in half precision for any operands."""
    FOLLOWS_PRECISION = auto()
    """Mixed precision computes it in half precision if its operands are."""
    WRITES_IN_PLACE = auto()
    """It writes results directly to the memory that it is given."""
    ORDERED = auto()
    """It has an effect: such ops, and control flow around them, run in program order."""
    OBSERVES = auto()
    """It shows values to the user and has no results. The backward pass leaves it out of its copies of regions."""
