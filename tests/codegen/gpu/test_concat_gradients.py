"""Kernels of attention's backward pass that write into a concat's result, in both interpreters, against the same without it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from burn.codegen.triton.backend import GPU
from burn.dialect import ops
from burn.dialect.adjoint import gradients
from burn.dialect.program import Program
from burn.dialect.types import TensorType, numpy_dtype
from burn.kernels.preferences import Preferences
from burn.passes import pipeline
from burn.passes.environment import Environment
from tests.kernels.interpreting import interpreted

simulated = pytest.importorskip("tests.codegen.gpu.simulated")

B, H, D = 2, 2, 16
KEPT = "attention+attention_forward+attention_backward"


def joined(length: int, dtype: str, stacked: bool) -> Program:
    """The gradients of queries, keys and values [b, h, s, d] as [b, s, 3 h d]: by columns, or stacked and transposed."""
    shape = (B, H, length, D)
    program = Program.create([(name, TensorType(dtype, shape)) for name in "qkvg"])
    *operands, g = program.inputs
    with program.building("node"):
        found = gradients([ops.attention(*operands, scale=0.25)], [g], operands)
        if stacked:
            parts = [ops.reshape(x, shape=(1, *shape)) for x in found]
            whole = ops.transpose(ops.concat(parts, axis=0), permutation=(1, 3, 0, 2, 4))
        else:
            apart = [ops.transpose(x, permutation=(0, 2, 1, 3)) for x in found]
            whole = ops.concat([ops.reshape(x, shape=(B, length, H * D)) for x in apart], axis=2)
        whole = ops.reshape(whole, shape=(B, length, 3 * H * D))
        program.finish([("gradients", whole)])
    return program


@pytest.mark.parametrize("stacked", [False, True])
@pytest.mark.parametrize(("length", "dtype"), [(19, "bfloat16"), (150, "float16"), (21, "float32")])
def test_results(length: int, dtype: str, stacked: bool) -> None:
    random = np.random.default_rng(0)
    arrays = [random.standard_normal((B, H, length, D)).astype(numpy_dtype(dtype)) for _ in range(4)]
    results = []
    for together in (True, False):
        program, preferences = joined(length, dtype, stacked), replace(GPU().preferences, concat_gradients=together)
        environment = Environment(GPU())
        if not together:
            environment = Environment(_Apart())
        pipeline.run(pipeline.parse(f"decompose{{keep={KEPT}}},fuse"), program, environment)
        copies = sum('kind = "loop"' in str(op) or 'kind = "concat"' in str(op) for op in program.block.operations)
        assert copies == (0 if together else 1)
        results.append(interpreted(program, arrays, simulated.Simulator().launch, preferences)[0])
        if together and length < 30:
            results.append(interpreted(program, arrays, preferences=preferences)[0])
    for got in results[:-1]:
        close = 1e-5 if dtype == "float32" else 2e-2
        np.testing.assert_allclose(got.astype("f8"), results[-1].astype("f8"), rtol=close, atol=close)


class _Apart(GPU):
    @property
    def preferences(self) -> Preferences:
        return replace(super().preferences, concat_gradients=False)
