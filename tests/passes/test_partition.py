"""The pass `partition` as text, and its reading of options. tests/distributed/test_spmd.py runs what it makes."""

from __future__ import annotations

from pathlib import Path

import pytest

from burn.errors import CompileError
from burn.passes import pipeline
from burn.passes.sharding.grid import Grid
from tests.passes.cases import Case, cases, check, read, text_of

CASES = cases(Path(__file__).parent / "partition")


def partitioned(case: Case) -> str:
    program = read(case)
    pipeline.run(pipeline.parse(case.passes), program)
    return text_of(program)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_case(case: Case) -> None:
    output = partitioned(case)
    assert check(case, output) == 0, f"\n{output}"
    assert check(case, text_of(read(case))) != 0


def test_all_devices_have_the_same_ops() -> None:
    """Programs differ in the offsets of blocks alone, so that collectives meet."""
    for case in CASES:
        found = set()
        for rank in range(4 if "model" in case.passes else 2):
            program = read(case)
            passes = case.passes.replace("rank=0", "").replace("rank=1", "").replace("rank=3", "")
            pipeline.run(pipeline.parse(passes.replace("{", f"{{rank={rank} ", 1)), program)
            ops = [op.operation.name for op in program.block.operations]
            found.add(tuple(name for name in ops if name.removeprefix("burn.") not in ("full", "add")))
        assert len(found) == 1, case.name


def test_groups() -> None:
    grid = Grid({"a": 2, "b": 3}, rank=4)
    assert grid.coordinates == {"a": 1, "b": 1} and grid.position(("b", "a")) == 3
    assert grid.groups(("b",)) == (0, 1, 2, 3, 4, 5) and grid.groups(("a",)) == (0, 3, 1, 4, 2, 5)
    assert grid.groups(("b", "a")) == (0, 3, 1, 4, 2, 5) and grid.groups(("a", "b")) == tuple(range(6))
    moved = Grid({"a": 2, "b": 2}, rank=3, ranks=(3, 1, 2, 0))
    assert moved.coordinates == {"a": 0, "b": 0} and moved.groups(("a",)) == (3, 2, 1, 0)


def test_too_many_shardings() -> None:
    with pytest.raises(CompileError, match="3 shardings are given for 1 values"):
        pipeline.run(pipeline.parse("partition{mesh=data:2 inputs=data;-;-}"), read(CASES[1]))
