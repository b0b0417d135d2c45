"""Masks of attention whose rows are not aligned: kernels read padded ones, several elements at a time."""

from __future__ import annotations

import pytest

from burn.codegen.triton.abilities import Abilities
from burn.codegen.triton.backend import GPU
from burn.dialect import ops
from burn.dialect.attention_gradient import MASK_GRADIENT
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.passes import pipeline
from burn.passes.environment import Environment
from tests.codegen.attention_gradients import Case, arrays_of, check, extras, reference
from tests.codegen.gpu.sources import sources_of
from tests.kernels.interpreting import interpreted

simulated = pytest.importorskip("tests.codegen.gpu.simulated")
pytest.importorskip("triton")
pytest.importorskip("torch")

PADDED = (
    Case("a bias of each head", b=4, h=2, g=2, s=37, t=37, d=8, e=8, dtype="bfloat16", bias=(1, 2, 37, 37)),
    Case("more keys than a block", b=5, h=2, g=2, s=70, t=133, d=16, e=8, dtype="float16", bias=(1, 2, 70, 133)),
    Case("more rows than a block", b=4, h=1, g=1, s=150, t=77, d=8, e=16, dtype="bfloat16", bias=(1, 1, 150, 77)),
    Case("for all heads", b=2, h=4, g=2, s=33, t=65, d=8, e=8, dtype="float32", bias=(1, 1, 33, 65)),
    Case("causal", b=4, h=2, g=2, s=75, t=75, d=8, e=8, dtype="bfloat16", bias=(1, 2, 75, 75), causal=True),
)


@pytest.mark.parametrize("case", PADDED, ids=lambda case: case.name)
def test_gradients(case: Case) -> None:
    """In Triton's interpreter, which finds indices out of range, against float64."""
    program, arrays = case.program(), arrays_of(case)
    want = reference(case, arrays[:3], arrays[3], **extras(case, arrays))
    passes = f"decompose{{keep=attention_forward+attention_backward+{MASK_GRADIENT}}},align_masks,fuse"
    pipeline.run(pipeline.parse(passes), program, Environment(GPU()))
    close = 2e-5 if case.dtype == "float32" else 2e-2
    check(interpreted(program, arrays, simulated.Simulator().launch, GPU().preferences), want, close, case)


@pytest.mark.parametrize(
    ("keys", "mask", "padded"),
    [
        (197, (1, 12, 197, 197), True),
        (197, (197, 197), True),
        (200, (1, 12, 197, 200), False),  # aligned
        (197, (32, 12, 197, 197), False),  # as many elements as scores
        (197, (32, 1, 1, 197), False),  # one row
    ],
)
def test_which_masks_are_padded(keys: int, mask: tuple[int, ...], padded: bool) -> None:
    types = [TensorType("bfloat16", shape) for shape in ((32, 12, 197, 64), *[(32, 12, keys, 64)] * 2, mask)]
    program = Program.create(list(zip("qkvm", types, strict=True)))
    with program.building("node"):
        y = ops.attention(*program.inputs, scale=0.125)
    program.finish([("y", y)])
    sources = sources_of(program, Abilities.of("cuda", "sm_90"))
    (text,) = (source.text for source in sources if "tl.dot(" in source.text)
    assert (len(sources), "readable" in text) == ((2, True) if padded else (1, False))
