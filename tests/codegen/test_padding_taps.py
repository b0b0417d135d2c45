"""Taps of windows that lie in the padding for neighbouring outputs are left out, also with sizes that only a run tells."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import burn
from burn import ops
from burn.codegen.cpu.heuristics.padding import skips_padding
from burn.codegen.cpu.target import TARGETS
from burn.dialect.dims import Dim, Expr, LoopVar, symbol
from burn.tensors import Tensor
from tests.codegen.cpus import FLOAT_TARGETS

Row = tuple[int, ...]
Case = tuple[int, int, int, Row, Row, Row, Row, Row]

# channels, outputs, groups, kernel, strides, dilations, low, high; depthwise convolutions also pool
CASES: list[Case] = [
    (16, 20, 1, (3, 3), (1, 1), (12, 12), (12, 12), (12, 12)),
    (9, 33, 1, (3, 2), (2, 1), (9, 11), (9, 3), (10, 14)),
    (24, 24, 2, (3, 3), (1, 1), (6, 6), (6, 6), (6, 6)),
    (17, 17, 17, (3, 3), (1, 1), (12, 12), (12, 12), (12, 12)),
    (6, 6, 6, (7, 5), (2, 2), (1, 3), (3, 6), (3, 6)),
    (16, 8, 1, (5,), (1,), (12,), (24,), (24,)),
    (8, 16, 1, (3, 3, 3), (1, 1, 1), (5, 5, 5), (5, 5, 5), (5, 5, 5)),
]
SIZES = (1, 5, 16)


def windows(x: np.ndarray, kernel: Row, strides: Row, dilations: Row, low: Row, high: Row, fill: float) -> np.ndarray:
    """[n, c, d..] -> [n, c, e.., k..]."""
    n = len(kernel)
    padded = np.pad(x.astype("f8"), ((0, 0), (0, 0), *zip(low, high, strict=True)), constant_values=fill)
    reach = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True))
    found = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=tuple(range(2, n + 2)))
    steps = (*(slice(None, None, s) for s in strides), *(slice(None, None, d) for d in dilations))
    return found[(slice(None), slice(None), *steps)]


@pytest.mark.covering
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("target", FLOAT_TARGETS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_open_sizes(case: Case, target: str, size: int) -> None:
    channels, outputs, groups, kernel, strides, dilations, low, high = case
    n, letters = len(kernel), "xyz"[: len(kernel)]
    rng = np.random.default_rng(size)
    x = rng.standard_normal((2, channels, *(size + i for i in range(n))), np.float32)
    weight = rng.standard_normal((outputs, channels // groups, *kernel), np.float32)
    options = {"strides": strides, "dilations": dilations, "low": low, "high": high}

    def function(x: Tensor) -> tuple[Tensor, ...]:
        y = ops.conv(x, burn.tensor(weight), groups=groups, **options)
        whole = {name: (int(name in ("strides", "dilations")),) * 2 + row for name, row in options.items()}
        pooled = [ops.window_reduce(x, kind=kind, window=(1, 1, *kernel), **whole) for kind in ("max", "sum")]
        return (y, *(pooled if groups == channels else []))

    dynamic = {0: {0: "n", **{i + 2: name for i, name in enumerate(letters)}}}
    got = burn.compile(function, [x], dynamic, target=target, cache=False)(x)
    got = got if isinstance(got, tuple) else (got,)
    found = windows(x, kernel, strides, dilations, low, high, 0.0)
    parts = found.reshape(2, groups, channels // groups, *found.shape[2:])
    filters = weight.astype("f8").reshape(groups, outputs // groups, channels // groups, *kernel)
    taps = "uvw"[:n]
    summed = np.einsum(f"ngi{letters}{taps},goi{taps}->ngo{letters}", parts, filters)
    axes = tuple(range(n + 2, 2 * n + 2))
    want = [summed.reshape(2, outputs, *summed.shape[3:])]
    want += [windows(x, kernel, strides, dilations, low, high, -np.inf).max(axes), found.sum(axes)]
    for a, b in zip(got, want, strict=False):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=3e-5)


@pytest.mark.parametrize("groups", [1, 16])
@pytest.mark.parametrize("up", [False, True])
def test_no_such_tap_is_multiplied(groups: int, up: bool) -> None:
    """A weight that meets padding alone may be NaN: 0 times NaN would be NaN."""
    weight = np.full((16, 16 // groups, 3, 3), np.nan, np.float32)
    weight[:, :, 1] = 1.0
    if groups == 1:  # a row of taps is left out at a time where windows are computed together
        weight[:, :, :, ::2] = np.nan
    options = {"strides": (1, 1), "dilations": (12, 12), "low": (12, 12), "high": (12, 12), "groups": groups}

    def function(x: Tensor) -> Tensor:
        if up:
            return ops.conv_transpose(x, burn.tensor(weight), extra=(0, 0), **options)
        return ops.conv(x, burn.tensor(weight), **options)

    x = np.ones((1, 16, 5, 7), np.float32)
    y = burn.compile(function, [x], {0: {2: "h", 3: "w"}}, cache=False)(x)
    np.testing.assert_array_equal(y, np.full(x.shape, 16.0 if groups == 1 else 1.0))


@pytest.mark.parametrize(
    ("size", "dilation", "depth", "vectors", "rows", "skips"),
    [
        ((16,), 12, 64, 2, 8, True),
        ((16,), 4, 64, 2, 8, False),  # no tile lies in four rows of padding
        ((16,), 4, 64, 2, 4, True),
        ((16,), 12, 7, 2, 8, False),  # a test costs as much as the tap
        ((16,), 12, 7, 4, 8, True),
        ((7, 14), 1, 48, 2, 8, True),  # a row of padding has more pixels than a tile
        ((7, 7), 1, 48, 2, 8, False),  # and fewer
        ((112, 112), 1, 8, 2, 8, False),  # few taps read padding alone
        ((112, 112), 1, 512, 4, 8, True),
        (("h",), 12, 64, 2, 8, True),
        (("h",), 3, 64, 2, 8, False),  # nearer than a tile's rows
        (("h",), 3, 64, 2, 6, True),
    ],
)
def test_tests_that_pay(
    size: tuple[int | str, ...], dilation: int, depth: int, vectors: int, rows: int, skips: bool
) -> None:
    """A tap is left out along the first axis of the image; the others have no padding."""
    tap, target = LoopVar("k0", 3), TARGETS["avx2"]
    target = replace(target, costs=target.costs.changed({"tile_rows": rows}))
    extents: list[Dim] = [symbol(n) if isinstance(n, str) else n for n in size]
    loops = [LoopVar(f"i{axis}", n) for axis, n in enumerate(extents)]
    index = Expr.of(loops[0]) + Expr.of(tap) * dilation - dilation
    kernel: Any = SimpleNamespace(
        inner=LoopVar("k1", depth), run=1, fill=None, valid=[(index, extents[0])], rows=loops, outer=[tap]
    )
    assert skips_padding(kernel, rows, vectors, target) == skips
