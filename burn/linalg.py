"""Linear algebra: `burn.linalg.solve(a, b)`. Matrices are on the last two axes, all axes before them are batches.

The algorithms are loops over columns with masks in place of changing extents, so that one program serves every size. In a
traced function they become part of it. Outside, each algorithm and its derivative are compiled once for an element type and
run eagerly. 16-bit floats are computed in float32; integers become float32.

Sources: Golub and Van Loan, "Matrix Computations" (4th edition).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from burn.dialect import ops as build
from burn.dialect.compose import dim_value
from burn.dialect.dims import Dim, dim_max, dim_min, product
from burn.dialect.types import CONTINUOUS, PARTS, WHOLES, broadcast_shapes
from burn.errors import TypeMismatch
from burn.tensors import Tensor, constant, exponential, jacobi, reflectors, schur, spectral
from burn.tensors.algorithms import algorithm
from burn.tensors.argument_types import explain_all
from burn.tensors.base import made
from burn.tensors.concatenation import concat
from burn.tensors.control import check_size, loop
from burn.tensors.creation import eye, ones, zeros
from burn.tensors.gradients import registered, stop_gradient, with_derivative
from burn.tensors.promotion import together


class LU(NamedTuple):
    """x[.., permutation, :] = lower @ upper; lower has ones on its diagonal."""

    permutation: Tensor
    lower: Tensor
    upper: Tensor


class QR(NamedTuple):
    """x = q @ r; the columns of q are orthonormal, r is upper triangular."""

    q: Tensor
    r: Tensor


class SVD(NamedTuple):
    """x = u * s @ vh: the columns of u and the rows of vh are orthonormal, s are the singular values, the largest first."""

    u: Tensor
    s: Tensor
    vh: Tensor


class Eigh(NamedTuple):
    """x @ vectors = vectors * values: the eigenvalues, the least first; in columns orthonormal eigenvectors."""

    values: Tensor
    vectors: Tensor


class Eig(NamedTuple):
    """x @ vectors = vectors * values: the eigenvalues, in columns eigenvectors of length 1; both complex."""

    values: Tensor
    vectors: Tensor


class SLogDet(NamedTuple):
    """det(x) = sign * exp(logarithm)."""

    sign: Tensor
    logarithm: Tensor


def _matrices(name: str, x: Any, square: bool = False) -> Tensor:
    """x as [batch, m, n] floats in which sums are kept."""
    given = constant(x)
    if given.ndim < 2:
        raise TypeMismatch(f"{name} is of matrices", [f"not of {given.type}"])
    rows, columns = given.type.shape[-2:]
    if square and rows != columns:
        raise TypeMismatch(f"{name} is of square matrices", [f"not of {given.type}"])
    return given._wide().reshape(product(given.type.shape[:-2]), rows, columns)


def _back(result: Tensor, like: Tensor, *shape: Dim) -> Tensor:
    """A result [batch, ..] with the batch axes of the matrices it is of, and their element type."""
    dtype = like.dtype if like.dtype in CONTINUOUS else "float32"
    if dtype in PARTS and not result.is_complex:  # magnitudes
        dtype = PARTS[dtype]
    kept = result.dtype if result.dtype == "int64" else dtype
    return result.reshape(*like.type.shape[:-2], *shape).astype(kept)


def _row(x: Tensor, index: Tensor) -> Tensor:
    """Row `place` of each matrix: [batch, n]."""
    return x.take(index, 1)


def _column(x: Tensor, index: Tensor) -> Tensor:
    """Column `place` of each matrix: [batch, m]."""
    return x.take(index, 2)


def _index(size: Dim, *shape: int) -> Tensor:
    """0, 1, .. size - 1, in the shape given, where -1 stands for the size."""
    return made(build.iota(shape=(size,), axis=0)).reshape(*(size if d == -1 else d for d in shape))


# ---- triangular factors ------------------------------------------------------------------------------------------------
def _pivot_size(x: Tensor) -> Tensor:
    """The magnitude by which LAPACK chooses pivots: of complex numbers the sum of both parts' magnitudes."""
    return x.real.abs() + x.imag.abs() if x.is_complex else x.abs()


