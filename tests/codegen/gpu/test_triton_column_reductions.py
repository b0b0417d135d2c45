"""Sums down the columns of rows that a kernel goes through anyway: gradients of a norm's parameters beside those of its data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import burn
from burn import ops
from burn.codegen.triton.backend import GPU
from burn.codegen.triton.heuristics.column_reductions import column_block
from burn.codegen.triton.heuristics.loops import LoopBlock
from burn.codegen.triton.heuristics.preferences import PREFERENCES
from burn.dialect import ops as builders
from burn.dialect.mlir import context
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.kernels.body import LoopKernel
from burn.kernels.builders import kernels
from burn.kernels.preferences import Preferences
from burn.kernels.text import groups
from burn.passes import pipeline
from burn.passes.environment import Environment
from burn.tracing.trace import arguments_of, trace_call
from tests.kernels.interpreting import agree, interpreted
from tests.passes.cases import random

simulated = pytest.importorskip("tests.codegen.gpu.simulated")
pytest.importorskip("triton")
pytest.importorskip("torch")

Function = Callable[..., Any]

FEW = replace(PREFERENCES, column_reduction_blocks=3, column_reduction_rows=2)
"""Block sizes that split small tensors."""


@dataclass(frozen=True)
class SmallGPU(GPU):
    @property
    def preferences(self) -> Preferences:
        return FEW


def layer(x: burn.Tensor, w: burn.Tensor, b: burn.Tensor, g: burn.Tensor) -> Any:
    return burn.vjp(lambda x, w, b: ops.layer_norm(x, w, b, axis=-1, epsilon=1e-2), x, w, b)[1](g)


def rms(x: burn.Tensor, w: burn.Tensor, z: burn.Tensor, g: burn.Tensor) -> Any:
    return burn.vjp(lambda x, w, z: ops.rms_norm(x, w, axis=-1, epsilon=1e-2) * burn.silu(z), x, w, z)[1](g)


def traced(function: Function, types: Sequence[str]) -> Program:
    program = trace_call(function, arguments_of(function, list(types), None)).program
    pipeline.run(pipeline.parse(SmallGPU().pipeline.text), program, Environment(SmallGPU()))
    return program


def folding(program: Program, preferences: Preferences = FEW) -> list[int]:
    """How many folds each kernel has."""
    with context():
        made = [call.kernel for group in groups(program.block) for call in kernels(group, preferences)]
    return [len(kernel.column_reductions) for kernel in made if isinstance(kernel, LoopKernel)]


def layer_by_hand(x: np.ndarray, w: np.ndarray, _: np.ndarray, g: np.ndarray) -> list[np.ndarray]:
    centred = x - x.mean(-1, keepdims=True)
    scale = 1 / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-2)
    y, gradient = centred * scale, g * w
    inner = gradient - gradient.mean(-1, keepdims=True) - y * (gradient * y).mean(-1, keepdims=True)
    leading = tuple(range(x.ndim - 1))
    return [inner * scale, (g * y).sum(leading), g.sum(leading)]


SHAPES = [("17", "5"), ("20", "33"), ("16", "2"), ("3, 7", "70"), ("n", "9"), ("n, 2", "17")]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("rows", "columns"), SHAPES)
def test_gradients_of_a_layer_norm_are_two_kernels(rows: str, columns: str, dtype: str) -> None:
    """Blocks that do not come out even, rows that are no power of two, sizes without a number."""
    big, row = f"{dtype}[{rows}, {columns}]", f"{dtype}[{columns}]"
    program = traced(layer, [big, row, row, big])
    assert folding(program) == [2, 0]
    for n in (5, 0, 1) if "n" in rows else (5,):
        given = [random(t, {"n": n}, i) for i, t in enumerate(program.input_types)]
        got = interpreted(program, given, simulated.Simulator().launch, FEW)
        agree(got, interpreted(program, given, preferences=FEW))
        want = layer_by_hand(*(x.astype(np.float64) for x in given)) if n else []
        bound = 1e-4 if dtype == "float32" else 4e-2
        for mine, exact in zip(got, want, strict=False):
            np.testing.assert_allclose(mine.astype(np.float64), exact, rtol=bound, atol=bound * np.abs(exact).max())


def test_gradients_of_a_gated_norm_are_two_kernels() -> None:
    """Its weight is widened where it is read."""
    big, row = "float16[19, 40]", "float16[40]"
    program = traced(rms, [big, row, big, big])
    assert folding(program) == [1, 0]
    given = [random(t, {}, i) for i, t in enumerate(program.input_types)]
    got = interpreted(program, given, simulated.Simulator().launch, FEW)
    agree(got, interpreted(program, given, preferences=FEW))


def test_a_device_that_does_not_want_it_reads_what_rows_came_to() -> None:
    """The host, which runs ops without a GPU kernel, also reads the rows' results."""
    big, row = "float32[17, 5]", "float32[5]"
    program = traced(layer, [big, row, row, big])
    plain = replace(FEW, column_reduction_width=0)
    assert folding(program, plain) == [0, 0]
    given = [random(t, {}, i) for i, t in enumerate(program.input_types)]
    for mine, exact in zip(interpreted(program, given, preferences=plain), layer_by_hand(*given), strict=True):
        np.testing.assert_allclose(mine, exact, rtol=1e-4, atol=1e-4)


