"""Preparation of a program before source generation: simplification and recognition of composites.

The passes are those that every compilation begins with, so they do not change what is computed. A model's parameters are hidden
from them: a scale that happens to be all ones is still a parameter, and two that are equal are still two. Enter at `tidy`.
"""

from __future__ import annotations

import numpy as np

from burn.dialect import ops
from burn.dialect.locations import source_name
from burn.dialect.mlir import context, ir
from burn.dialect.op import Op
from burn.dialect.program import Program
from burn.dialect.query import blocks
from burn.dialect.traits import Trait
from burn.dialect.types import FLOATS, type_of
from burn.dialect.weights import Weight
from burn.exporters.python.graph import weight_of
from burn.exporters.python.names import parameter_path
from burn.exporters.python.straighten import straighten
from burn.passes import pipeline

PASSES = "simplify{absorb=false},recognise,simplify{absorb=false}"

AGAIN = "simplify{absorb=false}"
"""Straightened views meet other ops, whose laws may then hold."""


def tidy(program: Program, passes: str = PASSES) -> dict[str, Weight]:
    """Rewrites a program; returns its parameters by the keys that its weights have now."""
    hidden = _hide(program)
    for each in (passes, AGAIN):
        pipeline.run(pipeline.parse(each), program)
        straighten(program)
    return hidden


def _hide(program: Program) -> dict[str, Weight]:
    """Gives every parameter a key of its own that the program's store does not know, so that no pass looks into it."""
    hidden: dict[str, Weight] = {}
    with context():
        for block in blocks(program.block):
            for operation in list(block.operations):
                op = operation.opview
                if not isinstance(op, Op) or not _is_parameter(op):
                    continue
                key = f"parameter {len(hidden)}"
                weight = weight_of(op, program.weights)
                assert weight is not None
                if _is_triangle(weight):
                    continue
                hidden[key] = weight
                type_ = type_of(op.result)
                with op.operation.location, ir.InsertionPoint(op.operation):
                    made = ops.weight(key=key, shape=type_.shape, dtype=type_.dtype)
                op.result.replace_all_uses_with(made)
                op.operation.erase()
    return hidden


def _is_parameter(op: Op) -> bool:
    """True if an op is a constant of several floats with a name that says something."""
    if not op.has(Trait.STORED):
        return False
    type_ = type_of(op.result)
    return type_.dtype in FLOATS and type_.elements != 1 and bool(parameter_path(source_name(op), whole=True))


def _is_triangle(weight: Weight) -> bool:
    """True for the lower triangle of ones that models keep as a buffer for their causal mask."""
    *batch, rows, columns = (0, 0, *weight.shape)[-max(2, len(weight.shape)) :]
    if rows != columns or rows < 2 or any(d != 1 for d in batch) or weight.packed:
        return False
    return bool((weight.array().reshape(rows, columns) == np.tri(rows)).all())
