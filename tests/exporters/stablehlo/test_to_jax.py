"""`burn.to_jax`: JAX's transformations of burn's functions and modules, against burn's own numbers and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import burn
from burn import nn
from burn.errors import CompileError, InputError, TypeMismatch

jax = pytest.importorskip("jax")
jnp = jax.numpy


def close(got: Any, want: Any, tolerance: float = 2e-5) -> None:
    want = np.asarray(want)
    np.testing.assert_allclose(
        np.asarray(got), want, rtol=tolerance, atol=tolerance * max(1.0, np.abs(want).max(initial=0))
    )


def attends(x: burn.Tensor) -> burn.Tensor:
    return burn.ops.attention(x, x, x, None, scale=0.5)


FUNCTIONS: dict[str, tuple[Callable[..., burn.Tensor], list[str]]] = {
    "matmul and softmax": (lambda x, w: burn.softmax(x @ w, axis=-1), ["float32[n, 4]", "float32[4, 3]"]),
    "gelu and layer norm": (lambda x: burn.gelu(nn.LayerNorm(4)(x)), ["float32[n, 4]"]),
    "attention": (attends, ["float32[1, 2, n, 4]"]),
    "convolution": (nn.Conv1d(2, 3, 3, padding=1), ["float32[n, 2, 5]"]),
    "pooling": (lambda x: nn.MaxPool2d(2)(x), ["float32[n, 2, 4, 4]"]),
    "gather": (lambda x: x[burn.tensor([0, 2, 0])].cumsum(axis=0), ["float32[5, n]"]),
    "sort": (lambda x: burn.sort(x, axis=0), ["float32[n, 3]"]),
    "elementwise": (lambda x: burn.erf(x) * burn.tanh(x) ** 2 + burn.log1p(x * x) / (x.abs() + 1), ["float32[n, 3]"]),
    "views": (lambda x: burn.concatenate([x[::-2], x[1:]], axis=0).T * 2, ["float32[n, 3]"]),
    "a loop": (lambda x: burn.scan(lambda s, r: (s * 0.5 + burn.sin(r), s), x[0], x)[1], ["float32[n, 3]"]),
    "half precision": (lambda x: (x.astype("bfloat16") @ x.T.astype("bfloat16")).astype("float32"), ["float32[n, 3]"]),
}


def arrays(types: list[str], n: int) -> list[np.ndarray]:
    rng = np.random.default_rng(n)
    shapes = [[n if d.strip() == "n" else int(d) for d in t.split("[")[1][:-1].split(",")] for t in types]
    return [rng.standard_normal(shape).astype("f4") for shape in shapes]


QUICK = ("matmul and softmax", "a loop")


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in FUNCTIONS])
def test_numbers_and_gradients(name: str) -> None:
    function, types = FUNCTIONS[name]
    made, own = burn.to_jax(function, types), burn.compile(function, types)
    tolerance = 2e-2 if name == "half precision" else 2e-5
    given = arrays(types, 5)
    result = own(*given)
    weights = np.random.default_rng(1).standard_normal(result.shape).astype("f4")

    def all_of_it(*xs: Any) -> Any:
        slope = jax.grad(lambda x, *rest: (made(x, *rest) * weights).sum())(*xs)
        return made(*xs), slope, jax.vmap(made)(*(jnp.stack([x, x * 0.5]) for x in xs))[1]

    value, slope, half = jax.jit(all_of_it)(*given)
    close(value, result, tolerance)
    want = burn.grad(lambda x, *rest: (function(x, *rest) * weights).sum())(*given)
    close(slope, want.numpy(), tolerance)
    close(half, own(*(x * 0.5 for x in given)), tolerance)


def test_a_loop_that_data_ends_has_no_derivative_in_reverse_mode() -> None:
    def parts(x: burn.Tensor) -> burn.Tensor:
        return burn.while_loop(lambda s: s[0].sum() > 1.0, lambda s: (s[0] * 0.5,), (x * x,))[0].sum()

    x = np.array([1.0, 2.0, 3.0], "f4")
    made = burn.to_jax(parts, ["float32[n]"])
    close(jax.jit(made)(x), burn.compile(parts, ["float32[n]"])(x))
    with pytest.raises(ValueError, match="Reverse-mode differentiation"):
        jax.grad(made)(x)
    with pytest.raises(CompileError, match="depend on data"):
        burn.to_jax(parts, ["float32[n]"], derivative="burn")


@burn.custom_vjp
def clipped(x: burn.Tensor) -> burn.Tensor:
    return burn.minimum(x, 1.0)


clipped.defvjp(lambda x: (burn.minimum(x, 1.0), x), lambda x, g: (g * 3.0,))


def test_a_rule_of_its_own_is_kept() -> None:
    made = burn.to_jax(lambda x: clipped(x).sum(), ["float32[n]"])
    close(jax.grad(made)(np.array([0.5, 2.0], "f4")), [3.0, 3.0])
    by_jax = burn.to_jax(lambda x: clipped(x).sum(), ["float32[n]"], derivative="jax")
    close(jax.grad(by_jax)(np.array([0.5, 2.0], "f4")), [1.0, 0.0])
    stopped = burn.to_jax(lambda x: (burn.stop_gradient(x) * x).sum(), ["float32[n]"])
    close(jax.grad(stopped)(np.array([0.5, 2.0], "f4")), [0.5, 2.0])


class Net(nn.Module):
    def __init__(self) -> None:
        self.first, self.norm, self.last = nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)

    def forward(self, x: burn.Tensor) -> burn.Tensor:
        return self.last(burn.relu(self.norm(self.first(x))))


@pytest.mark.parametrize("derivative", [pytest.param("jax", marks=pytest.mark.slow), "burn"])
def test_parameters_of_modules(derivative: str) -> None:
    net = Net().train()
    function, params = burn.to_jax(net, ["float32[batch, 4]"], parameters=True, derivative=derivative)
    assert set(params) == {path for path, _ in net.named_parameters()}
    x = arrays(["float32[n, 4]"], 6)[0]

    def loss(params: Any, x: Any) -> Any:
        result, following = function(params, x)
        return (result**2).sum(), following

    (value, following), gradients = jax.jit(jax.value_and_grad(loss, has_aux=True))(params, x)
    assert set(following) == {"norm.running_mean", "norm.running_var"}
    own_value, own = burn.value_and_grad(lambda m, x: (m(x) ** 2).sum())(net, x)
    close(value, float(own_value))
    for path, gradient in own.items():
        close(gradients[path], gradient.numpy(), 1e-4)
    close(following["norm.running_mean"], net.norm.running_mean.numpy())


def test_symbolic_sizes_are_exported() -> None:
    function, types = FUNCTIONS["matmul and softmax"]
    made = burn.to_jax(function, types)
    symbolic = [
        jax.ShapeDtypeStruct(jax.export.symbolic_shape("rows, 4"), np.float32),
        jax.ShapeDtypeStruct((4, 3), np.float32),
    ]
    exported = jax.export.export(jax.jit(made))(*symbolic)
    assert str(exported.in_avals[0]) == "float32[rows,4]"
    given = arrays(types, 5)
    close(exported.call(*given), burn.compile(function, types)(*given))


def test_shards_of_a_mesh() -> None:
    mesh = jax.make_mesh((1,), ("rows",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec
    function, types = FUNCTIONS["matmul and softmax"]
    made = burn.to_jax(function, types)
    sharded = jax.shard_map(made, mesh=mesh, in_specs=(spec("rows"), spec()), out_specs=spec("rows"))
    given = arrays(types, 4)
    close(jax.jit(sharded)(*given), burn.compile(function, types)(*given))


def test_types_of_64_bits() -> None:
    """Inside, all types are burn's; outside, those of JAX's setting."""
    made = burn.to_jax(
        lambda x, i: (x * 2, i + (1 << 40) - (1 << 40) + burn.sum(x).astype("int64")), ["float64[n]", "int64[]"]
    )
    x, i = made(jnp.ones(3), jnp.int32(4))
    assert x.dtype == np.float32 and i.dtype == np.int32 and int(i) == 7
    with jax.enable_x64(True):
        x, i = made(np.full(3, 0.1), np.int64(1 << 41))
        assert x.dtype == np.float64 and i.dtype == np.int64 and int(i) == 1 << 41
        close(x, np.full(3, 0.2), 1e-15)


def test_random_numbers_follow_a_state() -> None:
    made = burn.to_jax(lambda x: x + burn.random.uniform((3,)), ["float32[3]"])
    drawn = jax.jit(lambda state: made(np.zeros(3, "f4"), random_state=state))
    first, again, other = (drawn(np.array(state)) for state in ((1, 2), (1, 2), (1, 3)))
    assert np.array_equal(first, again) and not np.array_equal(first, other)
    with pytest.raises(InputError, match="random_state="):
        made(np.zeros(3, "f4"))


def test_containers_and_names() -> None:
    def function(batch: dict[str, Any], scale: Any) -> dict[str, Any]:
        return {"sum": (batch["x"] + batch["y"][0]) * scale, "parts": [batch["x"]]}

    made = burn.to_jax(function, ({"x": "float32[n]", "y": ["float32[n]"]}, "float32[]"))
    x = jnp.arange(3.0)
    found = jax.jit(made)({"x": x, "y": [x]}, jnp.float32(2))
    close(found["sum"], [0, 4, 8])
    close(found["parts"][0], x)
    plain = burn.to_jax(lambda x, y: x - y, ["float32[n]", "float32[n]"])
    close(plain(y=x, x=x + 1), [1, 1, 1])


def test_inputs_that_do_not_fit() -> None:
    made = burn.to_jax(lambda x, y: x + y, ["float32[n, 2]", "float32[n, 2]"])
    x = np.ones((3, 2), "f4")
    with pytest.raises(InputError, match="axis 0 has size 4, not 3"):
        made(x, np.ones((4, 2), "f4"))
    with pytest.raises(InputError, match="'y' is int32"):
        made(x, np.ones((3, 2), "i4"))
    with pytest.raises(InputError, match="'y' is missing"):
        made(x)
    with pytest.raises(InputError, match="has 1 axes"):
        made(np.ones(3, "f4"), x)
    with pytest.raises(CompileError, match="nonzero"):
        burn.to_jax(lambda x: burn.nonzero(x), ["float32[n]"])
    with pytest.raises(TypeMismatch, match="by 'jax' or by 'burn'"):
        burn.to_jax(lambda x: x, ["float32[n]"], derivative="torch")


def test_a_size_that_is_another_within_a_bound() -> None:
    """A table of positions: its first n rows are min(8, n). Beyond the table burn raises an error, and JAX's result is NaN."""
    table = np.arange(24, dtype="f4").reshape(8, 3)
    function = burn.to_jax(lambda x: x + burn.constant(table)[: x.shape[0]], ("float32[n, 3]",))
    given = jax.ShapeDtypeStruct(jax.export.symbolic_shape("n, 3"), jnp.float32)
    exported = jax.export.export(jax.jit(lambda x: function(x)))(given)
    for n in (1, 7, 8):
        x = np.ones((n, 3), "f4")
        np.testing.assert_array_equal(exported.call(x), x + table[:n])
    assert np.isnan(np.asarray(exported.call(np.ones((9, 3), "f4")))[8]).all()
