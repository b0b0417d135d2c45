"""The ONNX node tests of the further operator families, evaluated without a compiler.

They run as they are, and with every size made symbolic, so that one program serves all sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from burn.dialect.control import If, Loop
from burn.dialect.mlir import context, ir
from burn.dialect.op import Op
from burn.dialect.program import Program
from burn.errors import BurnError
from burn.importers.onnx import import_onnx
from burn.importers.onnx.node import BUILDERS
from tests.every import check_every
from tests.importers.families import modules
from tests.importers.reference import evaluate
from tests.onnx_suite.cases import Case, load_cases
from tests.onnx_suite.compare import compare

NOT_THE_SAME = {
    "test_bernoulli": "the numbers are those of numpy's generator",
    "test_bernoulli_double": "the numbers are those of numpy's generator",
    "test_bernoulli_seed": "the numbers are those of numpy's generator",
    "test_dft_inverse": "expects what float32 leaves of a bin that is zero",
    "test_resize_downsample_scales_cubic_align_corners": "corners lie on corners, as in the runtimes (docs/guide/onnx.md)",
    "test_resize_downsample_scales_linear_align_corners": "corners lie on corners, as in the runtimes (docs/guide/onnx.md)",
    "test_dft_inverse_opset19": "expects what float32 leaves of a bin that is zero",
}
NOT_SUPPORTED = ("ImageDecoder",)
"""Operators that are refused."""

ELSEWHERE = ("test_nonmaxsuppression", "test_image_decoder")
"""Tests that need the runtime's library, and tests of refused operators."""

NEED_SIZES = (
    "must be known",
    "the hidden size must be a number",
    "must be at most",
    "is not known",
    "do not share",
    "1 or 2 parts",
)
"""Accepted errors of models with only symbolic sizes."""


def _cases() -> list[Case]:
    second = modules(first=False)
    found = []
    for case in load_cases(("node",)):
        nodes = onnx.ModelProto.FromString(case.model).graph.node
        builders = [BUILDERS.get((n.domain, n.op_type)) for n in nodes]
        own = any(b is not None and b.__module__ in second for b in builders)
        elsewhere = case.name.startswith(ELSEWHERE) or case.name in NOT_THE_SAME or "expanded" in case.name
        if own and not elsewhere and _tensors(case):
            found.append(case)
    return found


def _tensors(case: Case) -> bool:
    """True if all inputs and outputs are tensors of numbers; test_strings.py and test_sequences.py have the others."""
    graph = onnx.ModelProto.FromString(case.model).graph
    if any(value.type.WhichOneof("value") != "tensor_type" for value in (*graph.input, *graph.output)):
        return False
    arrays = [a for inputs, outputs in case.data_sets for a in (*inputs, *outputs)]
    return all(isinstance(a, np.ndarray) and a.dtype.kind not in "OU" for a in arrays)


CASES = _cases()
CHUNKS = 8


def check_ops(block: ir.Block) -> int:
    """Runs every op's own check, inside regions too; how many there are."""
    count = 0
    for operation in block.operations:
        view: Any = operation if isinstance(operation, ir.OpView) else operation.opview
        assert isinstance(view, Op)
        view.check()
        count += 1
        for region in view.operation.regions:
            assert isinstance(view, (If, Loop))
            count += sum(check_ops(inner) for inner in region.blocks)
    return count


def run(case: Case, program: Program) -> None:
    with context():
        assert check_ops(program.block) > 0
    for inputs, outputs in case.data_sets:
        results = evaluate(program, dict(zip(program.input_names, inputs, strict=True)))
        compare(outputs, list(results.values()), case.rtol, case.atol)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_nodes(chunk: int) -> None:
    check_every(CASES[chunk::CHUNKS], _node, lambda case: case.name)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_nodes_with_symbolic_sizes(chunk: int) -> None:
    check_every(CASES[chunk::CHUNKS], _node_with_symbolic_sizes, lambda case: case.name)


def _node(case: Case) -> None:
    try:
        program = import_onnx(case.model)
    except BurnError as error:
        assert any(text in str(error) for text in NOT_SUPPORTED), error
        return
    run(case, program)


def _node_with_symbolic_sizes(case: Case) -> None:
    model = onnx.ModelProto.FromString(case.model)
    for value in model.graph.input:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_value > 1:
                size = dim.dim_value
                dim.Clear()
                dim.dim_param = f"s{size}"
    try:
        program = import_onnx(model)
    except BurnError as error:
        assert any(text in str(error) for text in (*NEED_SIZES, *NOT_SUPPORTED)), error
        return
    run(case, program)


def test_there_are_cases() -> None:
    assert len(CASES) > 350
