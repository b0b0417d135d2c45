"""Programs of JAX that have no meaning in a compiled program: one error names each primitive and the user's line."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import burn
from burn.errors import BurnError, ModelError, TypeMismatch

VECTOR = jax.ShapeDtypeStruct((4,), np.float32)


def message(function: Callable[..., Any], *types: str) -> str:
    with pytest.raises(BurnError) as caught:
        burn.compile(jax.jit(function), types, cache=False)
    return str(caught.value)


def _pallas(x: Any) -> Any:
    from jax.experimental import pallas

    def kernel(i: Any, o: Any) -> None:
        o[...] = i[...]

    return pallas.pallas_call(kernel, out_shape=VECTOR, interpret=True)(x)


CASES: dict[str, tuple[Callable[..., Any], str]] = {
    "pure_callback": (lambda x: jax.pure_callback(np.sin, VECTOR, x), "cannot call Python"),
    "io_callback": (lambda x: jax.experimental.io_callback(np.sin, VECTOR, x), "cannot call Python"),
    "debug_callback": (lambda x: (jax.debug.callback(print, x), x)[1], "cannot call Python"),
    "debug_print": (lambda x: (jax.debug.print("{}", x), x)[1], "burn.debug.print"),
    "ffi_call": (lambda x: jax.ffi.ffi_call("mine", VECTOR)(x), "XLA's"),
    "new_ref": (lambda x: jax.new_ref(x)[...], "mutable"),
    "rng_uniform": (lambda x: x + lax.rng_uniform(0.0, 1.0, (4,)), "jax.random"),
    "pallas_call": (_pallas, "Pallas"),
    "schur": (lambda x: lax.linalg.schur(x[:, None] * x)[0], "does not have this decomposition"),
}


@pytest.mark.parametrize("name", CASES)
def test_each_primitive_is_named_with_its_line(name: str) -> None:
    function, reason = CASES[name]
    text = message(function, "float32[4]")
    lines, first = inspect.getsourcelines(function)
    assert name in text and reason in text
    assert any(f"test_refused.py:{line}" in text for line in range(first, first + len(lines))), text


def test_everything_is_listed_at_once_from_inside_of_loops_and_branches() -> None:
    def program(x: Any) -> Any:
        def body(c: Any, r: Any) -> Any:
            c = c + jax.pure_callback(np.sin, jax.ShapeDtypeStruct((), np.float32), r)
            return c, c

        y = lax.scan(body, 0.0, x)[1]
        z = lax.cond(y.sum() > 0, lambda v: lax.linalg.schur(v[:, None] * v)[0][0], lambda v: v, y)
        jax.debug.print("{}", z)
        return jax.jit(lambda v: jax.experimental.io_callback(np.sin, VECTOR, v))(z)

    text = message(program, "float32[4]")
    _, first = inspect.getsourcelines(program)
    for name, offset in {"pure_callback": 2, "schur": 6, "debug_print": 7, "io_callback": 8}.items():
        assert f"{name}: is not supported; used 1 time in test_refused.py:{first + offset}" in text, text


def test_a_callback_in_a_derivative() -> None:
    @jax.custom_vjp
    def own(x: Any) -> Any:
        return x

    own.defvjp(lambda x: (x, None), lambda _, c: (jax.pure_callback(np.sin, VECTOR, c),))
    with pytest.raises(ModelError, match=r"pure_callback.*test_refused\.py"):
        burn.compile(burn.grad(burn.from_jax(lambda x: own(x).sum())), ("float32[4]",))


@pytest.mark.parametrize("spec", ["float64[4]", "complex128[4]"])
def test_types_of_inputs(spec: str) -> None:
    with pytest.raises(TypeMismatch, match=r"node 'angle'.*jax_enable_x64"):
        burn.compile(jax.jit(lambda angle: angle), (spec,), cache=False)


def test_float64_with_x64() -> None:
    with jax.enable_x64(True):
        compiled = burn.compile(jax.jit(lambda x: x * 2), ("float64[2]",), cache=False)
    assert compiled(np.ones(2)).dtype == np.float64


def test_errors_of_a_rule_name_the_users_line() -> None:
    """The primitive is inside of a function of JAX, which has no line of the user's."""
    function = lambda x: jnp.linalg.svd(x, subset_by_index=(0, 1), full_matrices=False)  # noqa: E731  one line to find
    text = message(function, "float32[3, 3]")
    assert f"test_refused.py:{inspect.getsourcelines(function)[1]}" in text and "subset_by_index" in text


def test_small_integers_of_floats() -> None:
    x = np.array([-9.0, -8.0, -1.5, 7.2, 9.0, np.nan], np.float32)
    function = jax.jit(lambda x: x.astype("int4").astype("int32"))
    have = burn.compile(function, (x,), cache=False)(x)
    np.testing.assert_array_equal(have, [-8, -8, -1, 7, 7, 0])
