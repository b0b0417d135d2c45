"""The verifier tells everything that is wrong with a program."""

from __future__ import annotations

import numpy as np
import pytest

from burn.dialect.text import parse_text
from burn.dialect.weights import array_weight
from burn.errors import CompileError, TypeMismatch
from burn.passes import pipeline
from burn.passes.verify import Verify

X = 'tensor<?xf32, ["n"]>'
FULL = '%a = "burn.full"() {{dtype = "float32", shape = ["{0}"], value = 0.0 : f64}} : () -> tensor<?xf32, ["{0}"]>'
READ = '"burn.read_dim"(%i) {minimum = 0 : i64, position = 0 : i64, symbol = "s"} : (tensor<i64>) -> ()'


def text(*lines: str) -> str:
    joined = "\n".join(lines)
    return f'func.func @main(%x: {X}, %i: tensor<i64>) -> ({X}) {{\n{joined}\n"burn.return"(%x) : ({X}) -> ()\n}}'


def problems(*lines: str) -> list[str]:
    with pytest.raises(CompileError) as error:
        Verify().run(parse_text(text(*lines)))
    return [str(problem) for problem in error.value.problems]


def test_well_formed() -> None:
    Verify().run(parse_text(text(READ, FULL.format("s + n"))))


def test_result_type() -> None:
    (found,) = problems(f'%0 = "burn.exp"(%x) : ({X}) -> tensor<?xf32, ["n + 1"]>')
    assert "float32[n + 1]" in found and "float32[n]" in found and "exp" in found


def test_size_that_nothing_defines() -> None:
    found = problems(FULL.format("k"))
    assert any("'k' is not defined" in each for each in found)


def test_size_used_before_its_definer() -> None:
    found = problems(FULL.format("s"), READ)
    assert any("'s' is not defined here" in each for each in found)


def test_value_used_before_its_definer() -> None:
    program = parse_text(text(f'%0 = "burn.exp"(%x) : ({X}) -> {X}', f'%1 = "burn.neg"(%0) : ({X}) -> {X}'))
    first, second, *_ = program.block.operations
    first.operation.move_after(second.operation)
    with pytest.raises(CompileError, match="malformed") as error:
        Verify().run(program)
    assert "operand 0 is not defined before it" in str(error.value)


def test_size_defined_twice() -> None:
    assert any("'s' is defined a second time" in each for each in problems(READ, READ))


def test_size_of_a_branch_stays_in_it() -> None:
    flag = '%c = "burn.eq"(%i, %i) : (tensor<i64>, tensor<i64>) -> tensor<i1>'
    choice = f"""
      %r = "burn.if"(%c) ({{
        {READ}
        {FULL.format("s")}
        "burn.yield"(%a) : (tensor<?xf32, ["s"]>) -> ()
      }}, {{
        "burn.yield"(%x) : ({X}) -> ()
      }}) {{symbols = ["t"]}} : (tensor<i1>) -> tensor<?xf32, ["t"]>
    """
    Verify().run(parse_text(text(flag, choice, FULL.format("t"))))
    assert any("'s' is not defined here" in each for each in problems(flag, choice, FULL.format("s")))


def test_operands_that_inference_trips_over() -> None:
    dot = "{lhs_batch = array<i64: 0>, lhs_contract = array<i64>, rhs_batch = array<i64>, rhs_contract = array<i64>}"
    (found,) = problems(f'%0 = "burn.dot_general"(%x, %x) {dot} : ({X}, {X}) -> {X}')
    assert "do not fit together" in found


def test_weight_of_another_type() -> None:
    line = '%w = "burn.weight"() {dtype = "float32", key = "w", shape = ["3"]} : () -> tensor<3xf32>'
    program = parse_text(text(line), {"w": array_weight(np.zeros(4, "f4"))})
    with pytest.raises(CompileError, match="malformed") as error:
        Verify().run(program)
    assert "weight 'w' is float32[4], not float32[3]" in str(error.value)


def test_all_problems_at_once() -> None:
    assert len(problems(FULL.format("k"), f'%0 = "burn.exp"(%x) : ({X}) -> tensor<4xf32>')) >= 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("", ""), ""),
        (("mish", "nothing"), "there is no op 'nothing'"),
        (("mish", "attention"), "burn.attention has 8 attributes, not 0"),
        (("settings = []", 'settings = ["1 : i64"]'), "burn.mish has 0 attributes, not 1"),
        (("counts = array<i64: 1>", "counts = array<i64: 2>"), r"[2] operands do not fit burn.mish"),
        (("counts = array<i64: 1>", "counts = array<i64: 1, 0>"), r"[1, 0] operands do not fit burn.mish"),
        (("seeds = array<i64: 0>", "seeds = array<i64>"), "2 values are not 1 operands and the cotangents []"),
        (("wanted = array<i64: 0>", "wanted = array<i64: 1>"), "[1] are not all indices of 1 operands"),
    ],
)
def test_cotangents_of_an_op(change: tuple[str, str], words: str) -> None:
    """The attributes of `burn.vjp` name another op's operands and attributes."""
    attributes = 'of = "mish", settings = [], counts = array<i64: 1>, seeds = array<i64: 0>, wanted = array<i64: 0>'
    line = f'%0 = "burn.vjp"(%x, %x) {{{attributes}}} : ({X}, {X}) -> {X}'.replace(*change)
    if words:
        assert words in " ".join(problems(line))
    else:
        Verify().run(parse_text(text(line)))


def test_a_setting_of_another_type_is_named() -> None:
    settings = 'settings = ["\\"a\\""], counts = array<i64: 1>, seeds = array<i64: 0>, wanted = array<i64: 0>'
    program = parse_text(text(f'%0 = "burn.vjp"(%x, %x) {{of = "softmax", {settings}}} : ({X}, {X}) -> {X}'))
    with pytest.raises(TypeMismatch, match=r"is not a value of axis of burn\.softmax"):
        pipeline.run(pipeline.parse("decompose"), program)
