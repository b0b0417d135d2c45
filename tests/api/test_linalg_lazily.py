"""burn.linalg outside of traced functions: recorded around it, differentiated once and twice, against torch in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import burn  # noqa: E402
from burn import linalg  # noqa: E402

CASES: dict[str, Callable[[Any, Any], Any]] = {
    "det": lambda f, x: f.det(x).sum(),
    "slogdet": lambda f, x: f.slogdet(x)[1].sum(),
    "inv": lambda f, x: (f.inv(x) ** 2).sum(),
    "cholesky": lambda f, x: (f.cholesky(x) ** 3).sum(),
    "solve": lambda f, x: (f.solve(x, x[..., :2] ** 2) ** 2).sum(),
    "qr": lambda f, x: (f.qr(x)[1] ** 3).sum(),
    "eigvalsh": lambda f, x: (f.eigvalsh(x) ** 2).sum(),
    "eigh": lambda f, x: (f.eigh(x)[0] ** 3).sum(),
    "svdvals": lambda f, x: (f.svdvals(x) ** 2).sum(),
    "pinv": lambda f, x: (f.pinv(x) ** 2).sum(),
}
TWICE = ("solve", "det", "inv", "cholesky", "eigvalsh")
QUICK = {"cholesky", "solve"}
"""The others are compiled for seconds each."""


def _names(names: Any, quick: Any) -> list[Any]:
    return [n if n in quick else pytest.param(n, marks=pytest.mark.slow) for n in names]


def matrices(batch: int, n: int = 3) -> np.ndarray:
    """Symmetric, positive, with eigenvalues well apart."""
    random = np.random.default_rng(7)
    q, _ = np.linalg.qr(random.standard_normal((batch, n, n)))
    return (q * (1 + np.arange(n))[None, None, :]) @ q.swapaxes(1, 2)


@pytest.mark.parametrize("name", _names(CASES, QUICK))
def test_derivatives(name: str) -> None:
    """Ops before and after the algorithm are recorded: the chain rule covers all of them."""
    case, given = CASES[name], matrices(3)

    def ours(x: Any) -> Any:
        return case(linalg, x @ x.swapaxes(-1, -2) / 3)

    x = torch.tensor(given, requires_grad=True)
    want = case(torch.linalg, x @ x.mT / 3)
    (slope,) = torch.autograd.grad(want, x)
    value, found = burn.value_and_grad(ours)(burn.tensor(given))
    np.testing.assert_allclose(value.numpy(), want.detach().numpy(), rtol=1e-9)
    np.testing.assert_allclose(found.numpy(), slope.numpy(), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("name", _names(TWICE, ()))
def test_second_derivatives(name: str) -> None:
    case, given = CASES[name], matrices(2)
    direction = np.random.default_rng(8).standard_normal(given.shape)

    def ours(x: Any) -> Any:
        return (burn.grad(lambda y: case(linalg, y @ y.swapaxes(-1, -2) / 3))(x) * direction).sum()

    x = torch.tensor(given, requires_grad=True)
    (slope,) = torch.autograd.grad(case(torch.linalg, x @ x.mT / 3), x, create_graph=True)
    (want,) = torch.autograd.grad((slope * torch.tensor(direction)).sum(), x)
    np.testing.assert_allclose(burn.grad(ours)(burn.tensor(given)).numpy(), want.numpy(), rtol=1e-6, atol=1e-6)


def test_what_is_not_differentiated_is_computed_as_before() -> None:
    given = matrices(2)
    found = linalg.lu(burn.tensor(given))
    assert found.permutation.dtype == "int64"
    np.testing.assert_allclose(
        (found.lower @ found.upper).numpy(), np.take_along_axis(given, found.permutation.numpy()[..., None], 1)
    )
    slope = burn.grad(lambda x: linalg.lu(x).upper.sum())(burn.tensor(given))
    assert np.isfinite(slope.numpy()).all()
