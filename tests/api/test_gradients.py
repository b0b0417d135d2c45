"""`burn.grad` and its family: what they take and give, recorded and compiled, nested, and what they refuse."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import burn
from burn import nn
from burn.compiler import environment
from burn.errors import TypeMismatch
from burn.passes import pipeline
from burn.tensors import Tensor
from burn.tracing.trace import trace


def _cubes(x: Tensor) -> Tensor:
    return (x**3).sum()


X = np.array([1.0, -2.0, 0.5], np.float32)


@pytest.mark.parametrize("wrap", [lambda f: f, burn.jit], ids=["recorded", "jitted"])
def test_a_function_of_a_tensor(wrap: Any) -> None:
    value, slope = wrap(burn.value_and_grad(_cubes))(burn.tensor(X))
    np.testing.assert_allclose(value.numpy(), (X**3).sum(), rtol=1e-6)
    np.testing.assert_allclose(slope.numpy(), 3 * X**2, rtol=1e-6)
    assert isinstance(slope, Tensor) and slope.dtype == "float32"


def test_containers_and_several_arguments() -> None:
    def f(parts: dict[str, Any], scale: Tensor, shift: float) -> Tensor:
        return (parts["a"] * scale + parts["b"][0] * shift).sum()

    given = {"a": burn.tensor(X), "b": [burn.tensor([2.0, 3.0, 4.0])]}
    grads, of_scale = burn.grad(f, argnums=(0, 1))(given, burn.tensor(2.0), 5.0)
    assert list(grads) == ["a", "b"] and isinstance(grads["b"], list)
    np.testing.assert_allclose(grads["a"].numpy(), [2, 2, 2])
    np.testing.assert_allclose(grads["b"][0].numpy(), [5, 5, 5])
    np.testing.assert_allclose(of_scale.numpy(), X.sum())
    (of_number,) = burn.grad(f, argnums=(-1,))(given, burn.tensor(2.0), 5.0)
    np.testing.assert_allclose(of_number.numpy(), 9.0)


def test_what_else_a_function_returns() -> None:
    (value, extra), slope = burn.value_and_grad(lambda x: ((x * x).sum(), {"x": x + 1.0}), has_aux=True)(burn.tensor(X))
    np.testing.assert_allclose(extra["x"].numpy(), X + 1)
    np.testing.assert_allclose(slope.numpy(), 2 * X)
    np.testing.assert_allclose(value.item(), (X * X).sum(), rtol=1e-6)
    slope, extra = burn.grad(lambda x: ((x * x).sum(), 3), has_aux=True)(burn.tensor(X))
    assert extra == 3


def test_modules_by_parameter_path() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    model.freeze("0.bias")
    x = burn.tensor(np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32))

    def loss(model: nn.Module, x: Tensor) -> Tensor:
        return (model(x) ** 2).mean()

    _, grads = burn.value_and_grad(loss)(model, x)
    assert list(grads) == ["0.weight", "2.weight", "2.bias"]
    _, jitted = burn.jit(burn.value_and_grad(loss))(model, x)
    for path, g in grads.items():
        np.testing.assert_allclose(g.numpy(), jitted[path].numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("wrap", [lambda f: f, burn.jit], ids=["recorded", "jitted"])
def test_a_piece_of_a_parameter_has_a_gradient(wrap: Any) -> None:
    """A piece of elements that are in memory is a view of them; of a parameter it is none where a derivative is asked for."""
    table = nn.Embedding(5, 3)
    grads = wrap(lambda: burn.grad(lambda t: (t.weight[1:3] * 2.0).sum())(table))()
    np.testing.assert_array_equal(np.asarray(grads["weight"])[:, 0], [0, 2, 2, 0, 0])


def test_a_piece_of_a_parameter_is_what_it_is_now() -> None:
    table = nn.Embedding(2, 1)
    first = burn.jit(lambda: table.weight[:1] + 0.0)
    for value in (1.0, 2.0):
        table.weight.assign(np.full((2, 1), value, np.float32))
        assert first().tolist() == [[value]]


def test_gradients_of_shared_parameters_add_up() -> None:
    layer = nn.Linear(3, 3, bias=False)
    model = nn.Sequential(layer, layer)
    x = np.ones((1, 3), np.float32)
    grads = burn.grad(lambda m, x: m(x).sum())(model, burn.tensor(x))
    w = layer.weight.array
    (path,) = grads
    one = np.ones((1, 3), np.float32)
    want = x.T @ (one @ w.T) + (x @ w).T @ one
    np.testing.assert_allclose(grads[path].numpy(), want if want.shape == w.shape else want.T, rtol=1e-5)


def test_derivatives_of_derivatives() -> None:
    second = burn.grad(lambda x: burn.grad(_cubes)(x).sum())
    np.testing.assert_allclose(second(burn.tensor(X)).numpy(), 6 * X, rtol=1e-6)
    np.testing.assert_allclose(burn.jit(second)(X), 6 * X, rtol=1e-6)
    third = burn.grad(lambda x: second(x).sum())
    np.testing.assert_allclose(third(burn.tensor(X)).numpy(), np.full(3, 6.0), rtol=1e-6)


def test_a_hessian_times_a_vector() -> None:
    a = np.random.default_rng(1).standard_normal((3, 3)).astype(np.float32)

    def f(x: Tensor) -> Tensor:
        return (x @ burn.tensor(a) @ x).sin()

    v = burn.tensor([1.0, 2.0, -1.0])
    _, hessian_vector = burn.jvp(burn.grad(f), (burn.tensor(X),), (v,))
    of_dot = burn.grad(lambda x: (burn.grad(f)(x) * v).sum())(burn.tensor(X))
    np.testing.assert_allclose(hessian_vector.numpy(), of_dot.numpy(), rtol=1e-4)


def test_forwards_and_backwards_agree() -> None:
    def f(x: Tensor, y: Tensor) -> dict[str, Tensor]:
        return {"a": (x * y).tanh(), "b": x.sum() * y}

    x, y = burn.tensor(X), burn.tensor([0.3, 0.1, -0.7])
    tangents = (burn.tensor([1.0, 0.0, 2.0]), burn.tensor([0.5, -1.0, 0.0]))
    out, along = burn.jvp(f, (x, y), tangents)
    result, back = burn.vjp(f, x, y)
    g = {"a": burn.tensor([1.0, 2.0, 3.0]), "b": burn.tensor([-1.0, 0.0, 1.0])}
    cotangents = back(g)
    left = sum(float((along[k] * g[k]).sum()) for k in g)
    right = sum(float((c * t).sum()) for c, t in zip(cotangents, tangents, strict=True))
    assert left == pytest.approx(right, rel=1e-5)
    np.testing.assert_allclose(out["a"].numpy(), result["a"].numpy())


def test_what_stops() -> None:
    np.testing.assert_allclose(burn.grad(lambda x: (burn.stop_gradient(x) * x).sum())(burn.tensor(X)).numpy(), X)
    np.testing.assert_allclose(burn.grad(lambda x: x.floor().sum() + (x > 0).sum())(burn.tensor(X)).numpy(), 0 * X)
    np.testing.assert_allclose(burn.grad(lambda x: burn.tensor(1.0))(burn.tensor(X)).numpy(), 0 * X)


def test_python_decides_by_elements() -> None:
    """Outside of traced functions; what was computed on the way is still followed."""

    def f(x: Tensor) -> Tensor:
        y = x * x
        return y.sum() if float(y.sum()) > 3 else y.sum() * 10.0

    np.testing.assert_allclose(burn.grad(f)(burn.tensor(X)).numpy(), 2 * X)
    np.testing.assert_allclose(burn.grad(f)(burn.tensor(X / 4)).numpy(), 5 * X)


def test_long_histories_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A recorded graph that grows too deep is computed in between."""
    monkeypatch.setattr("burn.tensors.base.DEEPEST", 10)

    def f(x: Tensor) -> Tensor:
        for _ in range(40):
            x = x * 1.01
        return x.sum()

    np.testing.assert_allclose(burn.grad(f)(burn.tensor(X)).numpy(), np.full(3, 1.01**40), rtol=1e-4)


