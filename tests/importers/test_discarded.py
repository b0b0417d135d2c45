"""Ops that an import builds on trial and discards."""

from __future__ import annotations

from burn.dialect.compose import number
from burn.dialect.control import If
from burn.dialect.mlir import ir
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.importers.regions import discard


def test_values_of_discarded_drafts_equal_no_later_ones() -> None:
    """An import notes the elements of values. They must not apply to values that come later."""
    program = Program.create([("x", TensorType("bool", ()))])
    seen: set[ir.Value] = set()
    kept: list[ir.Operation] = []
    with program.building():
        for draft in range(50):
            operation = If.create(program.inputs[0], result_types=[])
            with ir.InsertionPoint(operation.regions[0].blocks.append()):
                values = [number(i + draft, "float32") for i in range(5)]
            assert not seen & set(values)
            seen.update(values)
            discard(operation, kept)
            del operation
