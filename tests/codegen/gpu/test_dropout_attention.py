"""Attention with dropout as one kernel, in Triton's interpreter and in the interpreter of kernels, against float64."""

from __future__ import annotations

import numpy as np
import pytest

from burn.codegen.triton.abilities import Abilities
from burn.codegen.triton.backend import GPU
from burn.dialect.attention import DROPOUT
from burn.dialect.attention_gradient import MASK_GRADIENT
from burn.passes import pipeline
from burn.passes.environment import Environment
from tests.codegen.attention_gradients import arrays_of, extras
from tests.codegen.dropouts import CASES, KEY, Dropped, check, reference
from tests.codegen.gpu.sources import sources_of
from tests.kernels.interpreting import interpreted

simulated = pytest.importorskip("tests.codegen.gpu.simulated")
pytest.importorskip("triton")
pytest.importorskip("torch")

KEPT = f"attention+attention_forward+attention_backward+{DROPOUT}+{MASK_GRADIENT}"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_attention_and_gradients(case: Dropped) -> None:
    program, arrays = case.program(), [*arrays_of(case), np.array(KEY, np.uint32)]
    extra = extras(case, arrays)
    want = reference(case, arrays[:3], arrays[3], arrays[-1], **extra)
    pipeline.run(pipeline.parse(f"decompose{{keep={KEPT}}},fuse"), program, Environment(GPU()))
    close = 2e-5 if case.dtype == "float32" else 2e-2
    if case.s * case.t < 1000:
        check(interpreted(program, arrays, preferences=GPU().preferences), want, close)
    check(interpreted(program, arrays, simulated.Simulator().launch, GPU().preferences), want, close)


@pytest.mark.parametrize(("length", "count"), [(128, 3), (129, 4)])
def test_number_of_kernels(length: int, count: int) -> None:
    """One for attention, one for the dot products of results and their gradients. One computes all gradients if a program holds
    all keys; otherwise there are two. Each draws the numbers itself, and none has a buffer of scores."""
    case = Dropped("counted", b=2, h=3, g=3, s=length, t=length, d=64, e=64, dtype="bfloat16")
    passes = GPU().pipeline.text.replace(",fold", "")
    sources = sources_of(case.program(), Abilities.of("cuda", "sm_90"), passes)
    assert len(sources) == count
    assert sum("= kept(" in source.text for source in sources) == count - 1