def test_jitted_functions_are_looked_into() -> None:
    inner = burn.jit(lambda x: (x * x).sum())
    np.testing.assert_allclose(burn.grad(lambda x: inner(x) * 2.0)(burn.tensor(X)).numpy(), 4 * X)


def test_compiled_functions_are_not_passed_over_in_silence() -> None:
    compiled = burn.compile(lambda x: (x * x).sum(), ("float32[3]",))
    with pytest.raises(burn.BurnError, match="not differentiated"):
        burn.grad(lambda x: compiled(x * 2.0))(burn.tensor(X))
    np.testing.assert_allclose(
        burn.grad(lambda x: (x * compiled(x.numpy())).sum())(burn.tensor(X)).numpy(), (X * X).sum()
    )


def test_named_sizes() -> None:
    compiled = burn.compile(burn.grad(lambda x, w: (x @ w).exp().mean(), (0, 1)), ("float32[n, 3]", "float32[3, 2]"))
    rng = np.random.default_rng(2)
    for n in (1, 4, 0):
        x, w = rng.standard_normal((n, 3)).astype("f"), rng.standard_normal((3, 2)).astype("f")
        of_x, of_w = compiled(x, w)
        e = np.exp(x @ w) / max(x.shape[0] * 2, 1)
        np.testing.assert_allclose(of_x, e @ w.T, rtol=1e-4, atol=1e-6)
        if n:
            np.testing.assert_allclose(of_w, x.T @ e, rtol=1e-4, atol=1e-6)


