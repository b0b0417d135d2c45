"""Complex numbers in JAX programs: pairs of real values inside, pairs [.., 2] in a program's inputs and
outputs.

The sweep draws them like other types: `python -m tests.jax.sweep --only all. --dtypes complex64,complex128 --together`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import burn
from burn.errors import InputError, TypeMismatch
from tests.jax import accuracy

Rng = np.random.Generator


def drawn(rng: Rng, *shape: int) -> Any:
    return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(np.complex64)


def positive(a: Any) -> Any:
    return a @ jnp.conj(jnp.swapaxes(a, -1, -2)) + jnp.eye(a.shape[-1], dtype=a.dtype)


def real_dot(a: Any, b: Any) -> Any:
    """A contraction of complex numbers into float32."""
    return lax.dot_general(a, b, (((1,), (0,)), ((), ())), preferred_element_type=jnp.float32)


def _svd(a: Any) -> Any:
    u, s, v = jnp.linalg.svd(a, full_matrices=False)
    return s, (u * s[..., None, :]) @ v, jnp.conj(jnp.swapaxes(u, -1, -2)) @ u


def _eigh(a: Any) -> Any:
    w, v = jnp.linalg.eigh(positive(a))
    return w, (v * w[..., None, :]) @ jnp.conj(jnp.swapaxes(v, -1, -2))


def _qr(a: Any) -> Any:
    q, r = jnp.linalg.qr(a)
    return jnp.abs(r), q @ r, jnp.conj(q.T) @ q


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "arithmetic": (
        lambda a, b: (a * b - 2j, a / b, a**3, a**-1, a**b, a ** jnp.arange(4), -a, jnp.conj(a)),
        ((3, 4), (3, 4)),
    ),
    "moves": (
        lambda a: (a.T[::-1], jnp.pad(a, 1), jnp.where(a.real > 0, a, 1j), a.reshape(-1)[2:9:3], jnp.tile(a, 2)),
        ((3, 4),),
    ),
    "conversions": (
        lambda a: (a.astype(bool), a.real, a.imag, a.real.astype(complex), a.astype(jnp.complex64)),
        ((5,),),
    ),
    "comparisons": (lambda a, b: (a == b, a != a, jnp.maximum(a, b), jnp.minimum(a, b), a < b), ((9,), (9,))),
    "reductions": (lambda a: (a.sum(0), a.prod(1), a.max(), a.min(0), jnp.cumsum(a, 1), jnp.cumprod(a, 0)), ((3, 5),)),
    "sorts": (lambda a: (jnp.sort(a), jnp.argsort(a), jnp.unique(a, size=5)), ((11,),)),
    "contractions": (
        lambda a, b: (a @ b, jnp.vdot(a, a), lax.dot(a, b.real.astype(a.dtype)), real_dot(a, b), real_dot(a.real, b)),
        ((3, 4), (4, 2)),
    ),
    "convolution": (lambda a, b: lax.conv(a, b, (1, 1), "SAME"), ((1, 2, 5, 5), (3, 2, 3, 3))),
    "indices": (
        lambda a: (a[jnp.array([0, 9, -2])], a.at[jnp.array([0, 1, 1])].multiply(2j), a.at[1].add(1j).at[0].max(1j)),
        ((7,),),
    ),
    "windows": (
        lambda a: (
            lax.reduce_window(a, 0j, lax.add, (2,), (1,), "SAME"),
            lax.reduce_window(a, 1 + 0j, lax.mul, (3,), (2,), "VALID"),
        ),
        ((8,),),
    ),
    "loops": (
        lambda a: (
            lax.scan(lambda c, x: (c * x + 1j, c), a[0], a, reverse=True),
            lax.fori_loop(0, 5, lambda i, c: c * 1j + a[0], a[0]),
        ),
        ((4, 3),),
    ),
    "branches": (lambda a: lax.cond(a[0].real > 0, lambda x: (x * 2, x.real), lambda x: (-x, x.imag), a), ((3,),)),
    "fourier": (
        lambda a: (
            jnp.fft.fft(a),
            jnp.fft.ifft2(a),
            jnp.fft.rfft(a.real, 7),
            jnp.fft.irfft(a),
            jnp.fft.irfftn(a, (4, 6)),
        ),
        ((3, 5),),
    ),
    "solve": (lambda a, b: (jnp.linalg.solve(a, b), jnp.linalg.inv(a), jnp.linalg.slogdet(a)), ((5, 5), (5, 2))),
    "cholesky": (lambda a: jnp.linalg.cholesky(positive(a)), ((2, 4, 4),)),
    "triangles": (
        lambda a, b: [
            lax.linalg.triangular_solve(a, b, left_side=left, lower=low, transpose_a=t, conjugate_a=t)
            for left in (True, False)
            for low in (True, False)
            for t in (True, False)
        ],
        ((3, 3), (3, 3)),
    ),
    "qr": (_qr, ((5, 3),)),
    "eigh": (_eigh, ((2, 4, 4),)),
    "svd": (_svd, ((3, 5),)),
    "tall svd": (_svd, ((2, 5, 3),)),
    "reflectors": (lambda a: (lax.linalg.hessenberg(a), lax.linalg.tridiagonal(positive(a))[1:3]), ((5, 5),)),
    "derivative": (jax.grad(lambda x: jnp.sum(jnp.abs(jnp.fft.fft(x * (1 + 2j))) ** 2)), ((6,),)),
}


QUICK_PROGRAMS = (
    "comparisons",
    "conversions",
    "derivative",
    "fourier",
    "indices",
    "loops",
    "moves",
    "reductions",
    "sorts",
)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK_PROGRAMS else pytest.mark.slow) for n in PROGRAMS]
)
def test_programs(name: str) -> None:
    function, shapes = PROGRAMS[name]
    rng = np.random.default_rng(sum(map(ord, name)))
    operands = [drawn(rng, *shape) for shape in shapes]
    if name == "derivative":
        operands = [operands[0].real]
    want = jax.jit(function)(*operands)
    have = burn.compile(jax.jit(function), tuple(operands), cache=False)(*operands)
    for a, b in zip(jax.tree.leaves(have), jax.tree.leaves(want), strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("shape", [(0, 0), (2, 0, 0), (0, 3), (3, 0)])
def test_matrices_without_elements(shape: tuple[int, ...]) -> None:
    square = shape[-1] == shape[-2]
    functions = [jnp.linalg.qr, jnp.linalg.svd, *((jnp.linalg.slogdet, jnp.linalg.inv) if square else ())]

    def function(a: Any) -> Any:
        return [f(a) for f in functions]

    a = np.zeros(shape, np.complex64)
    want, have = jax.jit(function)(a), burn.compile(jax.jit(function), (a,), cache=False)(a)
    for x, y in zip(jax.tree.leaves(have), jax.tree.leaves(want), strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_array_equal(x, y)


NUMBERS = (0.0, 1.0, -1.0, 0.5, -2.0, np.inf, -np.inf, 1e-5, 1e10, -1e10, 5.0, -100.0, 1e4, 2.5e38)
FUNCTIONS = (
    *(
        "abs",
        "acos",
        "acosh",
        "asin",
        "asinh",
        "atan",
        "atanh",
        "cos",
        "exp",
        "exp2",
        "expm1",
        "log",
        "log1p",
        "logistic",
    ),
    *("sign", "sin", "sqrt", "square", "tan", "tanh"),
)
"""Functions whose values at infinities and on branch cuts are XLA's. Where they are left out, JAX loses a number: sinh and cosh
by exp(x + log 0.5) - exp(-x + log 0.5). Of -0 on a cut JAX has both signs."""
QUICK = ("asin", "atan", "sqrt", "tanh")


def grid(numbers: tuple[float, ...]) -> Any:
    z = np.empty((len(numbers), len(numbers)), np.complex64)
    z.real, z.imag = np.array(numbers)[:, None], np.array(numbers)[None, :]
    return z.reshape(-1)


def differences(function: Callable[..., Any], *operands: Any) -> Iterator[str]:
    """Elements of each result that are not JAX's."""
    want, have = jax.jit(function)(*operands), burn.compile(jax.jit(function), operands, cache=False)(*operands)
    for name in want:
        a, b = np.asarray(want[name]), np.asarray(have[name])
        with np.errstate(all="ignore"):
            near = accuracy.near(a, b, 32 * 1.2e-7 * accuracy.size(a) + 1.2e-38)
        yield from (f"{name}{[x[i] for x in operands]}: {b[i]}, not {a[i]}" for i in np.flatnonzero(~near))


