"""Functions of matrices at matrices where algorithms take a short cut or derivatives end: diagonal, triangular, singular, with
equal eigenvalues. The functions give what does not depend on the choice of vectors, in burn and in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import burn
from burn import linalg as ours
from tests.points.explained import Reason
from tests.points.functions import Function, b, t

theirs: Any = torch.linalg
_G = np.array([[0.9, -0.6, 0.3], [0.4, 1.1, -0.8], [-0.5, 0.2, 0.7]])

MATRICES: dict[str, np.ndarray] = {
    "generic": _G,
    "symmetric": _G + _G.T,
    "definite": _G @ _G.T + np.eye(3),
    "diagonal": np.diag([1.0, 2.0, 3.0]),
    "falling diagonal": np.diag([3.0, 2.0, 1.0]),
    "upper": np.triu(_G) + 2 * np.eye(3),
    "lower": np.tril(_G) + 2 * np.eye(3),
    "equal values": np.diag([2.0, 2.0, 1.0]),
    "identity": np.eye(3),
    "permutation": np.eye(3)[[1, 2, 0]],
    "singular": np.array([[1.0, 2, 3], [2, 4, 6], [1, 0, 1]]),
    "dependent columns": np.array([[1.0, 2, 3], [2, 4, 6.5], [1, 2, 1]]),
    "zero column": np.array([[0.0, 1, 2], [0, 3, 4], [0, 5, 7]]),
    "zero row": np.array([[1.0, 2, 3], [0, 0, 0], [1, 0, 1]]),
    "rank 1": np.outer([1.0, 2, 3], [1, 0, -1]),
    "zero": np.zeros((3, 3)),
}
STACK = np.stack(list(MATRICES.values()))
RIGHT = np.array([[0.3, -1.0], [0.8, 0.5], [-0.4, 1.2]])

TABLE: dict[str, Function] = {}


def _row(name: str, burn: Callable[[Any], Any], torch: Callable[[Any], Any]) -> None:
    TABLE[name] = Function(burn, torch)


def _both(name: str, function: Callable[[Any, Any], Any]) -> None:
    """function: of the library's linalg and the matrices."""
    _row(name, lambda x: function(ours, x), lambda x: function(theirs, x))


def _half(x: Any) -> Any:
    return (x + x.mT) * 0.5


_both("eigvalsh", lambda m, x: m.eigvalsh(_half(x)))
_both("exp by eigh", lambda m, x: (lambda e: (e[1] * e[0].exp().unsqueeze(-2)) @ e[1].mT)(m.eigh(_half(x))))
_both("squares of eigh's vectors", lambda m, x: m.eigh(_half(x))[1] ** 2)
_both("svdvals", lambda m, x: m.svdvals(x))
_both("squares of svd's u", lambda m, x: m.svd(x, False)[0] ** 2)
_both("u @ vh of svd", lambda m, x: (lambda s: s[0] @ s[2])(m.svd(x, False)))
_both("svd of a tall one", lambda m, x: (lambda s: (s[0] * s[1].unsqueeze(-2).sin()) @ s[2])(m.svd(x[:, :, :2], False)))
_both("svd of a wide one", lambda m, x: (lambda s: (s[0] * s[1].unsqueeze(-2).sin()) @ s[2])(m.svd(x[:, :2], False)))
_both("q", lambda m, x: m.qr(x)[0])
_both("r", lambda m, x: m.qr(x)[1])
_both("qr of a tall one", lambda m, x: (lambda f: (f[0].sin(), f[1].sin())[0] @ f[1])(m.qr(x[:, :, :2])))
_both("qr of a wide one", lambda m, x: (lambda f: f[0].sin() @ f[1].sin())(m.qr(x[:, :2])))
_both("cholesky", lambda m, x: m.cholesky(_half(x)))
_both("inv", lambda m, x: m.inv(x))
_both("det", lambda m, x: m.det(x))
_both("slogdet", lambda m, x: m.slogdet(x)[1])
_both("pinv", lambda m, x: m.pinv(x))
_both("matrix_power", lambda m, x: m.matrix_power(x, 3))
_both("cond", lambda m, x: m.cond(x))
_row("solve", lambda x: ours.solve(x, b(RIGHT)), lambda x: theirs.solve(x, t(RIGHT)))
_row(
    "lstsq",
    lambda x: _each(x, lambda a: ours.lstsq(a, b(RIGHT))),
    lambda x: theirs.lstsq(x, t(RIGHT).expand(len(x), 3, 2))[0],
)
for _up in (False, True):
    _row(
        f"solve_triangular, {'upper' if _up else 'lower'}",
        lambda x, up=_up: ours.solve_triangular(x, b(RIGHT), up),
        lambda x, up=_up: theirs.solve_triangular(x, t(RIGHT), upper=up),
    )
