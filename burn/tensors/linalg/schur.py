"""Eigenvalues and eigenvectors of general matrices: the Schur form by Francis' double shifts, and substitution.

A matrix is balanced and reduced to Hessenberg form by reflectors. Double shifts then make subdiagonal elements negligible, until
only blocks of one or two rows are left on the diagonal. Real matrices stay real so far. The blocks of two rows are then made
triangular in complex arithmetic. All matrices of a batch advance together; one that has converged is multiplied by identities.

Sources: Golub and Van Loan, "Matrix Computations" (4th edition), 7.4 to 7.6; Wilkinson and Reinsch, "Handbook for Automatic
Computation" (1971), II/11 to II/15; James, Langou and Lowery, "On matrix balancing and eigenvector computation" (2014).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from burn.dialect import compose
from burn.dialect import ops as build
from burn.dialect.dims import Dim
from burn.tensors.base import made
from burn.tensors.complexes import complex
from burn.tensors.control import loop
from burn.tensors.creation import eye, ones, zeros
from burn.tensors.linalg.jacobi import EPSILON

if TYPE_CHECKING:
    from burn.tensors.tensor import Tensor

SHIFTS = 30
"""Double shifts a row, after which a matrix counts as one without convergence. About 2 are usual."""
EXCEPTIONAL = 10
"""Double shifts in one block without convergence, after which one takes other values, to leave a cycle."""
LEAST = {"float32": 1e-22, "float64": 1e-276, "complex64": 1e-22, "complex128": 1e-276}
"""Multiplications of smaller elements round by more than their relative precision: for convergence they count as this size."""
BALANCING = 8
"""Most sweeps of balancing. 2 or 3 are usual."""


def eigenvectors(x: Tensor, left: bool = False) -> tuple[Tensor, ...]:
    """Eigenvalues [batch, n] and eigenvectors [batch, n, n], in columns, of matrices [batch, n, n]; both complex. With
    `left` also left ones u: u.mH @ x is u.mH with its rows multiplied by the values.

    A vector has length 1, and its largest element is real. Of a real matrix the eigenvalues are real or pairs of conjugates, and
    the vectors alike. NaN for matrices with infinities or NaNs, and for those without convergence."""
    scales, scaled, size, sound = _prepared(x)
    form, basis, settled = _quasitriangular(scaled)
    blocks = _Blocks(form)
    rotations = blocks.rotations()
    form, basis = form.astype(rotations.dtype), basis.astype(rotations.dtype)
    triangle = _with_diagonal(rotations.mH @ form @ rotations, blocks.values)
    sound = sound & settled

    def back(vectors: Tensor, scales: Tensor) -> Tensor:
        vectors = _normalised(scales.unsqueeze(2) * (basis @ (rotations @ vectors)))
        return _or_nan(vectors if x.is_complex else _of_real(vectors, blocks), sound.reshape(-1, 1, 1))

    found = [_or_nan(blocks.values * size.squeeze(2), sound.unsqueeze(1)), back(_substituted(triangle), scales)]
    if left:
        found.append(back(_substituted(triangle.mH.flip((1, 2))).flip((1, 2)), 1.0 / scales))
    return tuple(found)


def eigenvalues(x: Tensor) -> Tensor:
    """The values of `eigenvectors` alone."""
    _, scaled, size, sound = _prepared(x)
    form, _, settled = _quasitriangular(scaled)
    return _or_nan(_Blocks(form).values * size.squeeze(2), (sound & settled).unsqueeze(1))


def _or_nan(x: Tensor, sound: Tensor) -> Tensor:
    return sound.where(x, float("nan"))


def _with_diagonal(x: Tensor, diagonal: Tensor) -> Tensor:
    """The upper triangles of x with another diagonal [batch, n]."""
    return eye(x.type.shape[1], dtype="bool").where(diagonal.unsqueeze(1), x.triu())


def _of_real(vectors: Tensor, blocks: _Blocks) -> Tensor:
    """Vectors of real matrices: real for real eigenvalues, and conjugate for pairs of conjugates."""
    lone = ~(blocks.conjugates | _behind(blocks.conjugates))
    mirrored = _behind(blocks.conjugates).unsqueeze(1).where(vectors.roll(1, 2).conj(), vectors)
    real = vectors.real
    real = real / _length(real)
    return lone.unsqueeze(1).where(real.astype(vectors.dtype), mirrored)


# ---- scaling -----------------------------------------------------------------------------------------------------------
def _prepared(x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Scales d [batch, n], the balanced matrix x[i, j] d[j] / (d[i] size), the largest magnitude size [batch, 1, 1] of x, and
    True [batch] for matrices of finite numbers. Others are replaced by zeros."""
    largest = x.abs().norm(float("inf"), (1, 2), keepdims=True)
    sound = largest.isfinite()
    size = (sound & (largest > 0)).where(largest, 1.0)
    x = sound.where(x, 0.0) / size
    scales = _balance(x.abs())
    return scales, x * (scales.unsqueeze(1) / scales.unsqueeze(2)), size, sound.reshape(-1)


