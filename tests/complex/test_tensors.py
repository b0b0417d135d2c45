"""Complex tensors: conversion, arithmetic, movement, reductions, contractions, control flow, and what is refused."""

import copy
import os
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import burn

DEVICE = "cpu" if os.environ.get("BURN_SWEEP") else "reference"
"""The reference device compiles nothing: much faster for tests of many small ops."""


def drawn(*shape: int, seed: int = 0, dtype: Any = np.complex128) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)


def jitted(function: Callable[..., Any], *arrays: np.ndarray) -> Any:
    results = burn.jit(function, device=DEVICE)(*map(burn.tensor, arrays))
    return [r.numpy() for r in results]


def agree(results: Any, expected: Any, rtol: float = 1e-13) -> None:
    assert len(results) == len(expected)
    for i, (got, want) in enumerate(zip(results, expected, strict=True)):
        assert got.dtype == np.asarray(want).dtype and got.shape == np.shape(want), (i, got.dtype, got.shape)
        np.testing.assert_allclose(got, want, rtol=rtol, atol=1e-13, err_msg=str(i))


def test_making() -> None:
    z = burn.tensor(1 + 2j)
    assert (z.dtype, z.item(), complex(z), z.is_complex) == ("complex64", 1 + 2j, 1 + 2j, True)
    assert burn.tensor([1j, 2]).dtype == "complex64" and burn.tensor([1j], dtype=complex).dtype == "complex64"
    assert burn.tensor(drawn(3)).dtype == "complex128"
    assert repr(z) == "tensor(1.+2.j, dtype=complex64)"
    again = pickle.loads(pickle.dumps(burn.tensor(drawn(3))))
    np.testing.assert_array_equal(again.numpy(), drawn(3))
    assert copy.copy(z).item() == 1 + 2j
    x, y = np.array([1.0, 2.0]), np.array([3.0, -4.0])
    np.testing.assert_array_equal(burn.complex(x, y).numpy(), x + 1j * y)
    np.testing.assert_allclose(burn.polar(x, y).numpy(), x * np.exp(1j * y), rtol=1e-15)
    np.testing.assert_array_equal(burn.full((2,), 1j, "complex64").numpy(), np.full(2, 1j, np.complex64))
    assert burn.zeros((2,), dtype="complex128").numpy().dtype == np.complex128


def test_promotion() -> None:
    z = burn.tensor(drawn(2, dtype=np.complex64))
    for other, dtype in ((burn.ones((2,)), "complex64"), (burn.ones((2,), dtype="float64"), "complex128"), (2.5, "complex64"),
                         (1j, "complex64"), (burn.ones((2,), dtype="int64"), "complex64"), (True, "complex64")):  # fmt: skip
        assert (z + other).dtype == (other + z).dtype == dtype
    assert (burn.ones((2,), dtype="int64") + 1j).dtype == "complex64"
    assert (burn.ones((2,), dtype="float64") * 1j).dtype == "complex128"


def test_arithmetic() -> None:
    a, b = drawn(3, 1), drawn(4, seed=1)

    def f(x: Any, y: Any) -> Any:
        return [x + y, x - y, x * y, x / y, -x, x * 2.0, x / (2 - 1j), x == x, x != x, x**2, x**-2, x**0.5, 2**x, x.real, x.imag,
                x.astype("complex64"), x.real.astype("complex128"), x.astype("float64"), x.astype(bool)]  # fmt: skip

    expected = [a + b, a - b, a * b, a / b, -a, a * 2.0, a / (2 - 1j), a == a, a != a, a**2, a**-2.0, a**0.5, 2**a, a.real,
             a.imag,
             a.astype(np.complex64), a.real.astype(complex), a.real, a.astype(bool)]  # fmt: skip
    agree(jitted(f, a, b), expected, 1e-12)


def test_movement() -> None:
    a, index = drawn(3, 5), np.array([2, 0, 0])

    def f(x: Any, i: Any) -> Any:
        return [x.reshape(5, 3), x.transpose(1, 0), x[:, ::-2], x[1], x[i], burn.concat([x, x], 1), burn.stack([x, x]), x.flip(0),
                x.pad([(1, 0), (0, 2)]), burn.where(x.real > 0, x, 1j), x.roll(1, 1), x.at[i].add(x), x.broadcast_to(2, 3, 5),
                x.view_as_real(), x.view_as_real().view_as_complex(), x.take(i, 0), x.tril(), x.expand_dims(0)]  # fmt: skip

    added = a.copy()
    np.add.at(added, index, a)
    expected = [a.reshape(5, 3), a.T, a[:, ::-2], a[1], a[index], np.concatenate([a, a], 1), np.stack([a, a]), a[::-1],
             np.pad(a, [(1, 0), (0, 2)]), np.where(a.real > 0, a, 1j), np.roll(a, 1, 1), added, np.broadcast_to(a, (2, 3, 5)),
             np.stack([a.real, a.imag], -1), a, a[index], np.tril(a), a[None]]  # fmt: skip
    agree(jitted(f, a, index), expected)


