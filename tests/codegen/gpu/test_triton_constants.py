"""Scalar functions of two or three operands with a constant as one of them, printed for a GPU and run in Triton's interpreter."""

from __future__ import annotations

import pytest

from burn.codegen.triton.backend import GPU
from burn.dialect import ops
from burn.dialect.functions import FUNCTIONS, Function
from burn.dialect.program import Program
from burn.dialect.types import DTYPES, TensorType
from burn.passes import pipeline
from burn.passes.environment import Environment
from tests.kernels.interpreting import agree, interpreted
from tests.passes.cases import random

simulated = pytest.importorskip("tests.codegen.gpu.simulated")
pytest.importorskip("triton")
pytest.importorskip("torch")

N = 13
VALUES = {"float": (1.5, -0.75), "int": (3, -2), "uint": (3, 31), "bool": (True, False)}
TYPES = (
    "float32",
    "float64",
    "float16",
    "bfloat16",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "bool",
)
CASES = [
    pytest.param(function, dtype, id=f"{function.name}-{dtype}")
    for function in FUNCTIONS
    for dtype in TYPES
    if function.arity > 1 and DTYPES[dtype].kind in function.kinds
]


@pytest.mark.parametrize(("function", "dtype"), CASES)
def test_constant_operands(function: Function, dtype: str) -> None:
    kind = DTYPES[dtype].kind
    program = Program.create([(f"x{i}", TensorType(dtype, (N,))) for i in range(function.arity)])
    results = []
    with program.building("node"):
        for index in range(function.arity):
            for value in VALUES[kind]:
                operands = list(program.inputs)
                operands[index] = ops.full(value=value, dtype=dtype, shape=(N,))
                results.append((f"{index}_{value}", getattr(ops, function.name)(*operands)))
    program.finish(results)
    arrays = [random(t, {}, 70 + i) for i, t in enumerate(program.input_types)]
    pipeline.run(pipeline.parse("simplify,fuse"), program, Environment(GPU()))
    want = interpreted(program, arrays, preferences=GPU().preferences)
    agree(interpreted(program, arrays, simulated.Simulator().launch, GPU().preferences), want)