# ---- rules of one's own, and computing again ------------------------------------------------------------------------------
@burn.custom_vjp
def _rounded(x: Tensor) -> Tensor:
    return x.round()


_rounded.defvjp(lambda x: (x.round(), None), lambda residuals, g: (g * 2.0,))


@pytest.mark.parametrize("wrap", [lambda f: f, burn.jit], ids=["recorded", "jitted"])
def test_a_derivative_of_ones_own(wrap: Any) -> None:
    np.testing.assert_allclose(_rounded(burn.tensor(X)).numpy(), X.round())
    np.testing.assert_allclose(
        wrap(burn.grad(lambda x: (_rounded(x) * x).sum()))(burn.tensor(X)).numpy(), 2 * X + X.round()
    )


def test_a_derivative_of_ones_own_in_a_loop() -> None:
    def f(x: Tensor) -> Tensor:
        return burn.fori_loop(0, 3, lambda i, s: _rounded(s) + s, x).sum()

    np.testing.assert_allclose(burn.jit(burn.grad(f))(X), np.full(3, 27.0))
    np.testing.assert_allclose(burn.grad(f)(burn.tensor(X)).numpy(), np.full(3, 27.0))


def test_a_derivative_of_ones_own_in_loops_in_loops_and_again() -> None:
    """The rule holds in rebuilt regions: in nested ones, and when the backward pass is differentiated."""
    cube = burn.custom_vjp(lambda x: x**3)
    cube.defvjp(lambda x: (x**3, x), lambda x, g: (g * x.sin(),))

    def twice(x: Tensor) -> Tensor:
        return burn.fori_loop(0, 2, lambda i, c: burn.fori_loop(0, 1, lambda k, e: cube(e), c), x)

    def chosen(x: Tensor) -> Tensor:
        return burn.fori_loop(0, 2, lambda i, c: burn.cond(c > -9.0, cube, lambda a: a, c), x)

    for f in (twice, chosen):
        first = burn.grad(f)
        slope, second = burn.jit(lambda x, g=first: (g(x), burn.grad(g)(x)))(0.7)
        want, more = burn.jit(lambda x: (burn.grad(lambda v: cube(cube(v)))(x), _second(cube, x)))(0.7)
        np.testing.assert_allclose([slope, second], [want, more], rtol=1e-5)
        np.testing.assert_allclose(slope, np.sin(0.7) * np.sin(0.7**3), rtol=1e-5)


def _second(cube: Any, x: Tensor) -> Tensor:
    return burn.grad(lambda v: burn.grad(lambda w: cube(cube(w)))(v))(x)


def test_a_derivative_that_does_not_fit() -> None:
    two = burn.custom_vjp(lambda x, y: x * y)
    with pytest.raises(TypeMismatch, match="has no derivative"):
        two(burn.tensor(X), burn.tensor(X))
    two.defvjp(lambda x, y: (x * y, None), lambda r, g: (g,))
    with pytest.raises(TypeMismatch, match="1 for 2"):
        burn.grad(lambda x: two(x, x).sum())(burn.tensor(X))


