"""Compiled programs as calls of XLA's foreign function interface, with burn's derivative."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import burn
from burn import nn
from burn.errors import CompileError, InputError

os.environ.setdefault("JAX_PLATFORMS", "cpu")
jax = pytest.importorskip("jax")
jnp = jax.numpy

from burn.deploy.xla import to_jax  # noqa: E402  imports jax


def near(have: Any, want: Any) -> None:
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), have, want)


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


def rows_of(table: burn.Tensor, i: burn.Tensor, scale: burn.Tensor) -> tuple[burn.Tensor, burn.Tensor]:
    rows = burn.tanh(table)[i] * scale
    return rows.sum(axis=-1), i + 1


def expected(table: Any, i: Any, scale: Any) -> Any:
    return jnp.sum(jnp.tanh(table)[i] * scale, axis=-1), i + 1


def test_values_derivatives_and_errors() -> None:
    """Two results, an operand of whole numbers, three named sizes, in one program and its derivative."""
    function = to_jax(rows_of, ("float32[n, d]", "int32[m]", "float32[d]"))
    for n, m, d in ((5, 3, 4), (1, 7, 2), (4, 0, 3), (2, 3, 1)):
        given = normal(n, d), np.arange(m, dtype=np.int32) % n, normal(d)
        near(jax.jit(function)(*given), expected(*given))
        near(function(*given), expected(*given))

    def loss(f: Any) -> Any:
        return lambda table, i, scale: jnp.sum(f(table, i, scale)[0] ** 2)

    given = normal(5, 3), np.array([0, 4, 4, 1], np.int32), normal(3)
    of_burn, of_jax = (jax.jit(jax.value_and_grad(loss(f), (0, 2))) for f in (function, expected))
    near(of_burn(*given), of_jax(*given))
    several = np.stack([given[1], given[1][::-1]])
    axes = (None, 0, None)
    near(jax.vmap(function, axes)(given[0], several, given[2]), jax.vmap(expected, axes)(given[0], several, given[2]))
    by_row = (jax.vmap(jax.grad(loss(f)), axes)(given[0], several, given[2]) for f in (function, expected))
    near(*by_row)
    with pytest.raises(jax.errors.JaxRuntimeError, match="index 9 is out of range"):
        jax.block_until_ready(function(given[0], np.array([0, 9], np.int32), given[2]))
    with pytest.raises(InputError, match="axis 0 has size 2, not 3"):
        function(given[0], given[1], given[2][:2])
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jvp(lambda t: function(t, given[1], given[2])[0], (given[0],), (given[0],))
    from jax import export

    with pytest.raises(InputError, match="a size is symbolic"):
        n = jax.ShapeDtypeStruct(export.symbolic_shape("n, 3"), jnp.float32)
        export.export(jax.jit(lambda t: function(t, given[1], given[2])))(n)


def test_what_is_refused() -> None:
    with pytest.raises(CompileError, match="it draws random numbers"):
        to_jax(lambda x: x + burn.random.normal((3,)), ("float32[3]",))
    with pytest.raises(CompileError, match=r"the size of output '.*' depends on elements"):
        to_jax(lambda x: burn.nonzero(x)[0], ("float32[3]",))
    with pytest.raises(CompileError, match="has elements that XLA does not have: string"):
        to_jax(lambda x: x.astype("string"), ("float32[3]",))


@pytest.mark.slow
def test_a_module_trained_by_jax() -> None:
    """A module's parameters are JAX's: `jax.grad` by them, and float64, bool and bfloat16 operands."""
    net = nn.Sequential(nn.Linear(3, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 1))
    called, plain = (of(net, ("float32[n, 3]",), parameters=True) for of in (to_jax, burn.to_jax))

    def loss(f: Any) -> Any:
        return lambda p, x: jnp.mean((f(p, x) - x.sum(1, keepdims=True)) ** 2)

    x = normal(16, 3)
    near(*(jax.value_and_grad(loss(f))(p, x) for f, p in (called, plain)))

    def mixed(x: burn.Tensor, m: burn.Tensor, h: burn.Tensor) -> tuple[burn.Tensor, ...]:
        return burn.where(m, x, -x), ~m, h * 2, (x > 0).astype("uint8")

    function = to_jax(mixed, ("float64[n]", "bool[n]", "bfloat16[n]"))
    with jax.enable_x64(True):
        x, m, h = jnp.linspace(-1, 1, 5), jnp.arange(5) % 2 == 0, jnp.arange(5, dtype=jnp.bfloat16)
        near(jax.jit(function)(x, m, h), (jnp.where(m, x, -x), ~m, h * 2, (x > 0).astype(jnp.uint8)))


def test_nothing_imports_jax_otherwise() -> None:
    """JAX is an extra: burn, its commands and its models work where it cannot be imported."""
    code = """
import sys
sys.modules.update(dict.fromkeys(("jax", "jaxlib", "flax", "equinox", "optax", "orbax", "haiku", "tensorstore", "msgpack")))
import pkgutil, importlib
import numpy as np
from click.testing import CliRunner
import burn, burn.cli, burn.train, burn.deploy.build, burn.importers.weights, burn.exporters.stablehlo
run = burn.compile(lambda x: burn.tanh(x) * 2, ("float32[n]",))
assert run(np.zeros(3, np.float32)).tolist() == [0, 0, 0]
for found in pkgutil.iter_modules(burn.cli.__path__):
    module = importlib.import_module(f"burn.cli.{found.name}")
    if hasattr(module, "main") and hasattr(module.main, "make_context"):
        result = CliRunner().invoke(module.main, ["--help"])
        assert result.exit_code == 0, (found.name, result.output)
for call, text in (
    (lambda: burn.from_jax(lambda x: x), "jax"),
    (lambda: burn.to_jax(lambda x: x, ("float32[3]",)), "jax"),
    (lambda: burn.compile(lambda x: x, ("float32[3]",), device="xla"), "jax"),
):
    try:
        call()
    except (burn.BurnError, ImportError) as error:
        assert text in str(error), error
    else:
        raise AssertionError(text)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