def test_reductions() -> None:
    a = drawn(3, 5)

    def f(x: Any) -> Any:
        return [x.sum(), x.sum(0), x.mean(1), x.prod(), x.prod(1, keepdims=True), x.var(), x.std(0), x.cumsum(1), x.cumprod(1),
                x.norm(), x.abs().max(), x.isnan(), x.isfinite(), x[:, :0].prod(1), x.any(), x.all(0),
                x.count_nonzero()]  # fmt: skip

    expected = [a.sum(), a.sum(0), a.mean(1), a.prod(), a.prod(1, keepdims=True), a.var(), a.std(0), a.cumsum(1), a.cumprod(1),
             np.linalg.norm(a), np.abs(a).max(), np.isnan(a), np.isfinite(a), np.ones(3, complex), a.any(), a.all(0),
             np.count_nonzero(a)]  # fmt: skip
    agree(jitted(f, a), expected)


def test_contractions() -> None:
    a, b = drawn(2, 3, 4), drawn(4, 5, seed=1)

    def f(x: Any, y: Any) -> Any:
        return [
            x @ y,
            burn.einsum("bij,jk->ibk", x, y),
            x[0].conj() @ y,
            y.outer(y),
            x[0, 0].vdot(x[1, 0]),
            x[0].trace(),
        ]

    expected = [
        a @ b,
        np.einsum("bij,jk->ibk", a, b),
        a[0].conj() @ b,
        np.outer(b, b),
        np.vdot(a[0, 0], a[1, 0]),
        np.trace(a[0]),
    ]
    agree(jitted(f, a, b), expected)


def test_named_sizes_and_reference() -> None:
    def f(x: burn.Tensor) -> list:
        return [x.prod(0), x.cumprod(0), (x * x).sum()]

    for device in ("cpu", "reference"):
        compiled = burn.compile(f, [burn.spec("complex128[n, 2]")], device=device)
        for n in (0, 1, 5):
            a = drawn(n, 2)
            agree(list(map(np.asarray, compiled(a))), [a.prod(0), a.cumprod(0), (a * a).sum()])


def test_control_flow() -> None:
    """Mandelbrot's iteration in a loop with a complex carried value, and a conditional with complex results."""

    def f(c: Any, flag: Any) -> Any:
        def step(i: Any, z: Any) -> Any:
            return z * z + c

        z = burn.fori_loop(0, 4, step, c * 0)
        return [z, burn.cond(flag, lambda: z * 1j, lambda: z)]

    c = drawn(5) * 0.4
    want = c * 0
    for _ in range(4):
        want = want * want + c
    for flag in (True, False):
        agree(jitted(f, c, np.array(flag)), [want, want * 1j if flag else want])


def test_scan_stacks_complex_results() -> None:
    a = drawn(6, 2)
    (last, all_) = burn.jit(lambda x: burn.scan(lambda s, v: (s * v, s + v), x[0], x))(burn.tensor(a))
    state, rows = a[0], []
    for row in a:
        rows.append(state + row)
        state = state * row
    np.testing.assert_allclose(last.numpy(), state, rtol=1e-12)
    np.testing.assert_allclose(all_.numpy(), np.stack(rows), rtol=1e-12)


def test_vmap() -> None:
    a, b = drawn(4, 3), drawn(3, seed=2)
    got = burn.vmap(lambda x, y: (x * y).sum() + burn.complex(x.real, 1.0).prod(), in_axes=(0, None))(
        burn.tensor(a), burn.tensor(b)
    )
    np.testing.assert_allclose(got.numpy(), (a * b).sum(1) + (a.real + 1j).prod(1), rtol=1e-13)
    real = burn.vmap(lambda x: x.view_as_real().sum(0))(burn.tensor(a))
    np.testing.assert_allclose(real.numpy(), np.stack([a.real.sum(1), a.imag.sum(1)], 1), rtol=1e-13)


def test_constants_and_outputs_are_exact() -> None:
    table = drawn(3, dtype=np.complex64)
    compiled = burn.compile(lambda x: [x, x + table, burn.tensor(table)], [burn.spec("complex64[3]")])
    x = drawn(3, seed=5, dtype=np.complex64)
    same, moved, constant = compiled(x)
    np.testing.assert_array_equal(same, x)
    np.testing.assert_array_equal(moved, x + table)
    np.testing.assert_array_equal(constant, table)


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda z: z < z, "lt"), (lambda z: z.max(), "order"), (lambda z: z.maximum(z), "max"), (lambda z: z.sort(), "order"),
        (lambda z: z.floor(), "floor"), (lambda z: z % z, "mod"), (lambda z: z.argmax(), "order"), (lambda z: z.erf(), "erf"),
        (lambda z: z.softmax(0), "complex"), (lambda z: z & z, "and"),
        (lambda z: burn.random.normal((2,), dtype="complex64"), "complex64"),
        (lambda z: z.real.view_as_complex(), "part"), (lambda z: burn.complex(z, z), "complex"),
    ],
)  # fmt: skip
def test_refused_by_name(function: Callable[..., Any], text: str) -> None:
    with pytest.raises(burn.BurnError, match=text):
        function(burn.tensor(drawn(3))).numpy()


def test_xla() -> None:
    pytest.importorskip("jax")
    a = drawn(2, 3)
    results = burn.jit(lambda z: [z * z, z.T, z.abs(), z.real, z], device="xla")(burn.tensor(a))
    agree([r.numpy() for r in results], [a * a, a.T, np.abs(a), a.real, a])
