"""Special functions, statistics of samples, interpolation, convolution, distances and sampling grids, against numpy and torch.

Sizes are drawn. BURN_SWEEP=300 draws so many times more."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import burn
from burn.errors import TypeMismatch

torch = pytest.importorskip("torch")

DRAWS = 2 + int(os.environ.get("BURN_SWEEP", "0"))
SEED = int(os.environ.get("BURN_SWEEP_SEED", "0"))
POINTS = np.array([0.0, -0.0, 0.5, -0.5, 0.25, -0.999, 1.5, 2.5, 30.0, -3.25, 1e-20, np.inf, np.nan])


def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(SEED + seed)


def close(found: Any, want: Any, tolerance: float = 1e-9) -> None:
    np.testing.assert_allclose(np.asarray(found), np.asarray(want), rtol=tolerance, atol=tolerance)


def gradients(ours: Callable[..., Any], theirs: Callable[..., Any], *arrays: np.ndarray) -> None:
    """The derivatives of sums of squares."""
    given = [torch.tensor(a, requires_grad=True) for a in arrays]
    theirs(*given).square().sum().backward()
    found = burn.grad(lambda *x: (ours(*x) ** 2).sum(), argnums=range(len(arrays)))(*map(burn.tensor, arrays))
    for ours_, theirs_ in zip(found, given, strict=True):
        close(ours_, theirs_.grad, 1e-7)


# ---- special functions ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["erfc", "erfinv", "lgamma", "digamma"])
def test_special_functions(name: str) -> None:
    x = np.concatenate([POINTS, rng(1).uniform(-0.99, 0.99, 20) if name == "erfinv" else rng(1).uniform(-5, 9, 20)])
    given = torch.tensor(x, requires_grad=True)
    want = getattr(torch.special, name if name != "lgamma" else "gammaln")(given)
    want.sum().backward()
    function = getattr(burn, name)
    close(function(x), want.detach(), 1e-10)
    assert given.grad is not None
    inside = np.isfinite(given.grad.numpy()) & (np.abs(given.grad.numpy()) < 1e6) & (np.abs(x) < 20)
    close(burn.grad(lambda t: function(t).sum())(burn.tensor(x)).numpy()[inside], given.grad.numpy()[inside], 1e-8)
    assert function(1).dtype == "float32" and function(burn.ones(2, dtype="float16")).dtype == "float16"
    by_name = burn.compile(function, ("float32[n]",))
    close(
        by_name(x.astype(np.float32)),
        getattr(torch.special, "gammaln" if name == "lgamma" else name)(torch.tensor(x).float()),
        2e-6,
    )


def test_polygamma() -> None:
    x = rng(2).uniform(0.1, 9, 12)
    for n in range(4):
        close(burn.polygamma(n, x), torch.polygamma(n, torch.tensor(x)), 1e-8)
    second = burn.grad(burn.grad(lambda t: burn.lgamma(t)))(burn.tensor(2.5))
    close(second, torch.polygamma(1, torch.tensor(2.5)), 1e-6)
    assert burn.polygamma(1, np.inf).item() == 0
    with pytest.raises(TypeMismatch, match="from 0 on"):
        burn.polygamma(-1, x)


def test_logaddexp_has_both_derivatives_where_operands_are_equal() -> None:
    x = burn.tensor([1.0, -200.0, 0.0])
    y = burn.tensor([1.0, 300.0, 0.0])
    assert burn.grad(lambda a: burn.logaddexp(a, y).sum())(x).tolist() == [0.5, 0.0, 0.5]
    curved = burn.hessian(lambda a: burn.logaddexp(a, burn.tensor(1.0)))(burn.tensor(1.0))
    assert curved.item() == pytest.approx(0.25)
    ends = burn.logaddexp(burn.tensor([np.inf, -np.inf, np.inf, np.nan]), burn.tensor([np.inf, -np.inf, -np.inf, 0.0]))
    np.testing.assert_array_equal(ends, np.array([np.inf, -np.inf, np.inf, np.nan], np.float32))


# ---- samples ----------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("seed", range(DRAWS))
def test_covariances(seed: int) -> None:
    x = rng(seed).standard_normal((int(rng(seed).integers(1, 6)), int(rng(seed).integers(2, 12))))
    close(burn.cov(x), np.cov(x).reshape(len(x), len(x)))
    close(burn.cov(x[0], ddof=0), np.cov(x[0], ddof=0))
    close(burn.corrcoef(x), np.corrcoef(x).reshape(len(x), len(x)))
    close(burn.compile(burn.cov, ("float64[n, m]",))(x), np.cov(x).reshape(len(x), len(x)))
    gradients(burn.cov, lambda t: torch.cov(t).reshape(len(x), len(x)), x)
    both = burn.var_mean(x, 1, ddof=1)
    close(both.var, x.var(1, ddof=1))
    close(both.mean, x.mean(1))


@pytest.mark.parametrize("seed", range(DRAWS))
def test_histograms(seed: int) -> None:
    x = np.append(rng(seed).standard_normal(int(rng(seed).integers(1, 50))), [0.5, -0.5])
    for bins, bounds in itertools.product((1, 4, 13), (None, (-0.5, 0.5), (2.0, 2.0))):
        counts, edges = np.histogram(x, bins, bounds)
        found = burn.histogram(x, bins, *(bounds or ()))
        assert found.counts.dtype == "int64" and found.counts.tolist() == counts.tolist()
        close(found.edges, edges)
    assert burn.histogram(np.ones(3), 4).counts.tolist() == np.histogram(np.ones(3), 4)[0].tolist()
    assert burn.histogram([], 3, 0.0, 1.0).counts.tolist() == [0, 0, 0]


@pytest.mark.parametrize("seed", range(DRAWS))
def test_interpolation(seed: int) -> None:
    n = int(rng(seed).integers(1, 9))
    at, values = np.sort(rng(seed).standard_normal(n)), rng(seed + 9).standard_normal(n)
    x = np.concatenate([rng(seed).uniform(-3, 3, 20), at, [np.nan, np.inf, -np.inf]])
    close(burn.interp(x, at, values), np.interp(x, at, values))
    close(burn.interp(x, at, values, left=5.0, right=-2.0), np.interp(x, at, values, 5.0, -2.0))
    run = burn.compile(burn.interp, ("float64[m]", "float64[n]", "float64[n]"))
    close(run(x, at, values), np.interp(x, at, values))


def test_the_derivative_of_an_interpolation_is_the_slope() -> None:
    at, values = burn.tensor([0.0, 1.0, 3.0]), burn.tensor([1.0, 3.0, 2.0])
    slope = burn.grad(lambda x: burn.interp(x, at, values).sum())(burn.tensor([0.5, 2.0, 9.0]))
    assert slope.tolist() == [2.0, -0.5, 0.0]
    weights = burn.grad(lambda v: burn.interp(burn.tensor([0.25, 9.0]), at, v).sum())(values)
    assert weights.tolist() == [0.75, 0.25, 1.0]


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("sizes", [(1, 1), (5, 3), (3, 5), (7, 7), (8, 2)])
def test_convolutions(mode: str, sizes: tuple[int, int]) -> None:
    a, b = (rng(n).standard_normal(n) for n in sizes)
    close(burn.convolve(a, b, mode), np.convolve(a, b, mode))  # type: ignore[call-overload]


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.0, np.inf])
def test_distances(p: float) -> None:
    a, b = rng(1).standard_normal((2, 3, 4)), rng(2).standard_normal((2, 5, 4))
    close(burn.cdist(a, b, p), torch.cdist(torch.tensor(a), torch.tensor(b), p))
    if p in (1.0, 2.0):
        gradients(lambda x, y: burn.cdist(x, y, p), lambda x, y: torch.cdist(x, y, p), a, b)
    alike = burn.grad(lambda x: burn.cdist(x, x, 2.0).sum())(burn.ones(3, 2))
    assert alike.tolist() == [[0.0, 0.0]] * 3


def test_sums_by_segment() -> None:
    x = rng(3).standard_normal((4, 3))
    want = np.stack([x[0] + x[2], x[3], x[1], 0 * x[0]])
    close(burn.segment_sum(x, [0, 2, 0, 1], 4), want)
    run = burn.compile(lambda t, i: burn.segment_sum(t, i, 4), ("float64[n, m]", "int64[n]"))
    close(run(x, np.array([0, 2, 0, 1])), want)
    slope = burn.grad(lambda t: (burn.segment_sum(t, [0, 2, 0, 1], 4) ** 2).sum())(burn.tensor(x))
    close(slope, 2 * want[[0, 2, 0, 1]])
    with pytest.raises(IndexError):
        burn.segment_sum(x, [0, 1, 2, 9], 4).evaluate()
    with pytest.raises(IndexError):
        burn.segment_sum(x, [0, 1, 2, -1], 4).evaluate()


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: burn.cov(burn.ones(2, 2, 2)), "vector or a matrix"),
        (lambda: burn.histogram(burn.ones(2), 0), "at least one bin"),
        (lambda: burn.interp(1.0, burn.ones(2, 2), burn.ones(2)), "two vectors"),
        (lambda: burn.convolve(burn.ones(0), burn.ones(2)), "two vectors with elements"),
        (lambda: burn.cdist(burn.ones(2), burn.ones(2, 2)), "of rows"),
        (lambda: burn.segment_sum(burn.ones(2), burn.ones(2, 2).int(), 2), "vector of ids"),
        (lambda: burn.segment_sum(burn.ones(2), burn.constant([True, True]), 2), "integers"),
        (lambda: burn.grid_sample(burn.ones(1, 1, 2, 2), burn.ones(1, 2, 2, 3)), "each spatial axis"),
        (lambda: burn.grid_sample(burn.ones(1, 1, 2, 2), burn.ones(1, 2, 2, 2), "cubic"), "no such grid_sample"),
        (lambda: burn.affine_grid(burn.ones(1, 2, 2), (1, 1, 2, 2)), "for each image"),
    ],
)
def test_wrong_operands(call: Callable[[], Any], says: str) -> None:
    with pytest.raises(TypeMismatch, match=says):
        call()


# ---- sampling grids ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_images_at_a_grid(mode: str, padding: str) -> None:
    from torch.nn.functional import grid_sample

    x, grid = rng(1).standard_normal((2, 3, 5, 7)), rng(2).uniform(-1.4, 1.4, (2, 4, 6, 2))
    for aligned in (False, True):
        want = grid_sample(torch.tensor(x), torch.tensor(grid), mode, padding, aligned)
        close(burn.grid_sample(x, grid, mode, padding, aligned), want)
    if mode == "bilinear":
        gradients(
            lambda a, g: burn.grid_sample(a, g, mode, padding),
            lambda a, g: grid_sample(a, g, mode, padding, False),
            x,
            grid,
        )


def test_affine_grids_and_volumes() -> None:
    from torch.nn.functional import affine_grid, grid_sample

    for shape in ((2, 3, 4, 5), (2, 1, 3, 4, 5)):
        k = len(shape) - 2
        theta, x = rng(1).standard_normal((2, k, k + 1)), rng(2).standard_normal(shape)
        for aligned in (False, True):
            want = affine_grid(torch.tensor(theta), list(shape), aligned)
            close(burn.affine_grid(theta, shape, aligned), want)
            close(
                burn.grid_sample(x, want.numpy(), align_corners=aligned),
                grid_sample(torch.tensor(x), want, align_corners=aligned),
            )


# ---- equal eigenvalues ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("matrix", [np.eye(3), np.zeros((4, 3)), np.ones((4, 3)), np.diag([1.0, 1.0, 0.0])])
def test_derivatives_at_equal_values_are_finite(matrix: np.ndarray, dtype: str) -> None:
    x, weights = burn.tensor(matrix.astype(dtype)), rng(1).standard_normal((3, 3)).astype(dtype)

    def of_svd(a: burn.Tensor) -> burn.Tensor:
        u, s, vh = burn.linalg.svd(a, full_matrices=False)
        return (u * weights[0]).sum() + (vh * weights).sum() + s.sum()

    def of_eigh(a: burn.Tensor) -> burn.Tensor:
        values, vectors = burn.linalg.eigh(a.mT @ a)
        return (vectors * weights).sum() + (values**2).sum()

    for function in (of_svd, of_eigh):
        assert np.isfinite(burn.grad(function)(x).numpy()).all()


def test_the_projection_to_the_space_of_equal_values_has_its_derivative() -> None:
    q = np.linalg.qr(rng(0).standard_normal((3, 3)))[0]
    x, weights = q @ np.diag([2.0, 2.0, 5.0]) @ q.T, rng(1).standard_normal((3, 3))

    def projected(a: Any) -> burn.Tensor:
        space = burn.linalg.eigh(a).vectors[:, :2]
        return ((space @ space.mT) * weights).sum()

    found, step = burn.grad(projected)(burn.tensor(x)).numpy(), 1e-5
    for i, j in itertools.product(range(3), repeat=2):
        change = np.zeros((3, 3))
        change[i, j] += step / 2
        change[j, i] += step / 2
        slope = (projected(burn.tensor(x + change)).item() - projected(burn.tensor(x - change)).item()) / (2 * step)
        assert found[i, j] == pytest.approx(slope, abs=1e-6)
