"""Attention's backward kernels, in Triton's interpreter and in the interpreter of kernels, against float64."""

from __future__ import annotations

import pytest

from burn.codegen.triton.abilities import Abilities
from burn.codegen.triton.backend import GPU
from burn.dialect.attention_gradient import MASK_GRADIENT
from burn.passes import pipeline
from burn.passes.environment import Environment
from tests.codegen.attention_gradients import BIASED, CASES, Case, arrays_of, check, extras, reference
from tests.codegen.gpu.sources import sources_of
from tests.kernels.interpreting import interpreted

simulated = pytest.importorskip("tests.codegen.gpu.simulated")
pytest.importorskip("triton")
pytest.importorskip("torch")


def parts(case: Case) -> tuple[object, ...]:
    """The parts of the kernels: whole tiles and the last ones, element types, masks, sizes, layouts, and how keys are copied."""
    sizes = (
        case.s > 64,
        case.t > 64,
        case.s == 1,
        case.t == 1,
        case.s == 0,
        case.t == 0,
        case.d == case.e,
        case.s == case.t,
    )
    spread = tuple(size == 1 for size in case.bias[-2:])
    seen = case.mask, bool(case.lengths), case.left >= 0, case.right >= 0, case.offset > 0, case.offset < 0
    copied, grouped = "copied" in case.name, case.h != case.g
    pairs = (
        (case.dtype, case.causal),
        (copied, case.causal),
        (copied, case.symbolic),
        (copied, case.turned),
        (copied, grouped),
    )
    return *sizes, *seen, *pairs, (copied, case.left >= 0), bool(case.softcap), case.b, case.h, spread


@pytest.mark.covering(each=parts)
@pytest.mark.parametrize("case", [*CASES, *BIASED], ids=lambda case: case.name)
def test_gradients(case: Case) -> None:
    program, arrays = case.program(), arrays_of(case)
    extra = extras(case, arrays)
    want = reference(case, arrays[:3], arrays[3], **extra)
    passes = f"decompose{{keep=attention_forward+attention_backward+{MASK_GRADIENT}}},fuse"
    pipeline.run(pipeline.parse(passes), program, Environment(GPU()))
    given = [x.swapaxes(1, 2) if case.turned and n < 3 else x for n, x in enumerate(arrays)]
    close = 2e-5 if case.dtype == "float32" else 2e-2
    if case.s * case.t < 1000:
        check(interpreted(program, given, preferences=GPU().preferences), want, close, case)
    check(interpreted(program, given, simulated.Simulator().launch, GPU().preferences), want, close, case)


@pytest.mark.parametrize(("length", "count"), [(128, 4), (129, 5)])
def test_number_of_kernels_with_a_bias(length: int, count: int) -> None:
    """Attention, the dot products of results and their gradients, one or two kernels of gradients, and the bias's sum over the
    batch. The gradients of the scores are written once and read once."""
    case = Case("counted", b=2, h=3, g=3, s=length, t=length, d=64, e=64, dtype="bfloat16", bias=(1, 3, length, length))
    sources = sources_of(case.program(), Abilities.of("cuda", "sm_90"), GPU().pipeline.text.replace(",fold", ""))
    assert len(sources) == count
    assert [source.text.count("tl.dot(") > 0 for source in sources] == [True, False, *[True] * (count - 3), False]
