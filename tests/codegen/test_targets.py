"""The same program compiled for each kind of CPU that this machine can stand in for."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from burn.codegen.cpu.heuristics.panels import packed_width
from burn.codegen.cpu.heuristics.registers import tile_rows
from burn.codegen.cpu.target import TARGETS, Target, host_target, host_targets
from burn.compiler import compile_program, executable
from burn.dialect import ops
from burn.dialect.dims import symbol
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.kernels.layouts import PackedMatmul
from burn.options import Options
from burn.runtime.host import features

ONE_LANE = replace(TARGETS["generic"], name="one lane", vector_bytes=4, vector_registers=32)
"""As CPUs without vectors are compiled for."""

RUNNABLE = [target.name for target in host_targets(features())]


@pytest.mark.parametrize("target", TARGETS.values(), ids=lambda target: target.name)
def test_a_matmul_is_compiled_for_every_cpu(target: Target) -> None:
    """Cross compilation on any machine: a matmul of every number of rows with a long epilogue."""
    types = [TensorType("float32", (symbol("n"), 96)), TensorType("float32", (96, 160))]
    program = Program.create([("x", types[0]), ("w", types[1])])
    with program.building("layer"):
        x, w = program.inputs
        y = ops.gelu(ops.dot_general(x, w, lhs_contract=(1,), rhs_contract=(0,)))
    artefact = compile_program(program.finish([("y", y)]), Options(target=target, as_text=True))
    assert set(artefact.target.features) >= set(target.features)
    assert len(artefact.code) > 1000


@pytest.mark.parametrize("target", TARGETS.values(), ids=lambda target: target.name)
def test_a_tile_of_sums_fits_into_the_registers(target: Target) -> None:
    """With a panel's columns and an element of the other side; of short vectors more are taken, where there are registers."""
    lanes = target.lanes(4)
    for columns in (*range(40), 384, 1000):
        width = packed_width(PackedMatmul(symbol("m"), columns, 512, "float32"), target)
        vectors, rest = divmod(width, lanes)
        assert rest == 0
        assert tile_rows(symbol("n"), vectors, target) * vectors + vectors + 1 <= target.vector_registers
        assert -(-columns // width) * width <= max(1.5 * -(-columns // lanes) * lanes, width)
    most = packed_width(PackedMatmul(symbol("m"), 384, 512, "float32"), target) // lanes
    wide = target.vector_bytes > 4 and target.vector_registers >= 32 and not target.tiles
    assert most == (4 if wide else 3 if target.name == "avx2" else 2)


@pytest.mark.parametrize(("target", "held"), [("simd128", True), ("avx2", False)])
def test_a_module_of_webassembly_holds_its_sizes(target: str, held: bool) -> None:
    """Other programs' kernels take those as arguments that are no small numbers, so that layers share them."""
    types = [TensorType("float32", (37, 96)), TensorType("float32", (96, 160))]
    program = Program.create([("x", types[0]), ("w", types[1])])
    with program.building("layer"):
        y = ops.dot_general(*program.inputs, lhs_contract=(1,), rhs_contract=(0,))
    text = bytes(
        compile_program(program.finish([("y", y)]), Options(target=TARGETS[target], as_text=True)).code
    ).decode()
    kernels = re.findall(r"^define internal void @kernel.*?^}", text, re.MULTILINE | re.DOTALL)
    assert kernels and all(("load i64, ptr" not in kernel) == held for kernel in kernels)


def network(weight: np.ndarray, matrix: np.ndarray) -> Program:
    """A padded convolution with a rectifier, its mean over space, a matmul, and a softmax."""
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


def test_vnni_differs_from_avx512_for_bytes_alone() -> None:
    """So that tests of floats run on one of them (cpus.py). Costs change the sizes of blocks, and the default target has its own
    in every test."""
    vnni, avx512 = TARGETS["vnni"], TARGETS["avx512"]
    same = replace(vnni, name=avx512.name, features=avx512.features)
    assert same == avx512 and set(vnni.features) - set(avx512.features) == {"avx512vnni"}
    assert (vnni.byte_run, avx512.byte_run) == (4, 2)
    bf16 = TARGETS["avx512bf16"]
    assert replace(bf16, name=vnni.name, features=vnni.features, costs=vnni.costs) == vnni
    assert set(bf16.features) - set(vnni.features) == {"avx512bf16"}


@pytest.mark.covering
@pytest.mark.parametrize("target", [*RUNNABLE, ONE_LANE], ids=lambda t: getattr(t, "name", t))
@pytest.mark.parametrize("batch", [0, 1, 3, 8])
def test_targets_agree(target: str | Target, batch: int) -> None:
    rng = np.random.default_rng(batch)
    weight = rng.standard_normal((37, 5, 3, 3), np.float32)
    matrix = rng.standard_normal((37, 19), np.float32)
    x = rng.standard_normal((batch, 5, 9, 11), np.float32)
    run = executable(network(weight, matrix), Options(target=target))
    np.testing.assert_allclose(run(x), reference(x, weight, matrix), rtol=2e-4, atol=1e-6)


def test_the_widest_target_is_chosen() -> None:
    assert "generic" in RUNNABLE
    assert RUNNABLE[0] == host_target(features()).name


def matmuls(dtype: str, shapes: list[tuple[int, int, int]]) -> Program:
    """Matmuls of inputs, [m, k] by [k, n] each."""
    types = [
        (f"x{i}{side}", TensorType(dtype, d))
        for i, (m, k, n) in enumerate(shapes)
        for side, d in enumerate(((m, k), (k, n)))
    ]
    program = Program.create(types)
    with program.building("products"):
        factors = list(program.inputs)
        made = [
            ops.dot_general(a, b, lhs_contract=(1,), rhs_contract=(0,))
            for a, b in zip(factors[::2], factors[1::2], strict=True)
        ]
    return program.finish([(f"y{i}", y) for i, y in enumerate(made)])


@pytest.mark.parametrize("target", [*RUNNABLE, ONE_LANE], ids=lambda t: getattr(t, "name", t))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_matmuls_of_inputs(target: str | Target, dtype: str) -> None:
    """Columns that fill no panel, one panel, and some and a rest, of each target's width."""
    rng = np.random.default_rng(5)
    shapes = [(7, 5, 1), (1, 3, 4), (6, 1, 17), (13, 31, 33), (5, 0, 3), (0, 2, 2), (3, 64, 64)]
    operands = [rng.standard_normal(d).astype(dtype) for m, k, n in shapes for d in ((m, k), (k, n))]
    made = executable(matmuls(dtype, shapes), Options(target=target))(*operands)
    for a, b, y in zip(operands[::2], operands[1::2], made, strict=True):
        np.testing.assert_allclose(y, a.astype(np.float64) @ b, rtol=1e-4, atol=1e-5)


NEWER = {"generic": r"\bv[a-z]|[yz]mm", "avx2": r"zmm|xmm(1[6-9]|2\d|3[01])|ymm(1[6-9]|2\d|3[01])|%k[0-7]"}
"""Patterns in the disassembly of instructions that only a newer kind of CPU has."""


@pytest.mark.skipif(shutil.which("objdump") is None, reason="objdump shows the code")
@pytest.mark.parametrize("target", list(NEWER))
def test_code_is_for_its_target_and_not_for_this_machine(target: str, tmp_path: Path) -> None:
    code = tmp_path / "code.o"
    code.write_bytes(compile_program(matmuls("float32", [(9, 16, 37)]), Options(target=target)).code)
    shown = subprocess.run(["objdump", "-d", "--no-show-raw-insn", code], capture_output=True, text=True, check=True)
    instructions = [line.partition(":")[2] for line in shown.stdout.splitlines() if line.startswith(" ")]
    assert len(instructions) > 100
    assert not [line for line in instructions if re.search(NEWER[target], line)]