_row("nuclear norm", lambda x: ours.norm(x, "nuc", (1, 2)), lambda x: theirs.matrix_norm(x, "nuc"))
_row("2-norm", lambda x: ours.norm(x, 2, (1, 2)), lambda x: theirs.matrix_norm(x, 2))
_row(
    "lu",
    lambda x: (lambda f: f.lower.sin() @ f.upper)(ours.lu(x)),
    lambda x: (lambda f: f[1].sin() @ f[2])(theirs.lu(x)),
)


def _each(x: burn.Tensor, function: Callable[[burn.Tensor], burn.Tensor]) -> burn.Tensor:
    """A function of one matrix for each, in a loop."""
    return burn.scan(lambda c, a: (c, function(a)), burn.constant(0.0, "float64"), x)[1]


ALL = ("value", "first", "second")
DERIVATIVES = ALL[1:]
EQUAL = ("equal values", "identity", "permutation", "zero")
DEFICIENT = ("singular", "dependent columns", "zero column", "zero row", "rank 1", "zero")
CHOICE = "equal eigenvalues or singular values: their vectors are any basis, and their order is chance"
NONE = "singular values of 0: their vectors are any, and no derivative exists; PyTorch's belongs to its choice of them"
RANK = "q and r are differentiable where the first columns are independent"
FULL = "burn's lstsq is of matrices of full rank, PyTorch's gives the least solution"
TWICE = "by the singular vectors of two singular values of 0, which PyTorch has as 0 and a rounding error"

EXPLAINED: tuple[Reason, ...] = (
    Reason("eigvalsh", EQUAL, DERIVATIVES, CHOICE),
    Reason("exp by eigh", EQUAL, DERIVATIVES, CHOICE),
    Reason("squares of eigh's vectors", EQUAL, ALL, CHOICE),
    Reason("svdvals", EQUAL, DERIVATIVES, CHOICE),
    Reason("svdvals", DEFICIENT, DERIVATIVES, NONE),
    Reason("squares of svd's u", (*EQUAL, *DEFICIENT), ALL, CHOICE),
    Reason("u @ vh of svd", (*EQUAL, *DEFICIENT), ALL, NONE),
    Reason("svd of a *", DEFICIENT, DERIVATIVES, NONE),
    Reason("[qr]", DEFICIENT, DERIVATIVES, RANK),
    Reason("qr of a *", DEFICIENT, DERIVATIVES, RANK),
    Reason("det", ("rank 1",), ("second",), TWICE),
    Reason(
        "det", ("zero",), ("second",), "the determinant is cubic: its second derivative at 0 is 0; PyTorch's is NaN"
    ),
    Reason("cond", EQUAL, DERIVATIVES, "the largest and the smallest of equal singular values: burn's share evenly"),
    Reason("cond", DEFICIENT, ALL, "divided by a singular value that is 0, or a rounding error", rounding=True),
    Reason("slogdet", ("singular",), ALL, "the logarithm of a pivot that is 0, or a rounding error", rounding=True),
    Reason("solve_triangular, *", ("zero row", "rank 1"), ("second",), "the solution is infinite"),
    Reason(
        "lu", DEFICIENT, DERIVATIVES, "PyTorch solves with the singular factor; burn differentiates the elimination"
    ),
    Reason("lstsq", DEFICIENT, ALL, FULL),
    Reason("2-norm", EQUAL, DERIVATIVES, CHOICE, rounding=True),
    Reason("nuclear norm", DEFICIENT, DERIVATIVES, NONE),
)
