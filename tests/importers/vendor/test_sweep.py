"""Vendors' operators, drawn at random, against ONNX Runtime and float64.

BURN_SWEEP is the number of cases of each operator, BURN_SWEEP_SEED the first one's seed.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from onnxruntime.capi import onnxruntime_pybind11_state as state  # type: ignore[attr-defined]

from burn.errors import ModelError
from burn.importers.onnx import import_onnx
from burn.importers.onnx.ops.vendor_refused import LIMITS, REFUSED, VALUES
from tests.importers.reference import evaluate
from tests.importers.vendor.case import DRAWERS, MICROSOFT, Case, runtime
from tests.importers.vendor.nchwc import NCHWC
from tests.importers.vendor.sweep import drawn, one
from tests.releases import release

COUNT = int(os.environ.get("BURN_SWEEP", "3"))
FIRST = int(os.environ.get("BURN_SWEEP_SEED", "0"))
OPERATORS = sorted(DRAWERS)
COMPILED = 6
"""Operators with one compiled case in each run."""


def _miscomputed(case: Case) -> bool:
    """True if a release before 1.31 is asked for MultiHeadAttention with past_sequence_length: it keeps the old keys."""
    filled = case.op == "MultiHeadAttention" and len(case.operands) > 8 and case.operands[8] is not None
    return filled and release("onnxruntime") < (1, 31)


@pytest.mark.parametrize("op", OPERATORS)
def test_computes_what_onnx_runtime_computes(op: str) -> None:
    outcomes = [(seed, one(op, seed)) for seed in range(FIRST, FIRST + COUNT) if not _miscomputed(drawn(op, seed))]
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


SCHEMAS = {s.name: s for s in state.get_all_operator_schema() if s.domain == MICROSOFT}
KERNELS = {(k.domain, k.op_name) for k in state.get_all_opkernel_def() if k.provider == "CPUExecutionProvider"}


ELSEWHERE = {(MICROSOFT, "Tokenizer")} | {key for key in KERNELS if key[0] == NCHWC}
"""Operators that tests of their own compare with the runtime: test_text_pipelines.py, test_nchwc.py."""


def test_every_operator_of_the_runtime_works_or_is_refused() -> None:
    """Every operator that ONNX Runtime has on CPUs is drawn here, or has a reason; 70 of com.microsoft's operators work.

    Operators of later releases than the installed one count as its own."""
    own = {key for key in KERNELS if key[0].startswith(MICROSOFT)}
    working = {(MICROSOFT, op) for op in OPERATORS}
    assert own <= working | REFUSED.keys() | ELSEWHERE
    assert not working & REFUSED.keys()
    later = {key for key in working if key[1] not in SCHEMAS}
    assert len((own | later) & working) >= 70


@pytest.mark.parametrize("op", OPERATORS)
def test_all_operands_and_attributes_are_drawn(op: str) -> None:
    """Whatever the runtime's definition of an operator lists is drawn, or refused."""
    if op not in SCHEMAS:
        pytest.skip("the installed ONNX Runtime does not have it")
    cases = [drawn(op, seed) for seed in range(80)]
    operands = {i for case in cases for i, a in enumerate(case.operands) if a is not None}
    attributes = {name for case in cases for name, value in case.attributes.items() if value is not None}
    schema = SCHEMAS[op]
    missing = {p.name for i, p in enumerate(schema.inputs) if i not in operands} | (
        schema.attributes.keys() - attributes
    )
    assert missing == set(LIMITS.get(op, ()))


@pytest.mark.parametrize(("op", "name"), [(op, name) for op, names in LIMITS.items() for name in names])
def test_a_limit_is_refused_by_name(op: str, name: str) -> None:
    schema = SCHEMAS[op]
    index = next((i for i, p in enumerate(schema.inputs) if p.name == name), None)
    case = drawn(op, 0)
    extra: dict[str, Any] = {name: 1} if index is None else {}
    model = case.model(**extra)
    if index is not None:
        node = model.graph.node[0]
        node.input.extend([""] * (index + 1 - len(node.input)))
        node.input[index] = next(n for n in node.input if n)
    with pytest.raises(ModelError, match=f"attribute '{name}'" if index is None else f"operand {index} |{name}"):
        import_onnx(model)


@pytest.mark.parametrize(("op", "name"), [(op, name) for op in OPERATORS for name in VALUES.get(op, {})])
def test_a_value_is_refused_by_name(op: str, name: str) -> None:
    case = drawn(op, 0)
    case.attributes.pop(name, None)
    with pytest.raises(ModelError, match=f"attribute '{name}'"):
        import_onnx(case.model(**{name: VALUES[op][name]}))


@pytest.mark.parametrize(("domain", "op"), sorted(REFUSED))
def test_what_is_refused_says_why(domain: str, op: str) -> None:
    model = Case(op, [np.ones((2, 3), np.float32)], domain=domain).model()
    with pytest.raises(ModelError, match="not supported: "):
        import_onnx(model)


def test_a_domain_of_the_runtime_need_not_be_imported() -> None:
    case = drawn("Gelu", 0)
    model = case.model()
    del model.opset_import[1:]
    (found,) = evaluate(import_onnx(model), case.feeds()).values()
    (wanted,) = runtime(model, case.feeds())
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
