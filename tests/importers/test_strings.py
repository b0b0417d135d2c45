"""Strings as inputs, outputs and values of ONNX models, against Python's own functions."""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import burn
from burn.compiler import executable
from burn.dialect import regex
from burn.errors import InputError, ModelError, RunError
from burn.importers.onnx import import_onnx
from burn.runtime import Executable

S = TensorProto.STRING


def model(
    nodes: Sequence[onnx.NodeProto], inputs: dict[str, tuple[int, list]], outputs: Sequence[str], opset: int = 20
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "strings",
        [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in inputs.items()],
        [onnx.ValueInfoProto(name=name) for name in outputs],
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", 4)]
    )


def of(
    op: str, dims: list | None = None, *, more: dict | None = None, outputs: int = 1, **attributes: Any
) -> Executable:
    """A program of one operator on the strings x [n]."""
    names = [f"y{i}" for i in range(outputs)]
    inputs = {"x": (S, ["n"] if dims is None else dims), **(more or {})}
    domain = "ai.onnx.ml" if op in ("LabelEncoder", "CategoryMapper", "OneHotEncoder") else ""
    node = helper.make_node(op, list(inputs), names, domain=domain, **attributes)
    return executable(import_onnx(model([node], inputs, names)))


def strings(*texts: str) -> np.ndarray:
    return np.array(texts, object).reshape(-1)


WORDS = strings(
    "",
    "a",
    "b",
    "a",
    "Straße",
    "ÄÖ",
    "日本語",
    "a b",
    "  x  y ",
    "\u00a0z\t",
    "e\u0301",
    "ﬃ",
    "İ",
    "🙂🙂",
    "A\0B",
    "a\0",
)


def same(got: Any, want: Sequence[Any] | np.ndarray) -> None:
    got = np.asarray(got)
    assert got.dtype == object and got.reshape(-1).tolist() == list(want)


# ---- inputs and outputs ------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def identity() -> Executable:
    return of("Identity")


def test_inputs_of_every_form(identity: Executable) -> None:
    same(identity(WORDS), WORDS)
    same(identity(WORDS.tolist()), WORDS)
    same(identity(strings("a", "bc").astype(str)), ["a", "bc"])
    same(identity(np.array(["ä".encode(), b""], object)), ["ä", ""])
    same(identity(np.array([b"ab", b"c"])), ["ab", "c"])
    same(identity(strings("a", "b", "c", "d")[::2]), ["a", "c"])
    assert identity(np.empty(0, object)).shape == (0,)
    assert "string[n]" in repr(identity)


@pytest.mark.parametrize(
    "value, reason",
    [
        (np.array([b"\xff"]), "not UTF-8"),
        (np.array(["a", 1], object), "holds a int"),
        (np.arange(3), "holds int64"),
        (strings("\ud800"), "half a character"),
        ([["a"], ["b", "c"]], "not a regular array"),
        (np.array([["a"]], object), r"must have 1 axes"),
    ],
)
def test_wrong_inputs_are_named(identity: Executable, value: Any, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        identity(value)


def test_threads_have_strings_of_their_own() -> None:
    program = of("StringConcat", more={"y": (S, ["n"])})
    wrong: list[int] = []

    def call(seed: int) -> None:
        for i in range(50):
            x = strings(*(f"{seed}-{i}-{k}" for k in range(20)))
            if program(x, x).tolist() != [t + t for t in x]:
                wrong.append(seed)

    threads = [threading.Thread(target=call, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.usefixtures("own_cache")
def test_constants_survive_the_file(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Constant", [], ["c"], value_strings=[w for w in WORDS if "\0" not in w]),
        helper.make_node("Gather", ["c", "i"], ["g"]),
        helper.make_node("Equal", ["g", "x"], ["y"]),
    ]
    onnx.save(model(nodes, {"x": (S, ["n"]), "i": (TensorProto.INT64, ["n"])}, ["g", "y"]), tmp_path / "m.onnx")
    for _ in range(2):
        program = burn.load(tmp_path / "m.onnx")
        gathered, equal = program(strings("", "日本語", "x"), np.array([0, 6, 1]))
        same(gathered, ["", "日本語", "a"])
        assert equal.tolist() == [True, True, False]
    program.artefact.save(tmp_path / "m.burn")
    same(burn.load(tmp_path / "m.burn")(strings("q"), np.array([4]))[0], ["Straße"])


def test_kernels_move_strings() -> None:
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0]),
        helper.make_node("Concat", ["t", "t"], ["c"], axis=1),
        helper.make_node("Where", ["flag", "c", "other"], ["w"]),
        helper.make_node("Slice", ["w", "start", "end", "one"], ["s"]),
        helper.make_node("Unique", ["x"], ["u", "first", "inverse", "counts"]),
        helper.make_node("Tile", ["x", "twice"], ["tiled"]),
        *(
            helper.make_node("Constant", [], [name], value_ints=value)
            for name, value in {"start": [1], "end": [3], "one": [1], "twice": [1, 2]}.items()
        ),
    ]
    inputs: dict[str, tuple[int, list[Any]]] = {
        "x": (S, ["a", "b"]),
        "flag": (TensorProto.BOOL, ["b", "d"]),
        "other": (S, []),
    }
    program = executable(
        import_onnx(model([*nodes[6:], *nodes[:6]], inputs, ["s", "u", "first", "inverse", "counts", "tiled"]))
    )
    rng = np.random.default_rng(1)
    for a, b in ((2, 3), (1, 5), (7, 4)):
        x = rng.choice(WORDS, (a, b))
        flag = rng.random((b, 2 * a)) < 0.5
        s, u, first, inverse, counts, tiled = program(x, flag, np.array("?", object))
        want = np.where(flag, np.concatenate([x.T, x.T], 1), "?")[:, 1:3]
        np.testing.assert_array_equal(s, want)
        np.testing.assert_array_equal(tiled, np.tile(x, (1, 2)))
        for got, expected in zip((u, first, inverse, counts), np.unique(x, True, True, True), strict=True):
            np.testing.assert_array_equal(got, expected.reshape(-1))