def _balance(size: Tensor) -> Tensor:
    """Powers of two [batch, n] that make the norms of row i and column i alike, for magnitudes [batch, n, n]."""
    batch, n, _ = size.type.shape
    index = _index(n).unsqueeze(0)
    off = eye(n, dtype="bool").where(0.0, size)

    def sweep(count: Tensor, going: Tensor, scales: Tensor) -> tuple:
        def one(step: Tensor, still: Tensor, scales: Tensor, changed: Tensor) -> tuple:
            own = scales.take(step, 1)
            column = (off.take(step, 2) / scales).norm(2, 1) * own
            row = (off.take(step, 1) * scales).norm(2, 1) / own
            some = (column > 0) & (row > 0)
            ratio = some.where(row, 1.0) / some.where(column, 1.0)
            factor = (ratio.log2() * 0.5).round().exp2()
            better = some & (
                (column * factor).square() + (row / factor).square() < 0.9 * (column.square() + row.square())
            )
            factor = better.where(factor, 1.0).unsqueeze(1)
            return still, (index == step).where(scales * factor, scales), changed | better.any()

        scales, changed = loop(one, (scales, count < 0), trips=n)
        return going & changed, scales

    return loop(sweep, (ones((batch, n), dtype=size.dtype),), trips=BALANCING)[0]


