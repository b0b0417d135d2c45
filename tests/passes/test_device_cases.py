"""Passes that treat one kind of device differently from others."""

from __future__ import annotations

from pathlib import Path

import pytest

from burn.codegen.cpu.backend import CPU
from burn.codegen.cpu.target import TARGETS
from burn.codegen.triton.backend import GPU
from burn.dialect.text import to_text
from burn.passes import pipeline
from burn.passes.environment import Device, Environment
from tests.passes.cases import Case, cases, check, read

DEVICES: dict[str, Device] = {"gpu": GPU(), "cpu": CPU(TARGETS["avx512"])}
"""By the folder of their cases."""

CASES = [(device, case) for folder, device in DEVICES.items() for case in cases(Path(__file__).parent / folder)]


@pytest.mark.parametrize(("device", "case"), CASES, ids=[case.name for _, case in CASES])
def test_case(device: Device, case: Case) -> None:
    program = read(case)
    pipeline.run(pipeline.parse(case.passes), program, Environment(device))
    output = to_text(program)
    assert check(case, output) == 0, f"\n{output}"
