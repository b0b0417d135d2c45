"""Imported models with data-dependent sizes, called as modules outside of compiled functions."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import parser
from onnx.reference import ReferenceEvaluator

import burn

X = np.array([[1.5, -2.0, 0.5], [-1.0, 3.0, -0.25]], np.float32)

CASES: dict[str, tuple[str, list[tuple[np.ndarray, ...]]]] = {
    "NonZero": (
        "(float[n,3] x) => (float[k] y) <float[1] w = {2.0}, float z = {0.0}>"
        "{ c = Greater(x, z) i = NonZero(c) t = Transpose(i) a = GatherND(x, t) y = Mul(a, w) }",
        [(X,), (-X,), (X[:0],)],
    ),
    "Unique": (
        "(float[n] x) => (float[k] y) <float[1] w = {2.0}> { u = Unique<sorted=1>(x) y = Mul(u, w) }",
        [(X[0],), (X[0, [0, 0, 1]],)],
    ),
    "Range": (
        "(int64 n) => (float[k] y) <int64 a = {0}, int64 b = {1}, float[1] w = {2.0}>"
        "{ r = Range(a, n, b) f = Cast<to=1>(r) y = Mul(f, w) }",
        [(np.array(5),), (np.array(0),)],
    ),
    "If": (
        "(float[n] x, bool c) => (float[k] y) <float[1] w = {2.0}, int64[1] o = {0}, int64[1] p = {1}> { y = If(c) <"
        "then_branch = t () => (float[a] u) { u = Mul(x, w) },"
        "else_branch = e () => (float[b] v) { s = Slice(x, o, p) v = Mul(s, w) }> }",
        [(X[0], np.array(True)), (X[0], np.array(False))],
    ),
    "Loop": (  # the carried tensor grows, and each iteration selects other elements of it
        "(float[n] x, int64 k) => (float[m] y, float[s,1] z) <bool t = {1}, float[1] w = {2.0}, int64[1] ax = {0}> {"
        "y, z = Loop(k, t, x) <body = b (int64 i, bool c, float[a] v) => (bool d, float[e] o, float[1] s) {"
        "d = Identity(c) f = Cast<to=1>(i) u = Unsqueeze(f, ax) p = Greater(v, u) q = Compress<axis=0>(v, p)"
        "r = Mul(u, w) o = Concat<axis=0>(q, v, r) s = ReduceSum<keepdims=1>(q) }> }",
        [(X[0], np.array(4)), (X[0], np.array(1))],
    ),
}


def read(name: str) -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 9, opset_import: ["":18]> g {CASES[name][0]}')


@pytest.mark.parametrize("name", CASES)
def test_against_onnx(name: str) -> None:
    model = read(name)
    module = burn.load(model, train=True)
    for inputs in CASES[name][1]:
        wanted = ReferenceEvaluator(model).run(
            None, dict(zip((i.name for i in model.graph.input), inputs, strict=True))
        )
        found = module(*inputs)
        for got, want in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True):
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want, rtol=1e-6)


def test_gradients() -> None:
    module = burn.load(read("NonZero"), train=True)
    given = burn.grad(lambda x: (module(x) ** 2).sum())(X)
    np.testing.assert_allclose(given, np.where(X > 0, 8 * X, 0), rtol=1e-6)
    (weight,) = burn.grad(lambda module: (module(X) ** 2).sum())(module).values()
    np.testing.assert_allclose(weight, [4 * (X[X > 0] ** 2).sum()], rtol=1e-6)
