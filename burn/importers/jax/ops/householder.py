"""Decompositions by Householder's reflectors, in LAPACK's packed forms: QR with and without pivoting, Hessenberg and tridiagonal.

A reflector is I - tau v v^H; v is 1 at its first element and stored below it. LAPACK applies the adjoint from the left, with the
conjugate of tau. Matrices are [..., m, n].
"""

from __future__ import annotations

from typing import Any

from jax import lax
from jax import numpy as jnp
from jax._src.lax import linalg as jax_linalg

from burn.dialect.deferred import Value
from burn.importers.jax.equation import Equation, primitive
from burn.importers.jax.ops.empty import empty


def reflector(column: Any, k: Any) -> tuple[Any, Any, Any]:
    """(v, beta, tau) of the reflector that makes elements after k of columns [..., m] zero, and element k beta."""
    rows = jnp.arange(column.shape[-1])
    below = jnp.where(rows > k, column, 0)
    alpha = jnp.take(column, k, axis=-1)
    rest = jnp.sum(_square(below), axis=-1)
    norm = jnp.sqrt(_square(alpha) + rest)
    plain = (rest == 0) & (jnp.imag(alpha) == 0)
    beta = jnp.where(plain, alpha, jnp.where(jnp.real(alpha) >= 0, -norm, norm).astype(alpha.dtype))
    tau = jnp.where(plain, 0, (beta - alpha) / jnp.where(plain, 1, beta))
    scale = jnp.where(plain, 1, alpha - beta)
    return jnp.where(rows == k, 1, below / scale[..., None]), beta, tau


def _square(x: Any) -> Any:
    """|x|^2"""
    return jnp.real(x * jnp.conj(x))


def from_left(a: Any, v: Any, tau: Any) -> Any:
    share = jnp.einsum("...i,...ij->...j", jnp.conj(v), a) * tau[..., None]
    return a - v[..., :, None] * share[..., None, :]


def from_right(a: Any, v: Any, tau: Any) -> Any:
    share = jnp.einsum("...ij,...j->...i", a, v) * tau[..., None]
    return a - share[..., :, None] * jnp.conj(v)[..., None, :]


def _stored(a: Any, at: Any, k: Any, v: Any, beta: Any) -> Any:
    """Column `at` with beta at row k, and v below it."""
    rows, columns = jnp.arange(a.shape[-2]), jnp.arange(a.shape[-1])
    packed = jnp.where(rows == k, beta[..., None], jnp.where(rows > k, v, jnp.take(a, at, axis=-1)))
    return jnp.where(columns == at, packed[..., None], a)


def _with(taus: Any, k: Any, tau: Any) -> Any:
    return jnp.where(jnp.arange(taus.shape[-1]) == k, tau[..., None], taus)


def _qr_step(k: Any, a: Any, taus: Any) -> tuple[Any, Any]:
    column = jnp.take(a, k, axis=-1)
    v, beta, tau = reflector(column, k)
    updated = jnp.where(jnp.arange(a.shape[-1]) >= k, from_left(a, v, jnp.conj(tau)), a)
    return _stored(updated, k, k, v, beta), _with(taus, k, tau)


@primitive("geqrf")
def geqrf(eqn: Equation, x: Value, **params: Any) -> Any:
    """R above the diagonal, Householder's vectors below it, and their factors."""
    found = empty(eqn)
    if found is not None:
        return found

    def function(x: Any) -> Any:
        count = min(x.shape[-2:])
        taus = jnp.zeros((*x.shape[:-2], count), x.dtype)
        return lax.fori_loop(0, count, lambda k, state: _qr_step(k, *state), (x, taus))

    return eqn.expand(function, x)


