"""Recent compilations are cached in memory."""

from __future__ import annotations

import numpy as np
import pytest

import burn
from burn.codegen.host import object as objects
from burn.codegen.host.compilation_cache import Recent


def test_the_least_recently_used_go_first() -> None:
    made: list[str] = []

    def make(text: str) -> bytes:
        made.append(text)
        return text.encode() * 2

    recent = Recent(8)
    for text in ("ab", "cd", "ab", "ef", "ab", "cd"):
        assert recent.get(text, make) == text.encode() * 2
    assert made == ["ab", "cd", "ef", "cd"]
    assert (len(recent), recent.bytes) == (2, 8)


def test_what_is_larger_than_all_there_is_room_for_is_not_kept() -> None:
    recent = Recent(8)
    recent.get("ab", str.encode)
    assert recent.get("too long", lambda text: text.encode() * 2) == b"too longtoo long"
    assert (len(recent), recent.bytes) == (1, 2)


def test_what_failed_is_tried_again() -> None:
    recent = Recent(8)
    with pytest.raises(UnicodeEncodeError):
        recent.get("a", lambda text: "\N{BULLET}".encode("ascii"))
    assert recent.get("a", str.encode) == b"a"


def test_other_weights_need_no_other_code(monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []
    counts: list[int] = []
    compiled = objects._compiled
    monkeypatch.setattr(objects, "_compiled", lambda text, level: (texts.append(text), compiled(text, level))[1])
    monkeypatch.setattr(objects, "_recent", Recent(1 << 20))
    x = np.linspace(-1, 1, 35, dtype=np.float32).reshape(5, 7)
    for seed in range(3):
        weight = np.random.default_rng(seed).standard_normal((7, 30)).astype(np.float32)
        program = burn.compile(lambda x, weight=weight: x @ burn.tensor(weight), (x,), cache=False)
        np.testing.assert_allclose(program(x), x @ weight, rtol=1e-5, atol=1e-5)
        counts.append(len(texts))
    assert counts[0] > 0 and counts[1:] == counts[:1] * 2
