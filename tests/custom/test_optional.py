"""Optional operands of custom ops: bodies get None, or a tensor of no type in C, in every use."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burn
from burn.custom import CustomOp

TYPES = "float32[n, k], float32[k]?, float32[]? -> float32[n, k]"
SOURCE = r"""#include "burn_custom.h"
int affine(const burn_custom_call *call) {
    const burn_custom_tensor *x = &call->input[0], *bias = &call->input[1], *scale = &call->input[2];
    if (call->inputs != 3)
        return 3;
    for (int64_t i = 0; i < x->elements; i++) {
        float y = ((const float *)x->data)[i];
        if (scale->type != BURN_CUSTOM_ABSENT)
            y *= *(const float *)scale->data;
        if (bias->data)
            y += ((const float *)bias->data)[i % x->sizes[1]];
        ((float *)call->output[0].data)[i] = y;
    }
    return 0;
}"""
CASES: list[tuple[bool, bool]] = [(True, True), (True, False), (False, True), (False, False)]
X = np.arange(6, dtype=np.float32).reshape(3, 2)
BIAS, SCALE = np.array([1, -1], np.float32), np.float32(3)


def compute(x: Any, bias: Any = None, scale: Any = None) -> Any:
    y = x if scale is None else x * scale
    return y if bias is None else y + bias


def affine(kind: str) -> CustomOp:
    op = burn.custom_op("tests::affine", TYPES)
    if kind == "c":
        op.c(SOURCE, "affine")
    elif kind == "c++":
        op.c(SOURCE, "affine", language="c++")
    elif kind == "functions":
        op.functions(compute)
    else:
        op.python(lambda *xs: np.asarray(compute(*xs), np.float32))
    if kind != "functions":

        @op.vjp
        def _(g: Any, y: Any, x: Any, bias: Any, scale: Any) -> Any:
            back = g if scale is None else g * scale
            return back, None if bias is None else g.sum(0), None if scale is None else (g * x).sum()

    return op


def given(has_bias: bool, has_scale: bool) -> list[Any]:
    return [X, BIAS if has_bias else None, SCALE if has_scale else None]


@pytest.mark.parametrize("kind", ["c", "functions", "python", pytest.param("c++", marks=pytest.mark.slow)])
@pytest.mark.parametrize("case", CASES)
def test_calls_and_gradients(kind: str, case: tuple[bool, bool]) -> None:
    op, operands = affine(kind), given(*case)
    np.testing.assert_array_equal(op(*operands).numpy(), compute(*operands))
    present = [x for x in operands if x is not None]

    def function(*xs: Any) -> Any:
        rest = iter(xs)
        return (op(*(None if x is None else next(rest) for x in operands)) ** 2).sum()

    found = burn.jit(burn.grad(function, tuple(range(len(present)))))(*present)
    y, scale = compute(*operands), operands[2] if operands[2] is not None else np.float32(1)
    want = [2 * y * scale, (2 * y).sum(0), (2 * y * X).sum()]
    for have, expected in zip(found, [w for w, x in zip(want, operands, strict=True) if x is not None], strict=True):
        np.testing.assert_allclose(have, expected, rtol=1e-5)
    rows = burn.vmap(lambda x: op(x[None], *operands[1:])[0])(X)
    np.testing.assert_array_equal(rows.numpy(), compute(*operands))


def test_operands_that_are_left_out() -> None:
    op = affine("c")
    np.testing.assert_array_equal(op(X).numpy(), X)
    np.testing.assert_array_equal(op(X, BIAS).numpy(), X + BIAS)
    typed = burn.custom_op("tests::typed")(lambda x, bias=None, *, by=1.0: x)
    typed.python(lambda x, bias, by: x * np.float32(by) if bias is None else x + bias)
    assert typed(X, by=2.0).tolist() == (X * 2).tolist() and typed(X, BIAS).tolist() == (X + BIAS).tolist()
    assert op.version.lacking([1, None, 2]).key != op.version.key


@pytest.mark.parametrize("case", CASES)
def test_files(case: tuple[bool, bool], tmp_path: Path) -> None:
    op, operands = affine("c"), given(*case)
    model = burn.export(lambda x: op(x, *operands[1:]), tmp_path / "m.onnx", {"x": "float32[n, 2]"})
    (node,) = [node for node in model.graph.node if node.domain == "tests"]
    names = [bool(name) for name in node.input]
    assert names == [True, *case][: len(names)] and names[-1]
    np.testing.assert_array_equal(burn.load(tmp_path / "m.onnx")(X), compute(*operands))


def test_a_command(tmp_path: Path) -> None:
    from burn.deploy.build import build
    from burn.tracing.trace import trace

    op = affine("c")
    (command,) = build("exe", trace(lambda x: op(x, None, x.sum()) + op(x), {"x": "float32[n, 2]"}), tmp_path / "m")
    np.savez(tmp_path / "in.npz", x=X)
    subprocess.run([command, tmp_path / "in.npz", "-o", tmp_path / "out.npz"], check=True)
    np.testing.assert_array_equal(np.load(tmp_path / "out.npz")["output"], X * X.sum() + X)


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
@pytest.mark.parametrize("case", [CASES[1], *(pytest.param(c, marks=pytest.mark.slow) for c in (CASES[0], *CASES[2:]))])
def test_torch(case: tuple[bool, bool]) -> None:
    import torch

    bound, operands = affine("c").torch(), given(*case)
    tensors = [None if x is None else torch.tensor(x, requires_grad=True) for x in operands]
    function = torch.compile(lambda *xs: (bound(*xs) ** 2).sum(), backend="burn")
    for call in (function, lambda *xs: (bound(*xs) ** 2).sum()):
        call(*tensors).backward()
        assert tensors[0] is not None and tensors[0].grad is not None
        scale = operands[2] if operands[2] is not None else 1
        np.testing.assert_allclose(tensors[0].grad.numpy(), 2 * compute(*operands) * scale, rtol=1e-6)
        tensors[0].grad = None


@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="JAX is not installed")
def test_jax() -> None:
    bound = affine("c").jax()
    for case in CASES:
        operands = given(*case)
        np.testing.assert_array_equal(bound(*operands), compute(*operands))
        imported = burn.from_jax(lambda x, operands=operands: bound(x, *operands[1:]))
        np.testing.assert_array_equal(burn.jit(imported)(X), compute(*operands))


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
def test_kernels(gpu: Any) -> None:
    from burn.custom import Launch
    from tests.custom.table import square_kernel

    op = burn.custom_op("tests::either", "float32[n], float32[n]? -> float32[n]")
    seen = []

    @op.triton
    def _(x: Any, other: Any, y: Any) -> Launch:
        seen.append(other is None)
        return Launch(
            square_kernel, -(-x.elements // 64), (x if other is None else other, y, x.elements, 1.0), {"BLOCK": 64}
        )

    x = np.arange(5, dtype=np.float32)
    program = burn.compile(lambda x: op(x) + op(x, x + 1), ["float32[n]"], device="cuda")
    np.testing.assert_array_equal(program(x), x**2 + (x + 1) ** 2)
    assert sorted(seen) == [False, True]


def test_errors() -> None:
    op = affine("python")
    with pytest.raises(burn.TypeMismatch, match="operand 0 is not optional"):
        op(None, BIAS)
    with pytest.raises(burn.TypeMismatch, match=r"takes 3 operands"):
        op(X, None, None, X)
    with pytest.raises(burn.TypeMismatch, match="no operand has what the result"):
        burn.custom_op("tests::size", "float32[n], float32[m]? -> float32[m]")
    with pytest.raises(burn.TypeMismatch, match="a result is not optional"):
        burn.custom_op("tests::result", "float32[n] -> float32[n]?")
    with pytest.raises(burn.TypeMismatch, match="no defaults but None"):
        burn.custom_op("tests::default")(lambda x, y=1: x)
