"""Depthwise convolutions and pooling, with vectors of neighbouring outputs: every kind of CPU, of border and of size."""

from __future__ import annotations

import numpy as np
import pytest

from burn.codegen.cpu import loops
from burn.codegen.cpu.heuristics.preferences import preferences_of
from burn.codegen.cpu.target import TARGETS
from burn.compiler import executable
from burn.dialect import ops
from burn.dialect.control import Group
from burn.dialect.dims import Dim, symbol
from burn.dialect.mlir import context
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.kernels.body import LoopKernel
from burn.kernels.builders import kernels
from burn.options import Options
from burn.passes import pipeline
from burn.runtime.executable import Executable
from tests.codegen.cpus import FLOAT_TARGETS

Pair = tuple[int, int]

# channels, window, strides, dilations, low, high
WINDOWS: list[tuple[int, Pair, Pair, Pair, Pair, Pair]] = [
    (33, (3, 3), (1, 1), (1, 1), (1, 1), (1, 1)),
    (16, (5, 5), (1, 1), (1, 1), (2, 2), (2, 2)),
    (5, (3, 3), (2, 2), (1, 1), (1, 1), (1, 0)),
    (20, (3, 3), (1, 1), (1, 1), (0, 0), (0, 0)),  # no bounds checks
    (37, (2, 3), (1, 3), (2, 1), (2, 0), (0, 0)),  # bounds checks by row, not by element
    (7, (3, 4), (2, 2), (1, 2), (0, 3), (1, 2)),  # a step of two in windows and between them
    (1, (1, 9), (1, 1), (1, 1), (0, 4), (0, 4)),
    (80, (7, 5), (3, 2), (1, 1), (3, 2), (3, 2)),  # two rows have four of seven in common; channels in two parts
    (512, (3, 3), (1, 1), (1, 1), (1, 1), (1, 1)),  # on AVX2, two vectors of lanes
    (256, (5, 4), (2, 1), (1, 2), (2, 3), (1, 3)),
]
SIZES: list[Pair] = [(9, 10), (10, 31), (15, 9), (23, 7), (14, 14)]


def programmed(window: tuple[int, Pair, Pair, Pair, Pair, Pair], sizes: tuple[Dim, Dim], weight: np.ndarray) -> Program:
    """A depthwise convolution with its epilogue, max pooling and sum pooling."""
    channels, extent, strides, dilations, low, high = window
    program = Program.create([("x", TensorType("float32", (symbol("n"), channels, *sizes)))])
    with program.building("windows"):
        (x,) = program.inputs
        filter = ops.weight(key=program.weights.add_array(weight, "w"), shape=weight.shape, dtype="float32")
        y = ops.conv(x, filter, strides=strides, dilations=dilations, low=low, high=high, groups=channels)
        y = ops.mul(y, ops.sigmoid(y))
        pooled = [
            ops.window_reduce(
                x,
                kind=kind,
                window=(1, 1, *extent),
                strides=(1, 1, *strides),
                dilations=(1, 1, *dilations),
                low=(0, 0, *low),
                high=(0, 0, *high),
            )
            for kind in ("max", "sum")
        ]
    return program.finish([("y", y), ("largest", pooled[0]), ("total", pooled[1])])


def check(
    run: Executable, window: tuple[int, Pair, Pair, Pair, Pair, Pair], shape: tuple[int, ...], weight: np.ndarray
) -> None:
    _, extent, strides, dilations, low, high = window
    x = np.random.default_rng(sum(shape)).standard_normal(shape, np.float32)

    def windows(fill: float) -> np.ndarray:
        pads = ((0, 0), (0, 0), *zip(low, high, strict=True))
        padded = np.pad(x.astype("f8"), pads, constant_values=fill)
        reach = tuple((e - 1) * d + 1 for e, d in zip(extent, dilations, strict=True))
        found = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=(2, 3))
        return found[:, :, :: strides[0], :: strides[1], :: dilations[0], :: dilations[1]]

    summed = np.einsum("nchwij,cij->nchw", windows(0.0), weight[:, 0].astype("f8"))
    want = (summed / (1 + np.exp(-summed)), windows(-np.inf).max((4, 5)), windows(0.0).sum((4, 5)))
    for got, expected in zip(run(x), want, strict=True):
        assert got.shape == expected.shape
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.covering
@pytest.mark.parametrize("target", FLOAT_TARGETS)
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_windows(window: tuple[int, Pair, Pair, Pair, Pair, Pair], target: str) -> None:
    """Sizes that are numbers, and sizes that only a run tells."""
    weight = np.random.default_rng(1).standard_normal((window[0], 1, *window[1]), np.float32)
    named = executable(programmed(window, (symbol("h"), symbol("w")), weight), Options(target=target))
    for sizes in SIZES:
        check(named, window, (2, window[0], *sizes), weight)
    for sizes in SIZES[:2]:
        check(
            executable(programmed(window, sizes, weight), Options(target=target)),
            window,
            (1, window[0], *sizes),
            weight,
        )


