"""Linear algebra. The algorithms are burn.linalg's."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
from jax import numpy as jnp
from jax._src.lax import linalg as jax_linalg

from burn import linalg
from burn.dialect import ops
from burn.dialect.deferred import Value
from burn.dialect.types import type_of
from burn.importers.jax.equation import Equation, primitive
from burn.importers.jax.ops.empty import empty
from burn.importers.jax.ops.householder import pivoted_qr
from burn.importers.lax.scalars import full, is_empty, like
from burn.tensors.base import made


def adjoint(x: Value) -> Value:
    """The matrices transposed."""
    rank = type_of(x).rank
    return ops.transpose(x, permutation=(*range(rank - 2), rank - 1, rank - 2))


def half(x: Value, lower: bool) -> Value:
    """The lower or upper triangle with the diagonal; zeros elsewhere."""
    rows, columns = type_of(x).shape[-2:]
    row, column = ops.iota(shape=(rows, 1), axis=0), ops.iota(shape=(1, columns), axis=1)
    kept = ops.ge(row, column) if lower else ops.le(row, column)
    return ops.select(kept, x, like(0, x))


def unit_diagonal(x: Value) -> Value:
    rows, columns = type_of(x).shape[-2:]
    on = ops.eq(ops.iota(shape=(rows, 1), axis=0), ops.iota(shape=(1, columns), axis=1))
    return ops.select(on, like(1, x), x)


@primitive("cholesky")
def cholesky(eqn: Equation, x: Value, **params: Any) -> Any:
    """The lower factor; NaN where a matrix is not positive definite."""
    found = empty(eqn)
    if found is not None:
        return found
    factor = linalg.cholesky(made(x)).value
    sound = ops.reduce(
        ops.eq(factor, factor), kind="all", axes=(type_of(x).rank - 2, type_of(x).rank - 1), keepdims=True
    )
    return half(ops.select(sound, factor, like(float("nan"), factor)), lower=True)


@primitive("triangular_solve")
def triangular_solve(
    eqn: Equation,
    a: Value,
    b: Value,
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
    a = half(a, lower)
    if unit_diagonal:
        a = _unit(a)
    if transpose_a:
        a, lower = adjoint(a), not lower
    if not left_side:
        a, lower, b = adjoint(a), not lower, adjoint(b)
    x = linalg.solve_triangular(made(a), made(b), upper=not lower).value
    return x if left_side else adjoint(x)


_unit = unit_diagonal


@primitive("lu")
def lu(eqn: Equation, x: Value) -> list[Value]:
    """L and U in one matrix, LAPACK's row exchanges, and the permutation that they make."""
    found = empty(eqn)
    if found is not None:
        rows = eqn.sizes(eqn.operand(0).shape)[-2]
        order = ops.broadcast_to(ops.iota(shape=(rows,), axis=0, dtype="int32"), shape=type_of(found[2]).shape)
        return [*found[:2], order] if not is_empty(type_of(found[2]).shape) else found
    return eqn.expand(_blocked_lu, x)


def _blocked_lu(x: Any) -> Any:
    """Gaussian elimination with partial pivoting, as JAX writes it in its own primitives."""
    function = jax_linalg._lu_unblocked
    for _ in range(x.ndim - 2):
        function = jax.vmap(function)
    pivots, order, packed = function(x)
    return packed, pivots, order


@primitive("lu_pivots_to_permutation")
def lu_pivots_to_permutation(eqn: Equation, pivots: Value, *, permutation_size: int) -> Any:
    return eqn.expand(partial(jax_linalg._generic_lu_pivots_to_permutation, permutation_size=permutation_size), pivots)


@primitive("qr")
def qr(eqn: Equation, x: Value, *, pivoting: bool, full_matrices: bool, **params: Any) -> list[Value]:
    if pivoting:
        return pivoted_qr(eqn, x, full_matrices)
    if is_empty(type_of(x).shape):
        q = full(eqn.type_of(eqn.aval(0)), 0)
        return [unit_diagonal(q) if not is_empty(type_of(q).shape) else q, full(eqn.type_of(eqn.aval(1)), 0)]
    q, r = linalg.qr(made(x), mode="complete" if full_matrices else "reduced")
    return [q.value, r.value]


@primitive("eigh")
def eigh(
    eqn: Equation, x: Value, *, lower: bool, sort_eigenvalues: bool, subset_by_index: Any, **params: Any
) -> list[Value]:
    """Eigenvectors as columns, and eigenvalues in ascending order."""
    found = empty(eqn)
    if found is not None:
        return found
    n = type_of(x).shape[-1]
    if subset_by_index is not None and tuple(subset_by_index) != (0, n):
        eqn.fail("only all eigenvalues are computed", hint="leave subset_by_index out")
    own = half(x, lower)
    diagonal = ops.eq(ops.iota(shape=(n, 1), axis=0), ops.iota(shape=(1, n), axis=1))
    whole = ops.add(own, ops.select(diagonal, like(0, own), adjoint(own)))
    values, vectors = linalg.eigh(made(whole))
    return [vectors.value, values.value]


@primitive("svd")
def svd(
    eqn: Equation, x: Value, *, full_matrices: bool, compute_uv: bool, subset_by_index: Any = None, **params: Any
) -> list[Value]:
    if subset_by_index is not None:
        eqn.fail("only all singular values are computed", hint="leave subset_by_index out")
    found = empty(eqn)
    if found is not None:
        return [found[0], *(unit_diagonal(f) if not is_empty(type_of(f).shape) else f for f in found[1:])]
    if not compute_uv:
        return [linalg.svdvals(made(x)).value]
    u, s, vh = linalg.svd(made(x), full_matrices=full_matrices)
    return [s.value, u.value, vh.value]


@primitive("ormqr")
def reflected(eqn: Equation, a: Value, taus: Value, c: Value, **params: Any) -> Any:
    """A matrix multiplied by the reflectors that `geqrf` gives."""
    return eqn.expand(lambda *xs: jax_linalg._ormqr_lowering(*xs, **params), a, taus, c)


@primitive("cholesky_update")
def cholesky_update(eqn: Equation, r: Value, w: Value) -> Any:
    return eqn.expand(jax_linalg._cholesky_update_jax_fn, r, w)


@primitive("symmetric_product")
def symmetric_update(eqn: Equation, a: Value, c: Value, *, alpha: Any, beta: Any, **params: Any) -> Any:
    return eqn.expand(lambda a, c: alpha * (a @ jnp.swapaxes(a, -1, -2)) + beta * c, a, c)


@primitive("tridiagonal_solve")
def tridiagonal_solve(eqn: Equation, *operands: Value, **params: Any) -> Any:
    found = empty(eqn)
    if found is not None:
        return found

    def function(dl: Any, d: Any, du: Any, b: Any) -> Any:
        own = jax_linalg._tridiagonal_solve_jax_impl
        for _ in range(d.ndim - 1):
            own = jax.vmap(own)
        return own(dl, d, du, b)

    return eqn.expand(function, *operands)