@primitive("geqp3")
def geqp3(eqn: Equation, x: Value, pivots: Value, **params: Any) -> Any:
    """`geqrf` of the columns in the order that puts the longest remaining column first, and that order, counted from 1. All
    columns are free to move (`pivots` is 0), as in all calls that JAX makes."""
    found = empty(eqn)
    if found is not None:
        return found

    def function(x: Any, pivots: Any) -> Any:
        m, n = x.shape[-2:]
        rows, columns = jnp.arange(m), jnp.arange(n)

        def step(k: Any, state: Any) -> Any:
            a, order, taus = state
            below = jnp.where((rows >= k)[:, None], a, 0)
            lengths = jnp.where(columns >= k, jnp.sum(_square(below), axis=-2), -1)
            longest = jnp.argmax(lengths, axis=-1)[..., None]
            moved = jnp.where(columns == k, longest, jnp.where(columns == longest, k, columns))
            a = jnp.take_along_axis(a, moved[..., None, :], axis=-1)
            order = jnp.take_along_axis(order, moved, axis=-1)
            return (lambda a, taus: (a, order, taus))(*_qr_step(k, a, taus))

        count = min(m, n)
        order = jnp.broadcast_to(columns + 1, pivots.shape).astype(pivots.dtype)
        return lax.fori_loop(0, count, step, (x, order, jnp.zeros((*x.shape[:-2], count), x.dtype)))

    return eqn.expand(function, x, pivots)


def pivoted_qr(eqn: Equation, x: Value, full_matrices: bool) -> Any:
    """Q, R and the order of the columns."""
    kind = {"pivoting": True, "full_matrices": full_matrices, "use_magma": None}
    return eqn.expand(lambda x: jax_linalg._qr_lowering(x, **kind), x)


@primitive("householder_product")
def householder_columns(eqn: Equation, a: Value, taus: Value) -> Any:
    """The first columns of all reflectors multiplied in order, each v below the diagonal of a."""
    found = empty(eqn)
    if found is not None:
        return found

    def function(a: Any, taus: Any) -> Any:
        m, n = a.shape[-2:]
        count = taus.shape[-1]
        rows = jnp.arange(m)

        def apply(step: Any, q: Any) -> Any:
            k = count - 1 - step
            v = jnp.where(rows == k, 1, jnp.where(rows > k, jnp.take(a, k, axis=-1), 0)).astype(a.dtype)
            return from_left(q, v, jnp.take(taus, k, axis=-1))

        return lax.fori_loop(0, count, apply, jnp.broadcast_to(jnp.eye(m, n, dtype=a.dtype), a.shape))

    return eqn.expand(function, a, taus)


def _similar(k: Any, state: Any) -> Any:
    """One step of gehrd: H A H with the reflector of column k below the subdiagonal."""
    a, taus = state
    v, beta, tau = reflector(jnp.take(a, k, axis=-1), k + 1)
    updated = jnp.where(jnp.arange(a.shape[-1]) > k, from_left(a, v, jnp.conj(tau)), a)
    return _stored(from_right(updated, v, tau), k, k + 1, v, beta), _with(taus, k, tau)


@primitive("hessenberg")
def hessenberg(eqn: Equation, x: Value) -> Any:
    """The Hessenberg form with the reflectors below the subdiagonal, and their factors."""
    found = empty(eqn)
    if found is not None:
        return found

    def function(x: Any) -> Any:
        count = x.shape[-1] - 1
        return lax.fori_loop(0, count, _similar, (x, jnp.zeros((*x.shape[:-2], count), x.dtype)))

    return eqn.expand(function, x)


@primitive("tridiagonal")
def tridiagonal(eqn: Equation, x: Value, *, lower: bool) -> Any:
    """The packed form, the diagonal, the diagonal beside it, and the reflectors' factors. One triangle is read."""

    def function(x: Any) -> Any:
        n = x.shape[-1]
        flip = (lambda a: a) if lower else (lambda a: a[..., ::-1, ::-1])
        own = jnp.tril(flip(x))
        whole = own + jnp.conj(jnp.swapaxes(jnp.tril(own, -1), -1, -2))
        a, taus = lax.fori_loop(0, n - 1, _similar, (whole, jnp.zeros((*x.shape[:-2], n - 1), x.dtype)))
        d, e = jnp.real(jnp.diagonal(a, 0, -2, -1)), jnp.real(jnp.diagonal(a, -1, -2, -1))
        packed = flip(jnp.where(jnp.tril(jnp.ones((n, n), bool)), a, flip(x)))
        return (packed, d, e, taus) if lower else (packed, d[..., ::-1], e[..., ::-1], taus[..., ::-1])

    return eqn.expand(function, x)
