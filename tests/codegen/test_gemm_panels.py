"""Panels: as wide as what their rows cost, and read by blocks of tiles that no run has more of than rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import burn
from burn.codegen.cpu.heuristics.panels import packed_width, panel_width
from burn.codegen.cpu.heuristics.preferences import preferences_of
from burn.codegen.cpu.matmul.schedule import Schedule
from burn.codegen.cpu.matmul.tiling import Tiled
from burn.codegen.cpu.target import TARGETS
from burn.compiler import compile_program
from burn.dialect import ops
from burn.dialect.control import Group
from burn.dialect.dims import Dim, evaluate, symbol
from burn.dialect.mlir import context
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.kernels.body import ContractionKernel
from burn.kernels.builders import kernels
from burn.kernels.layouts import PackedMatmul
from burn.options import Options
from burn.passes import pipeline
from burn.runtime import _native
from burn.runtime.executable import Executable
from tests.codegen.cpus import FLOAT_TARGETS


@pytest.mark.parametrize(
    ("rows", "columns", "vectors"),
    [
        (16, 256, 3),  # four tiles of four rows, and not three of six, two of whose rows do not exist
        (784, 128, 2),  # three vectors would read 144 columns
        (64, 512, 3),
        (49, 512, 2),
        (128, 20000, 3),
        (7, 24, 3),
        (100, 16, 2),
        (100, 8, 1),
        (100, 3, 1),
        (symbol("rows"), 768, 3),
        (symbol("rows"), 64, 2),
    ],
)
def test_widths_beside_sixteen_registers(rows: Dim, columns: int, vectors: int) -> None:
    assert packed_width(PackedMatmul(rows, columns, 64, "float32"), TARGETS["avx2"]) == vectors * 8


@pytest.mark.parametrize(
    ("rows", "columns", "vectors"),
    [
        (256, 1024, 2),  # three vectors save 3 % of the loop, and the rhs would be padded to 1032 columns
        (580, 768, 3),  # 32 panels of three
        (16, 256, 2),
        (400, 1000, 3),  # both are padded
    ],
)
def test_columns_padded_for_each_matmul(rows: int, columns: int, vectors: int) -> None:
    matmul = PackedMatmul(rows, columns, 64, "float32", once=False)
    assert packed_width(matmul, TARGETS["avx2"]) == vectors * 8


def matmul(batch: tuple[int, ...], rows: Dim, depth: int, columns: int, weights: np.ndarray | None = None) -> Program:
    """[*batch, rows, depth] by [*batch, depth, columns], which is a constant."""
    axes = tuple(range(len(batch)))
    program = Program.create([("x", TensorType("float32", (*batch, rows, depth)))])
    with program.building():
        if weights is None:
            weights = np.ones((*batch, depth, columns), np.float32)
        contract = len(batch) + 1, len(batch)
        y = ops.dot_general(
            program.inputs[0],
            ops.weight(key=program.weights.add_array(weights, "w"), shape=weights.shape, dtype="float32"),
            lhs_batch=axes,
            rhs_batch=axes,
            lhs_contract=contract[:1],
            rhs_contract=contract[1:],
        )
    return program.finish([("y", y)])


def tiled(program: Program, width: int) -> Tiled:
    with context():
        pipeline.run(pipeline.parse(f"pack{{vector-bytes={2 * width}}},fuse,release"), program)
        groups = (o.opview for o in program.block.operations if isinstance(o.opview, Group))
        found = [call.kernel for group in groups for call in kernels(group, preferences_of(TARGETS["avx2"]))]
    (kernel,) = (kernel for kernel in found if isinstance(kernel, ContractionKernel))
    made = Tiled.of(kernel, width)
    assert made is not None and made.packed
    return made


def test_a_block_has_no_more_tiles_than_a_run() -> None:
    """So that they ask for all of the next panel. Beyond, blocks are alike."""
    rows = symbol("rows")
    kernel = tiled(matmul((), rows, 512, 1024), 32)
    schedule = Schedule.of(kernel, TARGETS["avx512"])
    assert schedule.ahead and schedule.block is not None

    def blocks(number: int) -> tuple[Dim, ...]:
        return tuple(evaluate(size, {"rows": number}) for size in schedule.blocks(kernel))

    tile, most = schedule.tile, schedule.block
    assert blocks(0)[1] == 0
    assert blocks(1) == (1, 1)
    assert blocks(5 * tile - 1) == (1, 5)
    assert blocks(most * tile) == (1, most)
    assert blocks((most + 2) * tile) == (2, most // 2 + 1)


def test_right_sides_of_batches_of_few_rows_are_asked_for() -> None:
    near = Schedule.of(tiled(matmul((36,), 16, 256, 256), 32), TARGETS["avx512"])
    assert near.block is None and near.ahead
    far = Schedule.of(tiled(matmul((36,), 1600, 256, 256), 32), TARGETS["avx512"])
    assert far.block == 1 and not far.ahead


def convolution(outputs: int) -> Program:
    """25 taps of 96 channels, which are more than stay in a cache."""
    weight = np.zeros((5, 5, 96, outputs), np.float32)
    program = Program.create([("x", TensorType("float32", (1, 28, 28, 96)))])
    with program.building():
        y = ops.conv(
            program.inputs[0],
            ops.weight(key=program.weights.add_array(weight, "w"), shape=weight.shape, dtype="float32"),
            strides=(1, 1),
            dilations=(1, 1),
            low=(2, 2),
            high=(2, 2),
            layout="last",
        )
    return program.finish([("y", y)])


def test_many_rows_of_a_convolution_have_no_registers_for_prefetches() -> None:
    six = Schedule.of(tiled(convolution(128), 64), TARGETS["avx512"])
    assert six.tile == 6 and six.ahead
    eight = Schedule.of(tiled(convolution(96), 48), TARGETS["avx512"])
    assert eight.tile == 8 and not eight.ahead


def inputs(rows: int, depth: int, columns: int) -> Program:
    """A matmul of two inputs."""
    program = Program.create(
        [("x", TensorType("float32", (rows, depth))), ("y", TensorType("float32", (depth, columns)))]
    )
    with program.building():
        z = ops.dot_general(*program.inputs, lhs_contract=(1,), rhs_contract=(0,))
    return program.finish([("z", z)])


def contraction(program: Program) -> ContractionKernel:
    """The kernel of a program of one matmul."""
    with context():
        pipeline.run(pipeline.parse("fuse,release"), program)
        (group,) = (o.opview for o in program.block.operations if isinstance(o.opview, Group))
        (call,) = kernels(group, preferences_of(TARGETS["avx2"]))
    assert isinstance(call.kernel, ContractionKernel)
    return call.kernel


@pytest.mark.parametrize(
    ("rows", "columns", "vectors", "part", "narrow"),
    [
        (1, 2000, 8, 8, None),
        (3, 2000, 3, 8, None),
        (12, 500, 3, 8, None),
        (16, 2048, 3, 16, None),
        (40, 2001, 3, 32, None),
        (1, 330, 8, 8, 2),
        (64, 2048, 3, None, None),
        (1, 100, 8, None, 5),  # the rhs fits in a second-level cache
    ],
)
def test_few_rows_read_parts_of_a_large_rhs(
    rows: int, columns: int, vectors: int, part: int | None, narrow: int | None
) -> None:
    """With AVX2 only the code of a last panel that is not filled has masks."""
    found = contraction(inputs(rows, 500, columns))
    for name, is_slow in (("avx2", True), ("avx512", False)):
        target = TARGETS[name]
        kernel = Tiled.of(found, panel_width(found, target))
        assert kernel is not None
        schedule = Schedule.of(kernel, target)
        assert schedule.part == part and not (part and schedule.copies)
        assert schedule.masks_last == (is_slow and columns % kernel.width != 0 and not schedule.copies)
        if is_slow:
            assert (kernel.width // 8, schedule.narrow) == (vectors, narrow)


@pytest.mark.parametrize(
    ("rows", "depth", "columns", "narrow", "wide"),
    [
        (64, 128, 196, True, True),
        (64, 128, 192, False, False),  # whole panels
        (12, 128, 196, False, False),  # three tiles of rows
        (32, 300, 100, True, False),  # the last panel has separate code
        (40, 300, 100, True, False),  # tiles of five rows: masked loads in place spill nothing
        (52, 128, 250, True, False),  # six rows without separate code
        (52, 128, 100, True, True),  # and with it
        (32, 32, 784, True, True),  # it has none
        (64, 32, 196, True, False),  # the rhs stays in a first-level cache
    ],
)
def test_panels_of_ragged_columns_are_copied_once(
    rows: int, depth: int, columns: int, narrow: bool, wide: bool
) -> None:
    """With AVX2 and with AVX-512. Otherwise the rhs, which fits in a second-level cache, is read in place."""
    found = contraction(inputs(rows, depth, columns))
    for name, expected in (("avx2", narrow), ("avx512", wide)):
        kernel = Tiled.of(found, panel_width(found, TARGETS[name]))
        assert kernel is not None and not kernel.packed
        schedule = Schedule.of(kernel, TARGETS[name])
        assert (schedule.copies, schedule.block is None) == (expected, expected)


@pytest.mark.covering
@pytest.mark.parametrize("target", FLOAT_TARGETS)
@pytest.mark.parametrize("rows", [1, 31, 64, 257])
@pytest.mark.parametrize("columns", [17, 100, 196, 785])
@pytest.mark.parametrize("depth", [1, 33, 128])
def test_ragged_columns_of_inputs(rows: int, columns: int, depth: int, target: str) -> None:
    rng = np.random.default_rng(rows)
    x, y = (rng.standard_normal(shape, np.float32) for shape in ((rows, depth), (depth, columns)))
    got = Executable(compile_program(inputs(rows, depth, columns), Options(target=target)))(x, y)
    want = x.astype("f8") @ y
    assert np.abs(got - want).max() <= 1e-6 * depth * np.abs(want).max()


@pytest.fixture
def threads() -> Iterator[None]:
    """More of them, so that ranges begin anywhere."""
    before = _native.num_threads()
    burn.set_num_threads(3)
    yield
    burn.set_num_threads(before)


@pytest.mark.usefixtures("threads")
@pytest.mark.covering
@pytest.mark.parametrize("target", FLOAT_TARGETS)
@pytest.mark.parametrize("batch", [(), (5,)], ids=["one", "batch"])
@pytest.mark.parametrize("depth", [40, 1600])
@pytest.mark.parametrize("columns", [23, 47, 72, 200])
def test_rows_of_runtime_size(columns: int, depth: int, batch: tuple[int, ...], target: str) -> None:
    random = np.random.default_rng(7)
    weights = random.standard_normal((*batch, depth, columns)).astype(np.float32)
    program = matmul(batch, symbol("rows"), depth, columns, weights)
    run = Executable(compile_program(program, Options(target=target)))
    for rows in (0, 1, 7, 31, 32, 131):
        x = random.standard_normal((*batch, rows, depth)).astype(np.float32)
        np.testing.assert_allclose(run(x), x.astype("f8") @ weights, rtol=1e-4, atol=1e-3)


@pytest.mark.usefixtures("threads")
@pytest.mark.covering
@pytest.mark.parametrize("target", FLOAT_TARGETS)
@pytest.mark.parametrize("rows", [1, 3, 16, 49])
def test_batches_of_few_rows(rows: int, target: str) -> None:
    random = np.random.default_rng(8)
    weights = random.standard_normal((9, 70, 130)).astype(np.float32)
    x = random.standard_normal((9, rows, 70)).astype(np.float32)
    got = Executable(compile_program(matmul((9,), rows, 70, 130, weights), Options(target=target)))(x)
    np.testing.assert_allclose(got, x.astype("f8") @ weights, rtol=1e-4, atol=1e-4)
