"""Sorting, selecting and box suppression in compiled programs, against numpy."""

from __future__ import annotations

import itertools

import ml_dtypes  # noqa: F401  registers the small types with numpy
import numpy as np
import pytest
from running import call, compiled, same

import burn
from burn.codegen.host import library
from burn.compiler import executable
from burn.dialect import ops
from burn.dialect.dims import symbol
from burn.dialect.program import Program
from burn.dialect.types import DTYPES, TensorType, numpy_dtype
from burn.errors import BurnError, CompileError

N, M = symbol("n"), symbol("m")
NUMBERS = [d for d in library.DTYPES if DTYPES[d].kind not in ("string", "list")]
REAL = [d for d in NUMBERS if not d.startswith("complex")]


def sample(dtype: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Elements with many ties; zeros of both signs, infinities and NaN where the type has them."""
    random = np.random.default_rng(seed)
    kind, bits = DTYPES[dtype].kind, DTYPES[dtype].bits
    if kind == "bool":
        return random.random(shape) < 0.4
    if kind in ("int", "uint"):
        low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1)) if kind == "int" else (0, 2**bits)
        edges = np.array([low, high - 1, 0, 1], object)
        small = random.integers(max(low, -3), min(high, 4), shape).astype(object)
        mixed = np.where(random.random(shape) < 0.2, edges[random.integers(0, 4, shape)], small)
        return np.array(mixed, np.uint64 if kind == "uint" else np.int64).reshape(shape).astype(numpy_dtype(dtype))
    if kind == "complex":
        parts = [sample("float32", shape, seed + i) for i in (1, 2)]
        return (parts[0] + 1j * np.nan_to_num(parts[1])).astype(numpy_dtype(dtype))
    numbers = random.integers(-4, 5, shape) / 2.0
    special = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 6.0])[random.integers(0, 6, shape)]
    with np.errstate(all="ignore"):
        return np.where(random.random(shape) < 0.3, special, numbers).astype(numpy_dtype(dtype))


def order_of(x: np.ndarray, axis: int, descending: bool) -> np.ndarray:
    """The indices of the sorted elements: stable, NaN the largest."""
    key = x.astype(np.float64) if x.dtype.kind not in "iub" else x.astype(object)
    if x.dtype.kind in "iub":
        key = np.vectorize(int, otypes=[object])(x) if x.size else x.astype(np.int64)
        return np.apply_along_axis(_order, axis, -key if descending else key)
    ranked = np.where(np.isnan(key), np.inf, key)
    if descending:
        return np.lexsort((-ranked, ~np.isnan(key)), axis=axis)
    return np.lexsort((ranked, np.isnan(key)), axis=axis)


def _order(row: np.ndarray) -> np.ndarray:
    return np.array(sorted(range(len(row)), key=lambda i: row[i]), np.int64)


# ---- sort ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", REAL)
def test_sort_of_every_type(dtype: str, descending: bool) -> None:
    sort = compiled([TensorType(dtype, (N, M))], lambda x: ops.sort(x, axis=-1, descending=descending))
    for shape in ((3, 40), (2, 700), (1, 1)):  # merged, by digits, alone
        x = sample(dtype, shape)
        order = order_of(x, 1, descending)
        values, indices = call(sort, x)
        same([indices], [order])
        assert values.tobytes() == np.take_along_axis(x, order, 1).tobytes()  # bits: -0 and NaN payloads move along


@pytest.mark.parametrize("axis", [0, 1, 2, -3, -2, -1])
def test_sort_along_an_axis(axis: int) -> None:
    sort = compiled([TensorType("float32", (N, M, 3))], lambda x: ops.sort(x, axis=axis))
    for shape in ((5, 7, 3), (1, 4, 3), (0, 4, 3), (17, 0, 3), (33, 2, 3)):
        x = sample("float32", shape)
        order = order_of(x, axis, False)
        same(call(sort, x), [np.take_along_axis(x, order, axis), order])


def test_sort_of_a_scalar() -> None:
    same(
        call(compiled([TensorType("int32", ())], lambda x: ops.sort(x, axis=0)), np.array(7, np.int32)),
        [np.int32(7), np.int64(0)],
    )


def test_sort_of_complex_numbers_is_refused() -> None:
    with pytest.raises(CompileError, match="complex64"):
        compiled([TensorType("complex64", (3,))], lambda x: ops.sort(x)[1])


# ---- nonzero ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", NUMBERS)
def test_nonzero_of_every_type(dtype: str) -> None:
    nonzero = compiled([TensorType(dtype, (N, M))], lambda x: ops.nonzero(x, count="found"))
    for shape in ((9, 131), (1, 1), (0, 3)):
        x = sample(dtype, shape)
        truth = x.astype(np.float64) != 0 if not dtype.startswith("complex") else x != 0
        same(call(nonzero, x), [np.array(np.nonzero(truth), np.int64).reshape(2, -1)])


def test_nonzero_of_other_ranks() -> None:
    for shape in ((), (1,), (6,), (2, 3, 4, 5)):
        nonzero = compiled([TensorType("int32", shape)], lambda x: ops.nonzero(x, count="found"))
        x = np.array(np.random.default_rng(1).integers(0, 2, shape), np.int32)
        same(call(nonzero, x), [np.array(np.nonzero(np.atleast_1d(x)), np.int64)])
        same(call(nonzero, np.zeros(shape, np.int32)), [np.zeros((max(len(shape), 1), 0), np.int64)])


def test_results_of_unknown_size_flow_on() -> None:
    """Read by kernels, returned twice, reshaped, and sorted again."""

    def build(x):
        found = ops.nonzero(x, count="found")
        flat = ops.reshape(found, shape=(symbol("found"),))
        taken = ops.gather(x, flat, axis=0)
        return [found, flat, ops.add(taken, taken), ops.sort(taken)[0], ops.reduce(taken, kind="sum", axes=(0,))]

    function = compiled([TensorType("float32", (N,))], build)
    for n in (0, 1, 50):
        x = np.random.default_rng(n).integers(-1, 2, n).astype(np.float32)
        found = np.nonzero(x)[0]
        taken = x[found]
        same(call(function, x), [found[None], found, 2 * taken, np.sort(taken), taken.sum(dtype=np.float32)])


# ---- unique ----------------------------------------------------------------------------------------------------------
def unique_of(rows: list, by_value: bool) -> tuple[list[int], list[int], list[int]]:
    """First indices, the group of each row, sizes. Rows compare as tuples."""
    groups: dict = {}
    for i, row in enumerate(rows):
        groups.setdefault(row, []).append(i)
    keys = sorted(groups) if by_value else list(groups)
    inverse = [0] * len(rows)
    for number, key in enumerate(keys):
        for i in groups[key]:
            inverse[i] = number
    return [groups[k][0] for k in keys], inverse, [len(groups[k]) for k in keys]


def key_of(element) -> tuple:
    """Sorts as the library does: NaN is one value, the largest."""
    parts = (element.real, element.imag) if isinstance(element, complex) else (element,)
    return tuple((part != part, 0 if part != part else part) for part in parts)


def plain(x: np.ndarray):
    kind = x.dtype.kind
    return x.tolist() if kind in "iubcf" else x.astype(np.float64).tolist()


@pytest.mark.parametrize("by_value", [True, False])
@pytest.mark.parametrize("dtype", NUMBERS)
def test_unique_of_every_type(dtype: str, by_value: bool) -> None:
    unique = compiled([TensorType(dtype, (N,))], lambda x: ops.unique(x, count="u", sorted=by_value))
    for n in (0, 1, 30, 700):
        x = sample(dtype, (n,))
        numbers = [int(v) for v in x] if DTYPES[dtype].kind in ("int", "uint") else plain(x)
        first, inverse, counts = unique_of([key_of(v) for v in numbers], by_value)
        values, *rest = call(unique, x)
        same(rest, [np.array(v, np.int64) for v in (first, inverse, counts)])
        assert values.tobytes() == x[first].tobytes()


@pytest.mark.parametrize("by_value", [True, False])
@pytest.mark.parametrize("axis", [0, 1, 2, -1, None])
def test_unique_slices(axis: int | None, by_value: bool) -> None:
    def build(x):
        return (
            ops.unique(x, count="u", sorted=by_value)
            if axis is None
            else ops.unique(x, count="u", axis=axis, sorted=by_value)
        )

    unique = compiled([TensorType("int32", (N, M, 2))], build)
    for shape in ((4, 5, 2), (0, 3, 2), (3, 0, 2), (1, 1, 2), (1, 90, 2)):
        x = np.random.default_rng(2).integers(-1, 2, shape).astype(np.int32)
        if axis is None:
            rows, taken = x.reshape(-1).tolist(), x.reshape(-1)
        else:
            rows = [tuple(np.take(x, i, axis).reshape(-1).tolist()) for i in range(shape[axis])]
            taken = x
        first, inverse, counts = unique_of(rows, by_value)
        want = [np.take(taken, np.array(first, np.int64), axis or 0)] if axis is not None else [taken[first]]
        same(call(unique, x), [*want, *(np.array(v, np.int64) for v in (first, inverse, counts))])


# ---- non-max suppression ---------------------------------------------------------------------------------------------
def suppressed(boxes, scores, maximum, limit, threshold, center) -> list[tuple[int, int, int]]:
    """In exact arithmetic's stead: float32 in the order the library computes in."""
    one = np.float32
    picked = []
    for batch, kind in itertools.product(range(scores.shape[0]), range(scores.shape[1])):
        corners = []
        for b in boxes[batch]:
            if center:
                b = [b[0] - b[2] / one(2), b[1] - b[3] / one(2), b[0] + b[2] / one(2), b[1] + b[3] / one(2)]
            corners.append((min(b[0], b[2]), min(b[1], b[3]), max(b[0], b[2]), max(b[1], b[3])))
        kept: list[int] = []
        row = scores[batch, kind]
        for i in sorted((i for i in range(len(row)) if row[i] > threshold), key=lambda i: -row[i]):
            if len(kept) < maximum and not any(iou(corners[i], corners[j]) > limit for j in kept):
                kept.append(i)
        picked += [(batch, kind, i) for i in kept]
    return picked


def iou(a, b) -> float:
    h, w = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    area = [(c[2] - c[0]) * (c[3] - c[1]) for c in (a, b)]
    if h <= 0 or w <= 0 or min(area) <= 0:
        return 0.0
    return h * w / (area[0] + area[1] - h * w)


NMS_TYPES = [
    TensorType("float32", (symbol("b"), N, 4)),
    TensorType("float32", (symbol("b"), symbol("c"), symbol("boxes"))),
    TensorType("int64", ()),
    TensorType("float64", ()),
    TensorType("float64", ()),
]


@pytest.mark.parametrize("center", [False, True])
def test_non_max_suppression(center: bool) -> None:
    nms = compiled(
        NMS_TYPES, lambda *xs: ops.non_max_suppression(*xs, count="k", form="center" if center else "corners")
    )
    random = np.random.default_rng(3)
    for batches, classes, n in ((2, 3, 40), (1, 1, 1), (1, 2, 0), (0, 2, 5), (1, 1, 600)):
        boxes = random.random((batches, n, 4), np.float32)
        scores = (random.integers(0, 20, (batches, classes, n)) / 20).astype(np.float32)  # ties
        for maximum, limit, threshold in ((10, 0.3, 0.2), (0, 0.5, 0.0), (-1, 0.5, 0.0), (2**40, 0.9, -np.inf)):
            numbers = (np.array(maximum), np.float64(np.float32(limit)), np.float64(np.float32(threshold)))
            want = suppressed(boxes, scores, maximum, numbers[1], numbers[2], center)
            same(call(nms, boxes, scores, *numbers), [np.array(want, np.int64).reshape(-1, 3)])


def test_non_max_suppression_checks_that_boxes_and_scores_agree() -> None:
    nms = compiled(NMS_TYPES, lambda *xs: ops.non_max_suppression(*xs, count="k"), node="detector")
    numbers = (np.array(3), np.float64(0.5), np.float64(0.0))
    with pytest.raises(BurnError, match="detector"):
        nms(np.zeros((1, 4, 4), np.float32), np.zeros((1, 1, 5), np.float32), *map(np.asarray, numbers))


# ---- between kernels -------------------------------------------------------------------------------------------------
def test_fusion_does_not_reach_around_a_library_call() -> None:
    """The last sum could join the first, but for what lies between: that needs the sort of the first."""

    def build(x, w):
        first = ops.add(x, ops.full(shape=(), dtype="float32", value=1.0))
        matmul = ops.dot_general(ops.sort(first)[0], w, lhs_contract=(1,), rhs_contract=(0,))
        total = ops.reduce(matmul, kind="sum", axes=(1,), keepdims=True)
        return ops.add(first, ops.broadcast_to(total, shape=(4, 5)))

    x, w = (np.random.default_rng(i).integers(-4, 5, s).astype(np.float32) for i, s in enumerate(((4, 5), (5, 7))))
    function = compiled([TensorType("float32", (4, 5)), TensorType("float32", (5, 7))], build)
    same(call(function, x, w), [x + 1 + (np.sort(x + 1) @ w).sum(1, keepdims=True)])


# ---- the table -------------------------------------------------------------------------------------------------------
def test_every_element_type_has_a_code() -> None:
    assert set(library.DTYPES) == DTYPES.keys()


def test_library_calls_show_in_a_profile() -> None:
    program = Program.create([("x", TensorType("float32", (N,)))])
    with program.building("order"):
        values, _ = ops.sort(program.inputs[0])
    function = executable(program.finish([("y", values)]))
    assert [(k.kind, k.sources) for k in function.artefact.kernels] == [("library", ("order",))]


@pytest.mark.parametrize("function", [lambda x: x[:1], lambda x: x[-1:], lambda x: x[::-1][:1]])
def test_a_slice_of_an_axis_that_is_empty_is_empty(function) -> None:
    run = burn.compile(function, ("float32[n]",))
    x = np.arange(5, dtype=np.float32)
    np.testing.assert_array_equal(run(x), function(x))
    assert run(x[:0]).shape == (0,)


def test_an_element_of_an_axis_that_is_empty_is_not_read() -> None:
    with pytest.raises(burn.RunError):
        burn.compile(lambda x: x[0], ("float32[n]",))(np.zeros(0, np.float32))


def test_slices_that_fit_an_empty_axis() -> None:
    x = np.zeros((0, 3), np.float32)
    for function in (lambda x: x[:, 1:], lambda x: x[::2], lambda x: x[:7], lambda x: x[2:3]):
        assert burn.compile(function, ("float32[n, 3]",))(x).shape == function(x).shape
