"""Operators on strings: joining, splitting, normalising, matching, and between numbers and text."""

from __future__ import annotations

from functools import cache

import numpy as np

from burn.dialect import ops, regex
from burn.dialect.compose import broadcast_to, convert, number, reshape
from burn.dialect.dims import dim_max
from burn.dialect.mlir import ir
from burn.dialect.strings import PRECISIONS
from burn.dialect.types import DTYPES, broadcast_shapes, type_of
from burn.importers.onnx.node import Node, onnx_op


def texts(node: Node, strings: list[str] | tuple[str, ...], hint: str = "") -> ir.Value:
    """A vector of constant strings."""
    return node.array(np.array(strings, object).reshape(-1), hint)


def text(node: Node, string: str) -> ir.Value:
    """One constant string, as a scalar."""
    return reshape(texts(node, [string]), ())


# ---- between numbers and text ----------------------------------------------------------------------------------------
def to_text(x: ir.Value) -> ir.Value:
    """Numbers as Python writes them."""
    dtype = type_of(x).dtype
    if DTYPES[dtype].kind in ("float", "small"):
        precision = dtype if dtype in PRECISIONS else "float32"
        return ops.number_to_string(convert(convert(x, precision), "float64"), precision=precision)
    return ops.number_to_string(convert(x, {"int": "int64", "uint": "uint64"}.get(DTYPES[dtype].kind, dtype)))


def from_text(x: ir.Value, dtype: str) -> ir.Value:
    """The numbers that strings spell, in another element type. A bool is false for 0."""
    kind = DTYPES[dtype].kind
    read = {"int": "int64", "uint": "uint64", "bool": "int64"}.get(kind, "float64")
    return convert(ops.string_to_number(x, dtype=read), dtype)


# ---- operators ---------------------------------------------------------------------------------------------------------
@onnx_op("StringConcat")
def string_concat(node: Node) -> ir.Value:
    a, b = node.required(0), node.required(1)
    try:
        shape = broadcast_shapes(type_of(a).shape, type_of(b).shape)
    except ValueError as error:
        node.fail(str(error))
    return ops.string_concat(broadcast_to(a, shape), broadcast_to(b, shape))


@onnx_op("StringSplit")
def string_split(node: Node) -> list[ir.Value]:
    """Without a delimiter, at white space."""
    delimiter = text(node, node.string("delimiter", ""))
    maximum = node.int("maxsplit", -1)
    return ops.string_split(node.required(0), delimiter, count=node.fresh("pieces"), maximum=max(maximum, -1))


@onnx_op("RegexFullMatch")
def regex_full_match(node: Node) -> ir.Value:
    try:
        program = regex.compile(node.string("pattern"))
    except regex.BadPattern as error:
        node.fail(f"'{node.string('pattern')}' cannot be matched: {error}", "pattern")
    return ops.string_match(node.required(0), node.array(program))


@onnx_op("Tokenizer", domain="com.microsoft", ranks=((1, 2),))
def tokenizer(node: Node) -> ir.Value:
    """x [c] or [n, c] -> [.., tokens], filled up with `pad_value`: what an expression finds, or what lies between separators."""
    if node.int("mark"):
        node.fail("marks at the beginning and the end are not supported", "mark")
    expression, separators = node.string("tokenexp", ""), node.strings("separators", ())
    if bool(expression) == bool(separators):
        node.fail("needs either an expression for tokens or separators", "tokenexp")
    least = node.int("mincharnum")
    if least < 1:
        node.fail(f"is at least 1, not {least}", "mincharnum")
    between = bool(separators) and separators != ("",)
    if "" in separators and between:
        node.fail("an empty separator is the only one: every character is a token", "separators")
    if len(separators) > 1 and any(len(s) > 1 for s in separators):
        node.fail("several separators that are more than a character are not supported", "separators")
    pattern = expression or "|".join(f"(?:{s})" for s in separators if s) or "(?s:.)"
    try:
        program = regex.compile(pattern)
    except regex.BadPattern as error:
        node.fail(f"'{pattern}' cannot be searched for: {error}", "separators" if between else "tokenexp")
    count = node.fresh("tokens")
    tokens, counts = ops.string_tokens(node.required(0), node.array(program), count=count, least=least, between=between)
    pad = node.string("pad_value")
    if pad == "":
        return tokens
    shape = type_of(tokens).shape
    index = ops.iota(shape=shape, axis=len(shape) - 1)
    inside = ops.lt(index, reshape(counts, (*shape[:-1], 1)))
    return ops.select(inside, tokens, broadcast_to(text(node, pad), shape))


@cache
def case_table(upper: bool) -> np.ndarray:
    """Every character that has another case, with up to three characters of that case: int32[n, 4]."""
    rows = []
    for point in range(0x1E944):  # no letter beyond has a case
        other = chr(point).upper() if upper else chr(point).lower()
        if other != chr(point):
            rows.append([point, *map(ord, other), 0, 0][:4])
    return np.array(rows, np.int32)


def cased(node: Node, x: ir.Value, action: str) -> ir.Value:
    if action == "NONE":
        return x
    return ops.string_case(x, node.array(case_table(action == "UPPER"), f"{action.lower()}_case"))


LOCALES = ("en_US", "en-US", "en_US.UTF-8", "C", "")
"""Locales whose changes of case are Unicode's own."""


@onnx_op("StringNormalizer")
def string_normalizer(node: Node) -> ir.Value:
    """x [c] or [1, c] without the stopwords, in upper or lower case; one empty string where nothing is left."""
    x, shape = node.required(0), node.type(0).shape
    action, stopwords = node.string("case_change_action", "NONE"), node.strings("stopwords", ())
    if action not in ("NONE", "UPPER", "LOWER"):
        node.fail(f"'{action}' is none of NONE, UPPER, LOWER", "case_change_action")
    if len(shape) not in (1, 2) or (len(shape) == 2 and shape[0] != 1):
        node.fail(f"takes [c] or [1, c], not {node.type(0)}")
    if action == "NONE":
        node.no_effect("locale", because="no case is changed")
    elif node.string("locale", "en_US") not in LOCALES:
        node.fail(
            f"'{node.string('locale')}' may change case by rules of its own; {', '.join(LOCALES)} are known", "locale"
        )
    flat = reshape(x, shape[-1:])
    if not stopwords:
        node.no_effect("is_case_sensitive", because="there are no stopwords to compare with")
    if stopwords:
        compared = flat
        if not node.int("is_case_sensitive", 0):
            compared, stopwords = cased(node, flat, "LOWER"), [word.lower() for word in stopwords]
        found = ops.string_find(compared, texts(node, sorted(set(stopwords)), "stopwords"))
        indices = ops.nonzero(ops.lt(found, number(0, "int64")), count=node.fresh("words"))
        count = type_of(indices).shape[1]
        flat = ops.gather(flat, reshape(indices, (count,)), axis=0)
    else:
        count = shape[-1]
    flat = cased(node, flat, action)
    if dim_max(count, 1) != count:
        padded = ops.concat([flat, texts(node, [""])], axis=0)
        flat = ops.slice(padded, starts=(0,), sizes=(dim_max(count, 1),), steps=(1,))
    return flat if len(shape) == 1 else reshape(flat, (1, *type_of(flat).shape))
