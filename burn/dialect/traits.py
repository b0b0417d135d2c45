"""Traits of ops: facts that hold of every op of a class, which passes ask for by `op.has(Trait.VIEW)`.

A class states them where it is defined, `class Reshape(Op, name="reshape", traits=Trait.VIEW)`. What depends on an op's operands
is a method of `Op` instead (`flops`).
"""

from __future__ import annotations

from enum import Flag, auto


class Trait(Flag):
    """Combine with `|`. `op.has(a | b)` asks for either."""

    NONE = 0

    # ---- elements
    VIEW = auto()
    """Every element of the result is an element of the operand `x`."""
    CONSTANT = auto()
    """There are no operands: the elements follow from attributes, and sizes, alone."""
    GENERATED = auto()
    """A constant whose elements are computed from their index wherever they are read."""
    STORED = auto()
    """A constant whose elements lie in the program's data: it needs no buffer."""
    ALIAS = auto()
    """The result is the operand's memory."""
    INDEXED = auto()
    """An operand holds indices, which are checked when the program runs."""

    # ---- arithmetic
    CONTRACTION = auto()
    """Sums products over a depth: a matrix kernel can compute it."""
    PACKED = auto()
    """A contraction whose rhs the target's kernels read as it lies in memory (`packed.py`)."""
    ATTENTION = auto()
    """Softmax attention, or its gradient: q, k, v, mask and lengths are operands."""
    REDUCTION = auto()
    """Combines the elements along axes of `x` (`kernels.builders.rows.reduced_axes`)."""

    # ---- decisions of passes
    REPEATABLE = auto()
    """The backward pass may compute it once more instead of keeping its result."""
    LOW_PRECISION = auto()
    """Mixed precision computes it in half precision, whatever its operands are."""
    FOLLOWS_PRECISION = auto()
    """Mixed precision computes it in half precision if its operands are."""
    WRITES_IN_PLACE = auto()
    """It writes results to the memory that it is given."""
    OBSERVES = auto()
    """It shows values to the user and has no results. The backward pass, which builds regions again, leaves it out."""
