"""Convolutions by way of tiles: the kernels of `split_tiles` and `join_tiles` against plain sums, and the interpreter's."""

from __future__ import annotations

import numpy as np
import pytest

from burn.compiler import executable
from burn.dialect import ops
from burn.dialect.dims import symbol
from burn.dialect.mlir import context
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from tests.kernels.interpreting import check

PASSES = "winograd{always},pack,fuse,release"

SIZES = [((1, 1), (1, 1), 1, 1), ((4, 8), (1, 1), 3, 32), ((7, 5), (0, 2), 2, 5), ((3, 13), (2, 0), 17, 16)]
"""(pixels of the images, zeros in front and behind, channels, outputs): multiples of tiles and panels, and not."""


def _program(image: tuple[int, int], pads: tuple[int, int], channels: int, outputs: int) -> Program:
    """A convolution with what may follow, and what its filter is owed. Images have as many zeros in front as behind."""
    n = symbol("n")
    sizes = tuple(d + 2 * p - 2 for d, p in zip(image, pads, strict=True))
    types = ((n, *image, channels), (3, 3, channels, outputs), (outputs,), (n, *sizes, outputs))
    program = Program.create([(name, TensorType("float32", t)) for name, t in zip("xwbg", types, strict=True)])
    with program.building():
        x, w, b, g = program.inputs
        y = ops.conv(x, w, strides=(1, 1), dilations=(1, 1), low=pads, high=pads, layout="last")
        zero = ops.full(shape=(), dtype="float32", value=0.0)
        found = ops.mul(ops.max(ops.add(y, b), zero), g)
        around = (0, *pads, 0)
        under = ops.windows(
            ops.pad(x, zero, low=around, high=around), axis=1, window=(3, 3), strides=(1, 1), dilations=(1, 1)
        )
        owed = ops.dot_general(under, g, lhs_contract=(0, 1, 2), rhs_contract=(0, 1, 2))
    return program.finish([("found", found), ("owed", owed)])


def _arrays(program: Program, images: int) -> list[np.ndarray]:
    random = np.random.default_rng(images)
    shapes = [tuple(d if isinstance(d, int) else images for d in t.shape) for t in program.input_types]
    return [random.standard_normal(shape).astype("f4") for shape in shapes]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_against_plain_sums(sizes: tuple[tuple[int, int], tuple[int, int], int, int]) -> None:
    with context():
        program = _program(*sizes)
    run = executable(program, passes=PASSES)
    _, (down, along), *_ = sizes
    for images in (0, 1, 3):
        arrays = _arrays(program, images)
        found, owed = run(*arrays)
        x, w, b, g = (a.astype("f8") for a in arrays)
        x = np.pad(x, ((0, 0), (down, down), (along, along), (0, 0)))
        under = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (1, 2))  # [n, h, w, c, 3, 3]
        plain = np.maximum(np.einsum("nhwcij,ijco->nhwo", under, w) + b, 0) * g
        for got, want in ((found, plain), (owed, np.einsum("nhwcij,nhwo->ijco", under, g))):
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want, rtol=0, atol=5e-6 * np.abs(want).max(initial=0.0))


def test_against_the_interpreter() -> None:
    with context():
        program = _program((3, 5), (1, 1), 2, 3)
    check(program, _arrays(program, 2), PASSES)
