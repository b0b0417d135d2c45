"""Attention and its gradients with heads of one or few features, and operands repeated along an axis, in Triton's interpreter.

Operands of `tl.dot` are padded to 16 features. An operand whose address does not depend on the feature has no mask of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burn.codegen.triton.backend import GPU
from burn.dialect import ops
from burn.dialect.adjoint import gradients
from burn.dialect.attention import DROPOUT
from burn.dialect.program import Program
from burn.dialect.types import TensorType, numpy_dtype
from burn.passes import pipeline
from burn.passes.environment import Environment
from tests.codegen.attention_gradients import Case, arrays_of, attended, reference
from tests.codegen.dropouts import KEY, Dropped
from tests.codegen.dropouts import check as check_dropout
from tests.codegen.dropouts import reference as dropout_reference
from tests.kernels.interpreting import interpreted

simulated = pytest.importorskip("tests.codegen.gpu.simulated")
pytest.importorskip("triton")
pytest.importorskip("torch")

KEPT = f"attention+attention_forward+attention_backward+{DROPOUT}"
FEATURES = [(1, 1), (1, 5), (5, 1), (2, 1), (1, 16), (16, 1), (1, 17), (17, 1), (3, 3), (15, 31)]
LENGTHS = [(9, 9), (1, 1), (1, 13), (13, 1), (17, 3), (3, 17), (33, 65)]
DTYPES = ("float32", "float16", "bfloat16")
KINDS: tuple[tuple[tuple[str, Any], ...], ...] = (
    (),
    (("causal", True),),
    (("mask", "float"),),
    (("mask", "bool"),),
    (("left", 1), ("right", 0)),
)
CASES = [
    (features, lengths, dtype, kind, dropout)
    for features in FEATURES
    for lengths in LENGTHS
    for dtype in DTYPES
    for kind in KINDS
    for dropout in (False, True)
    if "mask" not in dict(kind) or lengths[0] > 3  # masks of these cases hide a row
]


def run(program: Program, arrays: list[np.ndarray]) -> list[np.ndarray]:
    pipeline.run(pipeline.parse(f"decompose{{keep={KEPT}}},fuse"), program, Environment(GPU()))
    return interpreted(program, arrays, simulated.Simulator().launch, GPU().preferences)


def with_result(case: Case) -> Program:
    """Attention's result, and the gradients of its operands."""
    given = [(name, TensorType(case.dtype, shape)) for name, shape in zip("qkv", case.shapes, strict=True)]
    given.append(("g", TensorType(case.dtype, (case.b, case.h, case.s, case.e))))
    given += [("mask", TensorType(case.mask, (case.s, case.t)))] if case.mask else []
    program = Program.create(given)
    q, k, v, g, *mask = program.inputs
    with program.building("node"):
        y = ops.attention(q, k, v, *mask, **case.settings())
        found = gradients([y], [g], [q, k, v])
    program.finish([(f"r{number}", x) for number, x in enumerate([y, *(x for x in found if x is not None)])])
    return program


def parts(
    features: tuple[int, int], lengths: tuple[int, int], dtype: str, kind: tuple[tuple[str, Any], ...], dropout: bool
) -> tuple[object, ...]:
    """Combinations that the default run covers."""
    return (features, dtype), (lengths, kind), (1 in features, dropout, kind)


def close(dtype: str) -> float:
    return {"float32": 2e-5, "float16": 1e-2}.get(dtype, 8e-2)


@pytest.mark.covering(each=parts)
@pytest.mark.parametrize(
    ("features", "lengths", "dtype", "kind", "dropout"), CASES, ids=lambda value: str(value).replace(" ", "")
)
def test_few_features(
    features: tuple[int, int], lengths: tuple[int, int], dtype: str, kind: tuple[tuple[str, Any], ...], dropout: bool
) -> None:
    (d, e), (s, t) = features, lengths
    sizes: dict[str, Any] = {"h": 1, "g": 1, "s": s, "t": t, "d": d, "e": e, "dtype": dtype}
    settings: dict[str, Any] = {name: dtype if value == "float" else value for name, value in kind}
    case = Dropped("few", **sizes, **settings, rate=0.4) if dropout else Case("few", **sizes, **settings)
    arrays = arrays_of(case)
    extra = {"mask": arrays[4]} if case.mask else {}
    if isinstance(case, Dropped):
        want = dropout_reference(case, arrays[:3], arrays[3], np.array(KEY, np.uint32), **extra)
        got = run(case.program(), [*arrays, np.array(KEY, np.uint32)])
    else:
        p, _, v = attended(case, arrays[:3], **extra)
        want = [p @ v, *reference(case, arrays[:3], arrays[3], **extra)]
        got = run(with_result(case), arrays)
    check_dropout(got, want, close(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axis", [1, 2, 3])
@pytest.mark.parametrize("repeated", ["qk", "kv", "qkv", "q", "v"])
def test_operands_repeated_along_an_axis(repeated: str, axis: int, dtype: str) -> None:
    """Heads, rows, or features that are views of one."""
    b, h, s, d = 2, 3, 5, 5
    whole = (b, h, s, d)
    shapes = {name: tuple(1 if name in repeated and n == axis else x for n, x in enumerate(whole)) for name in "qkv"}
    program = Program.create([(name, TensorType(dtype, shape)) for name, shape in shapes.items()])
    with program.building("node"):
        operands = [ops.broadcast_to(x, shape=whole) for x in program.inputs]
        y = ops.attention(*operands, scale=0.4)
    program.finish([("y", y)])
    rng = np.random.default_rng(3)
    arrays = [rng.standard_normal(shape).astype(numpy_dtype(dtype)) for shape in shapes.values()]
    p, _, v = attended(Case("repeated", b=b, h=h, g=h, t=s), [np.broadcast_to(x, whole) for x in arrays])
    (got,) = run(program, arrays)
    np.testing.assert_allclose(got.astype(np.float64), p @ v, rtol=close(dtype), atol=close(dtype))