# ---- operators ---------------------------------------------------------------------------------------------------------
def split(text: str, delimiter: str, most: int | None) -> list[str]:
    return text.split(delimiter or None, -1 if most is None else most)


@pytest.mark.parametrize("delimiter", ["", ",", "--"])
@pytest.mark.parametrize("most", [None, 0, 1, 2])
def test_split(delimiter: str, most: int | None) -> None:
    attributes: dict[str, Any] = {"maxsplit": most} if most is not None else {}
    program = of("StringSplit", outputs=2, delimiter=delimiter, **attributes)
    rng = random.Random(3)
    for count in (0, 1, 5):
        texts = ["".join(rng.choice("ab ,-\u2003") for _ in range(rng.randrange(12))) for _ in range(count)]
        pieces, numbers = program(strings(*texts))
        want = [split(t, delimiter, most) for t in texts]
        width = max(map(len, want), default=0)
        assert pieces.shape == (count, width) and numbers.tolist() == [len(w) for w in want]
        assert pieces.tolist() == [w + [""] * (width - len(w)) for w in want]


@pytest.mark.parametrize("upper", [True, False])
def test_letter_case(upper: bool) -> None:
    program = of("StringNormalizer", case_change_action="UPPER" if upper else "LOWER")
    words = strings(*(w for w in WORDS), *(chr(c) for c in range(0x20, 0x3000, 7)), *map(chr, range(0x10400, 0x10430)))
    same(program(words), [w.upper() if upper else w.lower() for w in words])


def test_stopwords() -> None:
    program = of("StringNormalizer", stopwords=["monday", "Die"], is_case_sensitive=0, case_change_action="UPPER")
    same(program(strings("Monday", "x", "DIE", "y")), ["X", "Y"])
    program = of("StringNormalizer", [1, "n"], stopwords=["monday"], is_case_sensitive=1)
    assert program(strings("Monday", "monday").reshape(1, 2)).tolist() == [["Monday"]]


PATTERNS = [
    "", "a*", "(a|b)+c?", r"\w+@\w+\.(com|net)", "[^a-c]{2,3}", r"(?i)straße", ".", r"\bfoo\b.*", "(?s).*x.*", "(?m)^a$\n^b$",
    r"[[:alpha:]]+", r"\x{65e5}.*", r"\Qa.b\E", "(a?){20}a{20}", "[]a]+", "x{,3}", "(?P<name>a)|b", "日.{2}",
]  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS)
def test_full_match(pattern: str) -> None:
    program = of("RegexFullMatch", pattern=pattern)
    texts = [
        *(
            "",
            "a",
            "aaaa",
            "abc",
            "b",
            "STRASSE",
            "StraßE",
            "me@x.com",
            "me@x.org",
            "foo bar",
            "food",
            "日本語",
            "a\nb",
            "x\n",
        ),
        *("a.b", "a" * 20, "a" * 41, "]a", "x{,3}", "xy", "zz", "dé", "\n"),
    ]
    python = pattern.replace("[[:alpha:]]", "[A-Za-z]").replace(r"\x{65e5}", "日").replace(r"\Qa.b\E", r"a\.b")
    python = python.replace("x{,3}", r"x\{,3\}")
    flag = re.ASCII if "日" not in python and "ß" not in python else re.UNICODE
    want = [
        re.fullmatch(python.replace("$", r"(?=\n|\Z)") if "?m" in python else python, t, flag) is not None
        for t in texts
    ]
    assert program(strings(*texts)).tolist() == want


