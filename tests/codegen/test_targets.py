"""The same program compiled for each kind of CPU that this machine can stand in for."""

from __future__ import annotations

import numpy as np
import pytest

from burn.codegen.cpu.target import TARGETS
from burn.compiler import executable
from burn.dialect import ops
from burn.dialect.dims import symbol
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.runtime.host import features

RUNNABLE = [name for name, target in TARGETS.items() if set(target.features) <= features()]


def network(weight: np.ndarray, matrix: np.ndarray) -> Program:
    """A padded convolution with a rectifier, its mean over space, a product, and a softmax."""
    program = Program.create([("x", TensorType("float32", (symbol("n"), 5, 9, 11)))])

    def constant(array: np.ndarray):
        key = program.weights.add_array(array, "w")
        return ops.weight(key=key, shape=array.shape, dtype="float32")

    with program.building("network"):
        (x,) = program.inputs
        y = ops.conv(x, constant(weight), strides=(1, 2), dilations=(1, 1), low=(1, 1), high=(1, 1))
        y = ops.reduce(ops.relu(y), kind="sum", axes=(2, 3))
        y = ops.dot_general(y, constant(matrix), lhs_contract=(1,), rhs_contract=(0,))
        y = ops.softmax(ops.mul(y, ops.full(shape=(), dtype="float32", value=0.01)), axis=-1)
    return program.finish([("y", y)])


def reference(x: np.ndarray, weight: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """The same in float64, by its definition."""
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, weight.shape[2:], axis=(2, 3))[:, :, :, ::2]
    hidden = np.maximum(np.einsum("nchwij,ocij->nohw", windows, weight), 0).sum((2, 3))
    logits = hidden @ matrix.astype(np.float64) * np.float64(np.float32(0.01))
    shifted = np.exp(logits - logits.max(-1, keepdims=True))
    return shifted / shifted.sum(-1, keepdims=True)


@pytest.mark.parametrize("target", RUNNABLE)
@pytest.mark.parametrize("batch", [0, 1, 3, 8])
def test_targets_agree(target: str, batch: int) -> None:
    rng = np.random.default_rng(batch)
    weight = rng.standard_normal((37, 5, 3, 3), np.float32)
    matrix = rng.standard_normal((37, 19), np.float32)
    x = rng.standard_normal((batch, 5, 9, 11), np.float32)
    run = executable(network(weight, matrix), target=target)
    np.testing.assert_allclose(run(x), reference(x, weight, matrix), rtol=2e-4, atol=1e-6)


def test_the_widest_target_is_chosen() -> None:
    assert "generic" in RUNNABLE
    assert RUNNABLE[0] == next(name for name, t in TARGETS.items() if set(t.features) <= features())
