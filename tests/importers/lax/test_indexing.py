"""gather, scatter, sort, select_and_scatter and random bits of `burn.importers.lax` against XLA, on drawn operands.

`BURN_SWEEP=n` draws n cases of each, `BURN_SWEEP_SEED` another sequence.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import burn
from burn.dialect import ops
from burn.importers.lax.gather import Addressing, gather, scatter
from burn.importers.lax.rng import rng_bit_generator
from burn.importers.lax.select_and_scatter import select_and_scatter
from burn.importers.lax.sort import Key, sort, sort_by, top_k
from burn.tensors import Tensor

jax = pytest.importorskip("jax")
from jax import lax  # noqa: E402

CASES = int(os.environ.get("BURN_SWEEP", "6"))
SEED = int(os.environ.get("BURN_SWEEP_SEED", "0"))
DTYPES = ("float32", "int32", "uint8", "float64", "bool", "bfloat16", "int64")


@pytest.fixture(autouse=True)
def wide() -> Any:
    with jax.enable_x64(True):
        yield


def compiled(function: Callable[..., Any], *arrays: np.ndarray) -> list[np.ndarray]:
    """A function of values, compiled for arrays, and its results."""

    def traced(*tensors: Tensor) -> Any:
        results = function(*(t.value for t in tensors))
        results = results if isinstance(results, (list, tuple)) else [results]
        return tuple(map(Tensor, results))

    specs = [f"{a.dtype.name}[{', '.join(map(str, a.shape))}]" for a in arrays]
    found = burn.compile(traced, specs)(*arrays)
    return [np.asarray(r) for r in (found if isinstance(found, (list, tuple)) else [found])]


def same(have: np.ndarray, want: Any, exact: bool = True) -> None:
    want = np.asarray(want)
    assert have.dtype == want.dtype and have.shape == want.shape
    if exact:
        np.testing.assert_array_equal(have.astype(float), want.astype(float))
    else:
        np.testing.assert_allclose(have.astype(float), want.astype(float), rtol=1e-2 if have.itemsize < 4 else 1e-5)


def array(rng: np.random.Generator, shape: Sequence[int], dtype: str) -> np.ndarray:
    values = rng.integers(0, 2 if dtype == "bool" else 9, shape)
    return np.asarray(jax.numpy.asarray(values, dtype))


def addressing(rng: np.random.Generator) -> tuple[tuple[int, ...], tuple[int, ...], Addressing, tuple[int, ...]]:
    """A drawn (operand shape, index shape, axes, slice sizes)."""
    rank = int(rng.integers(1, 4))
    shape = [int(rng.integers(1, 6)) for _ in range(rank)]
    axes = list(rng.permutation(rank))
    batching = [axes.pop()] if rank > 1 and rng.random() < 0.3 else []
    addressed = [int(a) for a in axes[: rng.integers(1, len(axes) + 1)]]
    sizes = [int(rng.integers(1, d + 1)) for d in shape]
    collapsed = []
    for axis in range(rank):
        if axis in batching or (axis in addressed and rng.random() < 0.5):
            sizes[axis] = 1
        if axis in addressed and sizes[axis] == 1 and axis not in batching and rng.random() < 0.7:
            collapsed.append(axis)
    batch = [int(rng.integers(1, 4)) for _ in range(int(rng.integers(0, 3)))]
    index_batch = []
    if batching:
        index_batch = [len(batch)]
        batch.append(shape[batching[0]])
    vector = int(rng.integers(0, len(batch) + 1))
    index_batch = [a + (a >= vector) for a in index_batch]
    indices = [*batch[:vector], len(addressed), *batch[vector:]]
    kept = [a for a in range(rank) if a not in collapsed and a not in batching]
    offset = sorted(rng.permutation(len(kept) + len(batch))[: len(kept)].tolist())
    how = Addressing(
        tuple(offset), tuple(collapsed), tuple(addressed), vector, tuple(map(int, batching)), tuple(index_batch)
    )
    return tuple(shape), tuple(indices), how, tuple(sizes)


MODES = {"clip": lax.GatherScatterMode.CLIP, "fill": lax.GatherScatterMode.FILL_OR_DROP}


@pytest.mark.parametrize("number", range(CASES))
def test_gather(number: int) -> None:
    rng = np.random.default_rng([SEED, 1, number])
    shape, index_shape, how, sizes = addressing(rng)
    x = array(rng, shape, str(rng.choice(DTYPES)))
    last = (*(d for i, d in enumerate(index_shape) if i != how.vector), index_shape[how.vector])
    indices = rng.integers(-2, max(shape) + 1, last).astype(rng.choice(["int32", "int64"]))
    numbers = lax.GatherDimensionNumbers(
        how.offset,
        how.collapsed,
        how.addressed,
        how.operand_batch,
        tuple(a - (a > how.vector) for a in how.index_batch),
    )
    mode = str(rng.choice(list(MODES)))
    want = lax.gather(x, indices, numbers, sizes, mode=MODES[mode])
    (have,) = compiled(lambda x, i: gather(x, i, how, sizes, mode), x, np.moveaxis(indices, -1, how.vector))
    same(have, want)


SCATTERS = {
    "none": lax.scatter,
    "add": lax.scatter_add,
    "mul": lax.scatter_mul,
    "min": lax.scatter_min,
    "max": lax.scatter_max,
}


@pytest.mark.parametrize("number", range(CASES))
def test_scatter(number: int) -> None:
    rng = np.random.default_rng([SEED, 2, number])
    shape, index_shape, how, sizes = addressing(rng)
    dtype = str(rng.choice(DTYPES))
    x = array(rng, shape, dtype)
    batch = [d for i, d in enumerate(index_shape) if i != how.vector]
    indices = rng.integers(-2, max(shape) + 1, (*batch, index_shape[how.vector])).astype("int32")
    kept = iter([sizes[a] for a in range(len(shape)) if a not in how.collapsed and a not in how.operand_batch])
    rest = iter(batch)
    rank = len(batch) + len(how.offset)
    updates = array(rng, [next(kept) if i in how.offset else next(rest) for i in range(rank)], dtype)
    numbers = lax.ScatterDimensionNumbers(
        how.offset,
        how.collapsed,
        how.addressed,
        how.operand_batch,
        tuple(a - (a > how.vector) for a in how.index_batch),
    )
    kind, mode = str(rng.choice(list(SCATTERS))), str(rng.choice(list(MODES)))
    kind = "max" if dtype == "bool" and kind in ("add", "mul") else kind
    want = SCATTERS[kind](x, indices, updates, numbers, mode=MODES[mode])
    moved = np.moveaxis(indices, -1, how.vector)
    (have,) = compiled(lambda x, i, u: scatter(x, i, u, how, kind, mode, whole=True), x, moved, updates)
    same(have, want, exact=dtype not in ("bfloat16", "float32"))


def test_scatter_by_a_function() -> None:
    """Updates of one element are applied in their order."""
    x, indices = np.zeros(3, "f4"), np.array([[1], [0], [1], [7]])
    updates = np.array([2, 3, 5, 9], "f4")
    how = Addressing((), (0,), (0,), 1)
    (have,) = compiled(
        lambda x, i, u: scatter(x, i, u, how, lambda old, new: ops.add(ops.mul(old, new), new)), x, indices, updates
    )
    np.testing.assert_array_equal(have, [3, 2 * 5 + 5, 0])


def test_scatter_drops_single_elements() -> None:
    """A window that is partly inside: StableHLO drops the elements outside, XLA the window."""
    x, indices, updates = np.zeros(5, "f4"), np.array([[-1], [3]]), np.arange(1, 7, dtype="f4").reshape(2, 3)
    how = Addressing((1,), (), (0,), 1)
    (parts,) = compiled(lambda x, i, u: scatter(x, i, u, how), x, indices, updates)
    (whole,) = compiled(lambda x, i, u: scatter(x, i, u, how, whole=True), x, indices, updates)
    np.testing.assert_array_equal(parts, [2, 3, 0, 4, 5])
    np.testing.assert_array_equal(whole, [0, 0, 0, 0, 0])


SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 2.5]


@pytest.mark.parametrize("number", range(CASES))
def test_sort(number: int) -> None:
    rng = np.random.default_rng([SEED, 3, number])
    shape = tuple(int(n) for n in rng.integers(0, 7, rng.integers(1, 4)))
    axis, count = int(rng.integers(0, len(shape))), int(rng.integers(1, 4))
    xs = []
    for _ in range(count):
        dtype = str(rng.choice(DTYPES))
        floats = np.asarray(jax.numpy.asarray(rng.choice(SPECIAL, shape), dtype)) if "float" in dtype else None
        xs.append(array(rng, shape, dtype) if floats is None else floats)
    keys = int(rng.integers(1, count + 1))
    want = lax.sort(tuple(xs), dimension=axis, num_keys=keys)
    have = compiled(lambda *xs: sort(xs, axis, [Key(i) for i in range(keys)]), *xs)
    for a, b in zip(have, want, strict=True):
        same(a, b)


def test_sort_descending_in_total_order() -> None:
    x = np.array([1, -np.nan, 0.0, np.nan, -0.0, -np.inf, 0.0], "f4")
    values, indices = compiled(lambda x: sort([x, ops.iota(shape=(7,), axis=0)], 0, [Key(0, True, True)]), x)
    np.testing.assert_array_equal(indices, [3, 0, 2, 6, 4, 5, 1])
    np.testing.assert_array_equal(values, x[indices])


@pytest.mark.parametrize("dtype", ["float32", "int32", "bfloat16"])
def test_top_k(dtype: str) -> None:
    x = np.asarray(jax.numpy.asarray(np.random.default_rng(0).integers(-4, 4, (3, 9)), dtype))
    for have, want in zip(compiled(lambda x: top_k(x, 4), x), lax.top_k(x, 4), strict=True):
        np.testing.assert_array_equal(have.astype(float), np.asarray(want).astype(float))


def test_sort_by_a_comparator() -> None:
    """By the remainder by 3, descending, stably; along each axis."""
    x = np.random.default_rng(0).integers(0, 30, (4, 11))

    def before(a: Any, b: Any) -> Any:
        three = ops.full(shape=(), dtype="int64", value=3.0)
        return ops.gt(ops.fmod(a[0], three), ops.fmod(b[0], three))

    for axis in (0, 1):
        (have,) = compiled(lambda x, axis=axis: sort_by([x], axis, before), x)
        order = np.argsort(-(x % 3), axis=axis, kind="stable")
        np.testing.assert_array_equal(have, np.take_along_axis(x, order, axis))


@pytest.mark.parametrize("number", range(CASES))
def test_select_and_scatter(number: int) -> None:
    rng = np.random.default_rng([SEED, 4, number])
    rank = int(rng.integers(1, 4))
    shape = [int(n) for n in rng.integers(1, 7, rank)]
    window = [int(rng.integers(1, min(d, 3) + 1)) for d in shape]
    strides = [int(n) for n in rng.integers(1, 4, rank)]
    padding = [(int(rng.integers(0, w)), int(rng.integers(0, w))) for w in window]
    x = rng.choice([*SPECIAL[:2], 1.0, 3.0, 2.0], shape).astype("f4")
    sizes = [(a + d + b - w) // s + 1 for d, w, s, (a, b) in zip(shape, window, strides, padding, strict=True)]
    source = rng.integers(0, 9, sizes).astype("f4")
    want = lax.reduce_window(x, -np.inf, lax.max, window, strides, padding)
    assert want.shape == source.shape
    _, back = jax.vjp(lambda x: lax.reduce_window(x, -np.inf, lax.max, window, strides, padding), x)
    (have,) = compiled(
        lambda x, s: select_and_scatter(
            x, s, ops.full(shape=(), dtype="float32"), "ge", "add", window, strides, padding
        ),
        x,
        source,
    )
    same(have, back(source)[0], exact=False)


ALGORITHMS = {
    "DEFAULT": lax.RandomAlgorithm.RNG_DEFAULT,
    "THREE_FRY": lax.RandomAlgorithm.RNG_THREE_FRY,
    "PHILOX": lax.RandomAlgorithm.RNG_PHILOX,
}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(
    ("shape", "dtype"), [((5, 3), "uint32"), ((3, 4), "uint64"), ((), "uint8"), ((2, 3, 5), "uint16")]
)
@pytest.mark.covering
def test_random_bits(algorithm: str, shape: tuple[int, ...], dtype: str) -> None:
    state = np.array([123456789012345678, 2**64 - 2], "uint64")
    want = lax.rng_bit_generator(state, shape, dtype=jax.numpy.dtype(dtype), algorithm=ALGORITHMS[algorithm])
    have = compiled(lambda s: rng_bit_generator(s, algorithm, shape, dtype), state)
    for a, b in zip(have, want, strict=True):
        np.testing.assert_array_equal(a, np.asarray(b))


def test_philox_with_a_counter_of_128_bits() -> None:
    """A carry goes into the upper word. The numbers are XLA's, of a program with a state of three words."""
    state = np.array([1, 2**64 - 1, 3], "uint64")
    after, bits = compiled(lambda s: rng_bit_generator(s, "PHILOX", (4,), "uint32"), state)
    assert after.tolist() == [1, 0, 4]
    assert bits.tolist() == [3023135040, 2618764561, 763147620, 1543521082]