@algorithm("batch, m, n")
def _lu(x: Tensor) -> tuple[Tensor, ...]:
    """Elimination with the largest pivot of each column: both factors in one matrix, the rows' order, and its sign."""
    batch, m, n = x.type.shape
    row, columns = _index(m, 1, -1), _index(n, 1, -1)

    def eliminate(step: Tensor, going: Tensor, matrix: Tensor, order: Tensor, sign: Tensor) -> tuple:
        candidates = (row >= step).where(_pivot_size(_column(matrix, step)), -1.0)
        pivot = candidates.argmax(1, keepdims=True)  # [batch, 1]
        source = (row == step).where(pivot, (row == pivot).where(step, row))  # swaps the two rows
        order = order.gather(1, source)
        matrix = matrix.gather(1, source.unsqueeze(-1).broadcast_to(batch, m, n))
        sign = (pivot.squeeze(1) == step).where(sign, -sign)
        pivots, column = _row(matrix, step), _column(matrix, step)
        top = pivots.take(step, 1).unsqueeze(1)
        factor = (row > step).where(column / (top == 0).where(1.0, top), 0.0)  # a column of zeros has none
        right = (columns > step).where(pivots, 0.0)
        matrix = matrix - factor.unsqueeze(2) * right.unsqueeze(1)
        kept = (row > step).where(factor, column).unsqueeze(2)
        return going, (_index(n, 1, 1, -1) == step).where(kept, matrix), order, sign

    order = row.broadcast_to(batch, m)
    sign = ones(batch, dtype=x.dtype)
    return loop(eliminate, (x, order, sign), trips=dim_min(m, n))


def lu(x: Any) -> LU:
    """The factors of matrices [.., m, n]: permutation [.., m] int64, lower [.., m, k] and upper [.., k, n], k = min(m, n)."""
    given = constant(x)
    packed, order, _ = _lu(_matrices("lu", given))
    m, n = given.type.shape[-2:]
    k = dim_min(m, n)
    lower = packed._cut(2, 0, k).tril(-1) + (_index(m, -1, 1) == _index(k, 1, -1)).astype(packed.dtype)
    return LU(_back(order, given, m), _back(lower, given, m, k), _back(packed._cut(1, 0, k).triu(), given, k, n))


def _determinants(x: Tensor) -> tuple[Tensor]:
    packed, _, sign = _lu(x)
    return (packed.diagonal(0, 1, 2).prod(-1) * sign,)


def _det_gradient(
    operands: tuple[Tensor, ...], results: tuple[Tensor, ...], cotangents: Sequence[Tensor | None]
) -> tuple[Tensor]:
    """The cofactor matrix. For regular A it is det(A) A^-T. Elimination of a singular A stops at a column of zeros; there it is
    det(u v^T) u diag(p) v^T. Here p[i] multiplies all singular values but the i-th. Both formulas are computed, each with the
    other's matrices replaced by regular ones. Of complex matrices the cotangent is multiplied by the conjugate."""
    (x,), (value,), (g,) = operands, results, cotangents
    assert g is not None
    n = x.type.shape[1]
    singular = (value == 0).reshape(-1, 1, 1)
    regular = eye(n, dtype=x.dtype) * (_index(n, -1).astype(x.dtype) + 1.0)  # no two singular values alike
    inverses = (inv(singular.where(regular, x)).mT * value.reshape(-1, 1, 1)).conj()
    u, s, vh = svd(singular.where(x, regular), full_matrices=False)
    before, behind = (
        made(build.cumulative(s.value, kind="prod", axis=1, exclusive=True, reverse=r)) for r in (False, True)
    )
    (sign,) = _determinants(stop_gradient(u @ vh))  # 1 or -1, on all matrices nearby
    cofactors = (u * (before * behind * sign.conj().unsqueeze(1)).unsqueeze(1)) @ vh
    return (g.reshape(-1, 1, 1) * singular.where(cofactors, inverses),)


def det(x: Any) -> Tensor:
    """The determinants of square matrices: [.., n, n] -> [..]."""
    given = constant(x)
    matrices = _matrices("det", given, square=True)
    if matrices.type.shape[1] == 0:
        return _back(_determinants(matrices)[0], given)
    return _back(with_derivative(_determinants, _det_gradient, matrices)[0], given)


