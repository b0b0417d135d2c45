"""Kernels of every kind in Triton's language, as text, and the command that prints them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from click.testing import CliRunner

from burn.cli.opt import main
from burn.codegen.triton.backend import GPU
from burn.dialect import ops
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.errors import CompileError
from burn.passes import pipeline
from burn.passes.environment import Environment
from tests.codegen.gpu.sources import sources_of
from tests.passes.cases import Case, cases, check, read

CASES = cases(Path(__file__).parent / "cases")


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_kinds(case: Case) -> None:
    program = read(case)
    pipeline.run(pipeline.parse(case.passes), program, Environment(GPU()))
    output = GPU(portable=True).printer.listing(program)
    ast.parse(output)
    assert check(case, output) == 0, f"\n{output}"


def test_elements_that_triton_has_no_type_for() -> None:
    program = Program.create([("x", TensorType("complex64", (4,)))])
    with program.building("node"):
        y = ops.reshape(ops.transpose(program.inputs[0], permutation=(0,)), shape=(2, 2))
    program.finish([("y", y)])
    pipeline.run(pipeline.parse("fuse"), program, Environment(GPU()))
    with pytest.raises(CompileError, match="elements of type complex64"):
        GPU(portable=True).printer.listing(program)


def test_a_chain_of_updates_is_printed_once() -> None:
    """Each takes what was there before it, where it writes and where it does not."""
    types = [TensorType("float32", (64,)), TensorType("int64", (8,)), TensorType("float32", (8,))]
    program = Program.create(list(zip(("x", "i", "u"), types, strict=True)))
    with program.building("node"):
        y = ops.scatter_elements(*program.inputs, axis=0, reduction="max")
    program.finish([("y", y)])
    pipeline.run(pipeline.parse("fuse"), program, Environment(GPU()))
    assert GPU(portable=True).printer.listing(program).count(" = greatest(") == 8


def test_command(tmp_path: Path) -> None:
    path = tmp_path / "m.mlir"
    path.write_text(CASES[1].text)
    result = CliRunner().invoke(main, ["--emit", "triton", str(path)])
    assert result.exit_code == 0 and "@triton.jit\ndef kernel0(" in result.output


def test_a_kernel_in_place_checks_for_failures_before_it_stores() -> None:
    """It loads meanwhile, but not through indices that a failed kernel may have left."""
    program = Program.create([(name, TensorType("float32", (64,))) for name in "xy"])
    with program.building("node"):
        z = ops.mul(*program.inputs)
    program.finish([("z", z)])
    (source,) = sources_of(program, in_place=True)
    lines = [line.strip() for line in source.text.splitlines()]
    assert lines.index("failed = tl.load(failure)") < next(n for n, line in enumerate(lines) if "tl.load(b0" in line)
    assert lines.index("if failed != 0:") == next(n for n, line in enumerate(lines) if "tl.store(" in line) - 2

    program = Program.create([("x", TensorType("float32", (64,))), ("i", TensorType("int64", (8,)))])
    with program.building("node"):
        z = ops.gather(*program.inputs, axis=0)
    program.finish([("z", z)])
    (source,) = sources_of(program, in_place=True)
    assert source.text.index("if tl.load(failure) != 0:") < source.text.index("tl.load(b")
