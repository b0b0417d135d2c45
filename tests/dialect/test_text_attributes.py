"""Attributes and types of a program's text that are of the wrong kind: one error, which names them."""

from __future__ import annotations

import pytest

from burn.dialect.text import parse_text
from burn.errors import ModelError

WRONG = ['@"x"', "3", '["a"]', "unit", "1.5", "i32", "dense<1> : tensor<1xi64>"]


def _text(argument: str = 'burn.name = "x"', result: str = 'burn.name = "y"', end: str = "") -> str:
    type_ = 'tensor<?xf32, ["n"]>'
    head = f"func.func @main(%x: {type_} {{{argument}}}) -> ({type_} {{{result}}})"
    return f'{head} {{ "burn.return"(%x) {{{end}}} : ({type_}) -> () }}'


@pytest.mark.parametrize("name", ["burn.name", "burn.container"])
@pytest.mark.parametrize("value", WRONG)
def test_names_are_strings(name: str, value: str) -> None:
    for text in (_text(argument=f"{name} = {value}"), _text(result=f"{name} = {value}")):
        with pytest.raises(ModelError, match=f"{name} is a string, not"):
            parse_text(text)


@pytest.mark.parametrize("end", ["takes = @x", 'takes = "a"', "takes = [@x]", "other = 3"])
def test_attributes_of_the_end_are_checked(end: str) -> None:
    with pytest.raises(ModelError, match=end.partition(" ")[0]):
        parse_text(_text(end=end))


@pytest.mark.parametrize(
    "type_",
    [
        "tensor<4x!foo.bar>",
        "!foo.x",
        "tensor<?xf32, []>",
        "tensor<?xf32, [3]>",
        "tensor<?xf32, @x>",
        "tensor<*xf32>",
        "i32",
    ],
)
def test_types_of_others_are_named(type_: str) -> None:
    with pytest.raises(ModelError, match="is not a type of burn"):
        parse_text(f'func.func @main(%x: {type_}) -> ({type_}) {{ "burn.return"(%x) : ({type_}) -> () }}')


def test_the_text_that_the_others_spoil() -> None:
    assert parse_text(_text(end="takes = array<i64: -1>")).input_names == ["x"]