def slogdet(x: Any) -> SLogDet:
    """The determinants of square matrices as a sign and the logarithm of the magnitude, which do not overflow."""
    given = constant(x)
    packed, _, sign = _lu(_matrices("slogdet", given, square=True))
    pivots = packed.diagonal(0, 1, 2)
    return SLogDet(_back(pivots.sign().prod(-1) * sign, given), _back(pivots.abs().log().sum(-1), given))


@algorithm("batch, n, n")
def _cholesky(x: Tensor) -> Tensor:
    _, n, _ = x.type.shape
    row = _index(n, 1, -1)

    def column(step: Tensor, going: Tensor, lower: Tensor) -> tuple:
        rest = _column(x, step) - (lower * _row(lower, step).conj().unsqueeze(1)).sum(2)
        root = rest.take(step, 1).unsqueeze(1).real.sqrt()
        here = (row >= step).where(rest / root, 0.0)
        return going, (_index(n, 1, 1, -1) == step).where(here.unsqueeze(2), lower)

    return loop(column, (zeros(x.type.shape, dtype=x.dtype),), trips=n)[0]


def _hermitian(x: Tensor) -> tuple[Tensor]:
    """Symmetric or Hermitian matrices from lower triangles; imaginary parts of the diagonal are not read."""
    low = x.tril(-1)
    diagonal = x.tril().triu()
    if x.is_complex:
        diagonal = diagonal.real.astype(x.dtype)
    return (low + diagonal + low.mH,)


def _mirrored(x: Tensor) -> Tensor:
    """Symmetric or Hermitian matrices from their lower triangles. Both triangles share the gradient, as in PyTorch and JAX."""
    (result,) = with_derivative(
        _hermitian,
        lambda _, results, cotangents: ((cotangents[0] + cotangents[0].mH) * 0.5,),
        x,
    )
    return result


def cholesky(x: Any) -> Tensor:
    """The lower triangular factors l with l @ l.mH = x of symmetric (Hermitian) positive definite matrices [.., n, n]. Reads
    the lower triangle only. The factor of a matrix that is not positive definite has NaNs."""
    given = constant(x)
    return _back(_cholesky(_mirrored(_matrices("cholesky", given, square=True))), given, *given.type.shape[-2:])


@algorithm("batch, n, n", "batch, n, k")
def _substitute(x: Tensor, b: Tensor) -> Tensor:
    """Forward substitution with lower triangular matrices."""
    _, n, _ = x.type.shape
    row, column = _index(n, 1, -1, 1), _index(n, 1, -1)

    def solve_row(step: Tensor, going: Tensor, solution: Tensor) -> tuple:
        here = _row(x, step)
        left = (column < step).where(here, 0.0)  # the upper triangle may hold anything, NaN included
        known = (left.unsqueeze(2) * solution).sum(1)
        value = (_row(b, step) - known) / here.take(step, 1).unsqueeze(1)
        return going, (row == step).where(value.unsqueeze(1), solution)

    return loop(solve_row, (zeros(b.type.shape, dtype=b.dtype),), trips=n)[0]


def _triangular(x: Tensor, b: Tensor, upper: bool) -> Tensor:
    """An upper triangular system is a lower one with rows and columns in reverse."""
    return _substitute(x.flip((1, 2)), b.flip(1)).flip(1) if upper else _substitute(x, b)


def _systems(name: str, a: Any, b: Any) -> tuple[Tensor, Tensor, Callable[[Tensor], Tensor]]:
    """Matrices [batch, n, n], right-hand sides [batch, n, k], and how a solution becomes a result."""
    left, right = together(constant(a), constant(b), floating=True)
    if left.ndim < 2 or left.type.shape[-1] != left.type.shape[-2]:
        raise TypeMismatch(f"{name} is of square matrices", [f"not of {left.type}"])
    n, vector = left.type.shape[-1], right.ndim == 1
    if not right.ndim or (
        (size := right.type.shape[0 if vector else -2]) != n and isinstance(size, int) and isinstance(n, int)
    ):
        raise TypeMismatch(f"{name} needs right-hand sides of {n} rows", [f"not {right.type} for {left.type}"])
    columns = right.unsqueeze(-1) if vector else right
    try:
        batch = broadcast_shapes(left.type.shape[:-2], columns.type.shape[:-2])
    except ValueError as error:
        raise TypeMismatch(f"the batches of {name} do not fit", [str(error)]) from None
    k = columns.type.shape[-1]
    x = left.broadcast_to(*batch, n, n)._wide().reshape(product(batch), n, n)
    y = columns.broadcast_to(*batch, n, k)._wide().reshape(product(batch), n, k)

    def shaped(solution: Tensor) -> Tensor:
        whole = solution.reshape(*batch, n, k).astype(left.dtype)
        return whole.squeeze(-1) if vector else whole

    return x, y, shaped


