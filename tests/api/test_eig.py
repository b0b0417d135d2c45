"""Eigenvalues and eigenvectors of general matrices: burn.linalg.eig and eigvals.

BURN_SWEEP=100 draws as many more matrices of each kind."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import linear_sum_assignment

import burn
from burn import linalg
from burn.errors import TypeMismatch

Array = np.ndarray
DTYPES = ["float64", *(pytest.param(d, marks=pytest.mark.slow) for d in ("float32", "complex64", "complex128"))]
"""Each costs the compilation of a program."""


def diagonalisable(rng: np.random.Generator, n: int) -> Array:
    """Few distinct eigenvalues: shifts that ignore small subdiagonal elements do not converge on most of these."""
    vectors = rng.normal(size=(n, n))
    return vectors @ np.diag(rng.integers(1, 4, n)) @ np.linalg.inv(vectors)


def jordan(rng: np.random.Generator, n: int) -> Array:
    return 2.0 * np.eye(n) + np.eye(n, k=1)


KINDS: dict[str, Callable[[np.random.Generator, int], Array]] = {
    "normal": lambda rng, n: rng.normal(size=(n, n)),
    "zeros": lambda rng, n: np.zeros((n, n)),
    "identity": lambda rng, n: np.eye(n),
    "integers": lambda rng, n: rng.integers(-1, 2, (n, n)),
    "sparse": lambda rng, n: rng.normal(size=(n, n)) * (rng.random((n, n)) < 0.3),
    "low rank": lambda rng, n: rng.integers(-1, 2, (n, 2)) @ rng.integers(-1, 2, (2, n)),
    "permutation": lambda rng, n: np.eye(n)[rng.permutation(n)],
    "rotation": lambda rng, n: np.linalg.qr(rng.normal(size=(n, n)))[0],
    "skew": lambda rng, n: (x := rng.normal(size=(n, n))) - x.T,
    "triangular": lambda rng, n: np.tril(rng.normal(size=(n, n))),
    "few values": diagonalisable,
    "defective": jordan,
    "badly scaled": lambda rng, n: rng.normal(size=(n, n)) * 10.0 ** np.subtract.outer(np.arange(n), np.arange(n)),
    "huge": lambda rng, n: rng.normal(size=(n, n)) * 1e36,
    "tiny": lambda rng, n: rng.normal(size=(n, n)) * 1e-36,
}


def residual(x: Array, values: Array, vectors: Array) -> float:
    """The largest |x v - v w| over the largest |x|, in units of x's rounding; of matrices [batch, n, n], in double precision."""
    wide = x.astype(np.complex128)
    size = np.maximum(np.abs(wide).max((1, 2), initial=0), np.finfo(np.float64).tiny)[:, None, None]
    error = (wide / size) @ vectors - vectors * (values[:, None, :] / size)
    return float(np.abs(error).max(initial=0) / np.finfo(x.dtype).eps)


def apart(found: Array, want: Array) -> float:
    """The largest distance between eigenvalues, matched one to one."""
    distances = np.abs(found[:, None] - want[None, :])
    return float(distances[linear_sum_assignment(distances)].max(initial=0))


def check(x: Array) -> None:
    found = linalg.eig(burn.tensor(x))
    values, vectors = (t.numpy().astype(np.complex128) for t in found)
    narrow = {"float32": "complex64", "float64": "complex128"}.get(x.dtype.name, x.dtype.name)
    assert found.values.dtype == found.vectors.dtype == narrow
    n = x.shape[-1]
    assert residual(x, values, vectors) < 30 * (n + 1)
    rounding = float(np.finfo(x.dtype).eps)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=10 * rounding)
    size = np.abs(vectors)
    largest = size >= size.max(1, keepdims=True, initial=0) * (1 - 10 * rounding)
    assert (np.where(largest, np.abs(vectors.imag), 1).min(1, initial=1) <= 10 * rounding).all()
    if x.dtype.kind == "f":  # pairs of exact conjugates, and real vectors of real values
        np.testing.assert_array_equal(np.sort_complex(values), np.sort_complex(values.conj()))
        assert (np.swapaxes(vectors, 1, 2)[values.imag == 0].imag == 0).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_vectors(dtype: str) -> None:
    for seed in range(1 + int(os.environ.get("BURN_SWEEP", "0"))):
        rng = np.random.default_rng(seed)
        for kind, draw in KINDS.items():
            n = int(rng.integers(2, 14))
            x = np.stack([draw(rng, n) for _ in range(3)]).astype(dtype)
            if dtype.startswith("complex") and seed % 2:
                x = x + np.stack([draw(rng, n) for _ in range(3)]).astype(dtype) * 1j
            try:
                check(x)
            except AssertionError as error:
                raise AssertionError(f"{kind}, seed {seed}, {x.shape}") from error


