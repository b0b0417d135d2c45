"""The CPU's backward kernel of attention, on every available CPU target, and in the interpreter, against float64."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from burn.compiler import compile_program, environment
from burn.dialect.mlir import context
from burn.dialect.program import Program
from burn.kernels.text import program_text
from burn.options import Options
from burn.passes import pipeline
from burn.runtime.executable import Executable
from tests.codegen.attention_gradients import BIASED, CASES, Case, arrays_of, check, extras, reference
from tests.codegen.cpus import FLOAT_TARGETS
from tests.kernels.interpreting import interpreted

PASSES = "decompose{keep=attention+attention_forward+attention_backward},fuse,release"
MORE = [
    Case("many blocks of keys", h=1, g=1, s=37, t=300, d=40, e=33),
    Case("many blocks of rows", h=2, g=1, s=140, t=131, d=16, e=48, causal=True, offset=-9),
    Case("a window over many blocks", h=1, g=1, s=300, t=300, d=8, e=8, causal=True, left=40),
    Case("float16, many features", h=1, g=1, s=35, t=70, d=70, e=80, dtype="float16"),
    Case("one feature", d=1, e=1),
]


def traits(case: Case, target: str) -> tuple[object, ...]:
    """The properties that select code in the kernel."""
    masked = case.mask, bool(case.lengths), case.left >= 0, case.right >= 0
    return target, case.dtype, case.causal, masked, bool(case.softcap), case.symbolic, case.turned, case.h == case.g


@pytest.mark.covering(of=traits)
@pytest.mark.parametrize("target", FLOAT_TARGETS)
@pytest.mark.parametrize("case", [*CASES, *BIASED[1:12], *MORE], ids=lambda case: case.name)
def test_gradients(case: Case, target: str) -> None:
    program, given, want = given_and_wanted(case)
    got = Executable(compile_program(program, Options(target=target, passes=PASSES)))(*given)
    check(list(got), want, close(case), case)


@pytest.mark.parametrize("case", [c for c in [*CASES, *MORE] if c.s * c.t < 1000], ids=lambda case: case.name)
def test_in_the_interpreter(case: Case) -> None:
    program, given, want = given_and_wanted(case)
    pipeline.run(pipeline.parse(PASSES), program, environment())
    check(interpreted(program, given), want, close(case), case)


def given_and_wanted(case: Case) -> tuple[Program, list[np.ndarray], list[np.ndarray]]:
    arrays = arrays_of(case)
    extra = extras(case, arrays)
    given = [x.swapaxes(1, 2).copy() if case.turned and n < 3 else x for n, x in enumerate(arrays)]
    return case.program(), given, reference(case, arrays[:3], arrays[3], **extra)


def close(case: Case) -> float:
    return 2e-5 if case.dtype == "float32" else 2e-2


def test_one_kernel_forms_probabilities_once() -> None:
    program = replace(CASES[0], causal=True).program()
    pipeline.run(pipeline.parse(PASSES), program, environment())
    with context():
        text = program_text(program, environment().preferences)
    assert text.count("attention gradient") == 1
    assert "attention gradient batch b < 1, g < 2, rows i < 19, keys j < 19" in text
