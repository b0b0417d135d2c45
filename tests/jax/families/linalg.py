"""Linear algebra."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import jax.scipy.linalg as jsl
from jax import lax

from tests.jax.case import Case
from tests.jax.draw import Draw
from tests.jax.families import entered


def _definite(x: Any) -> Any:
    return x @ jnp.swapaxes(x, -1, -2) + jnp.eye(x.shape[-1])


def _apart(x: Any) -> Any:
    """Symmetric, with eigenvalues that are apart."""
    return (x + jnp.swapaxes(x, -1, -2)) * 0.1 + jnp.diag(jnp.arange(x.shape[-1]) * 2.0)


def _signless(x: Any) -> Any:
    return jnp.abs(x)


SQUARE: dict[str, Callable[[Any], Any]] = {
    "cholesky": lambda x: jnp.linalg.cholesky(_definite(x)),
    "cholesky_upper": lambda x: jnp.linalg.cholesky(_definite(x), upper=True),
    "inv": lambda x: jnp.linalg.inv(_definite(x)),
    "det": lambda x: jnp.linalg.det(x),
    "slogdet": lambda x: jnp.linalg.slogdet(_definite(x)),
    "solve": lambda x: jnp.linalg.solve(_definite(x), x),
    "solve_vector": lambda x: jnp.linalg.solve(_definite(x), x[..., 0, :, None]),
    "eigh": lambda x: jnp.linalg.eigvalsh(_apart(x)),
    "eigh_vectors": lambda x: _signless(jnp.linalg.eigh(_apart(x))[1]),
    "svd_values": lambda x: jnp.linalg.svd(_apart(x) + jnp.eye(x.shape[-1]), compute_uv=False),
    "matrix_power": lambda x: jnp.linalg.matrix_power(x * 0.3, 3),
    "matrix_power_negative": lambda x: jnp.linalg.matrix_power(_definite(x), -2),
    "expm": lambda x: jsl.expm(x * 0.3),
    "pinv": lambda x: jnp.linalg.pinv(_definite(x)),
    "lu": lambda x: lax.linalg.lu(_definite(x))[0],
    "lu_factor": lambda x: jsl.lu_factor(_definite(x)),
    "lu_scipy": lambda x: jsl.lu(_definite(x)),
    "cho_solve": lambda x: jsl.cho_solve(jsl.cho_factor(_definite(x)), x),
    "lu_solve": lambda x: jsl.lu_solve(jsl.lu_factor(_definite(x)), x),
    "triangular": lambda x: jsl.solve_triangular(jnp.tril(_definite(x)), x, lower=True),
    "triangular_transposed": lambda x: jsl.solve_triangular(jnp.triu(_definite(x)), x, trans=1),
    "triangular_unit": lambda x: jsl.solve_triangular(x, x, unit_diagonal=True, lower=True),
    "triangular_right": lambda x: lax.linalg.triangular_solve(_definite(x), x, left_side=False, lower=True),
    "cond": lambda x: jnp.linalg.cond(_definite(x)),
    "norm_fro": lambda x: jnp.linalg.norm(x, axis=(-2, -1)),
    "norm_nuclear": lambda x: jnp.linalg.norm(_apart(x) + jnp.eye(x.shape[-1]), "nuc", axis=(-2, -1)),
    "norm_2": lambda x: jnp.linalg.norm(_apart(x) + jnp.eye(x.shape[-1]), 2, axis=(-2, -1)),
    "matrix_rank": lambda x: jnp.linalg.matrix_rank(x),
    "block_diag": lambda x: jsl.block_diag(x.reshape(-1, x.shape[-1]), x.reshape(-1, x.shape[-1])),
    "toeplitz": lambda x: jsl.toeplitz(x.reshape(-1)[:4]),
    "trace": lambda x: jnp.linalg.trace(x),
    "tensorinv": lambda x: (
        jnp.linalg.tensorinv(_definite(x).reshape(x.shape[-1], x.shape[-1]), ind=1) if x.ndim == 2 else x
    ),
    "sqrtm_free": lambda x: jnp.linalg.matrix_transpose(x),
    "householder": lambda x: lax.linalg.householder_product(x * 0.3, x[..., 0, :] * 0.2),
    "eigh_upper": lambda x: lax.linalg.eigh(_apart(x), lower=False)[1],
    "cholesky_bad": lambda x: lax.linalg.cholesky(-_definite(x)),
    "tridiagonal_solve": lambda x: lax.linalg.tridiagonal_solve(
        x[..., 0, :] * 0.1, jnp.abs(x[..., 1, :]) + 2, x[..., 0, ::-1] * 0.1, x
    ),
    "cov": lambda x: jnp.cov(x.reshape(-1, x.shape[-1])),
}
UNDIFFERENTIATED = {"cond", "matrix_rank", "eigh_upper", "cholesky_bad", "lu_scipy", "norm_2", "pinv", "eigh_vectors"}


def _square(name: str, function: Callable[[Any], Any]) -> Callable[[Draw], Case]:
    def build(draw: Draw) -> Case:
        n = draw.pick(3, 4, 5)
        batch = draw.pick((), (2,))
        return Case(
            f"linalg.{name}",
            function,
            (draw.floats((*batch, n, n), low=-1.0, high=1.0),),
            name not in UNDIFFERENTIATED,
            32,
        )

    return build


def _tall(name: str, function: Callable[[Any], Any]) -> Callable[[Draw], Case]:
    def build(draw: Draw) -> Case:
        shape = draw.pick((5, 3), (4, 4), (2, 6, 3))
        return Case(f"linalg.{name}", function, (draw.floats(shape, low=-1.0, high=1.0),), False, 32)

    return build


def _svd(x: Any, full_matrices: bool = True) -> Any:
    return jnp.linalg.svd(x, full_matrices=full_matrices)


def _qr(x: Any, mode: str = "reduced") -> Any:
    return jnp.linalg.qr(x, mode=mode)


def _restored(q: Any, r: Any) -> Any:
    return q @ r, jnp.abs(r), jnp.swapaxes(q, -1, -2) @ q


TALL: dict[str, Callable[[Any], Any]] = {
    "qr": lambda x: _restored(*_qr(x)),
    "qr_complete": lambda x: _restored(*_qr(x, "complete"))[::2],
    "qr_r": lambda x: jnp.abs(_qr(x, "r")),
    "svd": lambda x: (lambda u, s, v: ((u * s[..., None, :]) @ v, s))(*_svd(x, full_matrices=False)),
    "svd_full": lambda x: (lambda u, s, v: (s, jnp.swapaxes(u, -1, -2) @ u, v @ jnp.swapaxes(v, -1, -2)))(*_svd(x)),
    "lstsq": lambda x: jnp.linalg.lstsq(x.reshape(-1, x.shape[-1]), x.reshape(-1, x.shape[-1])[:, :2])[0],
    "pinv_tall": lambda x: jnp.linalg.pinv(x),
    "lu_tall": lambda x: lax.linalg.lu(x),
    "lu_wide": lambda x: lax.linalg.lu(jnp.swapaxes(x, -1, -2)),
    "geqrf": lambda x: jnp.abs(lax.linalg.qr(x, full_matrices=False)[1]),
}
for _name, _function in SQUARE.items():
    entered(f"linalg.{_name}", _square(_name, _function))
for _name, _function in TALL.items():
    entered(f"linalg.{_name}", _tall(_name, _function))