@pytest.mark.parametrize("dtype", DTYPES)
def test_sizes(dtype: str) -> None:
    rng = np.random.default_rng(5)
    for shape in [(0, 0, 0), (2, 0, 0), (0, 3, 3), (2, 1, 1), (3, 2, 2), (1, 31, 31)]:
        x = rng.normal(size=shape).astype(dtype)
        check(x)
        assert linalg.eig(burn.tensor(x)).values.shape == shape[:-1]
    square = rng.normal(size=(5, 5)).astype(dtype)
    for shape in [(5, 5), (2, 3, 5, 5)]:
        values, vectors = linalg.eig(burn.tensor(np.broadcast_to(square, shape)))
        assert values.shape == shape[:-1] and vectors.shape == shape
    with pytest.raises(TypeMismatch, match="eig is of square matrices"):
        linalg.eig(burn.tensor(rng.normal(size=(2, 3)).astype(dtype)))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
def test_values(dtype: str) -> None:
    rng = np.random.default_rng(7)
    for n in (0, 1, 2, 3, 8, 17):
        x = rng.normal(size=(3, n, n)) + (1j * rng.normal(size=(3, n, n)) if dtype == "complex128" else 0)
        values = linalg.eigvals(burn.tensor(x.astype(dtype))).numpy()
        for found, want in zip(values, np.linalg.eigvals(x), strict=True):
            assert apart(found, want) < 1e4 * np.finfo(dtype).eps
    whole = linalg.eigvals(burn.tensor([[2, 1], [1, 2]])).numpy()  # integers become float32
    assert whole.dtype == np.complex64
    np.testing.assert_allclose(np.sort(whole.real), [1, 3], rtol=1e-6)


def test_matrices_without_finite_elements_are_nan_alone() -> None:
    x = np.random.default_rng(9).normal(size=(3, 4, 4))
    x[0, 1, 2], x[2, 3, 3] = np.nan, np.inf
    values, vectors = (t.numpy() for t in linalg.eig(burn.tensor(x)))
    np.testing.assert_array_equal(np.isnan(values).all(1), [True, False, True])
    np.testing.assert_array_equal(np.isnan(vectors).all((1, 2)), [True, False, True])
    assert apart(values[1], np.linalg.eigvals(x[1])) < 1e-13


def loss(m: Any, x: Any) -> Any:
    """A real function that depends neither on the order nor on the phases of eigenvectors."""
    values, vectors = m.linalg.eig(x)
    size = vectors.abs()
    return (values * values * values).real.sum() + (size**3 * values.real[..., None, :]).sum() + values.imag.abs().sum()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (5, 5), (2, 4, 4)])
def test_derivatives(dtype: str, shape: tuple[int, ...]) -> None:
    """First and second ones, against PyTorch."""
    rng = np.random.default_rng(11)
    x = rng.normal(size=shape) + (1j * rng.normal(size=shape) if dtype == "complex128" else 0)
    weights = rng.normal(size=shape)
    first = burn.grad(lambda x: loss(burn, x))
    second = burn.grad(lambda x: (first(x).real * burn.tensor(weights)).sum())
    t = torch.tensor(x, requires_grad=True)
    (want,) = torch.autograd.grad(loss(torch, t), t, create_graph=True)
    np.testing.assert_allclose(first(burn.tensor(x)).numpy(), want.detach().numpy(), rtol=1e-9, atol=1e-10)
    (further,) = torch.autograd.grad((want.real * torch.tensor(weights)).sum(), t)
    np.testing.assert_allclose(second(burn.tensor(x)).numpy(), further.numpy(), rtol=1e-8, atol=1e-9)


@pytest.mark.slow
def test_derivatives_at_equal_eigenvalues() -> None:
    """The trace of a power, at matrices with equal eigenvalues: k x^(k - 1), transposed."""
    vectors = np.random.default_rng(13).normal(size=(4, 4))
    for x in (np.eye(4), vectors @ np.diag([1.0, 1, 1, 2]) @ np.linalg.inv(vectors)):
        slope = burn.grad(lambda x: (linalg.eig(x).values ** 3).real.sum())(burn.tensor(x)).numpy()
        np.testing.assert_allclose(slope, 3 * (x @ x).T, rtol=1e-8, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", "reference", "xla"])
def test_devices(device: str) -> None:
    x = np.random.default_rng(15).normal(size=(2, 5, 5))
    values, vectors = burn.jit(lambda x: tuple(linalg.eig(x)), device=device)(burn.tensor(x))
    assert residual(x, values.numpy(), vectors.numpy()) < 100
    only = burn.jit(linalg.eigvals, device=device)(burn.tensor(x)).numpy()
    assert max(map(apart, only, np.linalg.eigvals(x))) < 1e-12