def solve_triangular(a: Any, b: Any, upper: bool = False) -> Tensor:
    """The x with a @ x = b for triangular matrices a [.., n, n]; the other triangle is not read. b is [.., n, k], or one
    vector [n]."""
    x, y, shaped = _systems("solve_triangular", a, b)
    return shaped(_triangular(x, y, upper))


def solve(a: Any, b: Any) -> Tensor:
    """The x with a @ x = b for square matrices [.., n, n]; b [.., n, k], or one vector [n]. Of a singular matrix the
    solution has infinities or NaNs."""
    x, y, shaped = _systems("solve", a, b)
    packed, order, _ = _lu(x)
    lower = packed.tril(-1) + eye(x.type.shape[-1], dtype=x.dtype)
    permuted = y.gather(1, order.unsqueeze(-1).broadcast_to(*y.type.shape))
    return shaped(_triangular(packed, _triangular(lower, permuted, upper=False), upper=True))


def inv(x: Any) -> Tensor:
    """The inverses of square matrices [.., n, n]. That of a singular matrix has infinities or NaNs."""
    given = constant(x)
    _matrices("inv", given, square=True)
    n = given.type.shape[-1]
    return solve(given, eye(n, dtype=given._field().dtype))


# ---- orthogonal factors ------------------------------------------------------------------------------------------------
@algorithm("batch, m, n")
def _qr(x: Tensor) -> tuple[Tensor, ...]:
    """q [batch, m, m] and r [batch, m, n] by Householder's reflectors, one a column."""
    batch, m, n = x.type.shape

    def reflect(step: Tensor, going: Tensor, q: Tensor, r: Tensor) -> tuple:
        vector, factor, _ = reflectors.reflector(_column(r, step), step)
        r = reflectors.from_left(vector, factor.conj(), r)
        return going, reflectors.from_right(q, vector, factor), r

    start = eye(m, dtype=x.dtype).broadcast_to(batch, m, m)
    return loop(reflect, (start, x), trips=dim_min(m, n))


def _qr_gradient(
    operands: tuple[Tensor, ...], results: tuple[Tensor, ...], cotangents: Sequence[Tensor | None]
) -> tuple[Tensor]:
    """(Q' + Q sym(R R'^H - Q'^H Q)) R^-H for cotangents Q' and R', where sym mirrors the lower triangle.

    Columns to the right of a square R have gradients through q alone. Step-by-step differentiation would lose the gradient of a
    column that is 0 below the diagonal. Source: Walter and Lehmann 2012."""
    (x,), (q, r) = operands, results
    _, m, n = x.type.shape
    k = dim_min(m, n)
    if cotangents[0] is not None and q.type.shape[2] != k:
        raise TypeMismatch("the columns that complete q have no derivative", ["give qr the mode 'reduced'"])
    q, r = q._cut(2, 0, k), r._cut(1, 0, k)
    of_r = zeros(r.type.shape, dtype=x.dtype) if cotangents[1] is None else cotangents[1]._cut(1, 0, k)
    behind = of_r._cut(2, k, n - k)
    of_q = x._cut(2, k, n - k) @ behind.mH
    if cotangents[0] is not None:
        of_q = of_q + cotangents[0]
    square = r._cut(2, 0, k)
    (mirrored,) = _hermitian(square @ of_r._cut(2, 0, k).mH - of_q.mH @ q)
    before = _triangular(square, (of_q + q @ mirrored).mH, upper=True).mH
    return (concat([before, q @ behind], 2),)


def qr(x: Any, mode: str = "reduced") -> QR:
    """x [.., m, n] = q [.., m, k] @ r [.., k, n], k = min(m, n), or m with mode "complete"."""
    if mode not in ("reduced", "complete"):
        raise TypeMismatch("qr's mode is reduced or complete", [f"not {mode!r}"])
    given = constant(x)
    m, n = given.type.shape[-2:] if given.ndim >= 2 else (0, 0)
    k = dim_min(m, n) if mode == "reduced" else m

    def factors(x: Tensor) -> tuple[Tensor, ...]:
        q, r = _qr(x)
        return q._cut(2, 0, k), r._cut(1, 0, k).triu()

    q, r = with_derivative(factors, _qr_gradient, _matrices("qr", given))
    return QR(_back(q, given, m, k), _back(r, given, k, n))