# ---- the Schur form ----------------------------------------------------------------------------------------------------
def _quasitriangular(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """x = basis @ form @ basis.mH, and True [batch] for matrices whose shifts converged.

    form [batch, n, n] has blocks of one or two rows on its diagonal and zeros below them, basis is unitary. The largest magnitude
    of x should be about 1."""
    batch, n, _ = x.type.shape
    form, basis = _hessenberg(x)
    # A row and a column of zeros behind the last: reflectors then always touch three of each.
    form = _padded(form, 1, 1)
    basis = _padded(basis, 0, 1)
    size = n + 1
    near = EPSILON[x.dtype]
    row, column = _index(size).reshape(1, size, 1), _index(size).reshape(1, 1, size)
    below = row == column + 1
    index = _index(n).unsqueeze(0)

    def shift(count: Tensor, going: Tensor, form: Tensor, basis: Tensor, last: Tensor, stuck: Tensor) -> tuple:
        diagonal = form.diagonal(0, 1, 2).abs()
        beside = diagonal._cut(1, 0, n) + diagonal._cut(1, 1, n)
        subdiagonal = form.diagonal(-1, 1, 2).abs()
        negligible = subdiagonal <= near * (beside == 0).where(1.0, beside).maximum(LEAST[x.dtype])
        form = (below & negligible.pad([(0, 0), (0, 1)]).unsqueeze(1)).where(0.0, form)
        joined = ~negligible  # [batch, n]: rows i and i + 1 are in one block; the last of them never are
        before = (index > 0) & joined.roll(1, 1)
        behind = joined.roll(-1, 1) & (index < n - 1)
        active = joined & (before | behind)
        high = (
            _greatest(active.where(index, -1)) + 1
        )  # the last row of the last block of three or more; 0 if there is none
        low = _greatest((~joined & (index < (high - 1).unsqueeze(1))).where(index, -1)) + 1
        stuck = (high == last).where(stuck + 1, 0)
        start, column_start = _started(form, low, high, stuck % EXCEPTIONAL == EXCEPTIONAL - 1)

        def chase(step: Tensor, still: Tensor, form: Tensor, basis: Tensor) -> tuple:
            k = step + least
            rows = k + _index(3)
            inside = (k >= start) & (k < high)
            entries = form.take(rows, 1).take((k - 1).maximum(0), 2)  # [batch, 3]
            vector = (k == start).unsqueeze(1).where(opening, entries)
            vector = (inside.unsqueeze(1) & (rows.unsqueeze(0) <= high.unsqueeze(1))).where(vector, 0.0)
            u, scale = _reflector(vector)
            across, down = u.unsqueeze(1), u.unsqueeze(2)
            scale = scale.reshape(-1, 1, 1)
            part = form.take(rows, 1)
            part = part - scale * down * (down.conj() * part).sum(1, keepdims=True)
            gone = inside.reshape(-1, 1, 1) & (column == k - 1) & (_index(3).reshape(1, 3, 1) > 0)
            form = _put(form, gone.where(0.0, part), rows, 1)
            part = form.take(rows, 2)
            form = _put(form, part - scale * (part * across).sum(2, keepdims=True) * across.conj(), rows, 2)
            part = basis.take(rows, 2)
            basis = _put(basis, part - scale * (part * across).sum(2, keepdims=True) * across.conj(), rows, 2)
            return still, form, basis

        opening = made(build.concat([t.unsqueeze(1).value for t in column_start], axis=1))
        least = made(build.reduce(start.value, kind="min", axes=(0,), keepdims=False))
        trips = (_greatest(high, 0) - least).maximum(0)
        form, basis = loop(chase, (form, basis), trips=trips)
        return going & (high > 0).any(), form, basis, high, stuck

    counts = zeros((batch,), dtype="int64")
    trips = made(compose.dim_value(n)) * SHIFTS
    form, basis, last, _ = loop(shift, (form, basis, counts, counts), trips=trips)
    return form._cut(1, 0, n)._cut(2, 0, n), basis._cut(2, 0, n), last == 0


def _put(x: Tensor, values: Tensor, rows: Tensor, axis: int) -> Tensor:
    """x with three rows (axis 1) or columns (axis 2) replaced."""
    shape = (1, 3, 1) if axis == 1 else (1, 1, 3)
    indices = rows.reshape(*shape).broadcast_to(*values.type.shape)
    return x.scatter(axis, indices, values)


def _greatest(x: Tensor, axis: int = 1) -> Tensor:
    """The largest of integers >= -1 along an axis, and -1 of none."""
    return made(build.reduce(x.value, kind="max", axes=(axis,), keepdims=False)).maximum(-1)


def _padded(x: Tensor, rows: int, columns: int) -> Tensor:
    """Matrices with zeros behind the last row and the last column."""
    return x.pad([(0, 0), (0, rows), (0, columns)])


def _index(n: Dim) -> Tensor:
    return made(build.iota(shape=(n,), axis=0))


def _length(x: Tensor) -> Tensor:
    """The length of vectors [batch, n]: [batch, 1], real."""
    return x.norm(2, 1, keepdims=True)


def _reflector(vector: Tensor) -> tuple[Tensor, Tensor]:
    """u [batch, n] and t [batch] of the reflectors 1 - t u u^H that map vectors to multiples of their first element's axis.

    t is 0, and nothing is reflected, if the other elements are 0. Unlike LAPACK's these reflectors are Hermitian."""
    first = _index(vector.type.shape[1]).unsqueeze(0) == 0
    size = vector.abs().norm(float("inf"), 1, keepdims=True)
    vector = vector / (size == 0).where(1.0, size)
    head = vector._cut(1, 0, 1)
    idle = first.where(0.0, vector.abs()).norm(float("inf"), 1) == 0
    phase = (head == 0).where(1.0, head.sign())
    u = first.where(vector + phase * _length(vector), vector)
    square = _squared(u).sum(1)
    return u, idle.where(0.0, 2.0 / idle.where(1.0, square))


def _squared(x: Tensor) -> Tensor:
    return (x * x.conj()).real if x.is_complex else x.square()


def _hessenberg(x: Tensor) -> tuple[Tensor, Tensor]:
    """x = basis @ form @ basis.mH: form has zeros below its first subdiagonal, basis is unitary."""
    batch, n, _ = x.type.shape
    row, column = _index(n).reshape(1, n, 1), _index(n).reshape(1, 1, n)

    def reflect(step: Tensor, going: Tensor, form: Tensor, basis: Tensor) -> tuple:
        # The column from row step + 1 on, rolled so that the reflector finds it at its beginning.
        entries = (_index(n).unsqueeze(0) > step).where(form.take(step, 2), 0.0)
        source = (_index(n) + step + 1) % made(compose.dim_value(n))
        u, scale = _reflector(entries.take(source, 1))
        u = u.take((_index(n) - step - 1) % made(compose.dim_value(n)), 1)
        across, down, scale = u.unsqueeze(1), u.unsqueeze(2), scale.reshape(-1, 1, 1)
        form = form - scale * down * (down.conj() * form).sum(1, keepdims=True)
        form = ((column == step) & (row > step + 1)).where(0.0, form)
        form = form - scale * (form * across).sum(2, keepdims=True) * across.conj()
        return going, form, basis - scale * (basis * across).sum(2, keepdims=True) * across.conj()

    start = eye(n, dtype=x.dtype).broadcast_to(batch, n, n)
    trips = (made(compose.dim_value(n)) - 2).maximum(0)
    form, basis = loop(reflect, (x, start), trips=trips)
    return form, basis


def _started(
    form: Tensor, low: Tensor, high: Tensor, exceptional: Tensor
) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor]]:
    """The row [batch] at which a double shift of the rows `low` to `high` starts, and three elements for its first reflector.

    The elements [batch] are those of the first column of (H - s) (H - t), where H begins at the row. The shifts s and t are
    eigenvalues: those of the last two rows and columns of the block. The row is the last one at which the elements to the left of
    the reflector's rows stay negligible. Shifts that start above small subdiagonal elements would be lost to rounding."""
    n = form.type.shape[1] - 1
    index = _index(n).unsqueeze(0)
    diagonal = form.diagonal(0, 1, 2)
    own, second = diagonal._cut(1, 0, n), diagonal._cut(1, 1, n)
    above, below = form.diagonal(1, 1, 2), form.diagonal(-1, 1, 2)

    def at(x: Tensor, row: Tensor) -> Tensor:
        return x.gather(1, row.clip(0, None).unsqueeze(1))

    last, before, lower, upper = at(own, high), at(own, high - 1), at(below, high - 1), at(above, high - 1)
    size = (lower.abs() + at(below, high - 2).abs()).astype(form.dtype)
    unusual = exceptional.unsqueeze(1)
    last = unusual.where(last + 0.75 * size, last)
    before = unusual.where(last, before)
    lower, upper = unusual.where(size, lower), unusual.where(-0.4375 * size, upper)
    # One factor of each multiplication is divided by their size: small ones would vanish.
    scale = (last - own).abs() + (before - own).abs() + lower.abs() + below.abs()
    scale = (scale == 0).where(1.0, scale)
    scaled = below / scale
    first = (last - own) / scale * (before - own) - lower / scale * upper + scaled * above
    middle = scaled * (second + own - last - before)
    third = scaled * below.roll(-1, 1)
    added = below.roll(1, 1).abs() * (middle.abs() + third.abs())
    kept = first.abs() * (own.roll(1, 1).abs() + own.abs() + second.abs())
    begins = (index == low.unsqueeze(1)) | ((index > low.unsqueeze(1)) & (added <= EPSILON[form.dtype] * kept))
    row = _greatest((begins & (index <= (high - 2).unsqueeze(1))).where(index, -1)).maximum(0)
    return row, (at(first, row).squeeze(1), at(middle, row).squeeze(1), at(third, row).squeeze(1))