def test_what_is_not_finite_stays_where_it_is() -> None:
    """Elements reach the windows that hold them and no others, the borders' least of all."""
    window = WINDOWS[0]
    weight = np.ones((window[0], 1, 3, 3), np.float32)
    run = executable(programmed(window, (symbol("h"), symbol("w")), weight))
    x = np.zeros((1, window[0], 6, 17), np.float32)
    x[:, :, 2, 8] = np.nan
    inside = np.zeros((6, 17), bool)
    inside[1:4, 7:10] = True
    y, largest, total = run(x)
    for found in (y, largest, total):
        np.testing.assert_array_equal(np.isnan(found), np.broadcast_to(inside, found.shape))


def scheduled(channels: int, kernel: int, stride: int, size: int, target: str) -> tuple[loops.Schedule, LoopKernel]:
    weight = np.zeros((kernel, kernel, 1, channels), np.float32)
    program = Program.create([("x", TensorType("float32", (1, size, size, channels)))])
    with program.building("windows"):
        filter = ops.weight(key=program.weights.add_array(weight, "w"), shape=weight.shape, dtype="float32")
        around = (kernel // 2,) * 2
        options = {"strides": (stride,) * 2, "dilations": (1, 1), "low": around, "high": around, "groups": channels}
        y = ops.conv(program.inputs[0], filter, layout="last", **options)
    program.finish([("y", y)])
    with context():
        pipeline.run(pipeline.parse("fuse,release"), program)
        (group,) = (o.opview for o in program.block.operations if isinstance(o.opview, Group))
        (call,) = kernels(group, preferences_of(TARGETS[target]))
    assert isinstance(call.kernel, LoopKernel)
    return loops.Schedule.of(call.kernel, TARGETS[target]), call.kernel


@pytest.mark.parametrize(
    ("target", "kernel", "stride", "shift"),
    [
        ("avx512", 3, 1, 1),
        ("avx512", 7, 3, 3),
        ("neon", 5, 2, 2),
        ("avx512", 3, 2, None),  # one row of three in common
        ("avx2", 3, 1, None),  # too few registers
    ],
)
def test_two_rows_of_windows_share_loads(target: str, kernel: int, stride: int, shift: int | None) -> None:
    schedule, _ = scheduled(32, kernel, stride, 28, target)
    assert schedule.adjacent is not None
    pair = schedule.adjacent.pair
    assert (pair and pair.shift) == shift
    assert schedule.adjacent.count >= 4


def test_rows_of_windows_stay_in_the_first_level_cache() -> None:
    """7x7 windows of 144 channels are 160 KB. Their 16 by 14 elements and 49 weights of 48 channels are 38 KB at most."""
    whole, _ = scheduled(48, 3, 1, 28, "avx512")
    assert whole.chunk is None and not whole.row
    parts, kernel = scheduled(144, 7, 1, 28, "avx512")
    assert parts.chunk in (48, 64) and parts.row
    assert parts.adjacent is not None and parts.adjacent.elements(kernel) == 49 + 8 * (parts.adjacent.count + 6)


def test_an_address_of_a_row_is_enough() -> None:
    """The distances of neighbouring pixels and weights remain numbers in the code of a kernel."""
    schedule, kernel = scheduled(144, 3, 1, 28, "avx512")
    assert schedule.adjacent is not None and schedule.adjacent.strides(kernel) == {0, 144}


@pytest.mark.parametrize("target", ["avx512", "avx2"])
@pytest.mark.parametrize(("kernel", "stride", "columns"), [(3, 1, 1), (5, 2, 2)])
def test_images_that_caches_do_not_hold_are_prefetched(kernel: int, stride: int, columns: int, target: str) -> None:
    """The windows' results, and the columns of the last rows that the next windows read first, which are as many."""
    small, _ = scheduled(144, kernel, stride, 16, target)
    assert small.adjacent is not None and not small.adjacent.fetches
    schedule, large = scheduled(144, kernel, stride, 128, target)
    assert schedule.adjacent is not None and schedule.adjacent.fetches
    windows, rows = schedule.adjacent.accumulators, columns
    prefetches = loops.emit(large, schedule, TARGETS[target], []).count("llvm.intr.prefetch")
    assert prefetches in [
        n * windows * (1 + rows * columns) for n in (1, 2, 4)
    ]  # with and without guards, whole and masked


@pytest.mark.parametrize(
    ("channels", "target", "lanes"), [(512, "avx2", 16), (528, "avx2", 8), (64, "avx2", 8), (512, "avx512", 16)]
)
def test_lanes_are_a_cache_line_if_rows_of_elements_share_cache_sets(channels: int, target: str, lanes: int) -> None:
    schedule, _ = scheduled(channels, 3, 1, 28, target)
    assert schedule.lanes == lanes and schedule.even
    assert schedule.adjacent is not None and schedule.adjacent.count >= 4
