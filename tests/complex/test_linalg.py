"""burn.linalg of complex matrices, against numpy and, for derivatives, torch."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import burn
from tests.complex.test_tensors import DEVICE, drawn

L = burn.linalg
A, B, TALL = drawn(3, 3), drawn(3, 2, seed=1), drawn(4, 2, seed=2)
HERMITIAN = A @ A.conj().T + np.eye(3)


def compare(function: Callable[..., Any], expected: Any, *arrays: np.ndarray) -> None:
    results = burn.jit(function, device=DEVICE)(*map(burn.tensor, arrays))
    for i, (got, want) in enumerate(zip(results, expected, strict=True)):
        assert got.dtype == np.asarray(want).dtype, (i, got.dtype)
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-9, atol=1e-10, err_msg=str(i))


def test_systems_and_determinants() -> None:
    def f(a: Any, b: Any) -> Any:
        sign, size = L.slogdet(a)
        return [L.solve(a, b), L.det(a), sign, size, L.inv(a)]

    compare(f, [np.linalg.solve(A, B), np.linalg.det(A), *np.linalg.slogdet(A), np.linalg.inv(A)], A, B)


def test_factors() -> None:
    """LAPACK's phases: the diagonals of r and of Cholesky's factor are real."""

    def f(h: Any, t: Any, a: Any) -> Any:
        e = L.eigh(h)
        q, r = L.qr(t)
        return [L.cholesky(h), q, r, e.values, (e.vectors * e.values) @ e.vectors.mH, e.vectors.mH @ e.vectors, a.mH]

    q, r = np.linalg.qr(TALL)
    expected = [
        np.linalg.cholesky(HERMITIAN),
        q,
        r,
        np.linalg.eigvalsh(HERMITIAN),
        HERMITIAN,
        np.eye(3) + 0j,
        A.conj().T,
    ]
    compare(f, expected, HERMITIAN, TALL, A)


@pytest.mark.slow
def test_singular_values() -> None:
    def f(t: Any) -> Any:
        u, s, vh = L.svd(t)
        return [s, (u[:, :2] * s) @ vh, u.mH @ u, L.pinv(t), L.norm(t, "nuc"), L.matrix_rank(t)]

    s = np.linalg.svd(TALL, compute_uv=False)
    expected = [s, TALL, np.eye(4) + 0j, np.linalg.pinv(TALL), s.sum(), np.linalg.matrix_rank(TALL)]
    compare(f, expected, TALL)
    compare(lambda t: [L.svdvals(t), L.pinv(t)], [s, np.linalg.pinv(TALL.T)], np.ascontiguousarray(TALL.T))


W = drawn(3, 3, seed=7).real
LOSSES = {
    "solve": (lambda m, x: m.linalg.solve(x, weight(m) + 0j * x).imag, A),
    "det": (lambda m, x: m.linalg.det(x).imag, A),
    "cholesky": (lambda m, x: m.linalg.cholesky(x).tril(-1).imag + m.linalg.cholesky(x).real, HERMITIAN),
    "qr": (lambda m, x: m.linalg.qr(x)[0].imag + m.linalg.qr(x)[1].real, A),
    "eigh": (lambda m, x: m.linalg.eigh(x)[1].abs() + m.linalg.eigh(x)[0], HERMITIAN),
    "svd": (lambda m, x: polar(*m.linalg.svd(x, False)), A),
    "pinv": (lambda m, x: m.linalg.pinv(x).imag, A),
}


def polar(u: Any, s: Any, vh: Any) -> Any:
    return (u @ vh).imag + s


def weight(m: Any) -> Any:
    return torch.tensor(W) if m is torch else burn.tensor(W)


@pytest.mark.slow
@pytest.mark.parametrize("name", LOSSES)
def test_derivatives(name: str) -> None:
    function, point = LOSSES[name]
    got = burn.grad(lambda x: (function(burn, x) * weight(burn)).sum())(burn.tensor(point)).numpy()
    x = torch.tensor(point, requires_grad=True)
    (function(torch, x) * weight(torch)).sum().backward()
    want = x.grad.numpy()
    if name == "cholesky":  # torch leaves imaginary parts on the diagonal, which the function does not read
        want = (want + want.conj().T) / 2
    np.testing.assert_allclose(got, want, rtol=1e-8, atol=1e-9 * np.abs(want).max())