def lstsq(a: Any, b: Any) -> Tensor:
    """The x [n] or [n, k] for which a @ x comes nearest to b, for a matrix [m, n] of full rank, m >= n."""
    left, right = together(constant(a), constant(b), floating=True)
    rows, columns = left.type.shape if left.ndim == 2 else (None, None)
    small = isinstance(rows, int) and isinstance(columns, int) and rows < columns
    if rows is None or small or right.ndim not in (1, 2):
        raise TypeMismatch(
            "lstsq takes a matrix of at least as many rows as columns", [f"{left.type} and {right.type}"]
        )
    q, r = qr(left)
    return solve_triangular(r, q.mH.matmul(right), upper=True)


# ---- eigenvalues and singular values -----------------------------------------------------------------------------------
@algorithm("batch, n, n")
def _symmetric(x: Tensor) -> tuple[Tensor, ...]:
    return jacobi.symmetric(x)


@algorithm("batch, m, n")
def _singular(x: Tensor) -> tuple[Tensor, ...]:
    return jacobi.singular(x)


@algorithm("batch, m, n")
def _completed(u: Tensor) -> Tensor:
    """Orthonormal columns, after which zeros may follow, as a basis of the whole space: [batch, m, m]."""
    n = u.type.shape[2]
    q, r = _qr(u)
    turned = (r._cut(1, 0, n).diagonal(0, 1, 2).real < 0).where(-1.0, 1.0).astype(u.dtype).unsqueeze(1)
    return concat([q._cut(2, 0, n) * turned, q._cut(2, n, u.type.shape[1] - n)], 2)


def _factors(x: Tensor) -> tuple[Tensor, ...]:
    u, s, v = _singular(x)
    return _completed(u), s, v


def eigh(x: Any) -> Eigh:
    """Eigenvalues [.., n] and eigenvectors [.., n, n] of symmetric or Hermitian matrices [.., n, n]. Reads the lower
    triangle only."""
    given = constant(x)
    matrices = _mirrored(_matrices("eigh", given, square=True))
    values, vectors = with_derivative(_symmetric, spectral.eigh_gradient, matrices)
    n = given.type.shape[-1]
    return Eigh(_back(values, given, n), _back(vectors, given, n, n))


def eigvalsh(x: Any) -> Tensor:
    """The eigenvalues of `eigh`."""
    return eigh(x).values


@algorithm("batch, n, n")
def _general(x: Tensor) -> tuple[Tensor, ...]:
    return schur.eigenvectors(x)


@algorithm("batch, n, n")
def _general_values(x: Tensor) -> Tensor:
    return schur.eigenvalues(x)


def _eig_gradient(
    operands: tuple[Tensor], results: tuple[Tensor, Tensor], cotangents: Sequence[Tensor | None]
) -> tuple[Tensor]:
    return spectral.eig_gradient(operands, results, cotangents, solve)


def eig(x: Any) -> Eig:
    """Eigenvalues [.., n] and eigenvectors [.., n, n] of square matrices [.., n, n]: complex numbers, in no particular order.
    Of a real matrix they are real or pairs of conjugates. NaN for a matrix with infinities or NaNs. Meant for up to some hundred
    rows: of 100 they take tenths of a second, of 400 a hundred times as long. Sources: `burn/tensors/schur.py`."""
    given = constant(x)
    matrices = _matrices("eig", given, square=True)
    *batch, n, _ = given.type.shape
    if matrices.type.elements == 0:
        dtype = WHOLES.get(matrices.dtype, matrices.dtype)
        return Eig(zeros((*batch, n), dtype=dtype), zeros((*batch, n, n), dtype=dtype))
    values, vectors = with_derivative(_general, _eig_gradient, matrices)
    return Eig(values.reshape(*batch, n), vectors.reshape(*batch, n, n))


