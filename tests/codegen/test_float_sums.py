"""Float sums at every edge of a block: no term lost or taken twice, and the error stays small however many there are."""

from __future__ import annotations

import numpy as np
import pytest
from running import call, compiled, same

from burn.codegen.cpu.partial_sums import BLOCK, cuts
from burn.dialect import ops
from burn.dialect.dims import LoopVar, symbol
from burn.dialect.types import TensorType, numpy_dtype
from burn.kernels.body import Const, Reduction, Stage
from burn.runtime.executable import Executable

LANES = 16
"""Lanes of float32 on the widest CPU; on others the sizes below lie at multiples of a block."""

EDGES = sorted(
    {0, 1, 13, BLOCK * BLOCK + 1, 2 * BLOCK * BLOCK * LANES + 17}
    | {n * unit + d for unit in (BLOCK, BLOCK * LANES) for n, d in ((1, -1), (1, 0), (1, 1), (2, 0), (3, 17))}
)
FEW = [n for n in EDGES if n <= BLOCK * BLOCK + 1]


def total(shape: tuple[int | str, ...], axes: tuple[int, ...], dtype: str = "float32") -> Executable:
    """The sum of a tensor over axes; a dim given as a name is symbolic."""
    dims = tuple(symbol(d) if isinstance(d, str) else d for d in shape)
    return compiled([TensorType(dtype, dims)], lambda x: ops.reduce(x, kind="sum", axes=axes))


def whole_numbers(shape: tuple[int, ...], dtype: str = "float32") -> np.ndarray:
    """Their sums are exact in float32 in whichever order, so that one term too few or too many shows."""
    return np.random.default_rng(sum(shape)).integers(-7, 8, shape).astype(numpy_dtype(dtype))


def check_terms(function: Executable, shape: tuple[int, ...], axes: tuple[int, ...], dtype: str = "float32") -> None:
    x = whole_numbers(shape, dtype)
    same(call(function, x), [x.astype(np.float64).sum(axes).astype(x.dtype)])


def check_error(function: Executable, shape: tuple[int, ...], axes: tuple[int, ...], limit: float = 1e-5) -> None:
    """Equal terms: all roundings go the same way. Also terms of a random sign, relative to the sum of magnitudes."""
    random = np.random.default_rng(sum(shape)).standard_normal(shape).astype("float32")
    for x in (np.full(shape, 0.1, "float32"), random):
        (got,) = call(function, x)
        error = np.abs(got.astype(np.float64) - x.astype(np.float64).sum(axes))
        size = np.abs(x.astype(np.float64)).sum(axes)
        assert np.all(error <= limit * size), f"the relative error is {np.max(error / size)}"


@pytest.mark.parametrize("n", EDGES)
def test_sizes_of_the_lanes_loop(n: int) -> None:
    function = total((n,), (0,))
    check_terms(function, (n,), (0,))
    check_error(function, (n,), (0,))


def test_symbolic_sizes() -> None:
    lanes, rows = total(("n",), (0,)), total(("n", 19), (0,))
    for n in EDGES:
        check_terms(lanes, (n,), (0,))
        check_error(lanes, (n,), (0,))
    for n in FEW:
        check_terms(rows, (n, 19), (0,))
        check_error(rows, (n, 19), (0,))


@pytest.mark.parametrize("n", FEW)
def test_lanes_are_kept_elements(n: int) -> None:
    function = total((n, 19), (0,))
    check_terms(function, (n, 19), (0,))
    check_error(function, (n, 19), (0,))


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((5, 3, BLOCK * LANES + 5), (0, 2)),
        ((BLOCK + 1, 3, 17), (0, 2)),
        ((BLOCK * BLOCK // 16 + 3, 2, 67), (0, 2)),
        ((7, 2, BLOCK + 3, 3, 29), (0, 2, 4)),
        ((BLOCK * 3 + 1, 3, 5, 21), (0, 2)),
        ((0, 3, BLOCK * LANES + 5), (0, 2)),
        ((BLOCK + 1, 3, 0), (0, 2)),
    ],
)
def test_nests(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    function, symbolic = total(shape, axes), total(tuple("abcde"[: len(shape)]), axes)
    for f in (function, symbolic):
        check_terms(f, shape, axes)
        check_error(f, shape, axes)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int32"])
def test_other_types(dtype: str) -> None:
    function = total(("n",), (0,), dtype)
    for n in (0, 1, BLOCK * LANES + 1, 70_001):
        check_terms(function, (n,), (0,), dtype)


def test_sums_next_to_other_reductions() -> None:
    """One pass computes sum, max and prod: only the sum restarts with each block."""
    kinds = ("sum", "max", "prod")
    for shape, axes in (((100_003,), (0,)), ((BLOCK * 5 + 2, 18), (0,))):
        function = compiled(
            [TensorType("float32", shape)], lambda x, axes=axes: [ops.reduce(x, kind=k, axes=axes) for k in kinds]
        )
        x = whole_numbers(shape)
        signs = np.where(x < 0, np.float32(-1), np.float32(1))
        same(call(function, x)[:2], [x.sum(axes), x.max(axes)])
        same(call(function, signs), [signs.sum(axes), signs.max(axes), signs.prod(axes)])


def test_spread_of_many_values() -> None:
    """Standard deviation around a mean far from zero: two sums, one after the other."""
    n = 1_000_003
    x = (np.random.default_rng(5).standard_normal(n) + 30).astype("float32")

    def spread(v):
        mean = ops.div(ops.reduce(v, kind="sum", axes=(0,), keepdims=True), number(n))
        off = ops.sub(v, mean)
        return ops.sqrt(ops.div(ops.reduce(ops.mul(off, off), kind="sum", axes=(0,), keepdims=True), number(n)))

    def number(value: int):
        return ops.full(shape=(1,), dtype="float32", value=float(value))

    (got,) = call(compiled([TensorType("float32", (n,))], spread), x)
    np.testing.assert_allclose(got, [x.astype(np.float64).std()], rtol=1e-5)


def test_short_sums_are_not_cut() -> None:
    def stage(*loops: LoopVar, kind: str = "sum", dtype: str = "float32") -> Stage:
        return Stage(loops, (Reduction("r", kind, dtype, Const(dtype, 1)),))

    row, long, window = LoopVar("row", 768), LoopVar("long", 1_000_000), LoopVar("window", 9)
    assert cuts(stage(row), row, LANES) == ((),)
    assert cuts(stage(row), None, 1) == ((BLOCK,),)
    assert cuts(stage(long), long, LANES) == ((BLOCK,),)
    assert cuts(stage(long, window), None, 1) == ((BLOCK // 9, BLOCK // 9 * BLOCK), ())
    assert cuts(stage(LoopVar("n", symbol("n"))), None, 1) == ((BLOCK, BLOCK * BLOCK),)
    assert cuts(stage(long, kind="max"), None, 1) == ((),)
    assert cuts(stage(long, dtype="int32"), None, 1) == ((),)
    assert cuts(Stage((long,)), None, 1) == ((),)
