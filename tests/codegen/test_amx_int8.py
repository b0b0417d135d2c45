"""Int8 matmuls with a depth of whole 64-byte rows: in tile registers if the CPU has them, else in vectors; exact."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import burn
from burn.codegen.cpu.heuristics.amx import bytes_fill
from burn.codegen.cpu.target import host_targets
from burn.compiler import compile_program
from burn.dialect import ops
from burn.dialect.dims import symbol
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.options import Options
from burn.runtime import _native
from burn.runtime.executable import Executable
from burn.runtime.host import features

RUNNABLE = [target.name for target in host_targets(features())]
THREADS = (1, 2, 7)


@pytest.fixture(autouse=True)
def threads_as_before() -> Iterator[None]:
    before = _native.num_threads()
    yield
    burn.set_num_threads(before)


def drawn(rng: np.random.Generator, *shape: int, signed: bool = False) -> np.ndarray:
    return rng.integers(-128, 128, shape).astype("i1") if signed else rng.integers(0, 256, shape).astype("u1")


def weight(program: Program, array: np.ndarray) -> object:
    return ops.weight(key=program.weights.add_array(array, "w"), shape=array.shape, dtype=str(array.dtype))


@pytest.mark.covering
@pytest.mark.parametrize("target", RUNNABLE)
@pytest.mark.parametrize("depth", [64, 192, 2112])
@pytest.mark.parametrize("columns", [32, 33, 100, 416])
def test_matmuls(target: str, depth: int, columns: int) -> None:
    """Row counts known at run time: none, one, partial strips; shared by any number of threads. The epilogue quantises the
    accumulators to bytes."""
    rng = np.random.default_rng(depth + columns)
    right = drawn(rng, depth, columns, signed=True)
    program = Program.create([("x", TensorType("uint8", (symbol("n"), depth)))])
    with program.building("product"):
        y = ops.dot_general(
            program.inputs[0], weight(program, right), lhs_contract=(1,), rhs_contract=(0,), dtype="int32"
        )
        low, high, by = (ops.full(shape=(), value=number, dtype="int32") for number in (0, 255, 64))
        z = ops.cast(ops.clip(ops.div(y, by), low, high), dtype="uint8")
    artefact = compile_program(program.finish([("y", y), ("z", z)]), Options(target=target))
    for threads in THREADS:
        burn.set_num_threads(threads)
        run = Executable(artefact)
        for rows in (0, 1, 15, 16, 31, 33, 131, 700):
            x = drawn(rng, rows, depth)
            sums, again = run(x)
            want = x.astype("i4") @ right.astype("i4")
            np.testing.assert_array_equal(sums, want)
            np.testing.assert_array_equal(again, np.clip(np.trunc(want / 64), 0, 255).astype("u1"))


@pytest.mark.covering
@pytest.mark.parametrize("target", RUNNABLE)
@pytest.mark.parametrize(
    ("channels", "outputs", "window", "stride", "pad", "groups"),
    [
        (64, 64, 1, 1, 0, 1),
        (128, 40, 1, 2, 0, 1),
        (64, 96, 3, 1, 1, 1),
        (128, 64, 3, 2, 1, 1),
        (128, 128, 3, 1, 1, 2),
        (64, 32, 5, 1, 2, 1),
    ],
)
def test_convolutions(
    target: str, channels: int, outputs: int, window: int, stride: int, pad: int, groups: int
) -> None:
    """Rows of pixels that lie apart, and what is outside of a picture, which is a byte of its own (`fill`)."""
    rng = np.random.default_rng(window)
    filters = drawn(rng, outputs, channels // groups, window, window, signed=True)
    program = Program.create([("x", TensorType("uint8", (symbol("n"), channels, 9, 7)))])
    with program.building("convolution"):
        y = ops.conv(
            program.inputs[0], weight(program, filters), strides=(stride,) * 2, dilations=(1, 1), low=(pad,) * 2,
            high=(pad,) * 2, groups=groups, fill=131, dtype="int32",
        )  # fmt: skip
    artefact = compile_program(program.finish([("y", y)]), Options(target=target))
    for threads in THREADS:
        burn.set_num_threads(threads)
        run = Executable(artefact)
        for images in (0, 1, 3):
            x = drawn(rng, images, channels, 9, 7)
            padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)), constant_values=131).astype("i4")
            views = np.lib.stride_tricks.sliding_window_view(padded, (window, window), axis=(2, 3))
            views = views[:, :, ::stride, ::stride]
            each, few = channels // groups, outputs // groups
            want = np.concatenate(
                [
                    np.einsum(
                        "nchwij,ocij->nohw",
                        views[:, g * each : (g + 1) * each],
                        filters[g * few : (g + 1) * few].astype("i4"),
                    )
                    for g in range(groups)
                ],
                axis=1,
            )
            np.testing.assert_array_equal(run(x), want)


def test_matmuls_that_are_large_enough() -> None:
    n = symbol("n")
    assert bytes_fill(128, 768, 768) == ()
    assert bytes_fill(n, 768, 768) == ((n, 16),)
    assert bytes_fill(8, 768, 768) is None
    assert bytes_fill(128, 16, 768) is None
    assert bytes_fill(128, 768, 96) is None
