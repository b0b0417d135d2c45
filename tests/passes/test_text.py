"""Programs as text: they are read back unchanged, and one error lists all problems of a text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import burn
from burn.dialect import ops
from burn.dialect.control import If
from burn.dialect.dims import symbol
from burn.dialect.mlir import ir
from burn.dialect.program import Program
from burn.dialect.text import parse_text, to_text
from burn.dialect.types import TensorType
from burn.dialect.weights import array_weight
from burn.errors import ModelError
from burn.importers.weights import safetensors

B = symbol("batch")


def program() -> Program:
    made = Program.create([("x", TensorType("float32", (B, 4))), ("flag", TensorType("bool", ()))])
    with made.building('a "quoted" node'):
        x, flag = made.inputs
        key = made.weights.add_array(np.arange(4, dtype="f4"), "w")
        w = ops.weight(key=key, shape=(4,), dtype="float32")
        high = ops.full(shape=(), dtype="float32", value=float("inf"))
        y = ops.clip(ops.add(x, w), None, high)
        z = ops.concat([y, ops.slice(x, starts=(0, 1), sizes=(B, 2), steps=(1, 1))], axis=1)
        choice = If.create(flag, result_types=[TensorType("float32", (symbol("rows"), 6))], symbols=("rows",))
        for region, times in zip(choice.regions, (1, 2), strict=True):
            with ir.InsertionPoint(region.blocks.append()):
                ops.yield_([ops.concat([z] * times, axis=0)])
    return made.finish([("y", choice.results[0]), ("x", made.inputs[0])])


def test_round_trip() -> None:
    original = program()
    text = to_text(original, locations=True)
    again = parse_text(text, dict(original.weights.items()))
    assert to_text(again, locations=True) == text
    assert (again.input_names, again.output_names) == (["x", "flag"], ["y", "x"])
    assert again.input_types == original.input_types and again.output_types == original.output_types


def test_printing_leaves_the_program_as_it_is() -> None:
    made = program()
    before = str(made.module)
    to_text(made)
    assert str(made.module) == before


def test_weights_are_optional() -> None:
    read = parse_text(to_text(program()))
    assert len(read.weights) == 0


def body(lines: str, type_: str = "tensor<4xf32>") -> str:
    return f'func.func @main(%x: {type_}) -> {type_} {{\n{lines}\n"burn.return"(%x) : ({type_}) -> ()\n}}'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("func.func @main(", "not MLIR text"),
        ('"burn.exp"() : () -> ()', "one function of one block"),
        (body('%0 = "burn.nope"(%x) : (tensor<4xf32>) -> tensor<4xf32>'), "there is no such op"),
        (body('%0 = "arith.negf"(%x) : (tensor<4xf32>) -> tensor<4xf32>'), "there is no such op"),
        (body('%0 = "burn.exp"(%x) {a = 1} : (tensor<4xf32>) -> tensor<4xf32>'), "there is no such attribute"),
        (body('%0 = "burn.exp"(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>'), "takes 1 operands, not 2"),
        (body('%0 = "burn.softmax"(%x) {axis = "a"} : (tensor<4xf32>) -> tensor<4xf32>'), "is not a value of type int"),
        (body('%0 = "burn.cast"(%x) : (tensor<4xf32>) -> tensor<4xf32>'), "the attribute is missing"),
        (body('%0 = "burn.clip"(%x) : (tensor<4xf32>) -> tensor<4xf32>'), "'segments'"),
        (
            body('%0 = "burn.clip"(%x) {segments = array<i64: 1, 1, 0>} : (tensor<4xf32>) -> tensor<4xf32>'),
            "do not divide 1 operands",
        ),
        (body('%0 = "burn.if"(%x) {symbols = []} : (tensor<4xf32>) -> tensor<4xf32>'), "takes 2 regions, not 0"),
        (body("", "tensor<?xf32>"), "is not a type of burn"),
        (body("", "tensor<4xf80>"), "is not a type of burn"),
        (body("", 'tensor<?xf32, ["1 +"]>'), "is not a type of burn"),
        (body("", "vector<4xf32>"), "is not a type of burn"),
    ],
)
def test_malformed(text: str, words: str) -> None:
    with pytest.raises(ModelError) as error:
        parse_text(text)
    assert words in str(error.value)


def test_all_problems_at_once() -> None:
    lines = """
      %0 = "burn.nope"(%x) : (tensor<4xf32>) -> tensor<4xf32>
      %1 = "burn.exp"(%0) {a = 1} : (tensor<4xf32>) -> tensor<4xf32>
      %2 = "burn.cast"(%1) : (tensor<4xf32>) -> tensor<4xf32>
    """
    with pytest.raises(ModelError) as error:
        parse_text(body(lines))
    assert len(error.value.problems) == 3
    assert "line 3" in str(error.value)


@pytest.mark.parametrize("bracket", "([{<")
def test_brackets_without_end_are_refused(bracket: str) -> None:
    """MLIR's reader would run out of stack."""
    with pytest.raises(ModelError, match="stand inside each other"):
        parse_text('func.func @main() { "burn.x"() {a = ' + 50_000 * bracket)


def test_brackets_in_words_do_not_count() -> None:
    with pytest.raises(ModelError, match="malformed"):
        parse_text('func.func @main() { "x.y"() {a = "' + 5000 * "(" + '"} : () -> () } // ' + 5000 * "[")


def test_errors_name_file_line_and_column(tmp_path: Path) -> None:
    """As a compiler's do."""
    text = body('%0 = "burn.add"(%x, %nowhere) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>')
    path = tmp_path / "wrong.mlir"
    path.write_text(text)
    lines = text.splitlines()
    line = next(i for i, each in enumerate(lines) if "%nowhere" in each)
    with pytest.raises(ModelError) as error:
        burn.load(path, cache=False)
    assert f"{path}:{line + 1}:{lines[line].index('%nowhere') + 1}: " in str(error.value)
    assert str(error.value).endswith("%nowhere")
    with pytest.raises(ModelError, match=f"line {line + 1}, column"):
        parse_text(text)
    path.write_text(body('%0 = "burn.nope"(%x) : (tensor<4xf32>) -> tensor<4xf32>'))
    with pytest.raises(ModelError, match=f"{path}:[0-9]+:[0-9]+': there is no such op"):
        burn.load(path, cache=False)


def test_weights_that_are_missing_are_named(tmp_path: Path) -> None:
    weight = '%w = "burn.weight"() {key = "a.b", dtype = "float32", shape = ["4"]} : () -> tensor<4xf32>\n'
    path = tmp_path / "model.mlir"
    path.write_text(body(weight + '%0 = "burn.add"(%x, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>'))
    with pytest.raises(ModelError, match=r"'a\.b' from .*model\.safetensors, and there is no such file"):
        burn.load(path, cache=False)
    safetensors.write(tmp_path / "model.safetensors", {"other": array_weight(np.ones(4, np.float32))})
    with pytest.raises(ModelError, match=r"'a\.b' from .*, which does not hold them"):
        burn.load(path, cache=False)


@pytest.mark.parametrize("attribute", ["segments", "a", "burn.b"])
def test_attributes_that_python_has_no_class_for(attribute: str) -> None:
    with pytest.raises(ModelError, match="malformed"):
        parse_text(body(f'%0 = "burn.exp"(%x) {{{attribute} = array<i56: 1>}} : (tensor<4xf32>) -> tensor<4xf32>'))