@pytest.mark.parametrize("wrap", [lambda f: f, burn.jit], ids=["recorded", "jitted"])
def test_blocks_computed_again(wrap: Any) -> None:
    layer = nn.Linear(3, 3)

    def plain(model: nn.Module, x: Tensor) -> Tensor:
        return (model(x).tanh() * x).sum()

    def again(model: nn.Module, x: Tensor) -> Tensor:
        return (burn.checkpoint(lambda v: model(v).tanh())(x) * x).sum()

    x = burn.tensor(X[None])
    (w, gx), (v, hx) = (wrap(burn.grad(f, (0, 1)))(layer, x) for f in (plain, again))
    np.testing.assert_allclose(gx.numpy(), hx.numpy(), rtol=1e-6)
    for path in w:
        np.testing.assert_allclose(w[path].numpy(), v[path].numpy(), rtol=1e-6)


@pytest.mark.parametrize("wrap", [lambda f: f, burn.jit], ids=["recorded", "jitted"])
def test_blocks_computed_again_draw_the_same_numbers(wrap: Any) -> None:
    """The derivative is 0 for dropped elements, and that of the kept ones elsewhere."""
    drop = nn.Dropout(0.5).train()

    def f(x: Tensor) -> Any:
        kept = burn.checkpoint(lambda v: drop(v * 2.0))(x)
        other = drop(x)
        return kept.sum() + other.sum(), (kept, other)

    x = burn.ones((64,))
    slope, (kept, other) = wrap(burn.grad(f, has_aux=True))(x)
    np.testing.assert_allclose(slope.numpy(), kept.numpy() + other.numpy())
    assert 0 < (kept.numpy() == 0).sum() < 64 and (kept.numpy() != 2 * other.numpy()).any()


def test_blocks_computed_again_in_a_loop_draw_the_same_numbers() -> None:
    drop = nn.Dropout(0.5).train()

    def f(x: Tensor) -> Any:
        block = burn.checkpoint(lambda v: drop(v))
        last, rows = burn.scan(lambda c, _: (c + block(x), block(x)), x * 0.0, length=3)
        return rows.sum() + last.sum(), (last, rows)

    slope, (last, rows) = burn.jit(burn.grad(f, has_aux=True))(np.ones(40, np.float32))
    np.testing.assert_allclose(slope, last + rows.sum(0), rtol=1e-6)


@pytest.mark.parametrize("wrap", [lambda f: f, burn.jit], ids=["recorded", "jitted"])
@pytest.mark.parametrize("way", ["grad", "grad of grad", "vjp", "jvp"])
def test_blocks_computed_again_owe_to_tensors_around(wrap: Any, way: str) -> None:
    """Besides their arguments: the input itself, what is made of it, and arguments of a block around."""

    def plain(x: Tensor, block: Any) -> Tensor:
        h = x * 2.0
        inner = block(lambda v: block(lambda e: (e * x + h + v).tanh())(v.sin()) * x)
        return (inner(x) + block(lambda v: v * h)(h)).sum()

    def all_of(x: Tensor, block: Any) -> Any:
        def f(v: Tensor) -> Tensor:
            return plain(v, block)

        if way == "vjp":
            return burn.vjp(f, x)[1](burn.constant(1.0))[0]
        if way == "jvp":
            return burn.jvp(f, (x,), (burn.constant(X),))[1]
        return burn.grad(f)(x) if way == "grad" else burn.grad(lambda v: burn.grad(f)(v).sum())(x)

    found, want = (wrap(lambda x, b=b: all_of(x, b))(burn.tensor(X)).numpy() for b in (burn.checkpoint, lambda f: f))
    np.testing.assert_allclose(found, want, rtol=1e-5)


def test_blocks_computed_again_are() -> None:
    """The program has the exponentials twice: merging equal ops does not undo it."""

    def f(x: Tensor) -> Tensor:
        return burn.checkpoint(lambda v: v.exp().sin().exp())(x).sum()

    program = trace(burn.value_and_grad(f), {"x": "float32[8]"})
    passes = "simplify{absorb=false},recognise,decompose,simplify,layout,simplify,pack,fold,release"
    pipeline.run(pipeline.parse(passes), program, environment())
    assert len(re.findall(r"burn\.sin\b", str(program.module))) == 2


