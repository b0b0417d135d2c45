"""Contractions, convolutions, linear algebra, polynomials and Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.jax.catalogue import recipe
from tests.jax.catalogue.sample import Sample

Built = tuple[Callable[..., Any], tuple[Any, ...]]


@recipe("jnp", "matmul dot")
@recipe("jnp.linalg", "matmul")
@recipe("lax", "dot")
def matmul(s: Sample, f: Any) -> Built:
    n, m, k = s.integer(0, 5), s.integer(1, 7), s.pick(0, 1, 3, 7, 17)
    lhs, rhs = s.pick(
        ((n, k), (k, m)), ((k,), (k,)), ((k,), (k, m)), ((n, k), (k,)), ((2, n, k), (2, k, m)), ((2, n, k), (k, m))
    )
    if f is jnp.dot or f is lax.dot:
        lhs = lhs[-2:]
        rhs = rhs[-2:]
    return f, (s.tame(lhs), s.tame(rhs, s.dtype if f is lax.dot else s.other()))


@recipe("jnp", "vdot vecdot inner outer kron matvec vecmat cross")
@recipe("jnp.linalg", "vecdot outer cross")
def vectors(s: Sample, f: Any) -> Built:
    n, m = s.integer(0, 5), s.integer(1, 5)
    name = f.__name__
    shapes = {
        "vdot": ((n, m), (n, m)),
        "vecdot": ((n, m), (n, m)),
        "inner": ((n, m), (3, m)),
        "outer": ((n,), (m,)),
        "kron": ((n, m), (2, 3)),
        "matvec": ((n, m), (m,)),
        "vecmat": ((m,), (m, n)),
        "cross": s.pick(((n, 3), (n, 3)), ((3,), (n, 3)), ((n, 2), (n, 2))),
    }[name]
    return f, (s.tame(shapes[0]), s.tame(shapes[1], s.other()))


@recipe("jnp", "tensordot einsum")
@recipe("jnp.linalg", "tensordot")
def contracted(s: Sample, f: Any) -> Built:
    if f is jnp.einsum:
        text, a, b = s.pick(
            ("ij,jk->ik", (2, 3), (3, 4)), ("bij,bkj->bik", (2, 3, 4), (2, 5, 4)), ("ij,kj->", (3, 4), (2, 4)),
            ("ii,ij->j", (3, 3), (3, 4)), ("...i,...i->...", (2, 3), (2, 3)), ("ij,kl->lkji", (2, 3), (1, 4)),
            ("i,i->i", (5,), (5,)), ("ij,jk", (0, 3), (3, 4)),
        )  # fmt: skip
        return lambda x, y: f(text, x, y), (s.tame(a), s.tame(b, s.other()))
    axes, a, b = s.pick(
        (2, (2, 3, 4), (3, 4, 5)), (0, (2,), (3, 1)), (((0, 2), (1, 0)), (2, 3, 4), (4, 2, 5)), (1, (3,), (3,))
    )
    return lambda x, y: f(x, y, axes=axes), (s.tame(a), s.tame(b, s.other()))


@recipe("lax", "batch_matmul dot_general")
def batched(s: Sample, f: Any) -> Built:
    b, n, m, k = s.integer(0, 3), s.integer(1, 5), s.integer(1, 5), s.integer(0, 7)
    x, y = s.tame((b, n, k)), s.tame((b, k, m))
    if f is lax.batch_matmul:
        return f, (x, y)
    preferred = s.pick(None, None, "float32", "int32")
    return lambda x, y: f(x, y, (((2,), (1,)), ((0,), (0,))), preferred_element_type=preferred), (x, y)


@recipe("lax", "ragged_dot ragged_dot_general")
def ragged(s: Sample, f: Any) -> Built:
    sizes = np.array(s.pick([2, 3, 1], [0, 5, 1], [6, 0, 0], [1, 1, 1]), "int32")
    x, y = s.tame((6, 4)), s.tame((3, 4, 5))
    if f is lax.ragged_dot:
        return lambda x, y: f(x, y, sizes), (x, y)
    numbers = lax.RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), [0], [0])
    return lambda x, y: f(x, y, sizes, numbers), (x, y)


@recipe("lax", "scaled_dot")
def scaled_dot(s: Sample, f: Any) -> Built:
    return f, (s.tame((1, 3, 32)), s.tame((1, 5, 32)))


@recipe("lax", "conv conv_with_general_padding conv_general_dilated conv_transpose")
def conv(s: Sample, f: Any) -> Built:
    rank = s.integer(1, 2)
    c, o, n = s.integer(1, 3), s.integer(1, 4), s.integer(0, 2)
    size, window = tuple(s.integer(3, 7) for _ in range(rank)), tuple(s.integer(1, 3) for _ in range(rank))
    strides, padding = tuple(s.integer(1, 2) for _ in range(rank)), s.pick("SAME", "VALID")
    if f is lax.conv_transpose:
        return lambda x, w: f(x, w, strides, padding), (s.tame((n, *size, c)), s.tame((*window, c, o)))
    x, w = s.tame((n, c, *size)), s.tame((o, c, *window))
    if f is lax.conv:
        return lambda x, w: f(x, w, strides, padding), (x, w)
    pads = tuple((s.integer(0, 2), s.integer(-1, 2)) for _ in range(rank))
    one, two = tuple(s.integer(1, 2) for _ in range(rank)), tuple(s.integer(1, 2) for _ in range(rank))
    return lambda x, w: f(x, w, strides, pads, one, two), (x, w)


@recipe("lax", "conv_general_dilated_local conv_general_dilated_patches")
def patches(s: Sample, f: Any) -> Built:
    x = s.tame((2, 2, 5, 6))
    if f is lax.conv_general_dilated_patches:
        return lambda x: f(x, (2, 3), (1, 2), "SAME"), (x,)
    return lambda x, w: f(x, w, (1, 1), "VALID", (2, 2)), (x, s.tame((3, 8, 4, 5)))


@recipe("lax", "reduce_window")
def window(s: Sample, f: Any) -> Built:
    rank = s.integer(1, 3)
    start, by = s.pick((0, lax.add), (1, lax.mul), (-np.inf, lax.max), (np.inf, lax.min))
    size, strides = tuple(s.integer(1, 3) for _ in range(rank)), tuple(s.integer(1, 2) for _ in range(rank))
    padding = s.pick("SAME", "VALID")
    x = s.tame(tuple(s.integer(1, 5) for _ in range(rank)))
    if by in (lax.max, lax.min):
        if s.dtype in ("float16", "bfloat16", "float32", "float64"):
            first = start
        elif s.dtype == "bool" or s.dtype.startswith("complex"):
            first = 0
        else:
            first = np.iinfo(s.dtype).min if start < 0 else np.iinfo(s.dtype).max
    else:
        first = start
    value = np.asarray(first).astype(x.dtype)
    return lambda x: f(x, value, by, size, strides, padding), (x,)


@recipe("jnp", "convolve correlate")
def convolve(s: Sample, f: Any) -> Built:
    mode = s.pick("full", "same", "valid")
    return lambda a, b: f(a, b, mode=mode), (s.tame((s.integer(1, 9),)), s.tame((s.integer(1, 5),), s.other()))


# ---- linear algebra ------------------------------------------------------------------------------------------------------
def _definite(x: Any) -> Any:
    kind = x.dtype if jnp.issubdtype(x.dtype, jnp.inexact) else jnp.result_type(float)
    return (jnp.matmul(x, jnp.conj(jnp.swapaxes(x, -1, -2))) + jnp.eye(x.shape[-1])).astype(kind)


@recipe(
    "jnp.linalg", "cholesky det inv slogdet pinv cond matrix_rank svdvals trace diagonal matrix_transpose", bound=16
)
def square(s: Sample, f: Any) -> Built:
    x = s.tame(s.square())
    name = f.__name__
    if name == "cholesky":
        upper = s.pick(True, False)
        return lambda x: f(_definite(x), upper=upper), (x,)
    if name in ("inv", "pinv", "cond"):
        return lambda x: f(_definite(x)), (x,)
    return f, (x,)


@recipe("jnp.linalg", "eigh eigvalsh svd", bound=16)
def spectra(s: Sample, f: Any) -> Built:
    x = s.tame(s.square())
    if f is jnp.linalg.eigvalsh:
        return lambda x: f(_definite(x)), (x,)
    if f is jnp.linalg.eigh:

        def again(x: Any) -> Any:
            a = _definite(x)
            w, v = f(a)
            return w, jnp.matmul(v * w[..., None, :].astype(v.dtype), jnp.conj(jnp.swapaxes(v, -1, -2)))

        return again, (x,)
    full, tall = s.pick(True, False), s.pick((5, 3), (3, 5), (4, 4), (2, 4, 3))

    def decomposed(x: Any) -> Any:
        u, w, v = f(x, full_matrices=full)
        k = w.shape[-1]
        return w, jnp.matmul(u[..., :, :k] * w[..., None, :].astype(u.dtype), v[..., :k, :]), u.shape[-1] + v.shape[-1]

    return decomposed, (s.tame(tall),)


@recipe("jnp.linalg", "eig eigvals", bound=16)
@recipe("lax.linalg", "eig", bound=16)
def eig(s: Sample, f: Any) -> Built:
    return lambda x: jnp.sort(jnp.abs(f(x)[0] if isinstance(f(x), (tuple, list)) else f(x))), (s.tame(s.square(False)),)


@recipe("jnp.linalg", "qr", bound=16)
def qr(s: Sample, f: Any) -> Built:
    mode, shape = s.pick("reduced", "complete", "r"), s.pick((5, 3), (3, 5), (4, 4), (2, 6, 3), (0, 3), (3, 0), (1, 1))
    if mode == "r":
        return lambda x: jnp.abs(f(x, mode="r")), (s.tame(shape),)

    def again(x: Any) -> Any:
        q, r = f(x, mode=mode)
        return jnp.matmul(q, r), jnp.abs(r), jnp.abs(q[..., : x.shape[-1]]) if shape[-2] > shape[-1] else q.shape[-1]

    return again, (s.tame(shape),)


@recipe("jnp.linalg", "solve lstsq tensorsolve tensorinv", bound=32)
def solved(s: Sample, f: Any) -> Built:
    name = f.__name__
    x = s.tame(s.square(name == "solve"))
    n = x.shape[-1]
    if name == "solve":
        b = s.tame((*x.shape[:-1], s.integer(0, 3)) if s.pick(True, False) else (n,))
        return lambda x, b: f(_definite(x), b), (x, b)
    if name == "lstsq":
        return lambda x, b: f(_definite(x), b)[0], (x, s.tame((n,)))
    if name == "tensorsolve":
        return lambda x, b: f(_definite(x).reshape(2, 2, 4), b), (s.tame((4, 4)), s.tame((2, 2)))
    return lambda x: f(_definite(x).reshape(2, 2, 4), 2), (s.tame((4, 4)),)


@recipe("jnp.linalg", "matrix_power multi_dot", bound=16)
def powers(s: Sample, f: Any) -> Built:
    if f is jnp.linalg.multi_dot:
        return lambda a, b, c: f([a, b, c]), (s.tame((3, 5)), s.tame((5, 2)), s.tame((2, 4)))
    n = s.integer(-2, 5)
    return lambda x: f(_definite(x) / 4 if n < 0 else x, n), (s.tame(s.square()),)


@recipe("jnp.linalg", "norm matrix_norm vector_norm", bound=16)
def norm(s: Sample, f: Any) -> Built:
    keep = s.pick(True, False)
    if f is jnp.linalg.matrix_norm:
        order = s.pick("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)
        return lambda x: f(x, ord=order, keepdims=keep), (s.tame(s.ranked(2)),)
    axis = s.axis(s.shape) if s.shape else None
    order = s.pick(None, 1, 2, 3, 0, np.inf, -np.inf, 0.5)
    if f is jnp.linalg.norm and axis is None:
        order = None
    return lambda x: f(x, ord=order if order or f is jnp.linalg.norm else 2, axis=axis, keepdims=keep), (s.tame(),)


@recipe("lax.linalg", "cholesky lu eigh svd qr schur hessenberg tridiagonal qdwh householder_product", bound=16)
def lax_square(s: Sample, f: Any) -> Built:
    x = s.tame(s.square())
    name = f.__name__
    if name == "cholesky":
        symmetric = s.pick(True, False)
        return lambda x: f(_definite(x), symmetrize_input=symmetric), (x,)
    if name == "lu":
        return f, (s.tame(s.pick(x.shape, (5, 3), (3, 5), (2, 4, 3))),)
    if name == "eigh":
        return lambda x: f(_definite(x))[1], (x,)
    if name == "svd":
        return lambda x: f(x, compute_uv=False), (x,)
    if name == "qr":
        pivoting = s.pick(True, False)

        def factors(x: Any) -> Any:
            q, r, *p = f(x, full_matrices=False, pivoting=pivoting)
            return jnp.matmul(q, r), jnp.abs(r), p

        return factors, (s.tame(s.pick((5, 3), (3, 5), (4, 4), (2, 5, 3))),)
    if name == "schur":

        def rebuilt(x: Any) -> Any:
            t, v = f(x)
            return jnp.matmul(jnp.matmul(v, t), jnp.conj(jnp.swapaxes(v, -1, -2)))

        return rebuilt, (x,)
    if name == "tridiagonal":
        lower = s.pick(True, False)
        return lambda x: f(_definite(x), lower=lower)[1:3], (x,)
    if name == "qdwh":
        return lambda x: f(_definite(x))[0], (s.tame(s.square(False)),)
    if name == "householder_product":
        return f, (s.tame((5, 3)), s.tame((3,)))
    return f, (x,)


@recipe(
    "lax.linalg",
    "triangular_solve tridiagonal_solve ormqr cholesky_update lu_pivots_to_permutation symmetric_product",
    bound=32,
)
def lax_solved(s: Sample, f: Any) -> Built:
    x = s.tame(s.square())
    n, batch = x.shape[-1], x.shape[:-2]
    name = f.__name__
    if name == "triangular_solve":
        how = {"left_side": s.pick(True, False), "lower": s.pick(True, False), "transpose_a": s.pick(True, False)}
        unit, shape = s.pick(True, False), (n, 3) if how["left_side"] else (3, n)

        def triangular(a: Any, b: Any) -> Any:
            return f(a + 5 * jnp.eye(n, dtype=a.dtype), b, unit_diagonal=unit, **how)

        return triangular, (x, s.tame((*batch, *shape)))
    if name == "tridiagonal_solve":
        d = (*batch, n)
        return lambda a, b, c, y: f(a, b + 9, c, y), (s.tame(d), s.tame(d), s.tame(d), s.tame((*d, 2)))
    if name == "ormqr":
        left, turned = s.pick(True, False), s.pick(True, False)
        return lambda a, t, c: f(a, t, c, left=left, transpose=turned), (s.tame((4, 4)), s.tame((4,)), s.tame((4, 4)))
    if name == "cholesky_update":
        return lambda x, w: f(jnp.swapaxes(jnp.linalg.cholesky(_definite(x)), -1, -2), w), (
            s.tame((4, 4)),
            s.tame((4,)),
        )
    if name == "lu_pivots_to_permutation":
        return lambda p: f(p, 7), (s.ints(s.pick((3,), (2, 4)), "int32", 0, 6),)
    return lambda a, c: f(a, c, alpha=2.0, beta=0.5, symmetrize_output=True), (s.tame((3, 4)), s.tame((3, 3)))


# ---- polynomials ---------------------------------------------------------------------------------------------------------
@recipe("jnp", "poly polyadd polyder polydiv polyfit polyint polymul polysub polyval roots vander")
def polynomial(s: Sample, f: Any) -> Built:
    p, q = s.tame((s.integer(1, 5),)), s.tame((s.integer(1, 4),))
    name = f.__name__
    if name in ("polyder", "polyint"):
        m = s.integer(1, 3)
        return lambda p: f(p, m), (p,)
    if name == "polyfit":
        return lambda x, y: f(x, y, 2), (np.sort(s.tame((7,), "float32")), s.tame((7,)))
    if name == "polyval":
        return f, (p, s.tame())
    if name == "vander":
        n, up = s.integer(0, 4), s.pick(True, False)
        return lambda x: f(x, n, up), (p,)
    if name == "roots":
        return lambda p: jnp.sort(jnp.abs(f(p, strip_zeros=False))), (p,)
    if name == "poly":
        return f, (s.tame(s.pick((3,), (3, 3))),)
    return f, (p, q)


# ---- Fourier transforms --------------------------------------------------------------------------------------------------
@recipe("jnp.fft", "fft ifft rfft irfft hfft ihfft fft2 ifft2 rfft2 irfft2 fftn ifftn rfftn irfftn", bound=16)
def fourier(s: Sample, f: Any) -> Built:
    several = f.__name__[-1] in "2n"
    shape = s.ranked(2 if several else 1, 3, empty=False)
    return f, (s.tame(shape),)


@recipe("jnp.fft", "fftshift ifftshift fftfreq rfftfreq")
def shifted(s: Sample, f: Any) -> Built:
    if "freq" in f.__name__:
        n = s.integer(1, 9)
        return lambda x: f(n) * x, (s.a(()),)
    return f, (s.a(),)


@recipe("lax", "fft", bound=16)
def lax_fft(s: Sample, f: Any) -> Built:
    kind, n = s.pick("FFT", "IFFT", "RFFT", "IRFFT"), s.integer(2, 7)
    return lambda x: f(x, kind, (2 * (n - 1) if kind == "IRFFT" else n,)), (s.tame((2, n)),)
