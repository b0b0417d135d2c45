"""Taps of windows that lie in the padding for neighbouring outputs are left out, also with sizes that only a run tells. Tiles of
outputs that read no padding have separate code."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import burn
from burn import ops
from burn.codegen.cpu.heuristics.padding import separates_interior, skips_padding
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


# channels, outputs, groups, kernel, strides, dilations, low, high, image
INTERIOR: list[tuple[int, int, int, Row, Row, Row, Row, Row, Row]] = [
    (8, 32, 1, (5, 5), (1, 1), (1, 1), (2, 2), (2, 2), (5, 31)),
    (7, 33, 1, (3, 3), (1, 1), (1, 1), (1, 0), (0, 2), (3, 29)),
    (8, 16, 1, (3, 5), (1, 2), (2, 1), (2, 3), (2, 1), (7, 53)),
    (16, 64, 2, (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), (2, 37)),
    (8, 16, 1, (3,), (1,), (4,), (4,), (4,), (67,)),
    (8, 16, 1, (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), (1, 23)),
    (8, 16, 1, (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), (4, 0)),
]


def _counted(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """The decisions about separate code, one for each kernel."""
    found: list[bool] = []

    def decided(*given: Any) -> bool:
        found.append(separates_interior(*given))
        return found[-1]

    monkeypatch.setattr("burn.codegen.cpu.matmul.schedule.separates_interior", decided)
    return found


@pytest.mark.covering
@pytest.mark.untuned
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("target", FLOAT_TARGETS)
@pytest.mark.parametrize("case", INTERIOR, ids=str)
def test_tiles_without_padding(case: Any, target: str, precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sums of float64. Operands are small integers, which bfloat16 holds, so that all sums are exact. An infinite pixel and a
    NaN reach the outputs whose windows contain them, and no others."""
    channels, outputs, groups, kernel, strides, dilations, low, high, image = case
    found, rng = _counted(monkeypatch), np.random.default_rng(3)
    x = rng.integers(-9, 10, (2, channels, *image)).astype(np.float32)
    weight = rng.integers(1, 9, (outputs, channels // groups, *kernel)).astype(np.float32)
    if x.size:
        x[0, 0].flat[x[0, 0].size // 2], x[1, -1].flat[0] = np.inf, np.nan
    options = {"strides": strides, "dilations": dilations, "low": low, "high": high, "groups": groups}
    run = burn.compile(
        lambda x: ops.conv(x, burn.tensor(weight), **options), [x], target=target, precision=precision, cache=False
    )
    got = run(x)
    if x.size:
        parts = windows(x, kernel, strides, dilations, low, high, 0.0)
        parts = parts.reshape(2, groups, channels // groups, *parts.shape[2:])
        filters = weight.astype("f8").reshape(groups, outputs // groups, channels // groups, *kernel)
        letters, taps = "xy"[: len(kernel)], "uv"[: len(kernel)]
        want = np.einsum(f"ngi{letters}{taps},goi{taps}->ngo{letters}", parts, filters)
        np.testing.assert_array_equal(got, want.reshape(2, outputs, *want.shape[3:]).astype(np.float32))
    else:
        assert got.shape == (2, outputs, 4, 0)
    if image in ((5, 31), (67,)) and precision == "bf16" and target == "avx512bf16":
        assert any(found)


@pytest.mark.untuned
@pytest.mark.parametrize("width", [1, 7, 31])
@pytest.mark.parametrize("target", FLOAT_TARGETS)
def test_bytes_without_padding(target: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums of bytes are exact. Padding is the zero point, which is not 0."""
    found, rng = _counted(monkeypatch), np.random.default_rng(width)
    x = rng.integers(0, 256, (1, 12, 3, width), dtype=np.uint8)
    weight = rng.integers(-127, 128, (24, 12, 3, 3), dtype=np.int8)
    one, zero = np.float32(1), np.uint8(131)

    def function(x: Tensor) -> Tensor:
        filters = ops.dequantize(burn.tensor(weight), one, np.int8(0), dtype="float32")
        image = ops.dequantize(x, one, zero, dtype="float32")
        return ops.conv(image, filters, strides=(1, 1), dilations=(1, 1), low=(1, 1), high=(1, 1), groups=1)

    got = burn.compile(function, [x], target=target, cache=False)(x)
    parts = windows(x.astype("f8") - 131, (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), 0.0)
    np.testing.assert_array_equal(got, np.einsum("nixyuv,oiuv->noxy", parts, weight.astype("f8")).astype(np.float32))
    assert any(found) == (width == 31)


@pytest.mark.parametrize(
    ("width", "depth", "vectors", "rows", "separate"),
    [
        (31, 8, 2, 8, True),
        (31, 64, 2, 8, True),
        (31, 65, 2, 8, False),  # tests take less than a sixteenth
        (31, 32, 4, 8, True),
        (14, 8, 2, 8, False),  # most tiles of a short line read padding
        (20, 8, 2, 8, True),
        (7, 8, 2, 4, False),
        ("w", 8, 2, 8, False),
    ],
)
def test_separate_code_that_pays(width: int | str, depth: int, vectors: int, rows: int, separate: bool) -> None:
    """The kernel is of a 3 x 3 window with padding of one pixel."""
    extents: list[Dim] = [9, symbol(width) if isinstance(width, str) else width]
    loops = [LoopVar(f"i{axis}", n) for axis, n in enumerate(extents)]
    taps = [LoopVar(f"k{axis}", 3) for axis in range(2)]
    valid = [(Expr.of(i) + Expr.of(k) - 1, n) for i, k, n in zip(loops, taps, extents, strict=True)]
    kernel: Any = SimpleNamespace(inner=LoopVar("k2", depth), valid=valid, rows=loops, outer=taps)
    assert separates_interior(kernel, rows, vectors, TARGETS["avx512bf16"]) == separate


def test_matmuls_without_rows() -> None:
    """A vector times a matrix has no loop over rows."""
    x, y = np.arange(5, dtype=np.float32), np.arange(30, dtype=np.float32).reshape(5, 6)
    np.testing.assert_array_equal(burn.compile(lambda x, y: x @ y, [x, y], cache=False)(x, y), x @ y)
