"""Operators beyond the core set against eager torch: special functions, counting, scattering, linear algebra, and sizes that
depend on data or vary."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional as F  # noqa: E402

from burn.adapters.torch import compile_module  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
Call = Callable[..., Any]


class Calls(torch.nn.Module):
    def __init__(self, calls: dict[str, Call]) -> None:
        super().__init__()
        self.calls = calls

    def forward(self, *inputs: Any) -> dict[str, Any]:
        return {name: _tensors(call(*inputs)) for name, call in self.calls.items()}


def _tensors(result: Any) -> list[Any]:
    return [result] if isinstance(result, torch.Tensor) else [t for r in result for t in _tensors(r)]


def check(calls: dict[str, Call], *inputs: Any, tolerance: float = 1e-5) -> None:
    """One program of all calls, compared."""
    module = Calls(calls)
    want, got = module(*inputs), compile_module(module, inputs)(*inputs)
    for name in calls:
        for a, b in zip(got[name], want[name], strict=True):
            torch.testing.assert_close(
                a, b, rtol=tolerance, atol=tolerance, equal_nan=True, msg=lambda m, name=name: f"{name}: {m}"
            )


def special(*names: str, operand: int) -> dict[str, Call]:
    def call(function: Call) -> Call:
        return lambda *inputs: function(inputs[operand])

    return {name: call(getattr(torch.special, name)) for name in names}


SPECIAL = special("gammaln", "digamma", "i0e", "i1e", "erfcx", "log_ndtr", operand=0)
SPECIAL |= special("erfinv", "ndtri", "i0", "i1", operand=1)
SPECIAL |= {
    "zeta": lambda x, p: torch.special.zeta(1.1 + 7 * p, p + 0.1),
    "polygamma": lambda x, p: [torch.polygamma(n, 9 * p - 4.55) for n in (0, 2, 5)],
    "multigammaln": lambda x, p: torch.special.multigammaln(p + 3, 3),
    "frexp": lambda x, p: torch.frexp(x * 1e3),
    "nextafter": lambda x, p: torch.nextafter(x, -x),
    "angle": lambda x, p: torch.angle(x),
    "logcumsumexp": lambda x, p: torch.logcumsumexp(x.clamp(-9, 9).nan_to_num(), 0),
}


def test_special_functions() -> None:
    edges = torch.tensor([0.0, -0.0, 1.0, 2.0, 0.5, -0.5, 15.0, 25.0, -4.25, float("nan"), float("inf")])
    x = torch.cat([torch.randn(53) * 3, edges]).double()
    p = torch.cat([torch.rand(53), torch.linspace(0, 1, 11)]).double()
    check(SPECIAL, x, p, tolerance=1e-12)


def test_digits_of_the_inverse_error_function_near_its_ends() -> None:
    """erf there is 1 except for the last digits: the test compares the inverse, by the complement."""
    rest = torch.logspace(-15, -3, 37, dtype=torch.float64)
    compiled = compile_module(
        Calls({"erfinv": torch.special.erfinv, "ndtri": lambda x: torch.special.ndtri(1 - x)}), (1 - rest,)
    )
    y = compiled(1 - rest)
    exact = 1 - (1 - rest)
    torch.testing.assert_close(torch.special.erfc(y["erfinv"][0]), exact, rtol=1e-12, atol=0)
    torch.testing.assert_close(torch.special.ndtr(y["ndtri"][0]), exact, rtol=1e-12, atol=0)


def test_counting() -> None:
    calls = {
        "bincount": lambda i, x: torch.bincount(i.flatten()),
        "bincount with weights": lambda i, x: torch.bincount(i.flatten(), x.flatten(), minlength=20),
        "histc": lambda i, x: torch.histc(x, 7),
        "histc of a range": lambda i, x: torch.histc(x, 5, -0.5, 0.75),
        "repeats": lambda i, x: torch.repeat_interleave(x, i[:, 0], 0),
        "runs": lambda i, x: torch.unique_consecutive(i.flatten(), return_inverse=True, return_counts=True),
        "runs of rows": lambda i, x: torch.unique_consecutive(i // 9, dim=0),
        "nonzero_static": lambda i, x: torch.nonzero_static(i > 6, size=90, fill_value=-7),
        "mode": lambda i, x: torch.mode(i, 1)[0],
        "nanmedian": lambda i, x: torch.nanmedian(torch.where(i > 6, float("nan"), x), 1, keepdim=True),
        "nanmedian of all": lambda i, x: torch.nanmedian(torch.where(i > 6, float("nan"), x)),
    }
    check(calls, torch.randint(0, 11, (5, 13)), torch.randn(5, 13))


def test_windows() -> None:
    windows = {
        "hann": torch.hann_window,
        "hamming": lambda *a, **k: torch.hamming_window(*a, 0.6, 0.3, **k),
        "blackman": torch.blackman_window,
        "bartlett": torch.bartlett_window,
        "kaiser": lambda *a, **k: torch.kaiser_window(*a, 7.5, **k),
    }
    calls: dict[str, Any] = {
        f"{name} of {n}, {periodic}": lambda x, f=f, n=n, p=periodic: f(n, p, dtype=torch.float64) * x
        for name, f in windows.items()
        for n in (0, 1, 2, 7, 16)
        for periodic in (True, False)
    }
    calls["their own defaults"] = lambda x: [torch.hann_window(5), torch.hamming_window(5), torch.kaiser_window(5)]
    check(calls, torch.ones(1, dtype=torch.float64), tolerance=1e-6)


def test_sizes_that_depend_on_data_and_vary() -> None:
    calls = {
        "repeats": lambda x, n: torch.repeat_interleave(x, n, 0),
        "bincount": lambda x, n: torch.bincount(n),
        "pdist": lambda x, n: F.pdist(x, 1.5),
    }

    def of(rows: int) -> tuple[Any, Any]:
        return torch.randn(rows, 3), torch.randint(0, 4, (rows,))

    sizes = {0: {0: "rows"}, 1: {0: "rows"}}
    compiled_for = of(5)
    module = Calls(calls)

    class Two(torch.nn.Module):
        def forward(self, x: Any, n: Any) -> Any:
            return module(x, n)

    compiled = compile_module(Two(), compiled_for, dynamic={"x": sizes[0], "n": sizes[1]})
    for given in (compiled_for, of(2), of(11)):
        got, want = compiled(*given), module(*given)
        for name in calls:
            torch.testing.assert_close(got[name][0], want[name][0], rtol=1e-5, atol=1e-5)


def test_no_rows() -> None:
    calls = {
        "bincount": lambda x: torch.bincount(x.flatten().abs().long()),
        "histc": lambda x: torch.histc(x, 5, -1, 1),
        "runs": lambda x: torch.unique_consecutive(x.flatten().round(), return_inverse=True, return_counts=True),
        "mode": lambda x: torch.mode(x.round(), 1)[0],
        "nanmedian": lambda x: torch.nanmedian(x, 1)[0],
        "index_reduce": lambda x: x.index_reduce(1, torch.tensor([0, 0, 2]), x[:, :3], "mean"),
        "bags": lambda x: F.embedding_bag(x.abs().long(), torch.arange(40.0).reshape(8, 5), mode="mean"),
        "det": lambda x: torch.linalg.det(x[:, None] * x[:, :, None] + torch.eye(5)),
    }

    class One(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return {name: _tensors(call(x)) for name, call in calls.items()}

    compiled = compile_module(One(), (torch.randn(3, 5),), dynamic={"x": {0: "rows"}})
    for rows in (3, 0, 1):
        x = torch.randn(rows, 5)
        want, got = One()(x), compiled(x)
        for name in calls:
            for a, b in zip(got[name], want[name], strict=True):
                torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5, msg=lambda m, name=name: f"{name}: {m}")


def test_writing_at_indices() -> None:
    how = ("prod", "mean", "amax", "amin")
    calls = {
        **{
            f"index_reduce {kind} {own}": lambda x, y, i, kind=kind, own=own: x.index_reduce(
                1, i, y[:, :3], kind, include_self=own
            )
            for kind in how
            for own in (True, False)
        },
        "mean of integers": lambda x, y, i: (9 * x).int().scatter_reduce(1, i.expand(3, 3), (9 * y).int(), "mean"),
        "put": lambda x, y, i: x.put(i * 3 - 6, y.flatten()[:3]),
        "put adds": lambda x, y, i: x.put(i, y.flatten()[:3], accumulate=True),
        "diagonal_scatter": lambda x, y, i: torch.diagonal_scatter(x, y[0, :3], 1),
        "diagonal_scatter below": lambda x, y, i: torch.diagonal_scatter(x, y[0, :2], -1),
        "as_strided_scatter": lambda x, y, i: torch.as_strided_scatter(x, y[:2, :3], (2, 3), (7, 2), 1),
        "take and index": lambda x, y, i: [x.take(i), x[:, i][i % 3]],
    }
    check(calls, torch.randn(3, 5), torch.randn(3, 5), torch.tensor([4, 0, 4]))


def test_bags_of_embeddings() -> None:
    calls: dict[str, Call] = {
        f"{mode} {pad}": lambda w, i, o, s, mode=mode, pad=pad: F.embedding_bag(i, w, o, mode=mode, padding_idx=pad)
        for mode in ("sum", "mean", "max")
        for pad in (None, 2)
    }
    calls["weighted"] = lambda w, i, o, s: F.embedding_bag(i, w, o, mode="sum", per_sample_weights=s)
    calls["with an end"] = lambda w, i, o, s: F.embedding_bag(i, w, o, mode="mean", include_last_offset=True)
    calls["rows"] = lambda w, i, o, s: F.embedding_bag(i[:12].reshape(4, 3), w)
    check(calls, torch.randn(7, 5), torch.randint(0, 7, (13,)), torch.tensor([0, 4, 4, 9, 13]), torch.rand(13))


def test_sampled_volumes() -> None:
    calls: dict[str, Call] = {
        f"{mode} {padding} {corners}": lambda x, g, mode=mode, padding=padding, corners=corners: F.grid_sample(
            x, g, mode, padding, align_corners=corners
        )
        for mode in ("bilinear", "nearest")
        for padding in ("zeros", "border", "reflection")
        for corners in (True, False)
    }
    check(calls, torch.randn(2, 3, 4, 5, 7), torch.rand(2, 3, 1, 4, 3) * 5 - 2.5)


def test_linear_algebra() -> None:
    def positive(a: Any) -> Any:
        return a @ a.mT + torch.eye(5)

    calls = {
        "inv": lambda a, b: torch.linalg.inv(a),
        "solve": lambda a, b: torch.linalg.solve(a, b),
        "solve from the right": lambda a, b: torch.linalg.solve(a, b.mT, left=False),
        "det": lambda a, b: torch.linalg.det(a),
        "slogdet": lambda a, b: torch.linalg.slogdet(a),
        "cholesky": lambda a, b: torch.linalg.cholesky(positive(a)),
        "cholesky_solve": lambda a, b: torch.cholesky_solve(
            b, torch.linalg.cholesky(positive(a), upper=True), upper=True
        ),
        "triangular": lambda a, b: torch.linalg.solve_triangular(a.triu() + 3 * torch.eye(5), b, upper=True),
        "unit": lambda a, b: torch.linalg.solve_triangular(a / 4, b.mT, upper=False, left=False, unitriangular=True),
        "qr": lambda a, b: [torch.linalg.qr(b, mode) for mode in ("reduced", "complete", "r")],
        "lu": lambda a, b: torch.linalg.lu(a),
    }
    check(calls, torch.randn(2, 5, 5, dtype=torch.float64), torch.randn(2, 5, 3, dtype=torch.float64), tolerance=1e-9)


def factored(x: Any) -> Any:
    """The numbers of decompositions that phases of their vectors do not change."""
    u, s, vh = torch.linalg.svd(x, full_matrices=False)
    return s, (u * s.unsqueeze(-2)) @ vh, u.mH @ u


DECOMPOSITIONS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "svd": (factored, (5, 3)),
    "pinv": (lambda x: (torch.linalg.pinv(x), torch.linalg.pinv(x @ x.mH, rtol=1e-3, hermitian=True)), (3, 5)),
    "eigh": (
        lambda x: [w for u in "LU" for w in (torch.linalg.eigvalsh(x, UPLO=u), projector(*torch.linalg.eigh(x, u)))],
        (4, 4),
    ),
    "eig": (lambda x: (powers(torch.linalg.eigvals(x)), residual(x, *torch.linalg.eig(x))), (2, 4, 4)),
    "matrix_exp": (lambda x: torch.linalg.matrix_exp(x * 3), (4, 4)),
    "qr": (torch.linalg.qr, (4, 4)),
    "lu": (lambda x: (*torch.linalg.lu(x), *torch.linalg.lu_factor(x)), (3, 5)),
    "lu of tall ones": (lambda x: (*torch.linalg.lu(x), *torch.lu_unpack(*torch.linalg.lu_factor(x))), (5, 3)),
    "reflectors": (lambda x: (*torch.geqrf(x), torch.linalg.householder_product(*torch.geqrf(x))), (5, 3)),
    "ormqr": (lambda x: [torch.ormqr(*torch.geqrf(x), x, t, u) for t, u in ((True, True), (True, False))], (5, 3)),
    "info": (
        lambda x: (torch.linalg.inv_ex(x), torch.linalg.cholesky_ex(x @ x.mH), torch.linalg.lu_factor_ex(x)),
        (3, 3),
    ),
    "tensorinv": (lambda x: torch.linalg.tensorinv(x.reshape(2, 2, 4), ind=2), (4, 4)),
    "logsumexp": (lambda x: (torch.logsumexp(x * 9, 0), torch.logcumsumexp(x * 9, 1)), (4, 5)),
}


def powers(values: Any) -> Any:
    """Sums of powers, which the order of eigenvalues does not change."""
    return [(values**k).sum(-1) for k in (1, 2, 3)]


def residual(x: Any, values: Any, vectors: Any) -> Any:
    return x.to(vectors.dtype) @ vectors - vectors * values.unsqueeze(-2), vectors.norm(dim=-2)


def test_copies_of_views() -> None:
    aten, z = torch.ops.aten, torch.randn(3, 2, dtype=torch.complex64)
    calls: dict[str, Call] = {
        "detach": lambda x, z: aten.detach_copy.default(x),
        "alias": lambda x, z: aten.alias_copy.default(x),
        "bits": lambda x, z: aten.view_copy.dtype(x, torch.int32),
        "unsqueeze": lambda x, z: aten.unsqueeze_copy.default(x, -1),
        "squeeze": lambda x, z: aten.squeeze_copy.default(x),
        "squeeze_dim": lambda x, z: [aten.squeeze_copy.dim(x, 1), aten.squeeze_copy.dim(x, 0)],
        "squeeze_dims": lambda x, z: aten.squeeze_copy.dims(x, [0, -2]),
        "transpose": lambda x, z: aten.transpose_copy.int(x, 0, -1),
        "t": lambda x, z: aten.t_copy.default(x[0]),
        "narrow": lambda x, z: [aten.narrow_copy.default(x, 2, -2, 2), aten.narrow_copy.default(x, 2, 5, 0)],
        "split": lambda x, z: aten.split_copy.Tensor(x, 3, 2),
        "unfold": lambda x, z: aten.unfold_copy.default(x, 2, 3, 2),
        "reshape": lambda x, z: [
            aten._reshape_copy.default(x, [5, 3]),
            aten._reshape_alias_copy.default(x, [5, 3], [3, 1]),
        ],
        "neg": lambda x, z: aten._neg_view_copy.default(x),
        "conj": lambda x, z: torch.view_as_real(aten._conj_copy.default(z).resolve_conj()),
    }
    check(calls, torch.randn(3, 1, 5), z)


def projector(values: Any, vectors: Any) -> Any:
    return (vectors * values.unsqueeze(-2)) @ vectors.mH


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("name", DECOMPOSITIONS)
def test_decompositions(name: str, dtype: torch.dtype) -> None:
    function, shape = DECOMPOSITIONS[name]
    check({name: function}, torch.randn(*shape, dtype=dtype), tolerance=1e-8)


def test_the_number_of_a_pivot_that_fails() -> None:
    """LAPACK's `info`: 0, or the first pivot that is 0, or for Cholesky's factor not positive."""
    singular = torch.tensor([[[1.0, 2, 3], [2, 4, 6], [0, 0, 0]], [[2, 0, 0], [0, 1, 0], [0, 0, 3]]])
    indefinite = torch.tensor([[[1.0, 0, 0], [0, -1, 0], [0, 0, 1]], [[2, 0, 0], [0, 1, 0], [0, 0, 3]]])
    check(
        {"inv": lambda a, b: torch.linalg.inv_ex(a)[1], "cholesky": lambda a, b: torch.linalg.cholesky_ex(b)[1]},
        singular,
        indefinite,
    )


def test_draws_are_of_their_distribution() -> None:
    weights = torch.tensor([[0.0, 1.0, 3.0], [5.0, 0.0, 5.0]])

    def draw(w: Any) -> Any:
        return [
            torch.multinomial(w, 1000, replacement=True),
            torch.multinomial(w, 2),
            F.rrelu(-w, 0.2, 0.4, training=True),
        ]

    torch.manual_seed(5)
    many, two, slopes = compile_module(Calls({"draw": draw}), (weights,))(weights)["draw"]
    assert torch.bincount(many[0], minlength=3)[0] == 0 == torch.bincount(many[1], minlength=3)[1]
    assert 650 < (many[0] == 2).sum() < 850 and 400 < (many[1] == 0).sum() < 600
    assert sorted(two[0].tolist()) == [1, 2] and sorted(two[1].tolist()) == [0, 2]
    assert ((slopes <= -0.2 * weights) & (slopes >= -0.4 * weights)).all()
