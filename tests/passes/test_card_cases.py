"""What passes do for a card that they do not do for a CPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from burn.codegen.triton.backend import GPU
from burn.dialect.text import to_text
from burn.passes import pipeline
from burn.passes.environment import Environment
from tests.passes.cases import Case, cases, check, read

CASES = cases(Path(__file__).parent / "card")


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_case(case: Case) -> None:
    program = read(case)
    pipeline.run(pipeline.parse(case.passes), program, Environment(GPU()))
    output = to_text(program)
    assert check(case, output) == 0, f"\n{output}"
