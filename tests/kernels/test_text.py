"""Kernels as text: one of every kind, and the command that prints them."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from burn.cli.opt import main
from burn.compiler import environment
from burn.dialect import ops
from burn.dialect.mlir import context
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.kernels.builders import kernels
from burn.kernels.preferences import Preferences
from burn.kernels.text import kernel_text, program_text
from burn.passes import pipeline
from tests.passes.cases import Case, cases, check, read

CASES = cases(Path(__file__).parent / "cases")


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_kinds(case: Case) -> None:
    program = read(case)
    pipeline.run(pipeline.parse(case.passes), program)
    output = program_text(program, Preferences())
    assert check(case, output) == 0, f"\n{output}"


def softmax() -> Program:
    program = Program.create([("x", TensorType("float32", (4, 10)))])
    with program.building("node"):
        y = ops.softmax(program.inputs[0], axis=-1)
    return program.finish([("y", y)])


@pytest.mark.parametrize("kept", [True, False])
def test_a_device_says_whether_rows_are_kept(kept: bool) -> None:
    program = softmax()
    pipeline.run(pipeline.parse("decompose,fuse"), program, environment())
    with context():
        (group,) = (op.opview for op in program.block.operations if op.operation.name == "burn.group")
        (call,) = kernels(group, Preferences(keep_rows=kept))
        text = kernel_text(call.kernel)
    assert ("scratch float32[10]" in text) == kept and text.count("exp") == (1 if kept else 2)


def test_command(tmp_path: Path) -> None:
    path = tmp_path / "m.mlir"
    path.write_text(next(case.text for case in CASES if case.name.endswith("an index read from data")))
    result = CliRunner().invoke(main, ["--emit", "kernels", str(path)])
    assert result.exit_code == 0 and "fetch %1 < 7" in result.output
    nothing = CliRunner().invoke(main, ["--emit", "kernels", "--passes", "simplify", str(path)])
    assert nothing.exit_code == 0 and "kernel" not in nothing.output
