"""Derivatives of custom ops: by burn functions, by a rule, and where there is none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import burn
from burn.custom import CustomOp

SOURCE = r"""#include "burn_custom.h"
int mixed(const burn_custom_call *call) {
    const float *x = call->input[0].data, *w = call->input[1].data;
    const int64_t *i = call->input[2].data;
    float *y = call->output[0].data, *z = call->output[1].data;
    for (int64_t k = 0; k < call->input[0].elements; k++) {
        y[k] = x[k] * x[k] * w[0] * (float)i[k];
        z[k] = x[k] + w[0];
    }
    return 0;
}"""
TYPES = "T[n], T[], int64[n] -> T[n], T[n]"


def functions(x: Any, w: Any, i: Any) -> Any:
    return x * x * w * i.astype("float32"), x + w


def rule(g: Any, y: Any, x: Any, w: Any, i: Any) -> Any:
    (gy, gz), ints = g, i.astype("float32")
    return gy * 2 * x * w * ints + gz, (gy * x * x * ints + gz).sum(), None


def mixed(kinds: str) -> CustomOp:
    op = burn.custom_op("tests::mixed", TYPES)
    if "c" in kinds:
        op.c(SOURCE, "mixed")
    if "f" in kinds:
        op.functions(functions)
    if "r" in kinds:
        op.vjp(rule)
    return op


def loss(op: CustomOp, x: Any, w: Any, i: Any) -> Any:
    y, z = op(x * 2, w, i)
    return (y * y).sum() + (z * x).sum()


@pytest.mark.parametrize("kinds", ["f", "cf", "cr", "fr", "cfr"])
@pytest.mark.parametrize("size", [0, 1, 5])
def test_gradients(kinds: str, size: int) -> None:
    op = mixed(kinds)
    rng = np.random.default_rng(size)
    x, w, i = rng.standard_normal(size).astype(np.float32), np.float32(1.5), rng.integers(0, 3, size)
    wide = x.astype(np.float64)
    want_x = 2 * (4 * wide**2 * w * i) * (8 * wide * w * i) + 4 * wide + w
    want_w = (2 * (4 * wide**2 * w * i) * (4 * wide**2 * i) + wide).sum()

    def gradients(x: Any, w: Any, i: Any) -> Any:
        return burn.grad(lambda x, w: loss(op, x, w, i), (0, 1))(x, w)

    compiled = burn.compile(gradients, {"x": "float32[n]", "w": "float32[]", "i": "int64[n]"})
    for found in (gradients(x, w, burn.tensor(i)), compiled(x, w, i)):
        np.testing.assert_allclose(np.asarray(found[0]), want_x, rtol=2e-5, atol=1e-5)
        np.testing.assert_allclose(np.asarray(found[1]), want_w, rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("kinds", ["f", "cf", "cr"])
def test_one_result_that_nothing_uses_and_forward_derivatives(kinds: str) -> None:
    x, i, op = np.array([1.0, 2.0], np.float32), np.array([1, 3]), mixed(kinds)
    np.testing.assert_allclose(burn.grad(lambda x: op(x, 2.0, i)[1].sum())(x).numpy(), [1, 1])
    _, tangent = burn.jvp(lambda x: op(x, 2.0, i)[0], (x,), (np.ones(2, np.float32),))
    np.testing.assert_allclose(tangent.numpy(), [4, 24])
    second = burn.grad(lambda x: burn.grad(lambda x: op(x, 2.0, i)[0].sum())(x).sum())(x)
    np.testing.assert_allclose(second.numpy(), [4, 12])


def test_a_rule_in_loops_branches_and_checkpoints() -> None:
    op = mixed("cr")
    i = np.array([1, 1])

    def f(x: Any) -> Any:
        y = burn.fori_loop(0, 2, lambda n, acc: op(acc, 0.5, i)[0], x)
        return burn.cond(x.sum() > 0, lambda: op(y, 1.0, i)[0].sum(), lambda: y.sum())

    x = np.array([1.5, 2.0], np.float32)
    for function in (f, burn.checkpoint(f)):
        np.testing.assert_allclose(burn.jit(burn.grad(function))(x), 8 * x**7 / 64, rtol=1e-5)


def test_a_rule_may_call_a_custom_op() -> None:
    forward, backward = (
        burn.custom_op(f"tests::{name}", "float32[n], float32[n] -> float32[n]") for name in ("to", "back")
    )
    source = """#include "burn_custom.h"
    int f(const burn_custom_call *c) {{
        for (int64_t i = 0; i < c->input[0].elements; i++) {{
            float a = ((const float *)c->input[0].data)[i], b = ((const float *)c->input[1].data)[i];
            ((float *)c->output[0].data)[i] = {};
        }}
        return 0;
    }}"""
    forward.c(source.format("a * a * b"), "f")
    backward.c(source.format("2 * a * b"), "f")
    forward.vjp(lambda g, y, x, w: (backward(x, w) * g, None))
    x = np.arange(3, dtype=np.float32)
    np.testing.assert_allclose(burn.jit(burn.grad(lambda x: forward(x, x + 1).sum()))(x), 2 * x * (x + 1))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda g, y, x, w, i: (x, w), "2 cotangents for 3 operands"),
        (lambda g, y, x, w, i: (x[:1], w, None), r"float32\[1\] as the cotangent of operand 0, which is float32\[2\]"),
        (lambda g, y, x, w, i: (x.astype("float64"), w, None), r"float64\[2\] as the cotangent of operand 0"),
    ],
)
def test_rules_that_are_wrong(given: Any, message: str) -> None:
    op = mixed("c")
    op.vjp(given)
    with pytest.raises(burn.TypeMismatch, match=message):
        burn.grad(lambda x: op(x, 1.0, np.array([1, 1]))[0].sum())(np.ones(2, np.float32))


def test_no_derivative() -> None:
    op = mixed("c")
    with pytest.raises(burn.TypeMismatch, match=r"tests::mixed has no derivative: give it one with \.vjp"):
        burn.grad(lambda x: op(x, 1.0, np.array([1]))[0].sum())(np.ones(1, np.float32))


def test_training_with_a_c_body() -> None:
    from burn import nn, optim

    op = mixed("cf")
    losses = []
    for kinds in ("cf", "f"):
        op = mixed(kinds)
        burn.manual_seed(0)
        net = nn.Linear(3, 4)

        def objective(net: Any, x: Any, op: CustomOp = op) -> Any:
            return (op(net(x).reshape(-1), 0.3, burn.ones((x.shape[0] * 4,), dtype="int64"))[0] - 1.0).square().mean()

        step = burn.train.step(net, objective, optim.Adam(net, 0.01))
        x = np.random.default_rng(0).standard_normal((8, 3)).astype(np.float32)
        losses.append([float(step(x)) for _ in range(5)])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)
    assert losses[0][-1] < losses[0][0]
