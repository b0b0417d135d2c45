"""Loops that end before their last trip: lengths of stacks and derivatives come from the iterations that ran.

glibc's MALLOC_PERTURB_ fills uninitialised memory, so that reads of it change results. One test runs this file again with it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import burn
from burn.errors import BurnError

X = np.array([0.3, 0.9, 1.4])


def _ends(limit: float, **options: Any) -> Callable[[burn.Tensor], Any]:
    """8 trips of adding 1, one slice each, until every element has reached the limit."""

    def body(i: burn.Tensor, going: burn.Tensor, s: burn.Tensor) -> Any:
        s = s + 1.0
        return (s < limit).all(), s, s * 10.0

    return lambda v: burn.loop(body, (v,), trips=8, scans=1, **options)


@pytest.mark.parametrize(("limit", "steps"), [(0.5, 1), (3.0, 3), (100.0, 8)])
@pytest.mark.parametrize("options", [{}, {"condition": True}], ids=["trips", "trips and condition"])
def test_the_stack_has_the_slices_that_ran(limit: float, steps: int, options: Any) -> None:
    want = [np.arange(1.0, steps + 1) * 10]
    for run in (_ends(limit, **options), burn.jit(_ends(limit, **options))):
        last, stack = run(burn.zeros(2))
        np.testing.assert_array_equal(stack.numpy(), np.tile(np.transpose(want), (1, 2)))
        np.testing.assert_array_equal(last.numpy(), [steps] * 2)


def test_a_stack_of_a_loop_that_never_starts_is_empty() -> None:
    last, stack = burn.jit(lambda v: _ends(9.0, condition=burn.constant(False))(v))(burn.zeros(2))
    assert stack.shape == (0, 2) and last.tolist() == [0, 0]
    last, stack = burn.jit(lambda v: burn.loop(lambda i, going, s: (going, s, s), (v,), trips=-3, scans=1))(
        burn.zeros(2)
    )
    assert stack.shape == (0, 2) and last.tolist() == [0, 0]


def test_a_length_that_a_condition_may_shorten_is_no_number() -> None:
    with pytest.raises(BurnError, match="may end it early"):
        burn.jit(_ends(3.0, results=["float32[2]", "float32[8, 2]"]))(burn.zeros(2))


def _halving(limit: float, length: bool) -> Callable[[burn.Tensor], burn.Tensor]:
    def body(count: burn.Tensor, going: burn.Tensor, v: burn.Tensor) -> Any:
        v = v * v.sin()
        return (going & (v.max() > limit), v, v * v)[: 3 if length else 2]

    def function(v: burn.Tensor) -> burn.Tensor:
        last, *stacks = burn.loop(body, (v,), trips=40, scans=1 if length else 0)
        return last.sum() + sum((s.sum() for s in stacks), burn.constant(0.0, "float64"))

    return function


def _same_by_hand(limit: float, length: bool) -> Callable[[burn.Tensor], burn.Tensor]:
    """The iterations written one after another: as many as run at X."""

    def function(v: burn.Tensor) -> burn.Tensor:
        value, total = X, burn.constant(0.0, "float64")
        for _ in range(40):
            value, v = value * np.sin(value), v * v.sin()
            total = total + (v * v).sum() if length else total
            if value.max() <= limit:
                break
        return v.sum() + total

    return function


@pytest.mark.parametrize(("limit", "length"), [(1.3, True), (0.9, False)], ids=["stacked", "carried"])
def test_derivatives(limit: float, length: bool) -> None:
    f, plain = _halving(limit, length), _same_by_hand(limit, length)
    x = burn.constant(X)
    np.testing.assert_allclose(burn.jit(f)(x).numpy(), plain(x).numpy(), rtol=1e-12)
    np.testing.assert_allclose(burn.jit(burn.grad(f))(x).numpy(), burn.grad(plain)(x).numpy(), rtol=1e-9)
    second = burn.jit(burn.grad(lambda v: (burn.grad(f)(v) ** 2).sum()))(x).numpy()
    np.testing.assert_allclose(second, burn.grad(lambda v: (burn.grad(plain)(v) ** 2).sum())(x).numpy(), rtol=1e-8)


def test_derivatives_of_a_loop_in_a_loop() -> None:
    """The inner loop ends early in every iteration of the outer one, after another number of iterations each time."""

    def inner(i: burn.Tensor, going: burn.Tensor, v: burn.Tensor) -> Any:
        v = v * 1.5
        return v.sum() < 20.0, v

    def outer(i: burn.Tensor, going: burn.Tensor, v: burn.Tensor) -> Any:
        (v,) = burn.loop(inner, (v,), trips=30)
        return going, v.sin() + v * 0.1

    def by_hand(v: burn.Tensor) -> burn.Tensor:
        value = X
        for _ in range(3):
            for _ in range(30):
                v, value = v * 1.5, value * 1.5
                if value.sum() >= 20:
                    break
            v, value = v.sin() + v * 0.1, np.sin(value) + value * 0.1
        return v.sum()

    f = burn.jit(burn.grad(lambda v: burn.loop(outer, (v,), trips=3)[0].sum()))
    np.testing.assert_allclose(f(burn.constant(X)).numpy(), burn.grad(by_hand)(burn.constant(X)).numpy(), rtol=1e-9)


LOOP = """<ir_version: 9, opset_import: ["" : 18]>
g (double[3] x) => (double[3] last, double[n, 3] all)
<int64 trips = {8}, bool yes = {1}, double[3] one = {1, 1, 1}, double limit = {3}> {
  last, all = Loop (trips, yes, x) <body = b (int64 i, bool go, double[3] s) => (bool on, double[3] next, double[3] slice) {
    next = Add (s, one)
    slice = Mul (next, next)
    top = ReduceMax <keepdims = 0> (next)
    on = Less (top, limit)
  }>
}"""


def test_imported_loops_and_exported_ones(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(LOOP)
    steps = X + np.arange(1.0, 3)[:, None]
    loaded = burn.load(model, train=True)
    got = burn.jit(loaded)(burn.constant(X))
    np.testing.assert_allclose(got[0].numpy(), steps[-1])
    np.testing.assert_allclose(got[1].numpy(), steps**2)
    grads = burn.jit(burn.grad(lambda m, x: m(x)[1].sum()))(loaded, burn.constant(X))
    np.testing.assert_allclose(grads["one"].numpy(), 2 * steps[0] + 2 * steps[1] * 2)
    path = tmp_path / "loop.onnx"
    burn.export(_ends(3.0), path, ("float32[2]",))
    again = burn.load(path)(np.zeros(2, np.float32))
    np.testing.assert_array_equal(np.asarray(again[1]), [[10, 10], [20, 20], [30, 30]])


@pytest.mark.parametrize("name", ["eigvalsh", "svdvals", "pinv"])
def test_sweeps_that_end_when_nothing_is_left_to_rotate(name: str) -> None:
    a = np.random.default_rng(0).standard_normal((4, 3))
    x = a.T @ a + np.diag([1.0, 2, 3]) if name == "eigvalsh" else a
    power = 2 if name == "eigvalsh" else 3
    f = burn.jit(lambda v: (getattr(burn.linalg, name)(v) ** power).sum())
    grad = burn.jit(burn.grad(lambda v: (getattr(burn.linalg, name)(v) ** power).sum()))(burn.constant(x)).numpy()
    direction = np.random.default_rng(1).standard_normal(x.shape)
    if name == "eigvalsh":  # the gradient is that by symmetric matrices
        direction = direction + direction.T
    ahead, back = (f(burn.constant(x + h * direction)).item() for h in (1e-6, -1e-6))
    assert (grad * direction).sum() == pytest.approx((ahead - back) / 2e-6, rel=1e-6)


@pytest.mark.skipif("MALLOC_PERTURB_" in os.environ, reason="this is that run")
@pytest.mark.skipif(sys.platform != "linux", reason="glibc's")
def test_nothing_reads_memory_that_was_not_written() -> None:
    """Again, and the loops' and factorizations' other tests, with every new block of memory full of 0xaa."""
    here = Path(__file__).parent
    picked = "derivatives or stack or eigvalsh or svd_in_traced or test_while_loop and 100"
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-k", picked]
    files = [__file__, str(here / "test_control.py"), str(here / "test_linalg.py")]
    env = {**os.environ, "MALLOC_PERTURB_": "85"}
    run = subprocess.run([*command, *files], env=env, capture_output=True, text=True, timeout=600, check=False)
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-2000:]
