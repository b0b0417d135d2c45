"""Random ONNX graphs, a few in every run: some fixed, and some fresh.

BURN_FUZZ_GRAPHS sets how many, BURN_FUZZ_SEED the first seed of the fresh ones, BURN_FUZZ_TARGET the CPU to compile for.
`python -m tests.fuzz.onnx --one SEED` repeats a failure (with `--mode` and `--target` as they were).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.codegen.wgsl.present import needs_webgpu
from tests.fuzz.onnx.case import Plan
from tests.fuzz.onnx.judge import ours_is_right
from tests.fuzz.onnx.many import outcomes
from tests.fuzz.onnx.ways import WAYS

FIXED = range(4)
FRESH = int(os.environ.get("BURN_FUZZ_SEED", str(int(time.time()) * 1000)))
COUNT = int(os.environ.get("BURN_FUZZ_GRAPHS", "0"))
TARGET = os.environ.get("BURN_FUZZ_TARGET")
JOBS = os.cpu_count() or 1


GRAPHS = {
    "load": 4,
    "bf16": 2,
    "fp16": 1,
    "import": 2,
    "export": 2,
    "size": 2,
    "package": 2,
    "folded": 2,
    "reference": 2,
    "xla": 2,
    "command": 1,
    "library": 1,
    "wasm": 1,
}
"""Of the fixed seeds: what compiles C code takes seconds a graph."""


@pytest.mark.parametrize("mode", sorted(GRAPHS))
def test_graphs_compute_what_onnx_runtime_computes(mode: str) -> None:
    if mode == "xla":
        pytest.importorskip("jax")
    if mode == "wasm":
        pytest.importorskip("ziglang")
        if shutil.which("node") is None:
            pytest.skip("node is not here")
    seeds = [*FIXED[: GRAPHS[mode]], *range(FRESH, FRESH + COUNT)]
    plan = Plan(mode, TARGET, threads=1, length=None if COUNT else 12)
    found = outcomes(seeds, plan, min(JOBS, len(seeds)))
    failed = [o for o in found if o.failed or o.kind in ("crash", "timeout")]
    assert not failed, f"{len(failed)} of {len(seeds)}\n" + "\n".join(
        f"{o.seed}: {o.kind}: {o.text}" for o in failed[:10]
    )


def test_graphs_on_webgpu() -> None:
    """In a process of their own: one that has a device, from an earlier test, cannot be forked."""
    needs_webgpu()
    command = [sys.executable, "-m", "tests.fuzz.onnx", "--mode", "wgpu", "--count", "2", "--length", "12", "-j", "1"]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "2 same" in done.stdout, done.stdout + done.stderr


def test_every_way_is_tested() -> None:
    assert {*GRAPHS, "cuda", "wgpu"} == set(WAYS)


def test_a_fused_activation_is_judged() -> None:
    """ONNX Runtime's fused sigmoid gives 0 for -20 and -30, and float64 tells them apart: burn's ArgMin is right."""
    node = helper.make_node
    model = helper.make_model(
        helper.make_graph(
            [
                node("FusedConv", ["x", "w"], ["y"], domain="com.microsoft", activation="Sigmoid"),
                node("ArgMin", ["y"], ["z"], axis=2, keepdims=0),
            ],
            "fused",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 1, 2))],
            [helper.make_tensor_value_info("z", TensorProto.INT64, (1, 1))],
            [helper.make_tensor("w", TensorProto.FLOAT, (1, 1, 1), [1.0])],
        ),
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)],
    )
    feed = {"x": np.array([[[-20, -30]]], np.float32)}
    zero, one = ({"z": np.array([[i]])} for i in (0, 1))
    assert ours_is_right(model, feed, one, zero)
    assert not ours_is_right(model, feed, zero, one)