@pytest.mark.parametrize("names", [QUICK, pytest.param(FUNCTIONS, marks=pytest.mark.slow)], ids=["few", "all"])
def test_infinities_and_branch_cuts(names: Sequence[str]) -> None:
    found = list(differences(lambda z: {name: getattr(lax, name)(z) for name in names}, grid(NUMBERS)))
    assert not found, "\n".join(found)


def test_quotients_with_infinities() -> None:
    z = grid((0.0, -0.0, 1.0, -2.0, np.inf, -np.inf, np.nan, 1e30, 1e-30))
    a, b = np.repeat(z, len(z)), np.tile(z, len(z))
    found = list(differences(lambda a, b: {"div": a / b, "max": lax.max(a, b), "min": lax.min(a, b)}, a, b))
    assert not found, "\n".join(found)


# ---- inputs and outputs ------------------------------------------------------------------------------------------------------
def test_arrays_of_jax_and_of_numpy() -> None:
    function = burn.compile(
        jax.jit(lambda z, s: {"turned": z * s, "size": jnp.abs(z)}), ("complex64[n]", 1 + 1j), cache=False
    )
    assert [str(v.type) if hasattr(v, "type") else f"{v.dtype}" for v in function.inputs] == ["float32", "float32"]
    z = drawn(np.random.default_rng(0), 7)
    for n in (0, 1, 7):
        out = function(z[:n], 2j)
        assert type(out["turned"]) is np.ndarray and out["turned"].dtype == np.complex64
        np.testing.assert_allclose(out["turned"], z[:n] * 2j, rtol=1e-6)
    made = function(jnp.asarray(z), 2j)["turned"]
    assert isinstance(made, jax.Array) and made.dtype == jnp.complex64
    np.testing.assert_allclose(function(z[::-1].astype(np.complex128), 1.0)["size"], np.abs(z[::-1]), rtol=1e-6)
    with pytest.raises(InputError, match=r"z.*float32 elements, not complex64"):
        function(z.real, 2j)