def eigvals(x: Any) -> Tensor:
    """The eigenvalues of `eig`."""
    given = constant(x)
    matrices = _matrices("eigvals", given, square=True)
    if registered() is not None or matrices.type.elements == 0:  # the derivative needs the vectors
        return eig(given).values
    return _general_values(matrices).reshape(*given.type.shape[:-1])


def svd(x: Any, full_matrices: bool = True) -> SVD:
    """Singular values and vectors of matrices [.., m, n]: u [.., m, m], s [.., k], vh [.., n, n], k = min(m, n); without
    full_matrices u [.., m, k] and vh [.., k, n]. Of sizes that are named, m must turn out to be at least n."""
    given = constant(x)
    wide = _matrices("svd", given)
    m, n = given.type.shape[-2:]
    if isinstance(m, int) and isinstance(n, int) and m < n:
        u, s, vh = svd(given.mT, full_matrices)
        return SVD(vh.mT, s, u.mT)
    check_size(m, ">=", n, "the singular values of a matrix with more columns than rows, whose sizes are named")
    u, s, v = with_derivative(_factors, spectral.svd_gradient, wide)
    columns = m if full_matrices else n
    return SVD(_back(u._cut(2, 0, columns), given, m, columns), _back(s, given, n), _back(v.mH, given, n, n))


def svdvals(x: Any) -> Tensor:
    """The singular values of matrices [.., m, n], the largest first: [.., min(m, n)]."""
    given = constant(x)
    wide = _matrices("svdvals", given)
    m, n = given.type.shape[-2:]
    if isinstance(m, int) and isinstance(n, int) and m < n:
        return svdvals(given.mT)
    check_size(m, ">=", n, "the singular values of a matrix with more columns than rows, whose sizes are named")
    return _back(with_derivative(_factors, spectral.svd_gradient, wide)[1], given, n)


def _cutoff(x: Tensor, s: Tensor, rtol: float | None) -> Tensor:
    """The size up to which singular values count as 0: numpy's, unless it is given relative to the largest."""
    near = jacobi.EPSILON.get(x.dtype, jacobi.EPSILON["float32"]) if rtol is None else rtol
    longest = made(dim_value(dim_max(*x.type.shape[-2:]), s.dtype)) if rtol is None else 1.0
    return s.max(-1, keepdims=True) * longest * near


def pinv(x: Any, rtol: float | None = None) -> Tensor:
    """The Moore-Penrose inverses of matrices [.., m, n]: [.., n, m]. Singular values up to rtol times the largest count as 0;
    max(m, n) times the element type's epsilon, by default."""
    given = constant(x)

    def inverses(x: Tensor) -> tuple[Tensor]:
        u, s, vh = svd(x, full_matrices=False)
        kept = s > _cutoff(given, s, rtol)
        inverted = kept.where(kept.where(s, 1.0).reciprocal(), 0.0)
        return ((vh.mH * inverted.unsqueeze(-2)).matmul(u.mH),)

    return with_derivative(inverses, spectral.pinv_gradient, given._field())[0]


def matrix_rank(x: Any, rtol: float | None = None) -> Tensor:
    """How many singular values of matrices [.., m, n] count as more than 0, as in `pinv`: int64 [..]."""
    given = constant(x)
    s = svdvals(given)
    return (s > _cutoff(given, s, rtol)).sum(-1)


def cond(x: Any) -> Tensor:
    """The largest singular value of matrices over the smallest."""
    s = svdvals(x)
    return s.max(-1) / s.min(-1)


