"""`burn.jacrev`, `jacfwd` and `hessian` against torch.func; `linearize`, `custom_jvp` and `associative_scan`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import burn
from burn import Tensor
from burn.errors import TypeMismatch

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(11)
X, W = RNG.standard_normal((5, 3)), RNG.standard_normal((3, 4))


def same(got: Any, want: Any) -> None:
    if isinstance(want, (tuple, list)):
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            same(g, w)
        return
    got = got.numpy() if isinstance(got, Tensor) else np.asarray(got)
    want = np.asarray(want)
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-10)


def _f(x: Any, w: Any) -> Any:
    """Of burn's and of torch's tensors."""
    y = (x @ w).tanh()
    return (y * y).sum(-1), y[0] * 2.0


@pytest.mark.parametrize("name", ["jacrev", "jacfwd", "hessian"])
def test_against_torch(name: str) -> None:
    function = (lambda x, w: _f(x, w)[0]) if name == "hessian" else _f
    want = getattr(torch.func, name)(function, (0, 1))(torch.tensor(X), torch.tensor(W))
    transformed = getattr(burn, name)(function, (0, 1))
    same((burn.jit(transformed) if name == "hessian" else transformed)(X, W), want)


def test_of_modules_containers_and_auxiliaries() -> None:
    layer = burn.nn.Linear(3, 2)
    rows, aux = burn.jacrev(lambda m, x: (m(x), {"x": x * 2.0, "name": "aux"}), has_aux=True)(
        layer, X.astype(np.float32)
    )
    assert rows["weight"].shape == (5, 2, 3, 2) or rows["weight"].shape == (5, 2, 2, 3)
    assert aux["name"] == "aux"
    np.testing.assert_allclose(aux["x"].numpy(), X.astype(np.float32) * 2)
    found = burn.jacfwd(lambda p: {"sum": p["a"] * p["b"]})({"a": X, "b": burn.constant(2.0, "float64")})
    same(found["sum"]["b"], X)
    same(found["sum"]["a"], 2 * np.eye(15).reshape(5, 3, 5, 3))


def test_nested_and_mapped() -> None:
    """The Hessian of each example, third derivatives, and the gradient of a Jacobian."""
    cubic = lambda x: (x * x * x).sum()  # noqa: E731
    same(burn.vmap(burn.hessian(cubic))(X), np.stack([np.diag(6 * x) for x in X]))
    third = np.zeros((3, 3, 3))
    third[range(3), range(3), range(3)] = 6.0
    same(burn.jacfwd(burn.hessian(cubic))(X[0]), third)
    trace = lambda x: burn.jacrev(lambda v: v * v * v)(x).trace()  # noqa: E731
    same(burn.grad(trace)(X[0]), 6 * X[0])
    same(burn.jit(burn.grad(trace))(X[0]), 6 * X[0])


def test_named_sizes() -> None:
    function = burn.compile(burn.jacrev(lambda x: x.sin() * x.sum()), ("float64[n]",))
    x = X[:, 0].copy()
    same(function(x), np.diag(np.cos(x) * x.sum()) + np.sin(x)[:, None])


def test_errors() -> None:
    with pytest.raises(TypeMismatch, match="only floats"):
        burn.jacrev(lambda x: x)(np.arange(3))
    with pytest.raises(TypeMismatch, match="argnums name positional"):
        burn.jacfwd(lambda x: x, 1)(X)
    with pytest.raises(TypeMismatch, match="with has_aux"):
        burn.jacrev(lambda x: x, has_aux=True)(X)


# ---- linearize, custom_jvp ---------------------------------------------------------------------------------------------
def test_linearize() -> None:
    y, along = burn.linearize(_f, X, W)
    same(y[0], _f(burn.constant(X), burn.constant(W))[0].numpy())
    dx, dw = RNG.standard_normal(X.shape), RNG.standard_normal(W.shape)
    want = torch.func.jvp(_f, (torch.tensor(X), torch.tensor(W)), (torch.tensor(dx), torch.tensor(dw)))[1]
    same(along(dx, dw), want)
    same(burn.jit(lambda a, b: burn.linearize(_f, X, W)[1](a, b))(dx, dw), want)
    with pytest.raises(TypeMismatch, match="primals' structure"):
        along(dx)
    with pytest.raises(TypeMismatch, match="its tensor's shape"):
        along(dx, dx)


def test_custom_jvp() -> None:
    """Three times the derivative of exp(x) * n, in reverse and forward mode, twice, mapped and traced."""

    @burn.custom_jvp
    def f(x: Tensor, n: Tensor) -> Tensor:
        return x.exp() * n

    @f.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        (x, n), (dx, _) = primals, tangents
        return f(x, n), dx * f(x, n) * 3.0

    x, n = X[0], np.arange(3)
    y = np.exp(x) * n
    total = lambda v: f(v, n).sum()  # noqa: E731
    same(f(burn.constant(x), burn.constant(n)), y)
    for transformed in (burn.grad(total), burn.jit(burn.grad(total))):
        same(transformed(x), 3 * y)
    same(burn.jvp(lambda v: f(v, n), (x,), (x,))[1], 3 * y * x)
    same(burn.grad(lambda v: burn.grad(total)(v).sum())(x), 9 * y)
    same(burn.vmap(burn.grad(total))(X), 3 * np.exp(X) * n)
    same(burn.grad(lambda v: burn.vmap(f, (0, None))(v, n).sum())(X), 3 * np.exp(X) * n)


def test_custom_jvp_errors() -> None:
    f = burn.custom_jvp(lambda x: x * 2.0)
    with pytest.raises(TypeMismatch, match="has no derivative"):
        burn.grad(lambda x: f(x).sum())(X)
    for wrong, text in (
        (lambda p, t: t[0], "is a pair"),
        (lambda p, t: (p[0] * 2.0, (t[0],)), "another structure"),
        (lambda p, t: (p[0] * 2.0, t[0].sum()), "has the result's type"),
    ):
        f.defjvp(wrong)
        with pytest.raises(TypeMismatch, match=text):
            burn.grad(lambda x: f(x).sum())(X)


def test_custom_jvp_with_arguments_that_are_not_differentiated() -> None:
    f = burn.custom_jvp(lambda g, x: g(x), nondiff_argnums=(0,))
    f.defjvp(lambda g, primals, tangents: (g(*primals), tangents[0] * 5.0))
    same(burn.grad(lambda x: f(lambda v: v.sin(), x).sum())(X), np.full(X.shape, 5.0))


# ---- associative_scan --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("n", [0, 1, 2, 3, 7])
def test_associative_scan(n: int) -> None:
    """Affine maps: composition is associative but does not commute."""
    a, b = RNG.standard_normal((2, n)), RNG.standard_normal((2, n))
    combine = lambda f, g: (f[0] * g[0], f[1] * g[0] + g[1])  # noqa: E731
    for reverse in (False, True):
        got = burn.associative_scan(combine, (a, b), reverse=reverse, axis=-1)
        want = np.zeros((2, 2, n))
        for row in range(2):
            state = (1.0, 0.0)
            for i in range(n)[:: -1 if reverse else 1]:
                state = combine(state, (a[row, i], b[row, i]))
                want[:, row, i] = state
        same(got, want)


def test_associative_scan_is_differentiable_and_maps() -> None:
    matmuls = RNG.standard_normal((5, 6, 2, 2))
    scan = lambda m: burn.associative_scan(burn.vmap(lambda p, q: p @ q), m)  # noqa: E731
    want = [[row[0]] for row in matmuls]
    for row, found in zip(matmuls, want, strict=True):
        for m in row[1:]:
            found.append(found[-1] @ m)
    same(burn.jit(burn.vmap(scan))(matmuls), np.array(want))
    last = lambda x: burn.associative_scan(lambda p, q: p * q, x)[-1]  # noqa: E731
    same(burn.grad(last)(X[0]), np.prod(X[0]) / X[0])


def test_associative_scan_errors() -> None:
    with pytest.raises(TypeMismatch, match="one size"):
        burn.associative_scan(lambda a, b: a, (X, W))
    with pytest.raises(TypeMismatch, match="one size"):
        burn.compile(lambda x: burn.associative_scan(lambda a, b: a + b, x), ("float32[n]",))
    with pytest.raises(TypeMismatch, match="keeps shapes"):
        burn.associative_scan(lambda a, b: (a + b).sum(), X)
    with pytest.raises(TypeMismatch, match="another structure"):
        burn.associative_scan(lambda a, b: (a, b), X)