def test_wide_numbers_need_x64() -> None:
    with pytest.raises(TypeMismatch, match="say complex64"):
        burn.compile(jax.jit(jnp.conj), ("complex128[3]",), cache=False)
    with jax.enable_x64(True):
        z = drawn(np.random.default_rng(1), 3).astype(np.complex128)
        np.testing.assert_array_equal(burn.compile(jax.jit(jnp.conj), ("complex128[3]",), cache=False)(z), np.conj(z))


def test_jitted_calls_tell_their_types_apart() -> None:
    function = burn.jit(burn.from_jax(lambda z: jnp.abs(z) * 2))
    z = drawn(np.random.default_rng(2), 4)
    np.testing.assert_allclose(function(z), np.abs(z) * 2, rtol=1e-6)
    np.testing.assert_allclose(function(z.real), np.abs(z.real) * 2, rtol=1e-6)
    assert len(function.programs) == 2


def test_lazy_results() -> None:
    z = drawn(np.random.default_rng(3), 4)
    made = burn.from_jax(lambda x: jnp.fft.fft(x))(z.real)
    np.testing.assert_allclose(np.asarray(made), np.fft.fft(z.real), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(burn.from_jax(jnp.abs)(made).numpy(), np.abs(np.fft.fft(z.real)), rtol=1e-4, atol=1e-5)


def test_a_complex_parameter_is_trained_by_its_parts() -> None:
    """The derivative is the pair of those with respect to both parts: a step goes down."""
    z = drawn(np.random.default_rng(4), 3)
    model = burn.compile(
        burn.from_jax(lambda p, x: jnp.sum(jnp.abs(p["w"] * x - 1j) ** 2), {"w": jnp.asarray(z)}),
        ("float32[3]",),
        train=True,
    )
    x = np.array([1.0, 2.0, -0.5], np.float32)
    (parameter,) = dict(model.named_parameters()).values()
    assert parameter.shape == (3, 2)
    gradient = burn.grad(lambda m, x: m(x))(model, burn.constant(x))
    (found,) = gradient.values()
    slope = 2 * x * (z * x - 1j)
    np.testing.assert_allclose(np.asarray(found), np.stack([slope.real, slope.imag], -1), rtol=1e-4, atol=1e-4)
    assert model.parameters_of_jax()["w"].dtype == jnp.complex64


def test_an_exported_program_takes_pairs(tmp_path: Path) -> None:
    ort = pytest.importorskip("onnxruntime")
    burn.export(jax.jit(lambda z: jnp.exp(z) * z), tmp_path / "m.onnx", ("complex64[n, 3]",))
    z = drawn(np.random.default_rng(5), 4, 3)
    (out,) = ort.InferenceSession(str(tmp_path / "m.onnx")).run(None, {"z": np.stack([z.real, z.imag], -1)})
    np.testing.assert_allclose(out[..., 0] + 1j * out[..., 1], np.exp(z) * z, rtol=1e-4, atol=1e-5)