# ---- norms, powers, chained matmuls ------------------------------------------------------------------------------------
def norm(
    x: Any, ord: float | str | None = None, axis: int | Sequence[int] | None = None, keepdims: bool = False
) -> Tensor:
    """numpy.linalg.norm. Without ord and axis, the 2-norm of all elements. One axis: a vector's norm of any order. Two
    axes: a matrix' norm, "fro", 1, -1, inf, -inf, or of its singular values: 2, -2, and "nuc", their sum."""
    given = constant(x)
    if ord is None:
        return given.norm(2, axis, keepdims)
    axes = given._axes(axis)
    if len(axes) == 1:
        if isinstance(ord, str):
            raise TypeMismatch(f"a vector has no norm '{ord}'", ["its order is a number"])
        return given.norm(ord, axes, keepdims)
    if len(axes) != 2:
        raise TypeMismatch("a norm with an order is of vectors or matrices", [f"axes {list(axes)} of {given.type}"])
    if ord == "fro":
        return given.norm(2, axes, keepdims)
    if ord in (2, -2, "nuc"):
        values = svdvals(given.moveaxis(axes, (-2, -1)))
        result = values.sum(-1) if ord == "nuc" else values.max(-1) if ord == 2 else values.min(-1)
        return result.reshape(*(1 if i in axes else d for i, d in enumerate(given.type.shape))) if keepdims else result
    if ord not in (1, -1, math.inf, -math.inf):
        raise TypeMismatch(f"there is no matrix norm {ord!r}", ["there are 'fro', 'nuc', 1, -1, 2, -2, inf and -inf"])
    summed, over = axes if abs(ord) == 1 else axes[::-1]  # type: ignore[arg-type]
    totals = given.norm(1, summed, keepdims=True)
    result = totals.norm(math.inf if ord > 0 else -math.inf, over, keepdims=True)  # type: ignore[operator]
    return result if keepdims else result.squeeze(*axes)


def matrix_power(x: Any, n: int) -> Tensor:
    """Square matrices multiplied n times; their inverses for negative n."""
    given = constant(x)
    _matrices("matrix_power", given, square=True)
    if n < 0:
        return matrix_power(inv(given), -n)
    size = given.type.shape[-1]
    result: Tensor = eye(size, dtype=given.dtype).broadcast_to(*given.type.shape)
    power, first = given, True
    while n:
        if n & 1:
            result, first = (power if first else result.matmul(power)), False
        n >>= 1
        power = power.matmul(power) if n else power
    return result


@algorithm("batch, n, n")
def _exponential(x: Tensor) -> Tensor:
    return exponential.exponential(x, solve)


def _exponential_gradient(
    operands: tuple[Tensor], results: tuple[Tensor], cotangents: Sequence[Tensor | None]
) -> tuple[Tensor]:
    """The derivative of the adjoint in the cotangent's direction: a block of the exponential of a matrix of twice the size.

    Source: Mathias, "A chain rule for matrix functions" (1996)."""
    (x,), (g,) = operands, cotangents
    assert g is not None
    n = x.type.shape[1]
    first = concat([x.mH, g], 2)
    second = concat([zeros(x.type.shape, dtype=x.dtype), x.mH], 2)
    return (_exponentials(concat([first, second], 1))._cut(1, 0, n)._cut(2, n, n),)


def _exponentials(x: Tensor) -> Tensor:
    return with_derivative(lambda x: (_exponential(x),), _exponential_gradient, x)[0]


def matrix_exp(x: Any) -> Tensor:
    """The exponentials of square matrices [.., n, n]: 1 + x + x @ x / 2 + x @ x @ x / 6 + .."""
    given = constant(x)
    return _back(_exponentials(_matrices("matrix_exp", given, square=True)), given, *given.type.shape[-2:])


def multi_dot(matrices: Sequence[Any]) -> Tensor:
    """The matmul of several matrices, from left to right."""
    result, *rest = map(constant, matrices)
    for matrix in rest:
        result = result.matmul(matrix)
    return result


def trace(x: Any, offset: int = 0) -> Tensor:
    """The sums of the diagonals of matrices: [.., m, n] -> [..]."""
    return constant(x).trace(offset, -2, -1)


def matrix_transpose(x: Any) -> Tensor:
    """Matrices with rows and columns exchanged."""
    return constant(x).mT


def cross(x: Any, y: Any, axis: int = -1) -> Tensor:
    """The cross product of vectors of 3 elements along an axis."""
    return constant(x).cross(y, axis)


def outer(x: Any, y: Any) -> Tensor:
    """The outer product of two vectors: a matrix of all pairs multiplied."""
    return constant(x).outer(y)


__all__ = [
    "LU", "QR", "SVD", "Eig", "Eigh", "SLogDet", "cholesky", "cond", "cross", "det", "eig", "eigh", "eigvals", "eigvalsh",
    "inv", "lstsq", "lu", "matrix_exp", "matrix_power", "matrix_rank", "matrix_transpose", "multi_dot", "norm", "outer", "pinv",
    "qr", "slogdet", "solve", "solve_triangular", "svd", "svdvals", "trace",
]  # fmt: skip


explain_all(globals(), "linalg")
