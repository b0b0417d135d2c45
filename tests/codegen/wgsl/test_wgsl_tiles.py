"""Contractions with every tile, against float64: operands contiguous along any loop, windows, splits of the depth, integers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import burn
from burn.codegen.wgsl import backend
from burn.codegen.wgsl.heuristics import GPU, TILES, Rated, split_depth, tile
from burn.dialect.dims import Expr, LoopVar
from burn.kernels.body import Accumulator, Buffer, ContractionKernel, Load, Write

QUICK = (0, 6)
"""Indices of the tiles of every test run: one with a block for each invocation, one with slices. llvmpipe takes a second for
each."""


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def contraction(rows: int, columns: int, depth: int, batch: int = 1) -> ContractionKernel:
    b, i, j, k = LoopVar("b", batch), LoopVar("i", rows), LoopVar("j", columns), LoopVar("k", depth)
    x, y = Load("float32", 0, Expr.of(i) * depth + Expr.of(k)), Load("float32", 1, Expr.of(k) * columns + Expr.of(j))
    write = Write(2, Expr.of(i) * columns + Expr.of(j), Accumulator("float32"))
    buffers = (Buffer("float32", "read"), Buffer("float32", "read"), Buffer("float32", "write"))
    return ContractionKernel("float32", (b,), (i,), j, (k,), x, y, (write,), buffers)


@pytest.mark.parametrize("rated", TILES, ids=lambda rated: f"{rated.tile.rows}x{rated.tile.columns}")
def test_a_tile_keeps_to_the_default_limits(rated: Rated) -> None:
    shape = rated.tile
    assert shape.memory <= 16384 and shape.lanes <= 256 and shape.high % 4 == shape.wide % 4 == 0
    assert shape.depth % shape.slices == 0 and shape.down * shape.high == shape.rows


def test_tiles_suit_sizes() -> None:
    large, row, small = (tile(contraction(*sizes)) for sizes in ((4096, 4096, 4096), (1, 1000, 2048), (128, 768, 768)))
    assert large is not None and large.rows * large.columns >= 8192
    assert row is not None and row.rows == 4
    assert small is not None and small.slices > 1
    assert tile(contraction(4096, 2, 4096)) is None  # nothing to share


def test_a_deep_contraction_with_few_results_is_split() -> None:
    assert split_depth(contraction(49, 512, 4608), (2, 3, 4, 6, 8, 9)) > 1
    assert split_depth(contraction(4096, 4096, 4096), (2, 4, 8)) == 1
    assert split_depth(contraction(4, 4, 64), (2, 4)) == 1


@pytest.mark.usefixtures("webgpu")
@pytest.mark.parametrize(
    "rated",
    [pytest.param(rated, marks=[] if i in QUICK else [pytest.mark.slow]) for i, rated in enumerate(TILES)],
    ids=lambda rated: f"{rated.tile.rows}x{rated.tile.columns}",
)
def test_contractions(rated: Rated, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "GPU", replace(GPU, tile=lambda kernel: rated.tile))
    x, y, z = floats(133, 47), floats(47, 150, seed=1), floats(150, 133, seed=2)
    image, window = floats(2, 5, 9, 11, seed=3), floats(7, 5, 3, 3, seed=4)
    ints, others = (np.random.default_rng(5).integers(-99, 99, (17, 17)).astype(np.int32) for _ in range(2))

    def function(x: Any, y: Any, z: Any, image: Any, window: Any, ints: Any, others: Any) -> tuple[Any, ...]:
        xy = x @ y
        convolved = burn.ops.conv(image, window, strides=(2, 1), dilations=(1, 1), low=(1, 1), high=(1, 1))
        return burn.tanh(xy / 8), xy.T + z, x.T @ xy, z @ x, convolved, ints @ others

    arrays = (x, y, z, image, window, ints, others)
    got = burn.compile(function, arrays, cache=False, device="wgpu")(*arrays)
    wide = tuple(a.astype(np.float64) if a.dtype == np.float32 else a for a in arrays)
    want = burn.compile(function, wide, cache=False, device="cpu")(*wide)
    for a, b in zip(map(np.asarray, got), map(np.asarray, want), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=2e-6 * np.abs(b).max() if b.dtype.kind == "f" else 0)


@pytest.mark.usefixtures("webgpu")
def test_a_split_depth() -> None:
    """The partial sums are added by a second kernel, which has the epilogue."""
    x, y = floats(9, 5000), floats(5000, 10, seed=1)
    made = burn.compile(lambda x, y: burn.tanh(x @ y / 50), (x, y), cache=False, device="wgpu")
    np.testing.assert_allclose(np.asarray(made(x, y)), np.tanh(x.astype(np.float64) @ y / 50), rtol=0, atol=2e-6)
    assert len(made.profile(x, y).rows) == 2
