"""JAX functions in burn.compile, burn.jit, burn.grad and burn.export: how they are recognised and called."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import burn
from burn.errors import InputError, ModelError, TypeMismatch


def same(a: Any, b: Any, bound: float = 1e-5) -> None:
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(np.asarray(x, np.float64), np.asarray(y, np.float64), bound, bound)


def f(x: Any) -> Any:
    return jnp.tanh(x) * 2 + jnp.sum(x, axis=-1, keepdims=True)


def test_arrays_of_jax_in_and_out() -> None:
    compiled = burn.compile(jax.jit(f), ("float32[batch, 3]",))
    for n in (1, 7, 0):
        x = jax.random.normal(jax.random.key(n), (n, 3))
        y = compiled(x)
        assert isinstance(y, jax.Array)
        same(y, f(x))


def test_numpy_in_and_out_and_tensors() -> None:
    compiled = burn.compile(jax.jit(f), (np.zeros((2, 3), np.float32),))
    x = np.ones((2, 3), np.float32)
    assert isinstance(compiled(x), np.ndarray)
    assert isinstance(compiled(burn.constant(x)), burn.Tensor)
    same(compiled(x), f(x))


def test_wide_numbers_are_narrowed_as_jax_does() -> None:
    x = np.arange(6, dtype=np.int64)
    compiled = burn.compile(jax.jit(lambda x: x * 3), (x,))
    assert compiled(x).dtype == np.int32
    same(compiled(x), x * 3)


def test_x64() -> None:
    with jax.enable_x64(True):
        x = np.linspace(0, 1, 5)
        compiled = burn.compile(jax.jit(jnp.sin), (x,))
        assert compiled(x).dtype == np.float64
        np.testing.assert_allclose(compiled(x), np.sin(x), 1e-14)


def test_pytrees() -> None:
    def g(state: dict[str, Any], pair: tuple[Any, Any], scale: float = 2.0, *, shift: Any) -> Any:
        return {"a": state["a"] * scale, "rest": (pair[0] + shift, [pair[1], None])}

    x = jnp.arange(3.0)
    args, shift = ({"a": x}, (x, x + 1)), jnp.float32(3)
    compiled = burn.compile(jax.jit(g), args, kwargs={"shift": shift})
    assert [i.name for i in compiled.inputs] == ["state.a", "pair.0", "pair.1", "shift"]
    assert [o.name for o in compiled.outputs] == ["a", "rest.0", "rest.1.0"]
    same(compiled(*args, shift=shift), g(*args, shift=shift))
    with pytest.raises(InputError, match="made as"):
        compiled({"b": x}, (x, x), shift=shift)


def test_python_numbers_are_weak() -> None:
    x = jnp.ones(3, jnp.bfloat16)
    compiled = burn.compile(jax.jit(lambda x, s: x * s), (x, 2.0))
    assert compiled(x, 3.0).dtype == jnp.bfloat16
    same(compiled(x, 3.0), x * 3.0)


def test_named_sizes_of_several_inputs() -> None:
    compiled = burn.compile(
        jax.jit(lambda x, y: (jnp.concatenate([x, y]), x.shape[0] * 2, jnp.mean(x, 0))),
        ("float32[n, 2]", "float32[m, 2]"),
    )
    x, y = jnp.ones((3, 2)), jnp.zeros((4, 2))
    same(compiled(x, y), (jnp.concatenate([x, y]), 6, jnp.ones(2)))


def test_dynamic_by_name() -> None:
    x = jnp.ones((4, 3))
    compiled = burn.compile(jax.jit(f), (x,), dynamic={"x": {0: "batch"}})
    same(compiled(jnp.ones((9, 3))), f(jnp.ones((9, 3))))


def test_what_is_jax() -> None:
    from burn.compiled import is_jax

    x = jnp.ones(3)
    assert is_jax(jax.jit(f)) and is_jax(jax.vmap(f)) and is_jax(jax.grad(f)) and is_jax(jnp.sin)
    assert is_jax(burn.from_jax(f)) and is_jax(partial(jax.jit(f), x))
    assert not is_jax(f) and not is_jax(lambda x: x) and not is_jax(burn.exp) and not is_jax(burn.nn.Linear(2, 3))


def test_a_plain_function_is_told_of_from_jax() -> None:
    with pytest.raises(TypeMismatch, match=r"burn\.from_jax"):
        burn.compile(f, ("float32[3]",))
    same(burn.compile(burn.from_jax(f), ("float32[3]",))(jnp.ones(3)), f(jnp.ones(3)))


def test_inside_a_function_of_tensors() -> None:
    g = burn.from_jax(f)
    compiled = burn.compile(lambda x: burn.relu(g(x)) + 1, ("float32[n, 2]",))
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(3, 2)
    same(compiled(x), np.maximum(np.asarray(f(x)), 0) + 1)


def test_lazy_tensors() -> None:
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(3, 2)
    same(burn.from_jax(f)(burn.constant(x)).numpy(), f(x))


def test_jit_compiles_once_for_a_signature() -> None:
    jitted = burn.jit(jax.jit(f))
    for n in (2, 3, 2, 3):
        same(jitted(jnp.ones((n, 2))), f(jnp.ones((n, 2))))
    assert len(jitted.programs) == 2
    assert burn.jit(jax.jit(f), dynamic={"x": {0: "n"}})(jnp.ones((5, 2))).shape == (5, 2)


def test_keys() -> None:
    key = jax.random.key(3)
    split = burn.compile(jax.jit(jax.random.split), (jax.random.key(0),))(key)
    assert split.dtype == key.dtype
    np.testing.assert_array_equal(jax.random.key_data(split), jax.random.key_data(jax.random.split(key)))
    draw = burn.compile(jax.jit(lambda k: jax.random.normal(k, (5,))), (jax.random.PRNGKey(0),))
    same(draw(jax.random.PRNGKey(4)), jax.random.normal(jax.random.PRNGKey(4), (5,)), 1e-6)


def test_everything_that_is_missing_is_listed_with_lines() -> None:
    def bad(x: Any) -> Any:
        y = jax.pure_callback(np.sin, x, x)
        return jax.pure_callback(np.cos, y, y) + jax.lax.linalg.schur(x[:, None] * x)[0][0]

    with pytest.raises(ModelError) as caught:
        burn.compile(jax.jit(bad), ("float32[4]",))
    text = str(caught.value)
    assert "pure_callback: is not supported; used 2 times in test_calling.py" in text
    assert "schur: is not supported" in text


def test_errors_of_jax_are_told() -> None:
    with pytest.raises(ModelError, match="JAX raised TypeError"):
        burn.compile(jax.jit(lambda a, b: a @ b), ("float32[2, 3]", "float32[2, 3]"))


# ---- derivatives -----------------------------------------------------------------------------------------------------------
@jax.custom_vjp
def halved(x: Any) -> Any:
    return x * 1.0


halved.defvjp(lambda x: (x, None), lambda _, g: (g * 0.5,))


def test_derivatives_are_jax_s() -> None:
    loss = lambda x: jnp.sum(halved(jnp.maximum(x, 0.0)) * jnp.abs(x))  # noqa: E731
    x = np.array([0.0, 1.0, -2.0, 3.0], np.float32)
    same(burn.grad(burn.from_jax(loss))(burn.constant(x)).numpy(), jax.grad(loss)(x))
    compiled = burn.compile(lambda x: burn.grad(burn.from_jax(loss))(x), ("float32[n]",))
    same(compiled(x), jax.grad(loss)(x))


def test_second_derivatives() -> None:
    once = burn.from_jax(lambda x: jnp.sum(jnp.sin(x) * x**2))
    twice = burn.grad(lambda x: burn.grad(once)(x).sum())
    x = np.linspace(0.2, 2, 5, dtype=np.float32)
    want = jax.grad(lambda x: jnp.sum(jax.grad(lambda y: jnp.sum(jnp.sin(y) * y**2))(x)))(x)
    same(twice(burn.constant(x)).numpy(), want)


@pytest.mark.parametrize("order", [2, 3])
def test_derivatives_of_any_order_have_the_rules_of_jax(order: int) -> None:
    """Not those of the ops: lgamma and digamma are series here, hard_silu has an edge at 3."""

    def function(x: Any) -> Any:
        return jnp.sum(jax.scipy.special.gammaln(jnp.abs(x) + 0.5) + halved(x) * jnp.sin(x) + jax.nn.hard_silu(x))

    theirs, ours = function, burn.from_jax(function)
    for _ in range(order):
        theirs = (lambda f: lambda x: jnp.sum(jax.grad(f)(x)))(theirs)
        ours = (lambda f: lambda x: burn.grad(f)(x).sum())(ours)
    x = np.array([3.0, -3.0, 0.7, 1.0], np.float32)
    got = burn.compile(burn.grad(lambda x: ours(x)), ("float32[4]",), cache=False)(x)
    same(got, jax.grad(theirs)(x), 1e-4)


def test_a_second_derivative_where_the_first_is_infinite() -> None:
    x = np.array([1.0, -1.0, 0.5], np.float32)
    twice = burn.grad(lambda x: burn.grad(burn.from_jax(lambda x: jnp.sum(jnp.arccos(x))))(x).sum())
    want = jax.grad(lambda x: jnp.sum(jax.grad(lambda x: jnp.sum(jnp.arccos(x)))(x)))(x)
    np.testing.assert_allclose(burn.compile(twice, ("float32[3]",), cache=False)(x), want, 1e-5)


def test_gradient_through_burn_and_jax() -> None:
    inner = burn.from_jax(lambda x: jax.lax.scan(lambda c, r: (jnp.tanh(c + r), c), jnp.zeros(3), x)[0])
    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
    got = burn.compile(burn.grad(lambda x: (inner(x * 2) ** 2).sum()), ("float32[n, 3]",))(x)
    want = jax.grad(lambda x: jnp.sum(jax.lax.scan(lambda c, r: (jnp.tanh(c + r), c), jnp.zeros(3), x * 2)[0] ** 2))(x)
    same(got, want)


def test_a_loop_without_a_derivative_is_refused_by_jax() -> None:
    loss = lambda x: jax.lax.while_loop(lambda c: c < 3, lambda c: c * 2, x)  # noqa: E731
    with pytest.raises(ModelError, match="JAX raised ValueError"):
        burn.compile(burn.grad(burn.from_jax(loss)), ("float32[]",))


# ---- parameters --------------------------------------------------------------------------------------------------------------
def test_parameters_by_path_are_trained() -> None:
    def predict(p: dict[str, Any], x: Any) -> Any:
        return jnp.tanh(x @ p["first"]["kernel"]) @ p["second"]["kernel"] + p["second"]["bias"]

    keys = jax.random.split(jax.random.key(0), 2)
    tree = {
        "first": {"kernel": jax.random.normal(keys[0], (3, 8))},
        "second": {"bias": jnp.zeros(1), "kernel": jax.random.normal(keys[1], (8, 1))},
    }
    model = burn.compile(burn.from_jax(predict, tree), ("float32[batch, 3]",), train=True)
    assert [n for n, _ in model.named_parameters()] == ["first.kernel", "second.bias", "second.kernel"]
    x = np.random.default_rng(0).normal(size=(16, 3)).astype(np.float32)
    y = x.sum(1, keepdims=True)
    loss_of = lambda m, x, y: ((m(x) - y) ** 2).mean()  # noqa: E731
    loss, gradients = burn.value_and_grad(loss_of)(model, burn.constant(x), burn.constant(y))
    want = jax.grad(lambda p: jnp.mean((predict(p, x) - y) ** 2))(tree)
    same(gradients["first.kernel"].numpy(), want["first"]["kernel"])
    optimizer = burn.optim.Adam(model, lr=0.02)
    step = burn.train.step(model, loss_of, optimizer)
    for _ in range(60):
        step(x, y)
    assert float(loss_of(model, burn.constant(x), burn.constant(y)).numpy()) < float(loss.numpy()) / 5
    same(predict(model.parameters_of_jax(), x), model(burn.constant(x)).numpy())


def test_a_function_without_parameters_is_not_trained() -> None:
    with pytest.raises(TypeMismatch, match="without parameters"):
        burn.compile(jax.jit(f), ("float32[3]",), train=True)


def test_export_to_onnx(tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    weight = jnp.linspace(-1, 1, 12).reshape(3, 4)
    model = burn.from_jax(lambda p, x: jax.nn.gelu(x @ p["kernel"]), {"kernel": weight})
    burn.export(model, tmp_path / "m.onnx", ("float32[batch, 3]",))
    x = np.random.default_rng(1).normal(size=(5, 3)).astype(np.float32)
    session = runtime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    same(session.run(None, {session.get_inputs()[0].name: x})[0], jax.nn.gelu(x @ weight), 1e-5)


def test_gives_up_memory() -> None:
    compiled = burn.compile(jax.jit(lambda x: x + 1), ("float32[4]",), donate=("x",))
    same(compiled(np.zeros(4, np.float32)), np.ones(4))


def test_indices_out_of_range_are_treated_as_by_jax() -> None:
    x = jnp.arange(12.0).reshape(4, 3)

    def function(x: Any, i: Any) -> Any:
        read = x.at[i].get(mode="promise_in_bounds"), x[jnp.array([9])], x.at[i].get(mode="fill", fill_value=-1)
        return read, x.at[i].add(1.0, mode="promise_in_bounds"), x.at[i].set(7.0, mode="clip")

    indices = jnp.array([0, 5, 3])
    same(burn.compile(jax.jit(function), (x, indices))(x, indices), jax.jit(function)(x, indices))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_matmul_of_floats_becomes_integers(dtype: str) -> None:
    a, b = np.array([[-1.2, -1.8, 0.9]], dtype), np.array([[-0.4], [2.1], [-2.6]], dtype)
    function = jax.jit(lambda a, b: jax.lax.dot(a, b, preferred_element_type="int32"))
    np.testing.assert_array_equal(burn.compile(function, (a, b), cache=False)(a, b), function(a, b))
