"""`burn.check_size`: conditions on sizes that the entry function tests."""

from __future__ import annotations

import numpy as np
import pytest

from burn.compiler import compile_program
from burn.dialect import compose, ops
from burn.dialect.dims import RELATIONS, decide, mod, symbol
from burn.dialect.mlir import context, ir
from burn.dialect.program import Program
from burn.dialect.spec import spec
from burn.dialect.text import parse_text, to_text
from burn.errors import RunError, TypeMismatch
from burn.runtime import Executable

N = symbol("n")
HOLDS = {"==": [4], "!=": [0, 3, 5], "<=": [0, 3, 4], "<": [0, 3], ">=": [4, 5], ">": [5]}


def _program(relation: str = "<=", says: str = "") -> Program:
    program = Program.create([("x", spec("float32[n]")), ("k", spec("int64[]"))])
    with program.building():
        x, k = program.inputs
        ops.read_dim(k, symbol="m")
        compose.check_size(N, relation, 4, says)
        compose.check_size(symbol("m"), "!=", N)
        return program.finish([("y", ops.exp(x)), ("z", ops.broadcast_to(k, shape=(symbol("m"),)))])


def _run(program: Program, n: int, k: int = 7) -> None:
    y, z = Executable(compile_program(program))(np.zeros(n, np.float32), np.int64(k))
    assert y.shape == (n,) and z.shape == (k,)


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_run_ends_where_the_condition_does_not_hold(relation: str) -> None:
    program = Executable(compile_program(_program(relation)))
    for n in (0, 3, 4, 5):
        feeds = np.zeros(n, np.float32), np.int64(7)
        if n in HOLDS[relation]:
            assert program(*feeds)[0].shape == (n,)
        else:
            with pytest.raises(RunError, match=f"n {relation} 4 does not hold: the lhs is {n}"):
                program(*feeds)


def test_a_condition_on_a_size_from_data_stands_where_the_program_has_it() -> None:
    _run(_program(), 3)
    with pytest.raises(RunError, match=r"m != n does not hold: the lhs is 3"):
        _run(_program(), 3, 3)


def test_people_are_told_why() -> None:
    with pytest.raises(RunError, match=r"n <= 4 \(torch took the batch to be small\) does not hold"):
        _run(_program(says="torch took the batch to be small"), 5)


def test_what_is_decided_needs_no_check() -> None:
    program = Program.create([("x", spec("float32[n]"))])
    with program.building():
        compose.check_size(N, ">=", 0)
        compose.check_size(mod(N, 4), "<", 4)
        assert not list(program.block.operations)
        with pytest.raises(TypeMismatch, match=r"-n - 1 >= 0 does not hold: why"):
            compose.check_size(N * -1 - 1, ">=", 0, "why")
        with pytest.raises(TypeMismatch, match="there is no relation '~'"):
            ops.check_size(size=N, relation="~", bound=4)


def test_it_is_text_like_any_op() -> None:
    text = to_text(_program())
    assert 'burn.check_size"() {bound = "4", relation = "<=", says = "", size = "n"}' in text
    assert to_text(parse_text(text)) == text


def test_in_a_branch_it_is_asked_when_the_branch_is_taken() -> None:
    from burn.dialect.control import If

    program = Program.create([("x", spec("float32[n]")), ("c", spec("bool[]"))])
    with program.building():
        x, c = program.inputs
        operation = If.create(c, result_types=[spec("float32[n]")])
        for region, checked in zip(operation.regions, (True, False), strict=True):
            with context(), ir.InsertionPoint(region.blocks.append()):
                if checked:
                    compose.check_size(N, "<=", 4)
                ops.yield_([ops.exp(x) if checked else ops.neg(x)])
        program.finish([("y", operation.results[0])])
    run = Executable(compile_program(program))
    assert run(np.zeros(5, np.float32), np.bool_(False)).shape == (5,)
    assert run(np.zeros(4, np.float32), np.bool_(True)).shape == (4,)
    with pytest.raises(RunError, match="n <= 4 does not hold: the lhs is 5"):
        run(np.zeros(5, np.float32), np.bool_(True))


def test_decide() -> None:
    m = symbol("m")
    assert decide(N, "<=", N + m) is True
    assert decide(N, "<", N + m) is None
    assert decide(N + m + 1, ">", N) is True
    assert decide(N, "==", -1) is False
    assert decide(N, "!=", N) is False
    assert decide(mod(N, 3), ">=", 3) is False
    assert decide(N, "==", m) is None
