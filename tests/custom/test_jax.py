"""Custom ops as primitives of JAX: in JAX itself, in functions that burn imports, and in functions that burn makes for JAX."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burn
from tests.custom.table import GAIN, X, expected, made

jax = pytest.importorskip("jax")


KINDS = ["C source", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("burn functions", "Python callable"))]


def mixed() -> Any:
    """Two results, and an operand of integers."""
    op = burn.custom_op(
        "tests::jmixed", "float32[n, k], int32[m] -> float32[m, k], int32[m]", attributes={"by": (1.0, 2.0)}
    )
    op.python(lambda x, i, by: (x[i] * np.float32(sum(by)), i + 1))
    op.vjp(lambda g, y, x, i, by: ((x * 0).at[i].add(g[0] * sum(by)), None))
    return op


@pytest.mark.parametrize("kind", KINDS)
def test_in_jax_itself(kind: str) -> None:
    f = made(kind).jax()
    np.testing.assert_allclose(f(X, gain=GAIN), expected(X), rtol=1e-6)
    np.testing.assert_allclose(jax.jit(lambda x: f(x + 1, gain=GAIN) * 2)(X), 2 * expected(X + 1), rtol=1e-6)
    gradient = jax.jit(jax.grad(lambda x: f(x, gain=GAIN).sum()))
    np.testing.assert_allclose(gradient(X), 2 * GAIN * X, rtol=1e-6)
    batch = np.stack([X, X + 1, X * 2])
    np.testing.assert_allclose(jax.vmap(lambda x: f(x, gain=GAIN))(batch), expected(batch), rtol=1e-6)
    np.testing.assert_allclose(jax.vmap(jax.grad(lambda x: f(x, gain=GAIN).sum()))(batch), batch, rtol=1e-6)


def test_several_results_and_integers() -> None:
    f = mixed().jax()
    x, i = np.arange(6, dtype=np.float32).reshape(3, 2), np.array([2, 0, 2], np.int32)
    for function in (f, burn.from_jax(f)):
        y, j = function(x, i)
        np.testing.assert_array_equal(np.asarray(y), 3 * x[i])
        np.testing.assert_array_equal(np.asarray(j), i + 1)
    want = np.array([[3, 3], [0, 0], [6, 6]], np.float32)
    loss = lambda x, i: f(x, i)[0].sum()  # noqa: E731
    np.testing.assert_array_equal(jax.grad(loss)(x, i), want)
    np.testing.assert_array_equal(burn.grad(burn.from_jax(loss))(x, i).numpy(), want)
    rows = jax.vmap(f, in_axes=(None, 0))(x, i[:, None])[0]
    np.testing.assert_array_equal(rows, 3 * x[i][:, None])


def test_a_cotangent_that_is_missing_is_zero_for_infinite_elements() -> None:
    """Of a result that nothing uses, and of an operand for which the rule returns None."""
    op = burn.custom_op("tests::jinfinite", "float32[n], float32[n] -> float32[n], float32[n]")
    op.python(lambda x, z: (x + 1, z + x))
    op.vjp(lambda g, y, x, z: (g[0] + g[1], None))
    x, z = np.array([np.inf, 1, -np.inf], np.float32), np.array([np.inf, np.nan, 0], np.float32)
    for function, grad in ((op.jax(), jax.grad), (burn.from_jax(op.jax()), burn.grad), (op, burn.grad)):
        loss = lambda x, z, function=function: function(x, z)[0].sum()  # noqa: E731
        for number, want in ((0, [1, 1, 1]), (1, [0, 0, 0])):
            np.testing.assert_array_equal(np.asarray(grad(loss, argnums=number)(x, z)), want)


@pytest.mark.parametrize("kind", KINDS)
def test_imported(kind: str) -> None:
    """The op is one op of burn's program, with its derivative."""
    op = made(kind)
    f = op.jax()
    imported = burn.from_jax(lambda x: jax.numpy.sin(f(x * 2, gain=GAIN)).sum())
    x = X[:5]
    np.testing.assert_allclose(burn.jit(imported)(x), np.sin(expected(2 * x)).sum(), rtol=1e-5)
    np.testing.assert_allclose(
        burn.jit(burn.grad(imported))(x), np.cos(expected(2 * x)) * 8 * GAIN * x, rtol=1e-4, atol=1e-5
    )
    by_jax = burn.from_jax(jax.grad(lambda x: (f(x, gain=GAIN) * x).sum()))
    np.testing.assert_allclose(burn.jit(by_jax)(x), 3 * GAIN * x**2, rtol=1e-5)


def test_named_sizes() -> None:
    f = made("C source").jax()
    program = burn.compile(jax.jit(lambda x: f(x, gain=GAIN) + 1), ("float32[n]",))
    for size in (1, 4, 7):
        np.testing.assert_allclose(program(X[:size]), expected(X[:size]) + 1, rtol=1e-6)


def test_a_program_for_jax() -> None:
    """`burn.to_jax`: the primitive. Files of StableHLO hold no call of it."""
    op = made("C source")
    f = burn.to_jax(lambda x: op(x + 1, gain=GAIN) * 2, {"x": "float32[n]"})
    np.testing.assert_allclose(jax.jit(f)(X), 2 * expected(X + 1), rtol=1e-6)
    np.testing.assert_allclose(jax.grad(lambda x: f(x).sum())(X), 4 * GAIN * (X + 1), rtol=1e-6)
    assert "burn_custom" in str(jax.make_jaxpr(f)(X))
    again = burn.from_jax(f)
    np.testing.assert_allclose(burn.jit(again)(X), 2 * expected(X + 1), rtol=1e-6)


@pytest.mark.parametrize(
    "suffix", [".mlir", *(pytest.param(s, marks=pytest.mark.slow) for s in (".stablehlo", ".jax"))]
)
def test_files_of_stablehlo(suffix: str, tmp_path: Path) -> None:
    native, functions = made("C source"), made("burn functions")
    with pytest.raises(
        burn.CompileError, match=r"tests\.table::square has no body of burn functions, only a function in C"
    ):
        burn.export(lambda x: native(x), tmp_path / f"m{suffix}", {"x": "float32[4]"})
    assert not list(tmp_path.iterdir())
    burn.export(lambda x: functions(x, gain=GAIN), tmp_path / f"m{suffix}", {"x": "float32[4]"})
    np.testing.assert_allclose(burn.load(tmp_path / f"m{suffix}")(X[:4]), expected(X[:4]), rtol=1e-6)


def test_errors() -> None:
    f = made("C source").jax()
    with pytest.raises(burn.TypeMismatch, match=r"tests\.table::square.*operand 0 is float32\[2, 2\]"):
        f(np.ones((2, 2), np.float32))
    with pytest.raises(burn.TypeMismatch, match="it has no attribute 'again'"):
        f(X, again=1)
    wide = burn.custom_op("tests::jwide", "float32[n] -> float64[n]")
    wide.python(lambda x: x.astype(np.float64))
    with pytest.raises(burn.TypeMismatch, match=r"tests::jwide.*result 0 is float64, and JAX computes in 32 bits"):
        wide.jax()(X)
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"tests\.table::square.*it has no body for the target"):
        made("Triton kernel").jax()(X).block_until_ready()
    failing = burn.custom_op("tests::jfail", "float32[n] -> float32[n]")
    failing.python(lambda x: {}["mine"])
    with pytest.raises(Exception, match="mine"):
        jax.block_until_ready(failing.jax()(X))
