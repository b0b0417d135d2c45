"""Notes in the cache's folder: written, read, and dropped by the time of their last use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from burn.runtime import notes, versions
from burn.runtime.cache import Cache


@pytest.fixture
def cache(own_cache: Path) -> Cache:
    return Cache.from_environment()


def names(cache: Cache) -> set[str]:
    return {path.name for path in (cache.directory / "digests").iterdir()}


def test_a_note_is_private(cache: Cache) -> None:
    assert notes.read(cache, "a") is None
    notes.save(cache, "a", "text")
    assert notes.read(cache, "a") == "text"
    path = cache.directory / "digests" / "a"
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o622)
    assert notes.read(cache, "a") is None
    path.chmod(0o600)
    path.write_bytes(b"\xff")
    assert notes.read(cache, "a") is None


def test_notes_used_least_recently_are_dropped(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notes, "LIMIT", 5 * 4096)
    for number, name in enumerate("abcde"):
        notes.save(cache, name, name)
        os.utime(cache.directory / "digests" / name, (number, number))
    assert notes.read(cache, "a") == "a"  # now the last used
    notes.save(cache, "large", "x" * 4097)  # two blocks
    assert names(cache) == {"a", "d", "e", "large"}
    notes.save(cache, "larger", "x" * 6 * 4096)  # the one that is written stays
    assert names(cache) == {"larger"}


def test_notes_of_one_tick_have_an_order(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are saved and read faster than the clock of a file system ticks."""
    monkeypatch.setattr(notes, "LIMIT", 3 * 4096)
    for _ in range(20):
        for name in "cba":
            notes.save(cache, name, name)
        notes.read(cache, "c")
        notes.save(cache, "new", "new")
        assert names(cache) == {"a", "c", "new"}
        cache.clear()


def test_temporary_files_of_ended_processes_are_dropped(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notes, "LIMIT", 4096)
    temporary = cache.folder("digests") / ".a.1234.tmp"
    temporary.write_text("half")
    os.utime(temporary, (0, 0))
    (cache.folder("digests") / "a folder").mkdir()  # is no note
    notes.save(cache, "a", "whole")
    assert names(cache) == {"a", "a folder"}


def test_the_limit_of_a_small_cache(cache: Cache) -> None:
    small = Cache(cache.directory, 3 * 4096)
    for number in range(10):
        notes.save(small, str(number), "x")
    assert len(names(cache)) == 3 and "9" in names(cache)
    off = Cache(cache.directory, 0)
    notes.save(off, "off", "x")
    assert "off" not in names(cache) and notes.read(off, "9") is None


def test_a_cleared_cache_has_no_notes(cache: Cache) -> None:
    notes.save(cache, "a", "x")
    cache.clear()
    assert names(cache) == set()


def test_digests_of_sources_are_notes(cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An edited file makes another note, as the stamp differs; a damaged note is replaced."""
    monkeypatch.setattr(notes, "LIMIT", 3 * 4096)
    source = tmp_path / "a.py"
    source.write_text("x = 1")
    digest = versions._digest([str(source)], "first")
    (note,) = names(cache)
    (cache.directory / "digests" / note).write_text("damaged")
    assert versions._digest([str(source)], "first") == digest
    assert notes.read(cache, note) == digest
    for number in range(5):
        versions._digest([str(source)], f"stamp {number}")
    assert len(names(cache)) == 3
