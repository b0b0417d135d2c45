"""Constants are folded on the compiling machine, whatever CPU or GPU the program is for.

A program of constants alone goes through the passes of every target, and what `fold` leaves is compared with a reference: nothing
of the other machine has to run. BURN_SWEEP=200 adds so many random ONNX graphs, from BURN_SWEEP_SEED on."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from burn.codegen.backend import Backend
from burn.codegen.cpu.backend import CPU
from burn.codegen.cpu.target import TARGETS, compact
from burn.codegen.triton.backend import GPU
from burn.compiler import environment
from burn.dialect import ops
from burn.dialect.constants import constant_array
from burn.dialect.mlir import context, ir
from burn.dialect.program import Program
from burn.dialect.query import op_of
from burn.dialect.types import TensorType, numpy_dtype
from burn.importers.onnx import import_onnx
from burn.passes import pipeline
from tests.fuzz.onnx.compare import difference
from tests.fuzz.onnx.cut import whole
from tests.fuzz.onnx.generate import generate

BACKENDS: dict[str, Backend] = {
    **{n: CPU(t, as_text=not t.is_compiled_here) for n, t in TARGETS.items() if n not in ("avx512", "apple-m1")},
    **{f"{name} for size": CPU(compact(TARGETS[name]), as_text=True) for name in ("vnni", "generic", "neon")},
    "cuda": GPU(),
}
SEED = int(os.environ.get("BURN_SWEEP_SEED", random.SystemRandom().randrange(1 << 32)))
GRAPHS = [*range(2), *range(SEED, SEED + int(os.environ.get("BURN_SWEEP", "0")))]


def weight(program: Program, array: np.ndarray) -> ir.Value:
    return ops.weight(key=program.weights.add_array(array, "w"), shape=array.shape, dtype=array.dtype.name)


def folded(program: Program, backend: Backend) -> dict[str, np.ndarray | None]:
    """The outputs after `fold`; None for one that is computed at run time."""
    before = backend.pipeline.text.partition(",rematerialise")[0]
    pipeline.run(pipeline.parse(before), program, environment(backend))
    with context():
        return {
            name: elements(value, program) for name, value in zip(program.output_names, program.outputs, strict=True)
        }


def elements(value: ir.Value, program: Program) -> np.ndarray | None:
    op = op_of(value)
    if op is None or op.OP_NAME not in ("weight", "constant", "full"):
        return None
    if op.OP_NAME != "full":
        return constant_array(value, program.weights)
    return np.full(op.shape, op.value if op.bits is None else op.bits, numpy_dtype(op.dtype))


def contractions() -> tuple[Program, dict[str, np.ndarray]]:
    """Matmuls whose columns fill no panel, one, and some with a remainder; in batches, of bytes; and convolutions."""
    rng = np.random.default_rng(0)
    program = Program.create([("x", TensorType("float32", (2,)))])
    made: dict[str, ir.Value] = {"x": program.inputs[0]}
    want: dict[str, np.ndarray] = {}
    with program.building("node"):
        for m, k, n in ((1, 2, 9), (2, 5, 23), (4, 7, 64), (3, 33, 65)):
            a, b = rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)
            name = f"{m} {k} {n}"
            made[name] = ops.dot_general(weight(program, a), weight(program, b), lhs_contract=(1,), rhs_contract=(0,))
            want[name] = a.astype(np.float64) @ b
            u, s = rng.integers(0, 256, (m, k), np.uint8), rng.integers(-128, 128, (k, n), np.int8)
            attrs = {"lhs_contract": (1,), "rhs_contract": (0,), "dtype": "int32"}
            made[f"{name} of bytes"] = ops.dot_general(weight(program, u), weight(program, s), **attrs)
            want[f"{name} of bytes"] = u.astype(np.int32) @ s.astype(np.int32)
        a, b = rng.standard_normal((3, 4, 6), np.float32), rng.standard_normal((3, 6, 19), np.float32)
        attrs = {"lhs_batch": (0,), "rhs_batch": (0,), "lhs_contract": (2,), "rhs_contract": (1,)}
        made["batch"] = ops.dot_general(weight(program, a), weight(program, b), **attrs)
        want["batch"] = a.astype(np.float64) @ b
        for size in (1, 3):
            x, w = rng.standard_normal((1, 4, 9, 7), np.float32), rng.standard_normal((17, 4, size, size), np.float32)
            made[f"conv {size}"] = ops.conv(
                weight(program, x), weight(program, w), strides=(1, 1), dilations=(1, 1), low=(0, 0), high=(0, 0)
            )
            windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), (size, size), (2, 3))
            want[f"conv {size}"] = np.einsum("nchwij,ocij->nohw", windows, w)
    return program.finish(list(made.items())), want


@pytest.mark.parametrize("backend", BACKENDS.values(), ids=list(BACKENDS))
def test_matmuls_of_constants(backend: Backend) -> None:
    program, want = contractions()
    got = folded(program, backend)
    for name, array in want.items():
        found = got[name]
        assert found is not None, name
        np.testing.assert_allclose(found, array, rtol=1e-5, atol=1e-4, err_msg=name)


def graph_of_constants(seed: int) -> tuple[onnx.ModelProto, Sequence, int]:
    """A random graph, its inputs as initializers with the elements of one set of sizes."""
    graph = generate(seed, length=10)
    read = {name for node in graph.nodes for name in node.input}
    outputs = [v for v in graph.values if v.name not in graph.inputs and v.name not in read]
    at = random.Random(seed).randrange(graph.sets)
    cut = whole(graph, outputs)
    model = graph.model(list(cut.outputs), list(cut.inputs), at)
    arrays = {value.name: value.arrays[at] for value in graph.values}
    model.graph.initializer.extend(numpy_helper.from_array(arrays[v.name], v.name) for v in model.graph.input)
    del model.graph.input[:]
    model.graph.input.append(helper.make_tensor_value_info("unread", 1, [1]))
    return model, cut.outputs, at


@pytest.mark.parametrize("seed", GRAPHS)
def test_graphs_of_constants(seed: int) -> None:
    """A target's layouts, or another's, and the usual ones: all fold to what ONNX Runtime computes."""
    model, outputs, at = graph_of_constants(seed)
    drawn = random.Random(seed)
    counted = 0
    for name in drawn.sample(list(BACKENDS), 4):
        got = folded(import_onnx(model.SerializeToString()), BACKENDS[name])
        for value in outputs:
            array = got[value.name]
            if array is not None:
                counted += 1
                told = difference(array, value.arrays[at], value.twins[at])
                assert not told, f"seed {seed}, {name}: {value.name}: {told}"
    assert counted
