"""Vendors' operators, drawn at random, against ONNX Runtime and float64.

BURN_SWEEP is the number of cases of each operator, BURN_SWEEP_SEED the first one's seed.
"""

from __future__ import annotations

import os

import pytest

from burn.errors import ModelError
from burn.importers.onnx import import_onnx
from tests.importers.vendor.case import DRAWERS
from tests.importers.vendor.sweep import drawn, one

COUNT = int(os.environ.get("BURN_SWEEP", "4"))
FIRST = int(os.environ.get("BURN_SWEEP_SEED", "0"))
OPERATORS = sorted(DRAWERS)
COMPILED = 8
"""Operators of which a case is compiled in each run."""


@pytest.mark.parametrize("op", OPERATORS)
def test_computes_what_onnx_runtime_computes(op: str) -> None:
    outcomes = [(seed, one(op, seed)) for seed in range(FIRST, FIRST + COUNT)]
    failed = [f"seed {seed}: {o.kind}: {o.detail}" for seed, o in outcomes if o.failed]
    assert not failed, "\n".join(failed)


@pytest.mark.parametrize("op", OPERATORS)
def test_an_unknown_attribute_is_refused(op: str) -> None:
    """Of a node that is right without it."""
    case = drawn(op, FIRST)
    with pytest.raises(ModelError, match="attribute 'an_unknown_one'"):
        import_onnx(case.model(an_unknown_one=1))


@pytest.mark.parametrize("op", [op for op in OPERATORS if op != "QLinearConcat"])  # which takes any number
def test_a_further_operand_is_refused(op: str) -> None:
    case = drawn(op, FIRST)
    model = case.model()
    node = model.graph.node[0]
    node.input.extend([""] * (24 - len(node.input)))
    node.input.append(next(name for name in node.input if name))
    with pytest.raises(ModelError, match="operand 24"):
        import_onnx(model)


@pytest.mark.parametrize("op", OPERATORS[FIRST % 7 :: max(1, len(OPERATORS) // COMPILED)])
def test_compiled(op: str) -> None:
    outcome = one(op, FIRST, with_compiler=True)
    assert not outcome.failed, outcome.detail