def test_a_kernel_has_few_accumulators() -> None:
    """Nine column sums of products with one tensor, whose rows are also summed. Six are in the kernel of the rows."""
    program = Program.create([(f"x{i}", TensorType("float32", (17, 5))) for i in range(10)])
    with program.building("node"):
        x, *others = program.inputs
        rows = builders.reduce(x, kind="sum", axes=(1,), keepdims=True)
        columns = [builders.reduce(builders.mul(x, other), kind="sum", axes=(0,)) for other in others]
    program.finish([("rows", rows), *((f"y{i}", y) for i, y in enumerate(columns))])
    pipeline.run(pipeline.parse("fuse"), program, Environment(SmallGPU()))
    assert sorted(filter(None, folding(program))) == [6]
    given = [random(t, {}, i) for i, t in enumerate(program.input_types)]
    x, *more = (each.astype(np.float64) for each in given)
    want = [x.sum(1, keepdims=True), *((x * other).sum(0) for other in more)]
    for mine, exact in zip(interpreted(program, given, preferences=FEW), want, strict=True):
        np.testing.assert_allclose(mine, exact, rtol=1e-5, atol=1e-5)


def test_a_broadcast_operand_is_no_reason_to_share_a_kernel() -> None:
    """Rows and columns of different tensors, both multiplied with one vector: a kernel of both would read as much."""
    shape = (17, 5)
    program = Program.create(
        [*((name, TensorType("float32", shape)) for name in "xy"), ("w", TensorType("float32", (5,)))]
    )
    with program.building("node"):
        x, y, w = program.inputs
        wide = builders.broadcast_to(w, shape=shape)
        rows = builders.reduce(builders.mul(x, wide), kind="sum", axes=(1,))
        columns = builders.reduce(builders.mul(y, wide), kind="sum", axes=(0,))
    program.finish([("rows", rows), ("columns", columns)])
    pipeline.run(pipeline.parse("fuse"), program, Environment(SmallGPU()))
    assert not any(folding(program))


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("kind", ["max", "sum"])
def test_both_ways_of_a_square(first: int, kind: str) -> None:
    """Rows and columns of a square are kept apart, in either order. Ops on the columns' results stay with the columns."""
    program = Program.create([("x", TensorType("float32", (9, 9)))])
    with program.building("node"):
        y = builders.tanh(program.inputs[0])
        one, other = (builders.reduce(y, kind=kind, axes=(axis,), keepdims=True) for axis in (first, 1 - first))
        one, other = builders.neg(one), builders.exp(other)
    program.finish([("y", y), ("one", one), ("other", other)])
    pipeline.run(pipeline.parse("fuse"), program, Environment(SmallGPU()))
    assert folding(program) == [1, 0]
    (x,) = given = [random(t, {}, i) for i, t in enumerate(program.input_types)]
    got = interpreted(program, given, simulated.Simulator().launch, FEW)
    whole = np.tanh(x.astype(np.float64))
    reduced = [getattr(whole, kind)(axis, keepdims=True) for axis in (first, 1 - first)]
    for mine, exact in zip(got, [whole, -reduced[0], np.exp(reduced[1])], strict=True):
        np.testing.assert_allclose(mine, exact, rtol=1e-5, atol=1e-5)


