"""`burn.vmap`: axes and containers, nesting, derivatives in either order, control flow, random numbers, and errors."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import burn
from burn import Tensor
from burn.dialect.query import blocks, erase_dead
from burn.errors import TypeMismatch
from burn.tracing.trace import trace

RNG = np.random.default_rng(7)
X, W, Y = RNG.standard_normal((5, 3)), RNG.standard_normal((3, 4)), RNG.standard_normal((5, 4))


def _loss(w: Tensor, x: Tensor, y: Tensor) -> Tensor:
    return ((x @ w).tanh() - y).square().sum()


def same(got: Any, want: Any) -> None:
    got = got.numpy() if isinstance(got, Tensor) else np.asarray(got)
    assert got.shape == np.shape(want)
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-11)


# ---- axes and containers -----------------------------------------------------------------------------------------------
class Pair(NamedTuple):
    first: Any
    second: Any


def test_axes_of_containers() -> None:
    def f(pair: Pair, rest: dict[str, Any], scale: float = 1.0) -> dict[str, Any]:
        assert pair.first.shape == (3,) and rest["w"].shape == (3, 4) and rest["none"] is None and scale == 2.0
        return {"a": (pair.first @ rest["w"]) * pair.second * scale, "b": [pair.second + 0.0, rest["w"]], "name": "f"}

    axes = (Pair(-1, 0), {"w": None, "none": None})
    out = {"a": 1, "b": [-1, None], "name": None}
    second = np.arange(5.0)
    got = burn.vmap(f, (*axes, None), out)(Pair(X.T.copy(), second), {"w": W, "none": None}, 2.0)
    same(got["a"], ((X @ W) * second[:, None] * 2.0).T)
    same(got["b"][0], second)
    same(got["b"][1], W)
    assert got["name"] == "f"


def test_one_axis_goes_for_a_container_and_for_keywords() -> None:
    got = burn.vmap(lambda pair, *, z: pair[0] * pair[1] + z)((X, X), z=X)
    same(got, X * X + X)


def test_no_examples_and_one() -> None:
    for n in (0, 1):
        got = burn.vmap(burn.grad(_loss), (None, 0, 0))(W, X[:n], Y[:n])
        same(
            got,
            np.stack([burn.grad(_loss)(W, *row).numpy() for row in zip(X[:n], Y[:n], strict=True)])
            if n
            else np.zeros((0, 3, 4)),
        )


def test_nested() -> None:
    """All pairs, and all pairs with the axes of both exchanged."""
    kernel = lambda a, b: (-(a - b).square().sum()).exp()  # noqa: E731
    want = np.exp(-((X[:, None] - Y[None, :, :3]) ** 2).sum(-1))
    same(burn.vmap(burn.vmap(kernel, (None, 0)), (0, None))(X, Y[:, :3]), want)
    same(burn.vmap(burn.vmap(kernel, (0, None)), (None, 0), out_axes=1)(X, Y[:, :3]), want)


def test_is_one_batched_program() -> None:
    """No loop, and each matmul stays one matmul, for any number of examples."""
    step = burn.vmap(burn.grad(_loss), (None, 0, 0))
    program = trace(step, {"w": "float64[3, 4]", "x": "float64[n, 3]", "y": "float64[n, 4]"})
    erase_dead(program.block)
    names = [op.operation.name for block in blocks(program.block) for op in block.operations]
    assert "burn.loop" not in names
    assert names.count("burn.dot_general") == 2  # x @ w, and the gradient of w for each example


def test_attention_keeps_its_kernels() -> None:
    """The forward and the backward pass stay ops with kernels; their examples join the batch."""
    one = lambda q, k, m: burn.ops.attention(q, k, k, m, None, scale=0.5).square().sum()  # noqa: E731
    step = burn.vmap(burn.grad(one, (0, 1)), (0, None, 0))
    program = trace(step, {"q": "float32[n, 2, 4, 5, 8]", "k": "float32[2, 2, 6, 8]", "m": "float32[n, 5, 6]"})
    erase_dead(program.block)
    names = [op.operation.name for block in blocks(program.block) for op in block.operations]
    assert {"burn.attention_forward", "burn.attention_backward"} <= set(names) and "burn.exp" not in names
    q, k, m = (RNG.standard_normal(s).astype(np.float32) for s in ((3, 2, 4, 5, 8), (2, 2, 6, 8), (3, 5, 6)))
    for got, i in zip(burn.jit(step)(q, k, m), range(2), strict=True):
        want = np.stack([burn.grad(one, i)(q[n], k, m[n]).numpy() for n in range(3)])
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4)


def test_symbolic_size_under_compile() -> None:
    function = burn.compile(
        burn.vmap(burn.grad(_loss), (None, 0, -1)), ("float64[3, 4]", "float64[n, 3]", "float64[4, n]")
    )
    for n in (1, 4):
        want = np.stack([burn.grad(_loss)(W, *row).numpy() for row in zip(X[:n], Y[:n], strict=True)])
        same(function(W, X[:n].copy(), Y[:n].T.copy()), want)


def test_symbolic_groups_of_a_convolution() -> None:
    """Each example has a kernel of its own, and their number is not known when the program is compiled."""
    x, k = RNG.standard_normal((2, 1, 2, 5)), RNG.standard_normal((2, 4, 1, 3))
    one = lambda x, k: burn.ops.conv(x, k, strides=(2,), dilations=(1,), low=(1,), high=(2,), groups=2)  # noqa: E731
    function = burn.compile(burn.vmap(one), ("float64[n, 1, 2, 5]", "float64[n, 4, 1, 3]"))
    same(function(x, k), np.stack([one(*map(burn.constant, row)).numpy() for row in zip(x, k, strict=True)]))


def test_modules_are_shared() -> None:
    layer = burn.nn.Linear(3, 4)
    x = X.astype(np.float32)
    np.testing.assert_allclose(burn.vmap(layer)(x).numpy(), layer(x).numpy(), rtol=1e-5, atol=1e-6)
    each = burn.vmap(burn.grad(lambda m, row: m(row).square().sum()), (None, 0))(layer, x)
    total = burn.grad(lambda m: m(x).square().sum())(layer)
    assert set(each) == {"weight", "bias"}
    for path, g in each.items():
        np.testing.assert_allclose(g.numpy().sum(0), total[path].numpy(), rtol=1e-4, atol=1e-5)
    with pytest.raises(TypeMismatch, match="shared by all examples"):
        burn.vmap(lambda m, row: m(row))(layer, x)


# ---- derivatives -------------------------------------------------------------------------------------------------------
def test_gradient_of_captured_tensors() -> None:
    """Derivatives reach the tensors that the mapped function captures, lazily and in a traced function."""
    total = lambda w: burn.vmap(lambda x, y: _loss(w, x, y))(X, Y).sum()  # noqa: E731
    want = sum(burn.grad(_loss)(W, *row).numpy() for row in zip(X, Y, strict=True))
    same(burn.grad(total)(W), want)
    same(burn.jit(burn.grad(total))(W), want)


def test_vjp_and_linearize_of_the_code_around() -> None:
    _, back = burn.vjp(lambda w: (burn.constant(X) @ w).tanh(), W)
    seeds = RNG.standard_normal((6, 5, 4))
    want = np.stack([back(g)[0].numpy() for g in seeds])
    same(burn.vmap(back)(seeds)[0], want)
    same(burn.jit(lambda s: burn.vmap(back)(s)[0])(seeds), want)
    _, along = burn.linearize(lambda w: (burn.constant(X) @ w).tanh(), W)
    directions = RNG.standard_normal((6, 3, 4))
    want = np.stack([burn.jvp(lambda w: (burn.constant(X) @ w).tanh(), (W,), (d,))[1].numpy() for d in directions])
    same(burn.vmap(along)(directions), want)


def _scaled() -> Any:
    """x^2, with three times its gradient, and a residual."""
    scaled = burn.custom_vjp(lambda x, s: x * x * s)
    scaled.defvjp(lambda x, s: (x * x * s, (x, s)), lambda kept, g: (g * kept[0] * kept[1] * 6.0, None))
    return scaled


def test_custom_vjp() -> None:
    """Mapped with its own backward pass, in either order, and where only the residual differs between examples."""
    f, s = _scaled(), np.arange(1.0, 6.0)
    each = burn.vmap(burn.grad(lambda x, s: f(x, s).sum()))
    want = 6 * X * s[:, None]
    same(each(X, s), want)
    same(burn.jit(each)(X, s), want)
    total = burn.grad(lambda x: burn.vmap(f)(x, s).sum())
    same(total(X), want)
    same(burn.jit(total)(X), want)
    shared = burn.grad(lambda x: burn.vmap(f, (None, 0))(x, s).sum())
    same(shared(X), 6 * X * s.sum())


def test_custom_vjp_in_a_loop_that_is_mapped() -> None:
    f = _scaled()

    def one(x: Tensor) -> Tensor:
        return burn.scan(lambda c, i: (f(c, 0.5) + x, None), x, length=3)[0].sum()

    want = np.stack([burn.grad(one)(row).numpy() for row in X])
    same(burn.grad(lambda x: burn.vmap(one)(x).sum())(X), want)
    same(burn.jit(burn.vmap(burn.grad(one)))(X), want)


def test_checkpoint() -> None:
    inner = burn.checkpoint(lambda x: ((x @ burn.constant(W)).tanh() * burn.constant([0, 1, 2, 3])).exp())
    one = lambda x: inner(x).sum()  # noqa: E731
    want = np.stack([burn.grad(lambda x: (x @ W).tanh().__mul__(np.arange(4)).exp().sum())(row).numpy() for row in X])
    total = burn.grad(lambda x: burn.vmap(one)(x).sum())
    for got in (burn.vmap(burn.grad(one))(X), burn.jit(burn.vmap(burn.grad(one)))(X), total(X), burn.jit(total)(X)):
        same(got, want)


@pytest.mark.slow
def test_linalg_with_its_own_derivative() -> None:
    a = RNG.standard_normal((3, 4, 4)) + 4 * np.eye(4)
    one = lambda m: burn.linalg.inv(m).square().sum()  # noqa: E731
    same(burn.vmap(burn.grad(one))(a), np.stack([burn.grad(one)(m).numpy() for m in a]))


# ---- control flow ------------------------------------------------------------------------------------------------------
def test_branches() -> None:
    """A condition that examples share, and one that differs."""

    def one(x: Tensor, limit: Tensor) -> Tensor:
        return burn.cond(x.sum() > limit, lambda: x * 2.0, lambda: x.exp() + W[:, 0])

    want = np.stack([x * 2 if x.sum() > 0 else np.exp(x) + W[:, 0] for x in X])
    same(burn.vmap(one, (0, None))(X, 0.0), want)
    same(burn.jit(burn.vmap(one, (0, None)))(X, 0.0), want)
    shared = lambda x, flag: burn.cond(flag, lambda: x * 2.0, lambda: x.exp())  # noqa: E731
    for flag in (True, False):
        same(burn.jit(burn.vmap(shared, (0, None)))(X, np.bool_(flag)), X * 2 if flag else np.exp(X))
    gradient = burn.vmap(burn.grad(lambda x, limit: one(x, limit).sum()), (0, None))
    same(gradient(X, 0.0), np.stack([np.full(3, 2.0) if x.sum() > 0 else np.exp(x) for x in X]))


def test_loops() -> None:
    """Loops that end together; stacked slices; carried values that become mapped in the loop."""

    def one(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        return burn.scan(lambda c, row: ((c @ w).tanh() + row, c.sum()), burn.zeros(3, dtype="float64"), x)

    xs, w = RNG.standard_normal((5, 6, 3)), W[:, :3].copy()
    rows = [one(burn.constant(x), burn.constant(w)) for x in xs]
    last, sums = burn.vmap(one, (0, None))(xs, w)
    same(last, np.stack([r[0].numpy() for r in rows]))
    same(sums, np.stack([r[1].numpy() for r in rows]))
    loss = lambda x, w: one(x, w)[1].square().sum()  # noqa: E731
    want = np.stack([burn.grad(loss, 1)(x, w).numpy() for x in xs])
    same(burn.jit(burn.vmap(burn.grad(loss, 1), (0, None)))(xs, w), want)


def test_loops_that_end_in_different_iterations() -> None:
    grown = lambda x: burn.while_loop(lambda s: s[0].sum() < 50.0, lambda s: (s[0] * 2.0, s[1] + 1), (x, 0))  # noqa: E731
    counted = lambda x, n: burn.fori_loop(0, n, lambda i, s: s * 2.0 + i.astype("float64"), x)  # noqa: E731
    starts, n = np.abs(X) + 0.1, np.array([0, 3, 1, 5, -2])
    want = [grown(burn.constant(x)) for x in starts]
    assert len({int(count.item()) for _, count in want}) > 1
    for function in (burn.vmap(grown), burn.jit(burn.vmap(grown))):
        values, counts = function(starts)
        same(values, np.stack([v.numpy() for v, _ in want]))
        same(counts, np.stack([c.numpy() for _, c in want]))
    want_counted = np.stack([counted(burn.constant(x), int(k)).numpy() for x, k in zip(X, n, strict=True)])
    same(burn.jit(burn.vmap(counted))(X, n), want_counted)
    with pytest.raises(TypeMismatch, match=r"loop.*different iterations.*burn\.grad of burn\.vmap"):
        burn.jit(burn.vmap(burn.grad(lambda x: grown(x)[0].sum())))(starts)
    total = burn.jit(burn.grad(lambda x: burn.vmap(grown)(x)[0].sum()))
    same(total(starts), np.stack([np.full(3, 2.0 ** c.item()) for _, c in want]))


# ---- random numbers ----------------------------------------------------------------------------------------------------
def test_draws_with_mapped_keys_are_those_of_single_calls() -> None:
    keys = burn.random.split(burn.random.key(3), 4)
    one = lambda key, x: burn.random.normal((3,), key=key) * x + burn.random.uniform((3,), key=key)  # noqa: E731
    got = burn.vmap(one, (0, None))(keys, 2.0).numpy()
    want = np.stack([one(keys[i], 2.0).numpy() for i in range(4)])
    np.testing.assert_array_equal(got, want)
    shared = burn.vmap(one, (None, 0))(keys[1], np.ones(3, np.float32)).numpy()
    np.testing.assert_array_equal(shared, np.stack([one(keys[1], 1.0).numpy()] * 3))


def test_draws_without_a_key() -> None:
    def noisy(x: Tensor) -> Tensor:
        return x + burn.random.bits(()).astype("float32")

    def looped(x: Tensor) -> Tensor:
        return burn.fori_loop(0, 2, lambda i, s: s + noisy(x), x)

    x = np.zeros(3, np.float32)
    with pytest.raises(TypeMismatch, match=r"random_key.*test_vmap.py:\d+.*without a key"):
        burn.jit(burn.vmap(looped))(x)
    assert len(set(burn.jit(burn.vmap(looped, randomness="different"))(x).tolist())) == 3
    assert len(set(burn.vmap(noisy, randomness="different")(x).tolist())) == 3
    assert len(set(burn.vmap(noisy, randomness="same")(x).tolist())) == 1
    with pytest.raises(TypeMismatch, match="randomness is not 'any'"):
        burn.vmap(noisy, randomness="any")


# ---- errors ------------------------------------------------------------------------------------------------------------
def test_wrong_axes() -> None:
    f = burn.vmap(lambda x, y: x + y)
    with pytest.raises(TypeMismatch, match="differ in size"):
        f(X, Y[:4])
    with pytest.raises(TypeMismatch, match=r"axis 2 of argument 1, float64\[5, 4\]"):
        burn.vmap(lambda x, y: x, (0, 2))(X, Y)
    with pytest.raises(TypeMismatch, match="maps no argument"):
        burn.vmap(lambda x: x, None)(X)
    with pytest.raises(TypeMismatch, match="an axis for each positional argument"):
        burn.vmap(lambda x, y: x, (0,))(X, Y)
    with pytest.raises(TypeMismatch, match="integers and None"):
        burn.vmap(lambda x: x, 0.5)
    with pytest.raises(TypeMismatch, match="another structure"):
        burn.vmap(lambda x: x["a"], ({"b": 0},))({"a": X})
    with pytest.raises(TypeMismatch, match="differs between examples"):
        burn.vmap(lambda x: x, out_axes=None)(X)
    with pytest.raises(TypeMismatch, match="axis 2 of 2"):
        burn.vmap(lambda x: x, out_axes=2)(X)


def test_ops_without_a_rule_are_named_with_their_line() -> None:
    for function, name in ((lambda x: x.nonzero(), "nonzero"), (lambda x: burn.debug.print("{}", x), "debug_print")):
        with pytest.raises(TypeMismatch, match=rf"{name}, node '.*test_vmap.py:\d+\)'"):
            burn.jit(burn.vmap(function))(X)
    with pytest.raises(TypeMismatch, match=r"read_dim.*a size cannot differ between examples"):
        burn.jit(burn.vmap(lambda n: burn.zeros(burn.read_dim(n, "k"))))(np.arange(3))


def test_data_dependent_python_is_refused() -> None:
    with pytest.raises(TypeError, match=r"burn\.cond"):
        burn.vmap(lambda x: x if x.sum() > 0 else -x)(X)


def test_assigned_parameters_are_refused() -> None:
    layer = burn.nn.BatchNorm2d(2).train()
    step = burn.jit(burn.vmap(lambda x: layer(x)))
    with pytest.raises(TypeMismatch, match=r"not assigned inside of .*burn\.vmap"):
        step(np.ones((3, 1, 2, 4, 4), np.float32))


def test_tensors_of_one_example_cannot_be_kept() -> None:
    kept: list[Tensor] = []

    def leaks(x: Tensor) -> Tensor:
        kept.append(x * 2.0)
        return x

    def outer(x: Any) -> Tensor:
        burn.vmap(leaks)(x)
        return kept[-1] + 1.0

    for function in (outer, burn.jit(outer)):
        with pytest.raises(TypeMismatch, match="has ended"):
            function(X)
