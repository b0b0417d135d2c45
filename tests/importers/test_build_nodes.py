"""The ONNX node tests, imported and evaluated by the reference evaluator: what the importer builds, without a compiler.

Run twice: as they are, and with every size made symbolic, so that the same program must serve sizes that it does not
know. The compiled programs are tested in tests/onnx_suite.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from burn.dialect.op import Op
from burn.dialect.program import Program
from burn.errors import BurnError
from burn.importers.onnx import import_onnx
from tests.every import check_every
from tests.importers.families import modules
from tests.importers.reference import evaluate
from tests.onnx_suite.cases import Case, load_cases
from tests.onnx_suite.compare import compare

NOT_THE_SAME = {
    "test_training_dropout": "the mask is that of numpy's generator",
    "test_training_dropout_default": "the mask is that of numpy's generator",
    "test_training_dropout_default_mask": "the mask is that of numpy's generator",
    "test_training_dropout_mask": "the mask is that of numpy's generator",
    "test_attention_4d_causal_fp16_expanded": "one unit in the last place of float16, more than the tolerance",
}
NOT_SYMBOLIC = (
    "the number of",
    "how many axes there are",
    "must be a vector of known length",
    "must be at most",
    "axes do not fit",
)
"""Accepted errors of models with only symbolic sizes: the rank of a value would be unknown."""


def _own_operators() -> set[str]:
    from burn.importers.onnx.node import BUILDERS

    names = modules(first=True)
    return {op for (domain, op), builder in BUILDERS.items() if domain == "" and builder.__module__ in names}


def _cases() -> list[Case]:
    own = _own_operators()
    return [c for c in load_cases(("node",)) if all(n.op_type in own for n in _model(c).graph.node) and _tensors(c)]


def _model(case: Case) -> onnx.ModelProto:
    return onnx.ModelProto.FromString(case.model)


def _tensors(case: Case) -> bool:
    """True if the case has tensors of numbers only."""
    arrays = [a for inputs, outputs in case.data_sets for a in (*inputs, *outputs)]
    return all(isinstance(a, np.ndarray) and a.dtype.kind not in "OU" for a in arrays)


CASES = _cases()
COMPARED = [case for case in CASES if case.name not in NOT_THE_SAME]
CHUNKS = 16


def _check_ops(program: Program) -> None:
    for operation in program.block.operations:
        view: Any = operation.opview if hasattr(operation, "opview") else operation
        assert isinstance(view, Op)
        view.check()


def _check_results(case: Case, program: Program) -> None:
    for inputs, outputs in case.data_sets:
        results = evaluate(program, dict(zip(program.input_names, inputs, strict=True)))
        compare(outputs, list(results.values()), case.rtol, case.atol)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_nodes(chunk: int) -> None:
    check_every(COMPARED[chunk::CHUNKS], _node, lambda case: case.name)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_nodes_with_symbolic_sizes(chunk: int) -> None:
    check_every(COMPARED[chunk::CHUNKS], _node_with_symbolic_sizes, lambda case: case.name)


def _node(case: Case) -> None:
    program = import_onnx(case.model)
    _check_ops(program)
    _check_results(case, program)


def _node_with_symbolic_sizes(case: Case) -> None:
    model = _model(case)
    for value in model.graph.input:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_value > 1:
                size = dim.dim_value
                dim.Clear()
                dim.dim_param = f"s{size}"
    try:
        program = import_onnx(model)
    except BurnError as error:
        assert any(text in str(error) for text in NOT_SYMBOLIC), error
        return
    _check_ops(program)
    _check_results(case, program)


def test_there_are_cases() -> None:
    assert len(CASES) > 900
    assert set(NOT_THE_SAME) <= {c.name for c in CASES}
