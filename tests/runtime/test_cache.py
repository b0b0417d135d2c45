"""The disk cache: kept, bounded, shared between processes, and never trusted blindly."""

from __future__ import annotations

import os
import pwd
import stat
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from burn.errors import BurnError
from burn.runtime import notes
from burn.runtime.artefact import Artefact, Constant, Signature, Target
from burn.runtime.cache import Cache, CacheWarning, parse_size


def artefact(value: int, size: int = 10_000) -> Artefact:
    constant = Constant.of(np.full(size, value, np.uint8))
    return Artefact(Signature((), ()), Target("x86_64-unknown-linux-gnu"), b"code", (constant,))


def value_of(found: Artefact | None) -> int:
    assert found is not None
    return int(found.constants[0].array()[0])


def test_put_then_get(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "deep" / "cache")
    assert cache.get(b"key") is None
    cache.put(b"key", artefact(1))
    assert value_of(cache.get(b"key")) == 1
    cache.put(b"key", artefact(2))
    assert value_of(cache.get(b"key")) == 2
    assert cache.get(b"other") is None
    cache.clear()
    assert cache.get(b"key") is None


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    for index in range(3):
        cache.put(bytes([index]), artefact(index))
    each = cache.bytes() // 3
    now = time.time()
    for index, age in ((0, 10), (1, 30), (2, 20)):
        os.utime(cache.path(bytes([index])), (now - age, now - age))
    assert value_of(cache.get(bytes([1]))) == 1  # the oldest, but used now
    bounded = Cache(tmp_path, size=3 * each + each // 2)
    bounded.put(bytes([3]), artefact(3))
    assert cache.get(bytes([2])) is None
    assert [value_of(cache.get(bytes([i]))) for i in (0, 1, 3)] == [0, 1, 3]


def test_entries_are_looked_at_only_when_there_are_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []
    stats = Cache._stats
    monkeypatch.setattr(Cache, "_stats", lambda cache: looks.append(1) or stats(cache))
    Cache(tmp_path).put(b"first", artefact(0))
    each = Cache(tmp_path).bytes()
    looks.clear()
    cache = Cache(tmp_path, size=40 * each)
    for index in range(100):
        cache.put(bytes([index]), artefact(index))
    assert 0 < len(looks) <= 40
    assert 30 * each < cache.bytes() <= cache.size
    (tmp_path / "bytes").write_text("no number")
    Cache(tmp_path, size=5 * each).put(b"last", artefact(1))
    assert cache.bytes() <= 5 * each


def test_an_entry_in_use_survives_its_eviction(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put(b"key", artefact(7))
    found = cache.get(b"key")
    cache.clear()
    assert value_of(found) == 7


def test_a_damaged_entry_is_dropped_with_a_warning(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put(b"key", artefact(1))
    path = cache.path(b"key")
    damaged = bytearray(path.read_bytes())
    damaged[130] ^= 1
    path.write_bytes(damaged)
    with pytest.warns(CacheWarning, match="checksum"):
        assert cache.get(b"key") is None
    assert not path.exists()


def test_a_cache_that_cannot_be_written_to_warns(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for cache in (Cache(tmp_path / "file"), Cache(tmp_path / "file" / "cache")):
        with pytest.warns(CacheWarning, match="not cached"):
            cache.put(b"key", artefact(1))
        assert cache.get(b"key") is None
        assert notes.read(cache, "a note") is None


@pytest.mark.parametrize("spoiled_path", ("folder", "shelf", "entry"))
def test_what_others_may_write_to_is_not_run(tmp_path: Path, spoiled_path: str) -> None:
    cache = Cache(tmp_path / "cache")
    cache.put(b"key", artefact(1))
    entry = cache.path(b"key")
    spoiled = {"folder": cache.directory, "shelf": entry.parent, "entry": entry}[spoiled_path]
    assert stat.S_IMODE(spoiled.stat().st_mode) & 0o077 == 0
    spoiled.chmod(0o777)
    with pytest.warns(CacheWarning, match="others may write"):
        assert cache.get(b"key") is None
    if spoiled_path != "entry":
        with pytest.warns(CacheWarning, match="others may write"):
            cache.put(b"key", artefact(2))
    spoiled.chmod(0o700)
    assert value_of(cache.get(b"key")) == 1


def test_what_belongs_to_others_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = Cache(tmp_path / "cache")
    cache.put(b"key", artefact(1))
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.warns(CacheWarning, match="another user"):
        assert cache.get(b"key") is None


@pytest.mark.parametrize("kind", ("folder", "pipe", "link"))
def test_an_entry_that_is_no_file_is_dropped(tmp_path: Path, kind: str) -> None:
    cache = Cache(tmp_path / "cache")
    cache.put(b"key", artefact(1))
    entry = cache.path(b"key")
    entry.unlink()
    if kind == "folder":
        entry.mkdir(mode=0o700)
    elif kind == "pipe":
        os.mkfifo(entry, 0o600)
    else:
        artefact(2).save(tmp_path / "elsewhere.burn")
        entry.symlink_to(tmp_path / "elsewhere.burn")
    with pytest.warns(CacheWarning):
        assert cache.get(b"key") is None


def test_a_malformed_environment_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BURN_CACHE_DIR", "~nosuchuser/cache")
    with pytest.raises(BurnError, match="BURN_CACHE_DIR is malformed"):
        Cache.from_environment()
    monkeypatch.setenv("BURN_CACHE_DIR", "")
    monkeypatch.setenv("BURN_CACHE_SIZE", "9" * 400)
    with pytest.raises(BurnError, match="BURN_CACHE_SIZE is malformed"):
        Cache.from_environment()


def test_size_zero_turns_it_off(tmp_path: Path) -> None:
    Cache(tmp_path, size=0).put(b"key", artefact(1))
    assert not list(tmp_path.iterdir())


def test_processes_share_one_cache(tmp_path: Path) -> None:
    """Two writers and a reader on the same few keys, with evictions: every entry read is whole."""
    script = """
import sys
from pathlib import Path
from tests.runtime.test_cache import artefact
from burn.runtime.cache import Cache
cache = Cache(Path(sys.argv[1]), size=60_000)
for turn in range(150):
    key = bytes([turn % 6])
    cache.put(key, artefact(turn % 6))
    found = cache.get(bytes([(turn + 3) % 6]))
    if found is not None:
        values = set(found.constants[0].array().tolist())
        assert values == {(turn + 3) % 6}, values
"""
    environment = os.environ | {"PYTHONWARNINGS": "error", "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", script, str(tmp_path)]
    running = [subprocess.Popen(command, env=environment, stderr=subprocess.PIPE) for _ in range(2)]
    for process in running:
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors.decode()
    assert Cache(tmp_path).bytes() <= 60_000 + 2 * 20_000
    assert not list(tmp_path.glob("**/*.tmp"))


def test_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BURN_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("BURN_CACHE_SIZE", "1.5 MiB")
    assert Cache.from_environment() == Cache(tmp_path, 1_572_864)
    assert [parse_size(text) for text in ("0", "7", "2KB", "10gb", "1TiB")] == [0, 7, 2000, 10**10, 2**40]
    for wrong in ("", "many", "-1", "1PB", "1.GB"):
        with pytest.raises(BurnError, match="is no size"):
            parse_size(wrong)


def test_without_a_home_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A container whose user has no entry in passwd, and no HOME."""
    for name in ("HOME", "XDG_CACHE_HOME", "BURN_CACHE_DIR", "BURN_CACHE_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", lambda number: (_ for _ in ()).throw(KeyError(number)))
    with pytest.warns(CacheWarning, match="BURN_CACHE_DIR"):
        cache = Cache.from_environment()
    assert cache.size == 0 and cache.get(b"key") is None
    cache.put(b"key", artefact(1))
    monkeypatch.setenv("BURN_CACHE_DIR", "~/cache")
    with pytest.raises(BurnError, match="BURN_CACHE_DIR is malformed"):
        Cache.from_environment()
    monkeypatch.setenv("BURN_CACHE_DIR", str(tmp_path))
    assert Cache.from_environment().directory == tmp_path


def test_folders_for_code_of_others(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    assert cache.folder("triton") == tmp_path / "cache" / "triton"
    (tmp_path / "cache" / "triton").chmod(0o777)
    own = cache.folder("triton")
    assert not own.is_relative_to(tmp_path) and own.parent.stat().st_mode & 0o077 == 0
    assert Cache(tmp_path / "absent", 0).folder("triton").name == "triton"
