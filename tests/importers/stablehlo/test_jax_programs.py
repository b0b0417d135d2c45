"""Programs of JAX through jax.export and burn.load: loops, models of flax and equinox, all ops of the dialects."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import burn
from burn.dialect.query import erase_dead
from burn.dialect.text import to_text
from burn.importers.stablehlo.build import import_stablehlo
from burn.importers.stablehlo.complexes import COMPLEX
from burn.importers.stablehlo.node import REFUSED, RULES
from burn.importers.stablehlo.ops import load_rules

jax = pytest.importorskip("jax")
from jax import export, lax  # noqa: E402
from jax import numpy as jnp  # noqa: E402

SIZES = (1, 4)


def exported(function: Callable[..., Any], *shapes: Sequence[int | str]) -> Any:
    scope = export.SymbolicScope()
    specs = [
        jax.ShapeDtypeStruct(export.symbolic_shape(", ".join(map(str, shape)), scope=scope), jnp.float32)
        for shape in shapes
    ]
    return export.export(jax.jit(function))(*specs)


def agrees(function: Callable[..., Any], *shapes: Sequence[int | str], tolerance: float = 2e-6) -> None:
    """burn gives JAX's numbers for every size."""
    found = exported(function, *shapes)
    model = burn.load(bytes(found.serialize()), cache=False)
    for n in SIZES:
        rng = np.random.default_rng(n)
        args = [rng.standard_normal([d if isinstance(d, int) else n for d in shape]).astype("f4") for shape in shapes]
        want = jax.tree_util.tree_leaves(found.call(*args))
        have = model(*args)
        for a, b in zip(have if isinstance(have, (list, tuple)) else [have], want, strict=True):
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), atol=tolerance, rtol=tolerance)


def test_every_op_has_a_rule_or_a_reason() -> None:
    load_rules()
    terminators = {"stablehlo.return"}
    for dialect, count in (("stablehlo", 117), ("chlo", 51)):
        module = importlib.import_module(f"jaxlib.mlir.dialects.{dialect}")
        classes = [c for c in vars(module).values() if inspect.isclass(c)]
        names = {str(getattr(c, "OPERATION_NAME", "")) for c in classes}
        names = {name for name in names if name.startswith(f"{dialect}.")}
        assert len(names) >= count
        assert not names - set(RULES) - set(COMPLEX) - set(REFUSED) - terminators


def test_a_scan_stacks_its_rows() -> None:
    """The loop of lax.scan writes one row of the result in each iteration: no iteration copies the whole result."""

    def both(x: Any) -> Any:
        step = lambda c, y: (jnp.tanh(c + y), c * 2)  # noqa: E731
        return lax.scan(step, jnp.zeros(3), x), lax.scan(step, jnp.zeros(3), x, reverse=True)

    program = import_stablehlo(bytes(exported(both, ("n", 3)).serialize()))
    erase_dead(program.block)
    text = to_text(program)
    assert text.count("scans = 1") == 2 and "burn.scatter" not in text
    agrees(both, ("n", 3))


def test_a_loop_that_reads_what_it_writes_carries_it() -> None:
    def running(x: Any) -> Any:
        return lax.fori_loop(1, x.shape[0], lambda i, v: v.at[i].add(v[i - 1]), x), lax.fori_loop(
            0, x.shape[0], lambda i, v: v.at[i].set(v[0] + 1), x
        )

    agrees(running, ("n", 3))


@pytest.mark.slow
def test_loops_and_choices() -> None:
    def function(x: Any) -> Any:
        grown = lax.while_loop(lambda v: jnp.sum(v) < 50, lambda v: v + jnp.abs(v) + 1, x)
        chosen = lax.cond(jnp.sum(x) > 0, lambda v: v * 2, lambda v: v - 1, x)
        return grown, chosen, lax.switch(jnp.int32(jnp.sum(x) * 3), [jnp.sin, jnp.cos, jnp.tanh], x)

    agrees(function, ("n", 3))


@pytest.mark.slow
def test_decompositions() -> None:
    """LAPACK's calls: Cholesky, LU, QR, triangular systems, eigenvalues, singular values."""

    def function(x: Any) -> Any:
        square = x @ x.mT + 5 * jnp.eye(3)
        q, r = jnp.linalg.qr(x)
        return (
            jnp.linalg.cholesky(square),
            jax.scipy.linalg.lu(square),
            q @ r,
            r,
            jnp.linalg.solve(square, x),
            jnp.linalg.eigvalsh(square),
            jnp.linalg.svd(x, compute_uv=False),
        )

    agrees(function, (3, 4), tolerance=1e-4)


@pytest.mark.slow
def test_a_layer_of_flax() -> None:
    linen = pytest.importorskip("flax.linen")

    class Model(linen.Module):  # type: ignore[misc]
        @linen.compact
        def __call__(self, x: Any) -> Any:
            x = linen.relu(linen.Conv(4, (3, 3))(x))
            x = linen.max_pool(x, (2, 2), (2, 2)).reshape(x.shape[0], -1)
            x = linen.LayerNorm()(linen.Dense(8)(x))
            return linen.softmax(linen.Dense(3)(linen.gelu(x)))

    model = Model()
    parameters = model.init(jax.random.key(0), jnp.zeros((1, 6, 6, 2)))
    agrees(lambda x: model.apply(parameters, x), ("n", 6, 6, 2))


@pytest.mark.slow
def test_a_transformer_layer_of_flax() -> None:
    linen = pytest.importorskip("flax.linen")
    layer = linen.MultiHeadDotProductAttention(2)
    parameters = layer.init(jax.random.key(0), jnp.zeros((1, 5, 8)))
    agrees(lambda x: x + layer.apply(parameters, x, mask=linen.make_causal_mask(x[..., 0])), ("n", 5, 8))


@pytest.mark.slow
def test_a_model_of_equinox() -> None:
    equinox = pytest.importorskip("equinox")
    model = equinox.nn.MLP(4, 3, 8, 2, key=jax.random.key(0))
    cell = equinox.nn.GRUCell(3, 5, key=jax.random.key(1))

    def function(x: Any) -> Any:
        rows = jax.vmap(model)(x)
        return rows, lax.scan(lambda h, y: (cell(y, h), h), jnp.zeros(5), rows)

    agrees(function, ("n", 4))


@pytest.mark.slow
def test_gradients_of_jax() -> None:
    def loss(w: Any, x: Any) -> Any:
        pooled = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2), (1, 2), "VALID")
        return jnp.sum(jax.nn.softmax(jnp.tanh(pooled @ w), -1) ** 2)

    agrees(jax.grad(loss, (0, 1)), (3, 2), ("n", 6))


@pytest.mark.slow
def test_random_numbers_are_those_of_jax() -> None:
    def function(x: Any) -> Any:
        key = jax.random.key(7)
        return jax.random.uniform(key, x.shape), jax.random.permutation(key, 8).astype(jnp.float32)

    agrees(function, ("n", 3), tolerance=0)


@pytest.mark.slow
def test_fourier_transforms() -> None:
    agrees(
        lambda x: (jnp.abs(jnp.fft.fft(x)), jnp.fft.irfft(jnp.fft.rfft(x) * 2), jnp.fft.ifft(jnp.fft.fft(x)).real),
        ("n", 8),
        tolerance=1e-5,
    )
