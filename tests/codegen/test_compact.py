"""Code for size: sizes are arguments of kernels that layers share, where a program has many (`heuristics/programs.py`)."""

from __future__ import annotations

import numpy as np
import pytest

from burn.codegen.cpu.heuristics import programs
from burn.codegen.cpu.target import compact, host_targets
from burn.compiler import executable
from burn.dialect import ops
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.options import Options
from burn.runtime.host import features

TARGETS = [target for target in host_targets(features()) if target.byte_run > 1 or target.name == "generic"]
SHAPES = [(m, k, n) for m in (1, 2) for k, n in ((3, 4), (5, 3), (6, 4), (6, 8), (9, 17), (64, 33))]


@pytest.mark.parametrize("few", [0, programs.FEW_KERNELS], ids=["arguments", "numbers"])
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_int8_matmuls(target, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """How many bytes lie side by side in a panel is no size: it stays a number, whatever becomes an argument."""
    monkeypatch.setattr(programs, "FEW_KERNELS", few)
    rng = np.random.default_rng(0)
    program = Program.create([(f"x{i}", TensorType("uint8", (m, k))) for i, (m, k, _) in enumerate(SHAPES)])
    weights = [rng.integers(-128, 128, (k, n), np.int8) for _, k, n in SHAPES]
    with program.building("products"):
        made = []
        for x, w in zip(program.inputs, weights, strict=True):
            weight = ops.weight(key=program.weights.add_array(w, "w"), shape=w.shape, dtype="int8")
            made.append(ops.dot_general(x, weight, lhs_contract=(1,), rhs_contract=(0,), dtype="int32"))
    run = executable(program.finish([(f"y{i}", y) for i, y in enumerate(made)]), Options(target=compact(target)))
    operands = [rng.integers(0, 256, (m, k), np.uint8) for m, k, _ in SHAPES]
    for x, w, y in zip(operands, weights, run(*operands), strict=True):
        np.testing.assert_array_equal(y, x.astype(np.int32) @ w.astype(np.int32))