# ---- from the Schur form -----------------------------------------------------------------------------------------------
class _Blocks:
    """The eigenvalues of the blocks on the diagonal of quasi-triangular matrices [batch, n, n].

    Arrays [batch, n]: the complex `values`, in the order of the rows. `double` is True at the first row of a block of two. There
    (z, c) is an eigenvector of the first value, and `conjugates` is True if the two values are conjugate in a real matrix."""

    def __init__(self, form: Tensor) -> None:
        n = form.type.shape[1]
        whole = _padded(form, 1, 1)  # its diagonals beside the main one have n elements
        a, d = form.diagonal(0, 1, 2), whole.diagonal(0, 1, 2)._cut(1, 1, n)
        b, c = whole.diagonal(1, 1, 2), whole.diagonal(-1, 1, 2)
        self.double = c != 0
        half = (a - d) * 0.5
        size = half.abs().maximum(b.abs()).maximum(c.abs())
        size = (size == 0).where(1.0, size)
        half, beside = half / size, (b / size) * (c / size)
        square = half * half + beside
        if form.is_complex:
            self.conjugates = self.double & False
            root = square.sqrt()
        else:
            self.conjugates = self.double & (square < 0)
            root = complex((square < 0).where(0.0, square).sqrt(), (square < 0).where(-square, 0.0).sqrt())
        root = ((half.conj() * root).real < 0).where(-root, root)
        z = half + root
        self.z, self.c = z * size, c.astype(root.dtype)
        first = d + self.z
        other = d - beside / (z == 0).where(1.0, z) * size
        second = self.conjugates.where(first.conj(), other)
        self.values = self.double.where(first, _behind(self.double).where(_behind(second), a.astype(root.dtype)))

    def rotations(self) -> Tensor:
        """Unitary matrices [batch, n, n] that make the blocks triangular."""
        n = self.z.type.shape[1]
        length = self.double.where(self.z.abs().hypot(self.c.abs()), 1.0)
        cosine, sine = self.z / length, self.double.where(self.c / length, 0.0)
        diagonal = self.double.where(cosine, _behind(self.double).where(_behind(cosine).conj(), 1.0))
        row, column = _index(n).reshape(1, n, 1), _index(n).reshape(1, 1, n)
        result = (row == column).where(diagonal.unsqueeze(1), 0.0)
        result = (row == column + 1).where(sine.unsqueeze(1), result)
        return (column == row + 1).where(-sine.conj().unsqueeze(2), result)


