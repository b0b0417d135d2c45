"""Kernels exchange bytes: what cheap ops make of quantised values is recomputed in each kernel that reads it, on CPUs."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import burn
from burn import ops
from burn.codegen.cpu.backend import CPU
from burn.codegen.cpu.target import TARGETS
from burn.dialect import ops as made
from burn.dialect.compose import number
from burn.dialect.program import Program
from burn.dialect.types import TensorType, type_of
from burn.passes import pipeline
from burn.passes.environment import Environment
from burn.tensors import Tensor
from tests.codegen.cpus import FLOAT_TARGETS

SCALE, ZERO = np.float32(0.0625), np.uint8(119)


def layers(x: Tensor, y: Tensor, w: Tensor) -> Tensor:
    """A matmul and a residual sum read a dequantised value, the first rectified."""
    kept = ops.dequantize(ops.quantize(x + y, SCALE, ZERO, dtype="uint8"), SCALE, ZERO, dtype="float32")
    return burn.relu(kept) @ w + kept


def stored(repeat: bool, expensive: bool = False) -> list[str]:
    """The element types of the matrices that the kernels of two layers store, sorted."""
    square = TensorType("float32", (37, 37))
    program = Program.create([(name, square) for name in "xy"])
    with program.building("layers"):
        x, y = program.inputs
        key = program.weights.add_array(np.ones((37, 37), np.float32), "w")
        w = made.weight(key=key, shape=(37, 37), dtype="float32")
        scale = number(float(SCALE), "float32")
        zero = made.full(shape=(), dtype="uint8", value=float(ZERO), bits=int(ZERO))
        axes = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (1,), "rhs_contract": (0,)}
        first = made.add(made.dot_general(x, w, **axes), y)
        kept = made.dequantize(made.quantize(first, scale, zero, dtype="uint8"), scale, zero, dtype="float32")
        kept = made.exp(kept) if expensive else kept
        result = made.add(made.dot_general(made.relu(kept), w, **axes), kept)
    program = program.finish([("out", result)])
    cpu = CPU(TARGETS["avx512"])
    preferences = replace(cpu.preferences, repeat_dequantised=repeat)
    backend: Any = SimpleNamespace(preferences=preferences, layouts=cpu.layouts, custom_bodies=(), name="cpu")
    passes = "decompose,simplify,pack,fuse,release"
    pipeline.run(pipeline.parse(passes), program, Environment(backend))
    groups = [op.opview for op in program.block.operations if op.operation.name == "burn.group"]
    results = [type_of(v) for g in groups for v in g.operation.results]
    return sorted(t.dtype for t in results if t.shape == (37, 37))


def test_bytes_are_stored() -> None:
    """The second matmul reads rectified floats. Its residual sum reads bytes."""
    assert stored(False) == ["float32", "float32", "float32"]
    assert stored(True) == ["float32", "float32", "uint8"]


def test_expensive_functions_are_not_repeated() -> None:
    assert stored(True, expensive=True) == stored(False, expensive=True) == ["float32", "float32", "float32"]


@pytest.mark.parametrize("target", FLOAT_TARGETS)
@pytest.mark.parametrize("size", [1, 37])
def test_numbers(size: int, target: str) -> None:
    """Against float64. Infinities saturate, and the byte of NaN is unspecified but the same for all readers."""
    rng = np.random.default_rng(size)
    x, y, w = rng.standard_normal((3, size, size), np.float32) * 4
    x[0, 0] = np.inf
    got = burn.compile(layers, [x, y, w], target=target, cache=False)(x, y, w)
    steps = np.clip(np.rint((x + y) / SCALE), -119.0, 136.0)
    kept = steps.astype("f8") * SCALE
    np.testing.assert_allclose(got, np.maximum(kept, 0) @ w.astype("f8") + kept, rtol=1e-5, atol=1e-4)
