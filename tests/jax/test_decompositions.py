"""Decompositions that JAX takes from LAPACK, in its packed forms, and functions that XLA defines at poles and at edges."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import burn

L: Any = jax.lax.linalg


def same(function: Callable[..., Any], *operands: Any, bound: float = 2e-5) -> None:
    want = jax.jit(function)(*operands)
    have = burn.compile(jax.jit(function), operands, cache=False)(*operands)
    for a, b in zip(jax.tree.leaves(want), jax.tree.leaves(have), strict=True):
        np.testing.assert_allclose(np.asarray(b), np.asarray(a), bound, bound)


def drawn(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("shape", [(1, 1), (2, 7, 7)])
def test_hessenberg_and_tridiagonal(shape: tuple[int, ...]) -> None:
    same(
        lambda x: (L.hessenberg(x), L.tridiagonal(x, lower=True), L.tridiagonal(x, lower=False)),
        drawn(*shape),
    )


@pytest.mark.parametrize("shape", [(2, 5, 3), (3, 5), (0, 3)])
def test_qr_with_pivoting(shape: tuple[int, ...]) -> None:
    same(lambda x: L.qr(x, pivoting=True, full_matrices=shape[-1] > 3), drawn(*shape))


def test_the_order_of_a_pivoted_qr_is_by_length() -> None:
    x = np.diag(np.array([1.0, 5.0, -3.0], np.float32))
    order = burn.compile(jax.jit(lambda x: L.qr(x, pivoting=True)[2]), (x,), cache=False)(x)
    np.testing.assert_array_equal(order, [1, 2, 0])


def test_zeta_at_poles() -> None:
    s = np.array([0, 0.5, 1, 1.5, 2, 3, -1, np.nan, np.inf, 200], np.float32)
    q = np.array([-2, -1.5, -0.3, 0, -0.0, 0.5, 2, np.nan, np.inf, -np.inf], np.float32)
    same(jax.lax.zeta, np.repeat(s, len(q)), np.tile(q, len(s)))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "uint32", "int64", "uint64"])
def test_arithmetic_shifts_and_upper_words_of_multiplications(dtype: str) -> None:
    """A shift of an unsigned integer repeats its highest bit."""
    info, draws = np.iinfo(dtype), np.random.default_rng(0)
    a, b = (draws.integers(info.min, info.max, 99, dtype=dtype, endpoint=True) for _ in range(2))
    b[::2] %= 9
    with jax.enable_x64(True):
        same(lambda a, b: (jax.lax.shift_right_arithmetic(a, b), jax.lax.mulhi(a, b)), a, b, bound=0)


def test_erfc_in_float64() -> None:
    x = np.concatenate([np.linspace(-6, 25, 601), [0.5, 2.0, np.inf, -np.inf]])
    with jax.enable_x64(True):
        have = burn.compile(jax.jit(jax.lax.erfc), (x,), cache=False)(x)
    np.testing.assert_allclose(np.asarray(have), [math.erfc(v) for v in x], 2e-15)


def test_a_reduction_by_a_function_over_no_axes() -> None:
    same(lambda x: jax.lax.reduce(x, jnp.float32(3), lambda a, b: a + b + a * b, ()), drawn(3))