@pytest.mark.parametrize(
    "pattern, reason",
    [
        ("(?=a)", "regular"),
        ("(a", "not closed"),
        (r"\pL", "by name"),
        ("a{2000}", "up to 1000"),
        (r"(a)\1", "references"),
        ("*", "nothing"),
    ],
)
def test_expressions_that_are_refused(pattern: str, reason: str) -> None:
    with pytest.raises(ModelError, match=reason):
        of("RegexFullMatch", pattern=pattern)


def test_matching_takes_linear_time() -> None:
    """The classic that makes backtracking exponential."""
    program = of("RegexFullMatch", pattern="(a*)*b")
    assert program(strings("a" * 20000, "a" * 20000 + "b")).tolist() == [False, True]
    assert regex.compile("a" * 1000).shape == (1001, 3)


TYPES: dict[str, Callable[[str], Any]] = {
    "float32": np.float32, "float64": np.float64, "float16": np.float16, "int32": np.int32, "int64": np.int64, "uint8": np.uint8,
    "uint64": np.uint64,
}  # fmt: skip


@pytest.mark.parametrize("name", TYPES)
def test_numbers_as_text_and_back(name: str) -> None:
    code = helper.np_dtype_to_tensor_dtype(np.dtype(name))
    write = executable(import_onnx(model([helper.make_node("Cast", ["x"], ["y"], to=S)], {"x": (code, ["n"])}, ["y"])))
    read = of("Cast", to=code)
    dtype = np.dtype(name)
    rng = np.random.default_rng(5)
    if dtype.kind == "f":
        bits = rng.integers(0, 2 ** (8 * dtype.itemsize) - 1, 300, np.uint64, endpoint=True).astype(
            f"u{dtype.itemsize}"
        )
        with np.errstate(over="ignore"):
            special = np.array(
                [0.0, -0.0, 1, 0.1, 1e-5, 1e16, 123456.0, np.inf, -np.inf, 65504, 3.14159265358979], dtype
            )
        x = np.concatenate([bits.view(dtype), special, rng.normal(0, 100, 100).astype(dtype)])
        x = x[~np.isnan(x)]
    else:
        info = np.iinfo(dtype)
        x = np.array([0, 1, info.min, info.max, 42], dtype)
    texts = write(x)
    if dtype in (np.float32, np.float16):  # numpy's versions differ in when these get an exponent
        digits = [re.sub(r"e.*|[-.]", "", t).strip("0") for t in texts.tolist()]
        assert digits == [re.sub(r"e.*|[-.]", "", np.format_float_scientific(v)).strip("0") for v in x]
    else:
        same(texts, [str(v) for v in x])
    np.testing.assert_array_equal(read(texts), x)


def test_text_that_is_no_number() -> None:
    read = of("Cast", to=TensorProto.FLOAT)
    got = read(strings(" 1.5 ", "-2", "1E3", "+INF", "-infinity", "NaN", ".5", "1e-45"))
    np.testing.assert_array_equal(got, np.array([1.5, -2, 1000, np.inf, -np.inf, np.nan, 0.5, 1e-45], np.float32))
    for text in ("", "x", "0x10", "1.2.3", "1 2", "1e", "1\0", "--1"):
        with pytest.raises(RunError, match="string 1 is not a number"):
            read(strings("0", text))
    with pytest.raises(RunError, match="is not a number"):
        of("Cast", to=TensorProto.INT64)(strings("9223372036854775808"))


def test_lookups() -> None:
    keys, values = ["a", "b", "日本語", "a"], [1, 2, 3, 4]
    program = of("LabelEncoder", keys_strings=keys, values_int64s=values, default_int64=-7)
    assert program(WORDS).tolist() == [{"a": 4, "b": 2, "日本語": 3}.get(w, -7) for w in WORDS]
    program = of("LabelEncoder", keys_strings=keys, values_strings=["x", "", "z", "w"], default_string="?")
    same(program(WORDS), [{"a": "w", "b": "", "日本語": "z"}.get(w, "?") for w in WORDS])
    program = of("CategoryMapper", cats_strings=["a", "b"], cats_int64s=[5, 6], default_int64=0)
    assert program(WORDS).tolist() == [{"a": 5, "b": 6}.get(w, 0) for w in WORDS]
    program = of("OneHotEncoder", cats_strings=["a", "日本語"])
    np.testing.assert_array_equal(program(WORDS), np.stack([WORDS == "a", WORDS == "日本語"], 1).astype(np.float32))


def test_n_grams_of_strings() -> None:
    grams = {"min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 0, "ngram_counts": [0, 2]}
    program = of("TfIdfVectorizer", mode="TF", pool_strings=["a", "ä", "a", "ä"], ngram_indexes=[0, 1, 2], **grams)
    np.testing.assert_array_equal(program(strings("a", "ä", "a", "x", "a", "ä")), np.array([3, 2, 2], np.float32))
