"""Linear algebra: `burn.linalg.solve(a, b)`. Matrices are on the last two axes, all axes before them are batches.

The algorithms are loops over columns with masks in place of changing extents, so that one program serves every size. In a
traced function they become part of it. Outside, each algorithm and its derivative are compiled once for an element type and
run eagerly. 16-bit floats are computed in float32; integers become float32.

Sources: Golub and Van Loan, "Matrix Computations" (4th edition).
"""

from burn.tensors import Tensor  # noqa: F401  annotations of the results, which `typing.get_type_hints` resolves here
from burn.tensors.argument_types import explain_all
from burn.tensors.linalg.determinants import det, slogdet
from burn.tensors.linalg.methods import cross, matrix_transpose, outer, trace
from burn.tensors.linalg.norms import norm
from burn.tensors.linalg.orthogonal import lstsq, qr
from burn.tensors.linalg.powers import matrix_exp, matrix_power, multi_dot
from burn.tensors.linalg.results import LU, QR, SVD, Eig, Eigh, SLogDet
from burn.tensors.linalg.spectral import cond, eig, eigh, eigvals, eigvalsh, matrix_rank, pinv, svd, svdvals
from burn.tensors.linalg.triangular import cholesky, inv, lu, solve, solve_triangular

__all__ = [
    "LU", "QR", "SVD", "Eig", "Eigh", "SLogDet", "cholesky", "cond", "cross", "det", "eig", "eigh", "eigvals", "eigvalsh",
    "inv", "lstsq", "lu", "matrix_exp", "matrix_power", "matrix_rank", "matrix_transpose", "multi_dot", "norm", "outer", "pinv",
    "qr", "slogdet", "solve", "solve_triangular", "svd", "svdvals", "trace",
]  # fmt: skip

for _name in __all__:
    globals()[_name].__module__ = __name__  # the files are no part of a public name

explain_all(globals(), "linalg")
