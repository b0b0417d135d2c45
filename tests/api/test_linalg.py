"""Linear algebra beyond what numpy's answers say alone: factors, singular matrices, refusals."""

from __future__ import annotations

import numpy as np
import pytest

import burn
from burn import linalg
from burn.errors import TypeMismatch

RANDOM = np.random.default_rng(31)


@pytest.mark.parametrize("shape", [(5, 5), (2, 3, 7, 7), (1, 1), (0, 4, 4)])
def test_lu(shape: tuple[int, ...]) -> None:
    x = RANDOM.standard_normal(shape)
    permutation, lower, upper = (t.numpy() for t in linalg.lu(x))
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
    got = linalg._lu(*[burn.constant(RANDOM.standard_normal((2, 11, 11)))])
    assert burn.compile_count() == before and got[0].shape == (2, 11, 11)


def test_inside_of_a_traced_function() -> None:
    run = burn.compile(lambda a, b: linalg.solve(a, b), ("float64[n, n]", "float64[n, k]"))
    for n, k in ((4, 2), (1, 1), (7, 3)):
        a, b = RANDOM.standard_normal((n, n)), RANDOM.standard_normal((n, k))
        np.testing.assert_allclose(run(a, b), np.linalg.solve(a, b), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("name", ["lu", "det", "slogdet", "inv", "cholesky"])
def test_only_square_matrices(name: str) -> None:
    for shape in ((3, 4), (3,)):
        with pytest.raises(TypeMismatch, match="matrices"):
            getattr(linalg, name)(np.ones(shape))


def test_what_is_refused() -> None:
    with pytest.raises(TypeMismatch, match="right sides of 3 rows"):
        linalg.solve(np.eye(3), np.ones((4, 2)))
    with pytest.raises(TypeMismatch, match="singular values"):
        linalg.norm(np.eye(3), 2)
    with pytest.raises(TypeMismatch, match="reduced or complete"):
        linalg.qr(np.eye(3), "raw")