def _behind(x: Tensor) -> Tensor:
    """Each row's element at the row below it. The first row has that of the last."""
    return x.roll(1, 1)


def _substituted(triangle: Tensor) -> Tensor:
    """Eigenvectors in columns of upper triangular matrices [batch, n, n], by substitution from the last row on.

    A difference of equal eigenvalues counts as a rounding error, and vectors that grow are scaled down. Vectors of a defective
    matrix are nearly parallel."""
    _, n, _ = triangle.type.shape
    values = triangle.diagonal(0, 1, 2)
    largest = triangle.abs().norm(float("inf"), (1, 2)).unsqueeze(1)
    least = EPSILON[triangle.dtype] * (largest == 0).where(1.0, largest)
    index = _index(n)

    def substitute(step: Tensor, going: Tensor, vectors: Tensor) -> tuple:
        k = made(compose.dim_value(n)) - 1 - step
        known = (triangle.take(k, 1).unsqueeze(2) * vectors).sum(1)
        gap = values.take(k, 1).unsqueeze(1) - values
        gap = (gap.abs() < least).where(least.astype(gap.dtype), gap)
        entries = (index == k).where(1.0, (index > k).where(-known / gap, 0.0))
        growth = entries.abs().maximum(1.0).unsqueeze(1)
        vectors = (index.reshape(1, n, 1) == k).where(entries.unsqueeze(1), vectors)
        return going, vectors / growth

    return loop(substitute, (zeros(triangle.type.shape, dtype=triangle.dtype),), trips=n)[0]


def _normalised(vectors: Tensor) -> Tensor:
    """Columns of length 1 whose largest element is real."""
    size = vectors.abs()
    largest = size.norm(float("inf"), 1, keepdims=True)
    vectors = vectors / (largest == 0).where(1.0, largest)
    vectors = vectors / _length(vectors)
    n = vectors.type.shape[1]
    index = _index(n).reshape(1, n, 1)
    leading = (size == largest).where(index, n).value
    leading = made(build.reduce(leading, kind="min", axes=(1,), keepdims=True))
    element = (index == leading).where(vectors, 0.0).sum(1, keepdims=True)
    vectors = vectors * element.sign().conj()
    return (index == leading).where(vectors.real.astype(vectors.dtype), vectors)
