"""com.microsoft Tokenizer, as skl2onnx writes it for text, against ONNX Runtime and Python's re."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto

from burn.adapters.onnx import load_onnx
from burn.errors import ModelError
from tests.importers.models import model, node, value

S = TensorProto.STRING
MICROSOFT = {"com.microsoft": 1}
TEXTS = ["Hello, big world", "", "a", "über 42 dogs_x  ran", "日本 語text", "--", "a-b-c", "x" * 30, "foo bar\nbaz"]


def tokenizer(shape: list[int | str], **attributes: Any) -> Any:
    given: dict[str, Any] = {"mark": 0, "mincharnum": 1, "pad_value": "#", **attributes}
    return model(
        [node("Tokenizer", "x", "y", domain="com.microsoft", **given)],
        [value("x", shape, S)],
        [value("y", None, S)],
        domains=MICROSOFT,
    )


def texts(words: list[str], *shape: int) -> np.ndarray:
    return np.array(words, object).reshape(shape or (len(words),))


EXPRESSIONS = [
    r"[a-zA-Z0-9_]+",
    r"\w\w+",
    r"\b\w+\b",
    "a|ab",
    "(ab|a)b?",
    "[^ ]+",
    "o",
    "日本|語",
    "l+o?",
    "(?i)HELLO",
    r"\d+|[a-z]+",
]


@pytest.mark.parametrize("expression", EXPRESSIONS)
@pytest.mark.parametrize("least", [1, 2])
def test_tokens_by_an_expression(expression: str, least: int) -> None:
    proto = tokenizer(["n"], tokenexp=expression, mincharnum=least)
    words = texts([*TEXTS, "abab ab aab"])
    got = np.asarray(load_onnx(proto.SerializeToString()).run({"x": words})["y"])
    greedy = expression.replace("+?", "+").replace("a|ab", "ab|a")  # the longest counts
    found = [[m.group() for m in re.finditer(greedy, w, re.ASCII) if len(m.group()) >= least] for w in words]
    width = max(map(len, found))
    assert got.tolist() == [row + ["#"] * (width - len(row)) for row in found]
    session: Any = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_array_equal(got, session.run(None, {"x": words})[0])


@pytest.mark.parametrize("separators", [[" "], [" ", ","], ["-"], [r"\s+"], [""], ["[ ,]+"]])
@pytest.mark.parametrize("rows", [1, 2])
def test_tokens_between_separators(separators: list[str], rows: int) -> None:
    proto = tokenizer(["n", rows], separators=separators)
    words = texts(TEXTS[:8], 8 // rows, rows)
    got = load_onnx(proto.SerializeToString()).run({"x": words})["y"]
    session: Any = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_array_equal(got, session.run(None, {"x": words})[0])


def test_what_cannot_be_searched_for_is_refused() -> None:
    for attributes, said in (
        ({"tokenexp": "a", "mark": 1}, "marks at the beginning"),
        ({}, "either an expression"),
        ({"separators": ["ab", "bc"]}, "several separators"),
        ({"tokenexp": "("}, "cannot be searched for"),
    ):
        with pytest.raises(ModelError, match=said):
            load_onnx(tokenizer(["n"], **attributes).SerializeToString())


def test_random_tokens() -> None:
    rng = np.random.default_rng(2)
    words: list[str] = ["".join(rng.choice(list("ab c1_-é"), int(rng.integers(0, 12)))) for _ in range(40)]
    for expression in (r"\w+", "a[^a]*a", "(a|b)+", r"[^\W\d]+", "a?b", "(?:ab){1,2}|c"):
        proto = tokenizer(["n"], tokenexp=expression)
        got = np.asarray(load_onnx(proto.SerializeToString()).run({"x": texts(words)})["y"])
        found = [[m.group() for m in re.finditer(expression, w, re.ASCII) if m.group()] for w in words]
        assert [[t for t in row if t != "#"] for row in got.tolist()] == found, expression
