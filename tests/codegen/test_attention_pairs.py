"""Attention of bfloat16 whose two matmuls multiply pairs of elements: bounds against float64, and the layouts of operands."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from burn.codegen.cpu.heuristics.attention import column_vectors
from burn.codegen.cpu.target import TARGETS, host_targets
from burn.compiler import compile_program
from burn.dialect import ops
from burn.dialect.dims import symbol
from burn.dialect.mlir import ir
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.options import Options
from burn.runtime.executable import Executable
from burn.runtime.host import features

RUNNABLE = [target.name for target in host_targets(features()) if target.name in ("amx", "avx512bf16", "avx2")]
BF16 = np.dtype(ml_dtypes.bfloat16)
ATTRS = {"scale": 0.25, "causal": False, "offset": 0, "left": -1, "right": -1, "softcap": 0.0, "precision": None}


def attention(depth: int, columns: int, order: tuple[int, ...] = (0, 1, 2, 3), heads: int = 2) -> Program:
    """Keys and values with the axes [1, heads, t, depth] in this order in memory."""
    s, t = map(symbol, "st")
    shapes = [(1, heads, s, depth), (1, heads, t, depth), (1, heads, t, columns)]
    stored = [shapes[0], *(tuple(shape[a] for a in order) for shape in shapes[1:])]
    program = Program.create([(name, TensorType("bfloat16", x)) for name, x in zip("qkv", stored, strict=True)])
    with program.building("attend"):
        q, *rest = program.inputs
        back: tuple[int, ...] = tuple(int(a) for a in np.argsort(order))
        k, v = (ops.transpose(x, permutation=back) for x in rest)
        y: ir.Value = ops.attention(q, k, v, None, None, **ATTRS)
    return program.finish([("y", y)])


def weights(q: np.ndarray, k: np.ndarray) -> np.ndarray:
    scores = np.einsum("bhsd,bhtd->bhst", q.astype("f8"), k.astype("f8")) * ATTRS["scale"]
    e = np.exp(scores - scores.max(-1, keepdims=True, initial=-np.inf))
    return e / e.sum(-1, keepdims=True)


@pytest.mark.covering
@pytest.mark.parametrize("target", RUNNABLE)
@pytest.mark.parametrize("depth", [1, 17, 32, 64])
@pytest.mark.parametrize("columns", [1, 16, 33])
@pytest.mark.parametrize(
    "order", [(0, 1, 2, 3), (0, 2, 1, 3), (0, 1, 3, 2)], ids=["heads first", "heads last", "depth"]
)
def test_bounds(target: str, depth: int, columns: int, order: tuple[int, ...]) -> None:
    """Weights are rounded once, and exponentials have an error of 2^-17.4. The sum has the same exponentials before rounding."""
    rng = np.random.default_rng(depth + columns)
    run = Executable(compile_program(attention(depth, columns, order), Options(target=target, cache=False)))
    for s, t in ((1, 5), (3, 1), (8, 32), (13, 129), (70, 257)):
        shapes = ((1, 2, s, depth), (1, 2, t, depth), (1, 2, t, columns))
        q, k, v = (rng.standard_normal(shape).astype(BF16) for shape in shapes)
        got = run(q, *(np.ascontiguousarray(x.transpose(order)) for x in (k, v))).astype("f8")
        p = weights(q, k)
        want, most = p @ v.astype("f8"), p @ np.abs(v.astype("f8"))
        bound = (2.0**-8 + 2 * 2.0**-17.4 + 2.0**-15) * most
        assert (np.abs(got - want) <= bound + 2.0**-8 * (np.abs(want) + bound)).all()


@pytest.mark.parametrize("target", RUNNABLE)
def test_special_values(target: str) -> None:
    """NaN in a query stays in its row. An infinite value of a key with a weight gives infinity; large scores do not overflow."""
    rng = np.random.default_rng(0)
    run = Executable(compile_program(attention(16, 16), Options(target=target, cache=False)))
    q, k, v = (np.abs(rng.standard_normal((1, 2, n, 16))).astype(BF16) for n in (9, 35, 35))
    wrong = q.copy()
    wrong[0, 0, 4, 3] = np.nan
    got = run(wrong, k, v).astype("f4")
    assert (
        np.isnan(got[0, 0, 4]).all() and np.isfinite(np.delete(got[0, 0], 4, 0)).all() and np.isfinite(got[0, 1]).all()
    )
    infinite = v.copy()
    infinite[0, 1, 34, 2] = np.inf
    got = run(q, k, infinite).astype("f4")
    assert np.isposinf(got[0, 1, :, 2]).all() and np.isfinite(np.delete(got[0, 1], 2, 1)).all()
    large = (q.astype("f4") * 1e4).astype(BF16)
    got, want = run(large, k, v).astype("f8"), weights(large, k) @ v.astype("f8")
    np.testing.assert_allclose(got, want, rtol=2.0**-7)


@pytest.mark.parametrize(("target", "count"), [("avx512bf16", 2), ("amx", 0), ("avx512", 0)])
def test_instructions(target: str, count: int) -> None:
    """Both matmuls have the instruction where it is fast. `exact` rounds no weights."""
    for exact in (False, True):
        options = Options(target=TARGETS[target], as_text=True, exact=exact, cache=False)
        text = bytes(compile_program(attention(32, 32), options).code).decode()
        assert (".dpbf16ps." in text) == (count > 0 and not exact)


@pytest.mark.parametrize("columns", [1, 8, 16, 17, 40])
def test_narrow_heads_have_few_vectors(columns: int) -> None:
    """A register tile has no vectors without values, and the numbers are right for several blocks of keys."""
    assert column_vectors(columns, 16, 2) == (1 if columns <= 16 else 2)
    assert column_vectors(symbol("c"), 16, 2) == 2
    rng = np.random.default_rng(columns)
    q, k, v = (rng.standard_normal((1, 2, n, d), np.float32) for n, d in ((9, 8), (1100, 8), (1100, columns)))
    program = Program.create([(name, TensorType("float32", x.shape)) for name, x in zip("qkv", (q, k, v), strict=True)])
    with program.building("attend"):
        y: ir.Value = ops.attention(*program.inputs, None, None, **ATTRS)
    run = Executable(compile_program(program.finish([("y", y)]), Options(cache=False)))
    want = weights(q, k) @ v.astype("f8")
    np.testing.assert_allclose(run(q, k, v), want, rtol=2e-5, atol=2e-6)
