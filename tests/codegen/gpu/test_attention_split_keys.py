"""Few queries over many keys: parts of the keys side by side, and what joins them, in Triton's interpreter against float64."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from burn.codegen.triton.backend import GPU
from burn.dialect import ops
from burn.dialect.dims import symbol
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.kernels.text import program_text
from burn.passes import pipeline
from burn.passes.environment import Environment
from tests.codegen.attention_gradients import Case, arrays_of, attended
from tests.kernels.interpreting import interpreted

simulated = pytest.importorskip("tests.codegen.gpu.simulated")
pytest.importorskip("triton")
pytest.importorskip("torch")

PREFERENCES = replace(GPU().preferences, split_keys=32)

CASES = [
    Case("one query", s=1, t=150),
    Case("bfloat16", s=1, t=128, dtype="bfloat16"),
    Case("a few queries behind a prefix", s=5, t=101, causal=True, offset=96),
    Case("grouped queries", b=2, h=6, g=2, s=1, t=99, causal=True, offset=98),
    Case("queries that see only the first part, or nothing", s=3, t=100, causal=True, offset=-1),
    Case("a boolean mask", s=4, t=90, mask="bool"),
    Case("lengths", b=2, s=2, t=97, lengths=(97, 3), causal=True),
    Case("keys that are counted late", s=1, t=77, symbolic=True),
    Case("no key", s=1, t=0, symbolic=True),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_parts(case: Case) -> None:
    keys = symbol("t") if case.symbolic else case.t
    given = [
        (name, (case.b, heads, n, case.d))
        for name, heads, n in (("q", case.h, case.s), ("k", case.g, keys), ("v", case.g, keys))
    ]
    inputs = [(name, TensorType(case.dtype, shape)) for name, shape in given]
    inputs += [("mask", TensorType(case.mask, (case.s, case.t)))] if case.mask else []
    inputs += [("lengths", TensorType("int64", (case.b,)))] if case.lengths else []
    program = Program.create(inputs)
    with program.building("node"):
        named = dict(zip((name for name, _ in inputs), program.inputs, strict=True))
        operands = [named.get(name) for name in ("q", "k", "v", "mask", "lengths")]
        y = ops.exp(ops.attention(*operands, **case.settings()))
    program.finish([("y", y)])
    pipeline.run(pipeline.parse("decompose{keep=attention},fuse"), program, Environment(GPU()))
    assert program_text(program, PREFERENCES).count("kernel {") == 2
    arrays = arrays_of(case)
    extra = dict(zip(filter(None, ("mask" * bool(case.mask), "lengths" * bool(case.lengths))), arrays[4:], strict=True))
    p, _, v = attended(case, arrays[:3], **extra)
    close = 2e-5 if case.dtype == "float32" else 2e-2
    for launch in ([], [simulated.Simulator().launch]):
        (got,) = interpreted(program, [*arrays[:3], *arrays[4:]], *launch, preferences=PREFERENCES)
        np.testing.assert_allclose(got.astype(np.float64), np.exp(p @ v), rtol=close, atol=close)


@pytest.mark.parametrize("split", [0, 256])
def test_blocks_without_a_key(split: int) -> None:
    """A mask that is a tensor hides all keys of the first blocks, as in a step behind a sliding window."""
    case = Case("a window", s=1, t=512, dtype="float16")
    shapes = [("q", (case.b, case.h, 1, case.d)), *((n, (case.b, case.g, case.t, case.d)) for n in ("k", "v"))]
    inputs = [(name, TensorType(case.dtype, shape)) for name, shape in shapes]
    program = Program.create([*inputs, ("mask", TensorType("bool", (1, case.t)))])
    with program.building("node"):
        y = ops.attention(*program.inputs, None, **case.settings())
    program.finish([("y", y)])
    pipeline.run(pipeline.parse("decompose{keep=attention},fuse"), program, Environment(GPU()))
    arrays = arrays_of(case)[:3]
    mask = np.arange(case.t)[None] >= case.t - 64
    p, _, v = attended(case, arrays, mask=mask)
    preferences = replace(PREFERENCES, split_keys=split)
    (got,) = interpreted(program, [*arrays, mask], simulated.Simulator().launch, preferences=preferences)
    np.testing.assert_allclose(got.astype(np.float64), p @ v, rtol=2e-2, atol=2e-2)