def test_what_needs_the_columns_stays_apart() -> None:
    """Elements from which a column's sum is taken away cannot be written on the way; nor can the sum of their rows."""
    program = Program.create([("x", TensorType("float32", (9, 5)))])
    with program.building("node"):
        x = builders.tanh(program.inputs[0])
        apart = builders.sub(x, builders.reduce(x, kind="sum", axes=(0,), keepdims=True))
        rows = builders.reduce(x, kind="sum", axes=(1,), keepdims=True)
        both = builders.add(rows, builders.reduce(apart, kind="max", axes=(1,), keepdims=True))
    program.finish([("apart", apart), ("both", both)])
    pipeline.run(pipeline.parse("fuse"), program, Environment(SmallGPU()))
    assert not any(folding(program))
    given = [random(t, {}, i) for i, t in enumerate(program.input_types)]
    got = interpreted(program, given, simulated.Simulator().launch, FEW)
    x = np.tanh(given[0].astype(np.float64))
    apart = x - x.sum(0)
    for mine, exact in zip(got, [apart, x.sum(1, keepdims=True) + apart.max(1, keepdims=True)], strict=True):
        np.testing.assert_allclose(mine, exact, rtol=1e-5, atol=1e-5)


def test_nothing_is_written_over_what_columns_are_made_of() -> None:
    """A row's results lie where its elements did only if no fold reads these behind them."""
    shape = (17, 5)
    program = Program.create([(name, TensorType("float32", shape)) for name in "xg"])
    with program.building("node"):
        x, g = program.inputs
        y = builders.mul(x, builders.reduce(g, kind="sum", axes=(1,), keepdims=True))
        columns = builders.reduce(builders.mul(x, g), kind="sum", axes=(0,))
    program.finish([("y", y), ("columns", columns)])
    program.given_up = (0,)
    pipeline.run(pipeline.parse("fuse,release,donate"), program, Environment(SmallGPU()))
    assert folding(program) == [1, 0]
    assert list(program.terminator.attributes["takes"]) == [-1, -1]


@pytest.mark.parametrize("shape", [(17, 5), (2, 9, 3), (16, 16)])
def test_what_goes_with_the_columns(shape: tuple[int, ...]) -> None:
    """An addend of the columns' sums that is also an output."""
    program = Program.create([("x", TensorType("float32", shape)), ("w", TensorType("float32", shape[-1:]))])
    leading = tuple(range(len(shape) - 1))
    with program.building("node"):
        x, w = program.inputs
        y = builders.tanh(x)
        decay = builders.neg(w)
        gradient = builders.add(builders.reduce(y, kind="sum", axes=leading), decay)
        best = builders.reduce(y, kind="max", axes=(len(shape) - 1,), keepdims=True)
    program.finish([("y", y), ("decay", decay), ("gradient", gradient), ("best", best)])
    pipeline.run(pipeline.parse("fuse"), program, Environment(SmallGPU()))
    assert 1 in folding(program) and len(folding(program)) <= 3
    given = [random(t, {}, i) for i, t in enumerate(program.input_types)]
    got = interpreted(program, given, simulated.Simulator().launch, FEW)
    whole, row = np.tanh(given[0].astype(np.float64)), given[1].astype(np.float64)
    for mine, exact in zip(got, [whole, -row, whole.sum(leading) - row, whole.max(-1, keepdims=True)], strict=True):
        np.testing.assert_allclose(mine, exact, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("axis", "folds"), [(0, []), (1, [1])])
def test_indices_beside_columns(axis: int, folds: list[int]) -> None:
    """A kernel holds one number for each column: the index of a column's largest element is another kernel's."""

    def function(x: burn.Tensor) -> Any:
        return x.argmax(axis), x.sum(1 - axis)

    program = traced(function, ["float32[20, 33]"])
    assert [count for count in folding(program) if count] == folds
    (x,) = arrays = [np.random.default_rng(0).standard_normal((20, 33)).astype("f4")]
    wanted = [x.argmax(axis), x.sum(1 - axis)]
    agree(interpreted(program, arrays, preferences=FEW), wanted)
    agree(interpreted(program, arrays, simulated.Simulator().launch, FEW), wanted)


@pytest.mark.parametrize(
    ("length", "block"), [(768, LoopBlock(2, 1024, 4)), (100, LoopBlock(16, 128, 4)), (4096, LoopBlock(1, 4096, 8))]
)
def test_several_programs_run_on_a_processor(length: int, block: LoopBlock) -> None:
    """A program of eight warps whose threads have 200 registers would be alone there, and wait for each row's sums."""
    assert column_block(length, 32, 16)[0] == block
