"""Decompositions of complex matrices, as functions of JAX's arrays: substitution row by row, and unitary transformations to real
matrices, whose decompositions are burn's. Eigenvalues of general matrices are burn's."""

from __future__ import annotations

from typing import Any

import jax
from jax import lax
from jax import numpy as jnp
from jax._src.lax import linalg as jax_linalg

from burn.dialect import ops
from burn.dialect.complexes.pair import Complex
from burn.dialect.deferred import Value
from burn.dialect.dims import product
from burn.dialect.types import type_of
from burn.importers.jax.complexes import as_it_is, complex_primitive
from burn.importers.jax.equation import Equation
from burn.importers.jax.ops import householder, linalg  # noqa: F401  enter the rules for all values
from burn.importers.jax.ops.empty import empty
from burn.importers.jax.ops.householder import from_left, from_right, reflector
from burn.importers.jax.ops.linalg import unit_diagonal
from burn.importers.lax.scalars import is_empty
from burn.tensors.base import made
from burn.tensors.linalg import schur

for _name in (
    *("cholesky_update", "geqp3", "geqrf", "hessenberg", "householder_product", "lu", "ormqr", "symmetric_product"),
    *("tridiagonal", "tridiagonal_solve"),
):
    complex_primitive(_name)(as_it_is)


def _batched(function: Any, x: Any) -> Any:
    """A function of one matrix for all."""
    for _ in range(x.ndim - 2):
        function = jax.vmap(function)
    return function


def adjoint(x: Any) -> Any:
    return jnp.conj(jnp.swapaxes(x, -1, -2))


@complex_primitive("cholesky")
def cholesky(eqn: Equation, x: Any, **params: Any) -> Any:
    """The lower factor, column by column; NaN where a matrix is not positive definite."""
    found = empty(eqn)
    return found if found is not None else eqn.expand(lambda x: _batched(_cholesky, x)(x), x)


def _cholesky(a: Any) -> Any:
    rows = jnp.arange(a.shape[0])

    def step(k: Any, factor: Any) -> Any:
        column = jnp.take(a, k, axis=1) - factor @ jnp.conj(jnp.take(factor, k, axis=0))
        pivot = jnp.sqrt(jnp.real(jnp.take(column, k)))
        below = jnp.where(rows > k, column / pivot, jnp.where(rows == k, pivot, 0).astype(a.dtype))
        return jnp.where(rows[None, :] == k, below[:, None], factor)

    factor = lax.fori_loop(0, a.shape[0], step, jnp.zeros_like(a))
    sound = jnp.all(factor == factor)
    return jnp.where(sound, factor, jnp.where(rows[:, None] >= rows[None, :], jnp.nan, 0).astype(a.dtype))


@complex_primitive("triangular_solve")
def triangular_solve(
    eqn: Equation,
    a: Any,
    b: Any,
    *,
    left_side: bool,
    lower: bool,
    transpose_a: bool,
    conjugate_a: bool,
    unit_diagonal: bool,
) -> Any:
    """x with a x = b, or x a = b; of a only the one triangle is read."""
    found = empty(eqn)
    if found is not None:
        return found

    def function(a: Any, b: Any) -> Any:
        below = lower != transpose_a
        a = jnp.conj(a) if conjugate_a else a
        a = jnp.swapaxes(a, -1, -2) if transpose_a else a
        if not left_side:
            a, b, below = jnp.swapaxes(a, -1, -2), jnp.swapaxes(b, -1, -2), not below
        if unit_diagonal:
            a = jnp.where(jnp.eye(a.shape[-1], dtype=bool), 1, a).astype(a.dtype)
        a, b = (a, b) if below else (a[..., ::-1, ::-1], b[..., ::-1, :])
        own = _substituted
        for _ in range(a.ndim - 2):
            own = jax.vmap(own)
        x = own(a, b)
        x = x if below else x[..., ::-1, :]
        return x if left_side else jnp.swapaxes(x, -1, -2)

    return eqn.expand(function, a, b)


def _substituted(a: Any, b: Any) -> Any:
    """Forward substitution in the lower triangle."""
    columns = jnp.arange(a.shape[0])

    def step(k: Any, x: Any) -> Any:
        row = jnp.take(a, k, axis=0)
        rest = jnp.take(b, k, axis=0) - jnp.where(columns < k, row, 0) @ x
        return jnp.where(columns[:, None] == k, (rest / jnp.take(row, k))[None, :], x)

    return lax.fori_loop(0, a.shape[0], step, jnp.zeros_like(b))


@complex_primitive("qr")
def qr(eqn: Equation, x: Any, **params: Any) -> Any:
    """By Householder's reflectors, as JAX writes it."""
    return eqn.expand(lambda x: jax_linalg._qr_lowering(x, **{"use_magma": None, **params}), x)