@pytest.mark.parametrize("wrap", [lambda f: f, burn.jit], ids=["recorded", "jitted"])
def test_blocks_computed_again_update_statistics_once(wrap: Any) -> None:
    x = burn.tensor(np.arange(6, dtype=np.float32).reshape(3, 2))
    layers = [nn.BatchNorm1d(2).train() for _ in range(2)]
    for layer, block in zip(layers, (burn.checkpoint, lambda f: f), strict=True):
        wrap(burn.grad(lambda m, v, b=block: (b(lambda a: m(a).tanh())(v)).sum()))(layer, x)
    again, plain = (layer.state_dict() for layer in layers)
    np.testing.assert_array_equal(again["running_mean"], plain["running_mean"])
    np.testing.assert_array_equal(again["running_var"], plain["running_var"])


@pytest.mark.parametrize("wrap", [lambda f: f, burn.jit], ids=["recorded", "jitted"])
def test_blocks_computed_again_with_sizes_of_the_data(wrap: Any) -> None:
    """The value that defines a size is kept; ops of that size are rematerialised."""

    def f(x: Tensor, block: Any) -> Tensor:
        def chosen(v: Tensor) -> Tensor:
            return (v * v.take(burn.nonzero(v > 0)[0], 0).sum()).tanh()

        return block(chosen)(x).sum()

    found, want = (
        wrap(lambda x, b=b: burn.grad(lambda v: f(v, b))(x))(burn.tensor(X)).numpy()
        for b in (burn.checkpoint, lambda f: f)
    )
    np.testing.assert_allclose(found, want, rtol=1e-6)


def test_second_derivatives_of_a_convolution_that_sees_only_padding() -> None:
    x, w = burn.tensor(np.ones((1, 2, 1))), burn.tensor(np.ones((3, 2, 1)))

    def f(x: Tensor) -> Tensor:
        y = burn.ops.conv(x, w, strides=(3,), dilations=(1,), low=(2,), high=(0,), groups=1)
        return (y * y + y).sum()

    np.testing.assert_array_equal(burn.grad(lambda v: (burn.grad(f)(v) * v).sum())(x).numpy(), np.zeros((1, 2, 1)))


# ---- what cannot be ------------------------------------------------------------------------------------------------------
def test_only_float_scalars() -> None:
    with pytest.raises(TypeMismatch, match=r"not float32\[3\]"):
        burn.grad(lambda x: x)(burn.tensor(X))
    with pytest.raises(TypeMismatch, match="float scalar"):
        burn.grad(lambda x: "no")(burn.tensor(X))


def test_only_by_floats() -> None:
    with pytest.raises(TypeMismatch, match=r"int64\[2\]"):
        burn.grad(lambda x: x.sum().astype("float32"))(burn.tensor([1, 2]))
    with pytest.raises(TypeMismatch, match="argnums"):
        burn.grad(_cubes, 1)(burn.tensor(X))


def test_every_op_without_a_derivative_is_named() -> None:
    def f(x: Tensor) -> Tensor:
        bits = burn.ops.bitcast(x, dtype="int32")
        return burn.ops.bitcast(bits, dtype="float32").sum() + burn.ops.bitcast(x * 2.0, dtype="float32").sum()

    with pytest.raises(TypeMismatch, match="bitcast"):
        burn.grad(f)(burn.tensor(X))
    with pytest.raises(TypeMismatch, match="bitcast"):
        burn.jit(burn.grad(f))(X)


@pytest.mark.parametrize(
    "f, name",
    [
        (lambda x: x.astype("float8_e4m3fn").astype("float32").sum(), "followed through float8_e4m3fn"),
    ],
    ids=["eight bits"],
)
def test_what_is_not_followed_is_not_zero_in_silence(f: Any, name: str) -> None:
    with pytest.raises(TypeMismatch, match=name):
        burn.grad(f)(burn.tensor(X))


