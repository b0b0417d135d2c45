"""State of JAX's modules in burn's training step: running statistics, counts of random numbers, keys."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import burn
from burn.errors import TypeMismatch

nnx = pytest.importorskip("flax.nnx")
X = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)


def loss_of(m: Any, x: Any) -> Any:
    return (m(x) ** 2).mean()


def near(have: Any, want: Any) -> None:
    np.testing.assert_allclose(np.asarray(have), np.asarray(want), rtol=1e-4, atol=1e-5)


class Net(nnx.Module):  # type: ignore[misc, name-defined]
    def __init__(self, rngs: Any) -> None:
        self.linear = nnx.Linear(4, 5, rngs=rngs)
        self.norm = nnx.BatchNorm(5, momentum=0.5, rngs=rngs)
        self.dropout = nnx.Dropout(0.5, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        return self.dropout(self.norm(self.linear(x)))


def test_nnx_keeps_statistics_and_draws_anew() -> None:
    model = Net(nnx.Rngs(0))
    trained = burn.compile(model, ("float32[batch, 4]",), train=True)
    assert [n for n, _ in trained.named_parameters(buffers=False)] == [
        "linear.bias", "linear.kernel", "norm.bias", "norm.scale",
    ]  # fmt: skip
    step = burn.train.step(trained, loss_of, burn.optim.SGD(trained, lr=0.1))

    @nnx.jit
    def want_of(model: Any, x: Any) -> Any:
        value, gradients = nnx.value_and_grad(lambda m: jnp.mean(m(x) ** 2))(model)
        nnx.update(model, jax.tree.map(lambda p, g: p - 0.1 * g, nnx.state(model, nnx.Param), gradients))
        return value

    model.train()
    for rows in (6, 5):  # the masks of Dropout differ from step to step, bit for bit those of JAX
        near(step(X[:rows]), want_of(model, X[:rows]))
    found = trained.parameters_of_jax()
    for have, want in zip(jax.tree.leaves(found), jax.tree.leaves(nnx.state(model)), strict=True):
        if jnp.issubdtype(have.dtype, jax.dtypes.prng_key):
            have, want = jax.random.key_data(have), jax.random.key_data(want)
        near(have, want)
    assert step.programs == 1
    fresh = Net(nnx.Rngs(1))
    nnx.update(fresh, found)
    trained.eval()
    fresh.eval()
    near(trained(burn.constant(X)).numpy(), fresh(X))


def test_a_state_that_would_be_lost_is_refused() -> None:
    model = Net(nnx.Rngs(0))
    with pytest.raises(TypeMismatch, match=r"(?s)'norm\.mean'.*model\.eval\(\)"):
        burn.compile(model, ("float32[batch, 4]",))
    model.eval()
    near(burn.compile(model, ("float32[batch, 4]",))(X), model(X))


@pytest.mark.slow
def test_haiku() -> None:
    hk = pytest.importorskip("haiku")

    def forward(x: Any) -> Any:
        x = hk.BatchNorm(True, True, 0.9)(hk.Linear(5)(x), is_training=True)
        return hk.dropout(hk.next_rng_key(), 0.3, x)

    made = hk.transform_with_state(forward)
    parameters, state = made.init(jax.random.key(0), X)

    def apply(p: Any, s: Any, x: Any) -> Any:
        key, own = jax.random.split(s["key"])
        result, layers = made.apply(p, s["layers"], own, x)
        return result, {"key": key, "layers": layers}

    held = {"key": jax.random.key(7), "layers": state}
    trained = burn.compile(burn.from_jax(apply, parameters, held), ("float32[batch, 4]",), train=True)
    step = burn.train.step(trained, loss_of, burn.optim.SGD(trained, lr=0.1))

    @jax.jit
    def want_of(p: Any, s: Any, x: Any) -> Any:
        def loss(p: Any) -> Any:
            result, after = apply(p, s, x)
            return jnp.mean(result**2), after

        (value, after), gradients = jax.value_and_grad(loss, has_aux=True)(p)
        return value, jax.tree.map(lambda p, g: p - 0.1 * g, p, gradients), after

    for rows in (6, 4):
        have = step(X[:rows])
        value, parameters, held = want_of(parameters, held, X[:rows])
        near(have, value)
    jax.tree.map(near, trained.parameters_of_jax(), parameters)
    jax.tree.map(near, trained.state_of_jax()["layers"], held["layers"])
    assert bool((jax.random.key_data(trained.state_of_jax()["key"]) == jax.random.key_data(held["key"])).all())


def test_linen() -> None:
    from flax import linen as nn

    class Linen(nn.Module):
        @nn.compact
        def __call__(self, x: Any, train: bool = False) -> Any:
            return nn.BatchNorm(use_running_average=not train, momentum=0.5)(nn.Dense(5)(x))

    model = Linen()
    variables = model.init(jax.random.key(0), X)
    whole = burn.compile(burn.from_jax(model.apply, variables), ("float32[batch, 4]",), train=True)
    assert [n for n, _ in whole.named_buffers()] == ["batch_stats.BatchNorm_0.mean", "batch_stats.BatchNorm_0.var"]

    def apply(p: Any, s: Any, x: Any) -> Any:
        return model.apply({"params": p, **s}, x, train=True, mutable=list(s))

    parameters, state = variables["params"], {"batch_stats": variables["batch_stats"]}
    trained = burn.compile(burn.from_jax(apply, parameters, state), ("float32[batch, 4]",), train=True)
    step = burn.train.step(trained, loss_of, burn.optim.SGD(trained, lr=0.0))
    step(X)
    jax.tree.map(near, trained.state_of_jax(), apply(parameters, state, X)[1])
    whole.load_state_dict(trained.state_dict())  # the same names: the model as it infers
    near(whole(burn.constant(X)).numpy(), model.apply({"params": parameters, **trained.state_of_jax()}, X))


def test_equinox() -> None:
    eqx = pytest.importorskip("equinox")
    norm, state = eqx.nn.make_with_state(eqx.nn.BatchNorm)(4, "batch", mode="batch")
    arrays, static = eqx.partition(norm, eqx.is_array)

    def apply(p: Any, s: Any, x: Any) -> Any:
        return jax.vmap(eqx.combine(p, static), (0, None), (0, None), axis_name="batch")(x, s)

    trained = burn.compile(burn.from_jax(apply, arrays, state), ("float32[6, 4]",), train=True)
    trained(burn.constant(X))  # Equinox compares the size of the batch, so that it needs a number
    for have, want in zip(
        jax.tree.leaves(trained.state_of_jax()), jax.tree.leaves(apply(arrays, state, X)[1]), strict=True
    ):
        near(have, want)


def test_what_is_no_state_is_refused() -> None:
    w = {"w": jnp.ones(3)}
    with pytest.raises(TypeMismatch, match="returns a pair"):
        burn.from_jax(lambda p, s, x: x * p["w"], w, w)(burn.constant(np.ones(3, np.float32)))
    with pytest.raises(TypeMismatch, match="structure of its state"):
        burn.from_jax(lambda p, s, x: (x * p["w"], {}), w, w)(burn.constant(np.ones(3, np.float32)))
    trained = burn.compile(burn.from_jax(lambda p, x: x * p["w"], w), ("float32[3]",), train=True)
    with pytest.raises(TypeMismatch, match="has no state"):
        trained.state_of_jax()
