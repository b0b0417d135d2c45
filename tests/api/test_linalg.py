"""Linear algebra beyond what numpy's answers say alone: factors, singular matrices, refusals."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import burn
from burn import linalg
from burn.errors import TypeMismatch
from burn.tensors.linalg.triangular import packed_lu

RANDOM = np.random.default_rng(31)


@pytest.mark.parametrize("shape", [(5, 5), (2, 3, 7, 7), (1, 1), (0, 4, 4), (5, 3), (2, 3, 5), (0, 3), (3, 0)])
def test_lu(shape: tuple[int, ...]) -> None:
    x = RANDOM.standard_normal(shape)
    permutation, lower, upper = (t.numpy() for t in linalg.lu(x))
    k = min(shape[-2:])
    assert lower.shape == (*shape[:-1], k) and upper.shape == (*shape[:-2], k, shape[-1])
    rows = np.take_along_axis(x, permutation[..., None], -2)
    np.testing.assert_allclose(lower @ upper, rows, atol=1e-12)
    np.testing.assert_array_equal(lower, np.tril(lower))
    np.testing.assert_array_equal(upper, np.triu(upper))
    assert (np.abs(lower) <= 1).all()  # the largest pivot of each column was taken


@pytest.mark.parametrize("shape", [(5, 5), (7, 3), (3, 7), (2, 3, 4, 1), (1, 5), (0, 4, 2)])
@pytest.mark.parametrize("mode", ["reduced", "complete"])
def test_qr(shape: tuple[int, ...], mode: str) -> None:
    x = RANDOM.standard_normal(shape)
    q, r = (t.numpy() for t in linalg.qr(x, mode))  # type: ignore[arg-type]
    wanted = np.linalg.qr(x, mode)  # type: ignore[call-overload]
    assert q.shape == wanted[0].shape and r.shape == wanted[1].shape
    np.testing.assert_allclose(q @ r, x, atol=1e-12)
    np.testing.assert_allclose(
        q.swapaxes(-1, -2) @ q, np.broadcast_to(np.eye(q.shape[-1]), (*shape[:-2], *q.shape[-1:] * 2)), atol=1e-12
    )
    np.testing.assert_array_equal(r, np.triu(r))


def test_qr_of_columns_that_need_no_reflection() -> None:
    x = np.array([[2.0, 1.0, 0.0], [0.0, 0.0, 0.0], [0.0, 3.0, 0.0]])
    q, r = linalg.qr(x)
    np.testing.assert_allclose((q @ r).numpy(), x, atol=1e-14)


def test_exponentials() -> None:
    """Norms from 0 to many squarings."""
    for n, size in ((4, 1.0), (3, 40.0), (5, 0.01), (1, 3.0), (0, 1.0)):
        x = RANDOM.standard_normal((2, n, n)) * size
        want = torch.linalg.matrix_exp(torch.tensor(x)).numpy()
        np.testing.assert_allclose(linalg.matrix_exp(x).numpy(), want, rtol=0, atol=1e-12 * np.abs(want).max(initial=1))
    assert np.isnan(linalg.matrix_exp(np.full((2, 2), np.inf)).numpy()).all()


@pytest.mark.slow
def test_derivative_of_exponentials() -> None:
    x, weights = RANDOM.standard_normal((4, 4)), RANDOM.standard_normal((4, 4))
    t = torch.tensor(x, requires_grad=True)
    (torch.linalg.matrix_exp(t) * torch.tensor(weights)).sum().backward()
    slope = burn.grad(lambda x: (linalg.matrix_exp(x) * burn.tensor(weights)).sum())(burn.tensor(x))
    np.testing.assert_allclose(slope.numpy(), t.grad, rtol=1e-9, atol=1e-11)  # type: ignore[arg-type]


def test_lstsq() -> None:
    a, b = RANDOM.standard_normal((9, 4)), RANDOM.standard_normal((9, 2))
    np.testing.assert_allclose(linalg.lstsq(a, b).numpy(), np.linalg.lstsq(a, b, rcond=None)[0], atol=1e-12)
    np.testing.assert_allclose(linalg.lstsq(a, b[:, 0]).numpy(), np.linalg.lstsq(a, b[:, 0], rcond=None)[0], atol=1e-12)
    with pytest.raises(TypeMismatch, match="at least as many rows"):
        linalg.lstsq(a.T, b)


def test_random_systems_that_need_pivots() -> None:
    a, b = RANDOM.standard_normal((3, 6, 6)), RANDOM.standard_normal((3, 6, 2))
    a[:, 0, 0] = 0
    np.testing.assert_allclose(linalg.solve(a, b).numpy(), np.linalg.solve(a, b), rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(linalg.det(a).numpy(), np.linalg.det(a), rtol=1e-9)
    np.testing.assert_allclose(linalg.solve(a[0], b[0, :, 0]).numpy(), np.linalg.solve(a[0], b[0, :, 0]), rtol=1e-8)
    np.testing.assert_allclose(linalg.solve(a[0], b).numpy(), np.linalg.solve(a[0], b), rtol=1e-8)  # batches broadcast
    np.testing.assert_allclose(
        linalg.matrix_power(a[0], -2).numpy(), np.linalg.matrix_power(a[0], -2), rtol=1e-7, atol=1e-9
    )


def test_singular_matrices() -> None:
    flat = np.ones((3, 3))
    assert linalg.det(flat).item() == 0
    assert not np.isfinite(linalg.inv(flat).numpy()).all()
    assert linalg.slogdet(flat).logarithm.item() == -np.inf and linalg.slogdet(flat).sign.item() == 0
    assert np.isnan(linalg.cholesky(-np.eye(2)).numpy()).any()
    assert linalg.det(np.zeros((0, 0))).item() == 1


def test_a_program_serves_every_size() -> None:
    linalg.inv(RANDOM.standard_normal((3, 3)))
    before = burn.compile_count()
    got = packed_lu(*[burn.constant(RANDOM.standard_normal((2, 11, 11)))])
    assert burn.compile_count() == before and got[0].shape == (2, 11, 11)


def test_inside_of_a_traced_function() -> None:
    run = burn.compile(lambda a, b: linalg.solve(a, b), ("float64[n, n]", "float64[n, k]"))
    for n, k in ((4, 2), (1, 1), (7, 3)):
        a, b = RANDOM.standard_normal((n, n)), RANDOM.standard_normal((n, k))
        np.testing.assert_allclose(run(a, b), np.linalg.solve(a, b), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("name", ["det", "slogdet", "inv", "cholesky"])
def test_only_square_matrices(name: str) -> None:
    for shape in ((3, 4), (3,)):
        with pytest.raises(TypeMismatch, match="matrices"):
            getattr(linalg, name)(np.ones(shape))


def test_what_is_refused() -> None:
    with pytest.raises(TypeMismatch, match="right-hand sides of 3 rows"):
        linalg.solve(np.eye(3), np.ones((4, 2)))
    with pytest.raises(TypeMismatch, match="reduced or complete"):
        linalg.qr(np.eye(3), "raw")


# ---- eigenvalues and singular values -----------------------------------------------------------------------------------
SHAPES = [(5, 5), (7, 3), (3, 7), (1, 1), (1, 4), (2, 3, 6, 4), (0, 4, 2), (13, 13), (17, 2)]


def close(got: object, want: np.ndarray, near: float = 1e-12) -> None:
    np.testing.assert_allclose(
        np.asarray(got), want, rtol=near, atol=near * max(1.0, float(np.abs(want).max(initial=0)))
    )


def orthonormal(q: np.ndarray) -> None:
    close(q.swapaxes(-1, -2) @ q, np.broadcast_to(np.eye(q.shape[-1]), (*q.shape[:-2], q.shape[-1], q.shape[-1])))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("full", [True, False])
def test_svd(shape: tuple[int, ...], full: bool) -> None:
    x = RANDOM.standard_normal(shape)
    u, s, vh = (t.numpy() for t in linalg.svd(x, full))
    wanted = np.linalg.svd(x, full)
    assert u.shape == wanted[0].shape and vh.shape == wanted[2].shape
    close(s, wanted[1])
    k = s.shape[-1]
    close((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], x)
    orthonormal(u)
    orthonormal(vh.swapaxes(-1, -2))


def special(name: str) -> np.ndarray:
    x = RANDOM.standard_normal((6, 4))
    return {
        "zeros": np.zeros((5, 3)), "ones": np.ones((5, 3)), "rank two": x[:, :2] @ RANDOM.standard_normal((2, 4)),
        "huge": x * 1e200, "tiny": x * 1e-200, "graded": x * 10.0 ** -np.arange(0, 32, 8), "diagonal": np.diag([3.0, -1, 0, 2]),
        "equal values": np.linalg.qr(x)[0] * 2.0, "hilbert": 1 / (np.arange(9)[:, None] + np.arange(9) + 1.0),
    }[name]  # fmt: skip


@pytest.mark.parametrize(
    "name", ["zeros", "ones", "rank two", "huge", "tiny", "graded", "diagonal", "equal values", "hilbert"]
)
def test_svd_of_special_matrices(name: str) -> None:
    x = special(name)
    u, s, vh = (t.numpy() for t in linalg.svd(x))
    top = np.abs(x).max() or 1.0
    close(s / top, np.linalg.svd(x)[1] / top)
    close((u[:, : len(s)] * (s / top)) @ vh, x / top)
    orthonormal(u)
    orthonormal(vh.T)
    assert linalg.matrix_rank(x).item() == np.linalg.matrix_rank(x)
    if name != "hilbert":  # its smallest values are rounding alone
        close(linalg.pinv(x).numpy() * top, np.linalg.pinv(x, rcond=9 * 2.0**-52) * top, 1e-10)


@pytest.mark.parametrize("n", [1, 2, 3, 8, 13])
def test_eigh(n: int) -> None:
    x = RANDOM.standard_normal((2, n, n))
    x = x + x.swapaxes(1, 2)
    values, vectors = (t.numpy() for t in linalg.eigh(x))
    close(values, np.linalg.eigh(x)[0], 1e-12)
    close(x @ vectors, vectors * values[:, None, :], 1e-12)
    orthonormal(vectors)
    close(linalg.eigh(np.tril(x)).values.numpy(), values)  # the upper triangle is not read


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_eigh_of_equal_eigenvalues(dtype: str) -> None:
    """Entries that are 0 on one side of the diagonal and rounding on the other."""
    near = 1e-5 if dtype == "float32" else 1e-13
    for n in (2, 5, 9, 16):
        v = RANDOM.standard_normal((3, n, 1))
        x = (np.eye(n) + 0.1 * v @ v.swapaxes(1, 2)).astype(dtype)
        values, vectors = (t.numpy() for t in linalg.eigh(x))
        close(values, np.linalg.eigvalsh(x.astype(np.float64)), near)
        close(vectors.swapaxes(1, 2) @ vectors, np.broadcast_to(np.eye(n), x.shape), near)
        close(linalg.svdvals(x), np.linalg.svd(x.astype(np.float64))[1], near)


def test_eigh_of_special_matrices() -> None:
    for x in (np.zeros((3, 3)), np.eye(4), np.ones((5, 5)), np.diag([1e200, 1.0, -1e200]), np.zeros((0, 0))):
        values, vectors = (t.numpy() for t in linalg.eigh(x))
        top = np.abs(x).max(initial=0) or 1.0
        close(values / top, np.linalg.eigvalsh(x) / top)
        orthonormal(vectors)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_singular_values_in_other_types(dtype: str) -> None:
    x = RANDOM.standard_normal((20, 9)).astype(dtype)
    u, s, vh = linalg.svd(x, full_matrices=False)
    assert u.dtype == s.dtype == vh.dtype == dtype
    near = 2e-6 if dtype == "float32" else 2e-3
    close(s, np.linalg.svd(x.astype(np.float64))[1], near)
    close(
        linalg.eigvalsh(x.T.astype(np.float32) @ x.astype(np.float32)),
        np.linalg.svd(x.astype(np.float64))[1][::-1] ** 2,
        2e-6,
    )


def test_matrix_norms_of_singular_values() -> None:
    x = RANDOM.standard_normal((3, 5, 4))
    for order in (2, -2, "nuc"):
        close(linalg.norm(x, order, (1, 2)), np.linalg.norm(x, order, (1, 2)))  # type: ignore[call-overload]
        close(linalg.norm(x, order, (2, 0), keepdims=True), np.linalg.norm(x, order, (2, 0), keepdims=True))  # type: ignore[call-overload]
    with pytest.raises(TypeMismatch, match="no matrix norm 3"):
        linalg.norm(x[0], 3)


def test_svd_in_traced_functions() -> None:
    run = burn.compile(lambda x: tuple(linalg.svd(x, full_matrices=False)), ("float64[m, n]",))
    for shape in ((6, 4), (5, 5), (9, 1)):
        x = RANDOM.standard_normal(shape)
        u, s, vh = run(x)
        close(u * s @ vh, x)
    with pytest.raises(burn.RunError, match="more columns than rows"):
        run(RANDOM.standard_normal((2, 5)))
    close(burn.jit(lambda x: linalg.svdvals(x))(RANDOM.standard_normal((2, 5)) * 0), np.zeros(2))


def test_nan_ends() -> None:
    x = np.full((3, 3), np.nan)
    assert np.isnan(linalg.svdvals(x).numpy()).all() and np.isnan(linalg.eigvalsh(x).numpy()).all()


@pytest.mark.parametrize("upper", [False, True])
def test_triangle_that_is_not_read(upper: bool) -> None:
    """NaN in the other triangle reaches neither the solution nor the gradients."""
    rng = np.random.default_rng(5)
    full = rng.standard_normal((5, 5)) + 4 * np.eye(5)
    read = np.triu(full) if upper else np.tril(full)
    given = np.where(np.triu(np.ones((5, 5)), 1).T if upper else np.triu(np.ones((5, 5)), 1), np.nan, full)
    right = rng.standard_normal((5, 2))

    def solved(a: burn.Tensor) -> burn.Tensor:
        return burn.linalg.solve_triangular(a, burn.constant(right), upper).square().sum()

    np.testing.assert_allclose(burn.jit(solved)(given), burn.jit(solved)(read), rtol=1e-12)
    np.testing.assert_allclose(burn.jit(burn.grad(solved))(given), burn.jit(burn.grad(solved))(read), rtol=1e-12)


def test_first_components_of_low_rank() -> None:
    """Vectors of equal singular values that are not used do not spoil the derivatives of those that are."""
    rng = np.random.default_rng(6)
    x = np.outer(rng.standard_normal(5), rng.standard_normal(4))

    def first(x: burn.Tensor) -> burn.Tensor:
        u, s, vh = burn.linalg.svd(x, full_matrices=False)
        return ((u[:, :1] * s[:1].sin()) @ vh[:1]).square().sum()

    u, s, vh = np.linalg.svd(x)
    want = 2 * np.sin(s[0]) * np.cos(s[0]) * np.outer(u[:, 0], vh[0])
    np.testing.assert_allclose(burn.jit(burn.grad(first))(x), want, rtol=1e-9, atol=1e-12)