def test_derivatives_of_one_call_are_computed_in_one_program() -> None:
    """Whichever is looked at first; what nothing holds any more is not computed for it."""
    before = burn.compile_count()
    value, (a, b) = burn.value_and_grad(lambda x, y: (x.sin() * y.exp()).sum(), (0, 1))(
        burn.constant(np.array([0.3, 0.7], np.float32)), burn.constant(np.array([0.1, 0.2], np.float32))
    )
    np.testing.assert_allclose(b.numpy(), np.sin([0.3, 0.7]) * np.exp([0.1, 0.2]), rtol=1e-6)
    np.testing.assert_allclose(a.numpy(), np.cos([0.3, 0.7]) * np.exp([0.1, 0.2]), rtol=1e-6)
    np.testing.assert_allclose(value.numpy(), (np.sin([0.3, 0.7]) * np.exp([0.1, 0.2])).sum(), rtol=1e-6)
    assert burn.compile_count() <= before + 1


@pytest.mark.parametrize("name", ["instance_norm", "layer_norm", "group_norm"])
def test_operands_that_become_one_value_have_separate_gradients(name: str) -> None:
    """jvp starts from zeros for every operand, and equal constants are one value."""
    x = burn.tensor(np.random.default_rng(0).standard_normal((1, 1, 5)), "float64")
    norm = getattr(burn.ops, name)
    options = {"groups": 1} if name == "group_norm" else {}

    def f(s: Tensor, b: Tensor) -> Tensor:
        y = norm(x, s, b, **options)
        return (y + 0.25 * y * y * burn.arange(5, dtype="float64")).sum()

    at = [burn.tensor([1.0], "float64"), burn.tensor([0.0], "float64")]
    along = [burn.tensor([0.3], "float64"), burn.tensor([-0.7], "float64")]
    _, recorded = burn.jvp(burn.grad(f, (0, 1)), at, along)
    rows = [burn.grad(lambda s, b, i=i: burn.grad(f, (0, 1))(s, b)[i].sum(), (0, 1))(*at) for i in range(2)]
    for got, row in zip(recorded, rows, strict=True):
        want = sum(float(h.sum()) * float(v.sum()) for h, v in zip(row, along, strict=True))
        assert float(got.sum()) == pytest.approx(want, rel=1e-9)


EMPTY = {
    "prod": lambda v: v.prod(1),
    "prod of all": lambda v: v.prod(),
    "exclusive cumprod": lambda v: burn.ops.cumulative(v, kind="prod", axis=1, exclusive=True),
    "exclusive cummax, reversed": lambda v: burn.ops.cumulative(v, kind="max", axis=1, exclusive=True, reverse=True),
    "diff": lambda v: v.diff(2, 1),
}


@pytest.mark.parametrize("name", EMPTY)
def test_empty_axes_have_derivatives(name: str) -> None:
    """Axes of fixed and of named sizes, shorter than the range that is read."""
    f = EMPTY[name]

    def second(x: Tensor) -> tuple[Tensor, Tensor]:
        g = burn.grad(lambda v: (f(v) * f(v) * 0.5).sum())
        return f(x), burn.grad(lambda v: (g(v) * g(v)).sum())(x)

    named = burn.compile(second, ("float64[m, n]",))
    for n in (0, 1, 3):
        x = np.random.default_rng(n).standard_normal((3, n))
        for got, want in zip(named(x), second(burn.constant(x)), strict=True):
            np.testing.assert_allclose(np.asarray(got), want.numpy(), rtol=1e-9)
        assert n or want.shape == (3, 0)


@pytest.mark.parametrize("q", [0.3, 0.5])
def test_the_gradient_of_a_quantile_between_equal_elements_is_shared(q: float) -> None:
    got = burn.grad(lambda x: x.quantile(q))(burn.tensor([1.0, 1.0, 1.0, 2.0], "float64")).numpy()
    np.testing.assert_allclose(got, {0.3: [0.1, 0.9, 0, 0], 0.5: [0, 0.5, 0.5, 0]}[q], atol=1e-12)


def test_copysign_has_no_slope_at_zero() -> None:
    x, y = burn.constant(np.array([0.0, -0.0, 0.5, -3.0])), burn.constant(np.array([1.0, -1.0, -1.0, 2.0]))
    assert burn.grad(lambda x: x.copysign(y).sum())(x).tolist() == [0.0, 0.0, -1.0, -1.0]
