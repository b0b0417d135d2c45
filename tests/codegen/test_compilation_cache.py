"""Recent compilations are cached in memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

import burn
from burn.codegen.host import object as objects
from burn.codegen.host.compilation_cache import Recent, digest
from burn.dialect.mlir import ExecutionEngine


def test_the_least_recently_used_go_first() -> None:
    made: list[str] = []

    def make(text: str) -> bytes:
        made.append(text)
        return text.encode() * 2

    recent = Recent(8)
    for text in ("ab", "cd", "ab", "ef", "ab", "cd"):
        assert recent.get(digest([text]), partial(make, text)) == text.encode() * 2
    assert made == ["ab", "cd", "ef", "cd"]
    assert (len(recent), recent.bytes) == (2, 8)


def test_what_is_larger_than_all_there_is_room_for_is_not_kept() -> None:
    recent = Recent(8)
    recent.get(b"key", lambda: b"ab")
    assert recent.get(b"other", lambda: b"more than 8") == b"more than 8"
    assert (len(recent), recent.bytes) == (1, 2)


def test_what_failed_is_tried_again() -> None:
    recent = Recent(8)
    with pytest.raises(UnicodeEncodeError):
        recent.get(b"key", lambda: "\N{BULLET}".encode("ascii"))
    assert recent.get(b"key", lambda: b"a") == b"a"


def test_keys_are_those_of_the_whole_text() -> None:
    assert digest(["a", "b"]) == digest(["a\nb"]) != digest(["ab"])
    assert len({digest(["// -O3", "a"]), digest(["// -O0", "a"]), digest(["a"])}) == 3


def test_the_text_of_a_module_is_free_before_code_is_generated(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[int] = []

    def engine(*arguments: Any, **options: Any) -> ExecutionEngine:
        held.append(tracemalloc.get_traced_memory()[0])
        return ExecutionEngine(*arguments, **options)

    monkeypatch.setattr(objects, "ExecutionEngine", engine)
    monkeypatch.setattr(objects, "_recent", Recent(0))
    lines = [
        "llvm.func @burn_entry(%run: !llvm.ptr) -> i32 {",
        *["  // a comment"] * objects.LARGE,
        "  %0 = llvm.mlir.constant(0 : i32) : i32",
    ]
    functions = ["\n".join([*lines, "  llvm.return %0 : i32", "}"])]
    tracemalloc.start()
    try:
        assert objects.compile_object(functions).startswith(b"\x7fELF")
    finally:
        tracemalloc.stop()
    assert len(held) == 1 and held[0] < len(functions[0]) / 2


def test_other_weights_need_no_other_code(monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[Sequence[str]] = []
    counts: list[int] = []
    compiled = objects._compiled
    monkeypatch.setattr(objects, "_compiled", lambda text, *how: (texts.append(text), compiled(text, *how))[1])
    monkeypatch.setattr(objects, "_recent", Recent(1 << 20))
    x = np.linspace(-1, 1, 35, dtype=np.float32).reshape(5, 7)
    for seed in range(3):
        weight = np.random.default_rng(seed).standard_normal((7, 30)).astype(np.float32)
        program = burn.compile(lambda x, weight=weight: x @ burn.tensor(weight), (x,), cache=False)
        np.testing.assert_allclose(program(x), x @ weight, rtol=1e-5, atol=1e-5)
        counts.append(len(texts))
    assert counts[0] > 0 and counts[1:] == counts[:1] * 2
