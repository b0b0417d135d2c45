"""Custom ops under `burn.vmap`: by a rule, by burn functions, and in a loop over the examples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import burn
from burn.custom import CustomOp
from tests.custom.table import GAIN, made

TYPES = "T[n], T[] -> T[n], T[]"
SOURCE = r"""#include "burn_custom.h"
int scaled(const burn_custom_call *call) {
    const float *x = call->input[0].data, *w = call->input[1].data;
    float *y = call->output[0].data, *total = call->output[1].data;
    *total = 0;
    for (int64_t i = 0; i < call->input[0].elements; i++) {
        y[i] = x[i] * x[i] * w[0];
        *total += y[i];
    }
    return 0;
}"""


def scaled(kinds: str) -> CustomOp:
    """y = x * x * w, and the sum of y. kinds: c, f(unctions), p(ython), r(ule of the derivative), b(atching rule)."""
    op = burn.custom_op("tests::scaled", TYPES)
    if "c" in kinds:
        op.c(SOURCE, "scaled")
    if "f" in kinds:
        op.functions(lambda x, w: (x * x * w, (x * x * w).sum()))
    if "p" in kinds:
        op.python(lambda x, w: (x * x * w, (x * x * w).sum()))
    if "r" in kinds:
        op.vjp(lambda g, y, x, w: ((g[0] + g[1]) * 2 * x * w, ((g[0] + g[1]) * x * x).sum()))
    if "b" in kinds:

        @op.vmap
        def _(size: Any, mapped: tuple[bool, ...], x: Any, w: Any) -> Any:
            x = x if mapped[0] else burn.broadcast_to(x, (size, *x.shape))
            w = w if mapped[1] else burn.broadcast_to(w, (size,))
            y = x * x * w[:, None]
            return y, y.sum(1)

    return op


AXES = ((0, None), (1, 0), (None, 0))


@pytest.mark.covering
@pytest.mark.parametrize("kinds", ["c", "f", "p", "cf", "cr", "cb", "fb", "cfr"])
@pytest.mark.parametrize("axes", AXES)
def test_mapped(kinds: str, axes: tuple[int | None, int | None]) -> None:
    op = scaled(kinds)
    function = burn.jit(burn.vmap(lambda x, w: op(x + 1, w), in_axes=axes))
    for size, n in ((1, 4), (3, 1), (0, 2), (5, 0)):
        rng = np.random.default_rng(size)
        x = rng.standard_normal({0: (size, n), 1: (n, size), None: (n,)}[axes[0]]).astype(np.float32)
        w = rng.standard_normal(() if axes[1] is None else (size,)).astype(np.float32)
        rows = np.moveaxis(x, axes[0], 0) if axes[0] is not None else np.broadcast_to(x, (size, n))
        want = (rows.astype(np.float64) + 1) ** 2 * np.broadcast_to(w, (size,))[:, None]
        y, total = function(x, w)
        np.testing.assert_allclose(np.asarray(y), want, rtol=1e-5)
        np.testing.assert_allclose(np.asarray(total), want.sum(1), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kinds", ["f", "cf", "cr", "crb", "fb", "cfr"])
def test_gradients(kinds: str) -> None:
    """Of each example, and of the batch."""
    op = scaled(kinds)
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)

    def loss(x: Any, w: Any) -> Any:
        y, total = op(x, w)
        return y.sum() + total * 2

    each = burn.jit(burn.vmap(burn.grad(loss), in_axes=(0, None)))(x, np.float32(0.5))
    np.testing.assert_allclose(each, 3 * x, rtol=1e-5)
    mean = burn.jit(burn.grad(lambda x: burn.vmap(loss, in_axes=(0, None))(x, 0.5).sum()))(x)
    np.testing.assert_allclose(mean, 3 * x, rtol=1e-5)
    nested = burn.jit(burn.vmap(burn.vmap(burn.grad(loss), in_axes=(0, None)), in_axes=(None, 0)))
    w = np.array([0.5, 2.0], np.float32)
    np.testing.assert_allclose(nested(x, w), 6 * x * w[:, None, None], rtol=1e-5)


def test_named_sizes_and_loops() -> None:
    op = scaled("c")

    def one(x: Any) -> Any:
        return burn.fori_loop(0, 2, lambda i, acc: op(acc, 0.5)[0], x)

    program = burn.compile(burn.vmap(one), {"x": "float32[batch, n]"})
    for shape in ((2, 3), (0, 3), (7, 1)):
        x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        np.testing.assert_allclose(program(x), 0.5 * (0.5 * x**2) ** 2, rtol=1e-5)


def test_functions_are_mapped_and_others_loop() -> None:
    """The body of burn functions stays one group with its neighbours. C runs once for each example."""
    both = burn.custom_op("tests::both", "float32[n] -> float32[n]").c(SOURCE, "scaled")
    both.functions(lambda x: x * x + 1)
    mapped = burn.compile(burn.vmap(lambda x: both(x * 2) * 3), ["float32[batch, n]"])
    assert len(mapped.artefact.kernels) == 1
    looped = burn.compile(burn.vmap(made("C source")), ["float32[batch, n]"])
    x = np.ones((5, 2), np.float32)
    rows = {row.kernel.name: row.calls for row in looped.profile(x).rows}
    assert rows["tests.table::square"] == 5
    assert GAIN != 1.0 and np.asarray(looped(x)).tolist() == x.tolist()


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (lambda size, mapped, x, w: x, "its batching rule returned 1 results; its types say 2"),
        (
            lambda size, mapped, x, w: (x[0], x.sum(1)),
            r"returned float32\[2\] as result 0, which is float32\[3, 2\] of all",
        ),
    ],
)
def test_rules_that_are_wrong(rule: Callable[..., Any], message: str) -> None:
    op = scaled("c")
    op.vmap(rule)
    with pytest.raises(burn.TypeMismatch, match=f"tests::scaled.*{message}"):
        burn.vmap(op, in_axes=(0, None))(np.ones((3, 2), np.float32), 1.0)