@complex_primitive("eigh")
def eigh(eqn: Equation, x: Any, *, lower: bool, sort_eigenvalues: bool, subset_by_index: Any, **params: Any) -> Any:
    """Through the real tridiagonal matrix that reflectors make of it. One triangle is read."""
    found = empty(eqn)
    if found is not None:
        return found
    n = eqn.operand(0).shape[-1]
    if subset_by_index is not None and tuple(subset_by_index) != (0, n):
        eqn.fail("only all eigenvalues are computed", hint="leave subset_by_index out")

    def function(x: Any) -> Any:
        own = jnp.tril(x) if lower else adjoint(jnp.triu(x))
        diagonal = jnp.eye(n, dtype=bool)
        own = jnp.where(diagonal, jnp.real(own).astype(x.dtype), own)
        whole = own + jnp.where(diagonal, 0, adjoint(own))

        def step(k: Any, state: Any) -> Any:
            a, q = state
            v, _, tau = reflector(jnp.take(a, k, axis=-1), k + 1)
            return from_right(from_left(a, v, jnp.conj(tau)), v, tau), from_right(q, v, tau)

        unit = jnp.broadcast_to(jnp.eye(n, dtype=x.dtype), x.shape)
        a, q = lax.fori_loop(0, n - 1, step, (whole, unit))
        values, vectors = jnp.linalg.eigh(jnp.real(a), symmetrize_input=False)
        return q @ vectors.astype(x.dtype), values

    return eqn.expand(function, x)


@complex_primitive("eig")
def eig(
    eqn: Equation,
    x: Value | Complex,
    *,
    compute_left_eigenvectors: bool,
    compute_right_eigenvectors: bool,
    **params: Any,
) -> Any:
    """Eigenvalues, and in columns left and right eigenvectors of length 1, of real or complex matrices."""
    found = empty(eqn)
    if found is not None:
        return found
    given = made(ops.complex(x.real, x.imag) if isinstance(x, Complex) else x)
    *batch, n, _ = given.type.shape
    matrices = given.reshape(product(batch), n, n)
    if not compute_left_eigenvectors and not compute_right_eigenvectors:
        results = [schur.eigenvalues(matrices).reshape(*batch, n)]
    else:
        values, right, *left = schur.eigenvectors(matrices, compute_left_eigenvectors)
        wanted = [*left, *([right] if compute_right_eigenvectors else [])]
        results = [values.reshape(*batch, n), *(v.reshape(*batch, n, n) for v in wanted)]
    return [Complex(t.real.value, t.imag.value) for t in results]


@complex_primitive("svd")
def svd(
    eqn: Equation, x: Any, *, full_matrices: bool, compute_uv: bool, subset_by_index: Any = None, **params: Any
) -> Any:
    """Through the real bidiagonal matrix that reflectors of its rows and of its columns make of it."""
    if subset_by_index is not None:
        eqn.fail("only all singular values are computed", hint="leave subset_by_index out")

    def function(x: Any) -> Any:
        if x.shape[-2] < x.shape[-1]:
            found = bidiagonal(adjoint(x))
            return found if not compute_uv else (found[0], adjoint(found[2]), adjoint(found[1]))
        return bidiagonal(x)

    def bidiagonal(x: Any) -> Any:
        m, n = x.shape[-2:]

        def both(k: Any, state: Any) -> Any:
            a, u, v = state
            w, _, tau = reflector(jnp.take(a, k, axis=-1), k)
            a, u = from_left(a, w, jnp.conj(tau)), from_right(u, w, tau)
            w, _, tau = reflector(jnp.conj(jnp.take(a, k, axis=-2)), jnp.minimum(k + 1, n - 1))
            tau = jnp.where(k + 1 < n, tau, 0)
            return from_right(a, w, tau), u, from_right(v, w, tau)

        shape = x.shape[:-2]
        units = (jnp.broadcast_to(jnp.eye(s, dtype=x.dtype), (*shape, s, s)) for s in (m, n))
        a, u, v = lax.fori_loop(0, n, both, (x, *units))
        found = jnp.linalg.svd(jnp.real(a), full_matrices=full_matrices, compute_uv=compute_uv)
        if not compute_uv:
            return (found,)
        return found[1], u @ found[0].astype(x.dtype), found[2].astype(x.dtype) @ adjoint(v)

    found = empty(eqn)
    if found is not None:
        return [found[0], *map(_unit, found[1:])]
    return eqn.expand(function, x)


def _unit(z: Complex) -> Complex:
    """Zeros with ones on the diagonal."""
    return z if is_empty(type_of(z.real).shape) else Complex(unit_diagonal(z.real), z.imag)
