"""Parts of sorted rows: `partial_sort` against a stable sort, and the programs that become it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from running import call, compiled, same
from test_library import REAL, M, N, order_of, sample

import burn
from burn.dialect import ops
from burn.dialect.dims import symbol
from burn.dialect.types import TensorType
from burn.errors import BurnError, CompileError, TypeMismatch

K, S = symbol("k"), symbol("s")


def windows(n: int) -> list[tuple[int, int]]:
    """First positions and sizes: ends, the middle, all, none, and those between methods (48 elements, and n / 64)."""
    found = {(0, 0), (n, 0), (0, 1), (n - 1, 1), (n // 2, 1), (0, n), (n // 3, n // 2), (0, 48), (0, 49), (n - 49, 49)}
    found |= {(0, n // 64), (n // 100, n // 200), (n - n // 80, n // 80), (1, n - 2), (n // 2, 2)}
    return sorted((start, size) for start, size in found if 0 <= start <= start + size <= n)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", REAL)
def test_windows_of_every_type(dtype: str, descending: bool) -> None:
    """Positions are those of a stable sort, of values that are often equal; bits are the operand's."""
    starts, sizes = TensorType("int64", (S,)), TensorType("int64", (K,))
    part = compiled(
        [TensorType(dtype, (N, M)), starts, sizes],
        lambda x, *_: ops.partial_sort(x, start=S, size=K, axis=-1, descending=descending),
    )
    for rows, n in ((3, 1), (3, 70), (2, 300), (1, 9000)):
        x = sample(dtype, (rows, n), seed=n)
        order = order_of(x, 1, descending)
        for start, size in windows(n):
            chosen = order[:, start : start + size]
            values, indices = call(part, x, np.zeros(start, np.int64), np.zeros(size, np.int64))
            same([indices], [chosen])
            assert values.tobytes() == np.take_along_axis(x, chosen, 1).tobytes()


@pytest.mark.parametrize("case", ["normal", "ascending", "descending", "equal", "one bit", "ends"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "uint16"])
def test_windows_of_rows_in_any_order(dtype: str, case: str) -> None:
    random = np.random.default_rng(0)
    n = 20_000
    made = {
        "normal": random.standard_normal(n) * 1000,
        "ascending": np.arange(n),
        "descending": np.arange(n)[::-1],
        "equal": np.full(n, 7),
        "one bit": random.integers(0, 2, n) * 1024,
        "ends": np.where(random.random(n) < 0.01, random.integers(0, 60000, n), 30000),
    }[case]
    x = np.abs(made).astype(dtype) if dtype == "uint16" else made.astype(dtype)
    order = np.argsort(x, kind="stable")
    for start, size in (
        (0, 10),
        (0, 100),
        (0, 300),
        (0, 3000),
        (9999, 2),
        (17_000, 3000),
        (19_990, 10),
        (5000, 10_000),
    ):
        values, indices = burn.ops.partial_sort(x, start=start, size=size)
        same([indices.numpy(), values.numpy()], [order[start : start + size], x[order[start : start + size]]])


@pytest.mark.parametrize("axis", [0, 1, 2, -3, -2, -1])
def test_along_an_axis(axis: int) -> None:
    for shape, (start, size) in itertools.product(
        ((65, 70, 66), (1, 4, 3), (0, 4, 3), (17, 3, 0)), ((0, 2), (1, 1), (1, 2))
    ):
        x = sample("float32", shape)
        if start + size > shape[axis]:
            with pytest.raises(TypeMismatch, match="no positions"):
                burn.ops.partial_sort(x, start=start, size=size, axis=axis)
            continue
        order = np.take(order_of(x, axis, False), range(start, start + size), axis)
        values, indices = burn.ops.partial_sort(x, start=start, size=size, axis=axis)
        same([values.numpy(), indices.numpy()], [np.take_along_axis(x, order, axis), order])


def test_positions_beyond_the_axis_are_refused_at_run_time() -> None:
    part = compiled(
        [TensorType("float32", (N,)), TensorType("float32", (K,))], lambda x, y: ops.partial_sort(x, start=1, size=K)
    )
    assert call(part, np.arange(4.0, dtype="f4"), np.zeros(3, "f4"))[0].tolist() == [1, 2, 3]
    with pytest.raises(BurnError, match="a size is 5"):
        call(part, np.arange(4.0, dtype="f4"), np.zeros(4, "f4"))


def test_complex_numbers_and_scalars_are_refused() -> None:
    with pytest.raises(CompileError, match="complex64"):
        compiled([TensorType("complex64", (3,))], lambda x: ops.partial_sort(x, start=0, size=1)[1])
    with pytest.raises(TypeMismatch, match="no axis"):
        burn.ops.partial_sort(np.float32(1), start=0, size=1, axis=0)


# ---- programs --------------------------------------------------------------------------------------------------------
def test_a_gradient_of_the_largest_elements() -> None:
    x = np.random.default_rng(1).standard_normal((5, 300)).astype("f4")
    weight = np.arange(1.0, 8.0, dtype="f4")
    gradient = burn.jit(burn.grad(lambda x: (x.topk(7)[0] * weight).sum()))
    got = gradient(x)
    assert "partial_sort" in str(burn.explain(gradient.executable))
    want = np.zeros_like(x)
    np.put_along_axis(want, np.argsort(-x, kind="stable")[:, :7], np.broadcast_to(weight, (5, 7)), 1)
    same([np.asarray(got)], [want])


PROGRAMS = {
    "topk": lambda x: x.topk(7, 1, sorted=False)[0].sort(1)[0],
    "kthvalue": lambda x: x.kthvalue(40, 1)[0],
    "median": lambda x: x.median(1)[0],
    "topk of a column": lambda x: x.topk(3, 0, largest=False)[0],
    "largest last": lambda x: x.sort(1)[0][:, -5:],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_of_torch_select(name: str) -> None:
    module = torch.nn.Module()
    module.forward = PROGRAMS[name]
    x = torch.randn(20, 200, generator=torch.Generator().manual_seed(0))
    module = burn.compile(module, (x,))
    assert "partial_sort" in str(burn.explain(module))
    same([np.asarray(module(x))], [PROGRAMS[name](x).numpy()])


def test_a_batch_of_parts() -> None:
    x = np.random.default_rng(2).standard_normal((4, 3, 90)).astype("f4")
    got = burn.vmap(lambda row: burn.ops.partial_sort(row, start=2, size=5, axis=1)[1])(x)
    same([got.numpy()], [np.argsort(x, kind="stable")[:, :, 2:7]])
