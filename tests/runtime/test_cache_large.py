"""Large entries of the cache: written by a thread, and verified once."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from burn.runtime import cache_file, package, verified, writing
from burn.runtime.artefact import Artefact, Constant, Signature, Target
from burn.runtime.cache import Cache, CacheWarning
from tests.clocks import wait_for_tick

SIZE = 1 << 16


def artefact(value: int = 3) -> Artefact:
    constant = Constant.of(np.full(SIZE, value, np.uint8))
    return Artefact(Signature((), ()), Target("x86_64-unknown-linux-gnu"), b"code", (constant,))


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries of this test count as large."""
    monkeypatch.setattr("burn.runtime.cache.LARGE", SIZE)
    monkeypatch.setattr(verified, "LARGE", SIZE)


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each load of an entry: true if its constants are verified."""
    seen: list[bool] = []
    load = Artefact.load

    def watched(path: str | os.PathLike[str], check: bool = True) -> Artefact:
        seen.append(check)
        return load(path, check)

    monkeypatch.setattr(Artefact, "load", staticmethod(watched))
    return seen


class Held:
    """Stops writers of entries until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open, self.threads = threading.Event(), list[threading.Thread]()
        save = Artefact.save

        def held(artefact: Artefact, path: str | os.PathLike[str], durable: bool = True) -> None:
            self.threads.append(threading.current_thread())
            assert self.open.wait(300)
            save(artefact, path, durable)

        monkeypatch.setattr(Artefact, "save", held)


# ---- writing -----------------------------------------------------------------------------------------------------------
def test_a_large_entry_is_written_while_the_program_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, held = Cache(tmp_path), Held(monkeypatch)
    cache.put_later(b"key", artefact())
    assert not cache.path(b"key").exists()
    threading.Timer(0.2, held.open.set).start()
    found = cache.get(b"key")  # waits: else the program would be compiled again
    assert found is not None and found.constants[0].array()[0] == 3
    assert held.threads != [threading.current_thread()]
    writing.wait()
    assert not writing._pending


def test_a_small_entry_is_there_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("burn.runtime.cache.LARGE", 10 * SIZE)
    cache = Cache(tmp_path)
    cache.put_later(b"key", artefact())
    assert cache.path(b"key").exists()


def test_lists_of_entries_are_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, held = Cache(tmp_path), Held(monkeypatch)
    for number in range(3):
        cache.put_later(bytes([number]), artefact(number))
    threading.Timer(0.2, held.open.set).start()
    assert len(cache_file.entries(cache)) == 3


def test_the_later_of_two_writers_wins(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    for value in range(5):
        cache.put_later(b"key", artefact(value))
    found = cache.get(b"key")
    assert found is not None and found.constants[0].array()[0] == 4


def test_a_cache_that_cannot_be_written_to_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.warns(CacheWarning, match="was not cached"):
        Cache(tmp_path / "file").put_later(b"key", artefact())
        writing.wait()


def test_no_thread_for_a_cache_that_is_off(tmp_path: Path) -> None:
    Cache(tmp_path, size=0).put_later(b"key", artefact())
    assert not writing._pending and not list(tmp_path.iterdir())


def test_a_child_of_fork_waits_for_no_thread_of_its_parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, held = Cache(tmp_path), Held(monkeypatch)
    cache.put_later(b"key", artefact())
    child = os.fork()
    if child == 0:
        os._exit(0 if cache.get(b"key") is None else 1)
    ended = time.monotonic() + 300
    status = (0, 0)
    while status[0] == 0 and time.monotonic() < ended:
        status = os.waitpid(child, os.WNOHANG)
        time.sleep(0.01)
    held.open.set()
    writing.wait()
    assert status == (child, 0)


def test_a_process_ends_after_its_entries_are_written(tmp_path: Path) -> None:
    program = f"""
import time
from burn.runtime import cache, writing
from tests.runtime.test_cache_large import artefact
from burn.runtime.artefact import Artefact
save = Artefact.save
def slow(self, path, durable=True):
    time.sleep(0.5)
    save(self, path, durable)
Artefact.save = slow
cache.LARGE = 1
cache.Cache(cache.Path({str(tmp_path)!r})).put_later(b"key", artefact(7))
assert writing._pending
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[2])
    found = Cache(tmp_path).get(b"key")
    assert found is not None and found.constants[0].array()[0] == 7


def test_an_entry_is_written_without_a_thread_if_none_starts(tmp_path: Path) -> None:
    """As in functions that run when the interpreter ends."""
    program = f"""
import atexit
from burn.runtime import cache, writing
from tests.runtime.test_cache_large import artefact
from tests.clocks import wait_for_tick
cache.LARGE = 1
store = cache.Cache(cache.Path({str(tmp_path)!r}))
@atexit.register
def last():
    store.put_later(b"key", artefact(7))
    assert store.get(b"key") is not None
    print("written")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[2], capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("written\n", "")


def test_no_one_waits_for_a_thread_that_has_not_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start, waited, waiters = threading.Thread.start, list[bool](), list[threading.Thread]()

    def wait() -> None:
        writing.wait_for(tmp_path)
        waited.append(True)

    def slow(thread: threading.Thread) -> None:
        if thread.name == "burn-cache":
            waiters.append(threading.Thread(target=wait))
            start(waiters[0])
            time.sleep(0.1)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", slow)
    writing.later(tmp_path, lambda: None)
    waiters[0].join()
    assert waited == [True]


# ---- verification ------------------------------------------------------------------------------------------------------
def test_an_entry_is_verified_once(tmp_path: Path, checks: list[bool]) -> None:
    cache = Cache(tmp_path)
    cache.put(b"key", artefact())
    for _ in range(3):
        assert cache.get(b"key") is not None
    assert checks == [True, False, False]
    cache.put(b"key", artefact(5))  # another file
    found = cache.get(b"key")
    assert checks[3:] == [True] and found is not None and found.constants[0].array()[0] == 5


def test_a_small_entry_is_always_verified(tmp_path: Path, checks: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verified, "LARGE", 10 * SIZE)
    cache = Cache(tmp_path)
    cache.put(b"key", artefact())
    assert [cache.get(b"key") is None for _ in range(2)] == [False, False]
    assert checks == [True, True]


@pytest.mark.parametrize("boot", ["another", ""])
def test_after_a_new_start_of_the_machine_it_is_verified_again(
    tmp_path: Path, checks: list[bool], monkeypatch: pytest.MonkeyPatch, boot: str
) -> None:
    """And each time, if the system does not say when it started."""
    cache = Cache(tmp_path)
    cache.put(b"key", artefact())
    cache.get(b"key")
    monkeypatch.setattr(verified, "_boot", lambda: boot)
    assert cache.get(b"key") is not None and cache.get(b"key") is not None
    assert checks == [True, True, not boot]


def test_damage_in_place_is_found(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put(b"key", artefact())
    assert cache.get(b"key") is not None and cache.get(b"key") is not None
    path = cache.path(b"key")
    wait_for_tick(tmp_path)
    with path.open("r+b") as file:
        file.seek(-100, os.SEEK_END)
        file.write(b"damaged")
    with pytest.warns(CacheWarning, match="damaged cache entry"):
        assert cache.get(b"key") is None
    assert not path.exists()


def test_use_is_not_change(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put(b"key", artefact())
    path = cache.path(b"key")
    os.utime(path, ns=(10**18, 10**18))
    cache.get(b"key")
    status = path.stat()
    assert status.st_mtime_ns == 10**18 and status.st_atime > time.time() - 100
    assert cache_file.entries(cache)[0].used == status.st_atime


def test_a_use_during_a_list_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = Cache(tmp_path)
    cache.put(b"key", artefact())
    path = cache.path(b"key")
    os.utime(path, ns=(10**18, 10**18))
    assert cache_file.entries(cache)[0].used == path.stat().st_atime == 10**9  # a list is no use
    headers = package.headers

    def read_meanwhile(path: Path, **how: bool) -> list[tuple[Target, Signature, tuple[str, ...]]]:
        found = headers(path, **how)
        cache.get(b"key")
        return found

    monkeypatch.setattr(package, "headers", read_meanwhile)
    cache_file.entries(cache)
    assert path.stat().st_atime > time.time() - 100


def test_an_entry_that_is_replaced_meanwhile(
    tmp_path: Path, checks: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = Cache(tmp_path)
    cache.put(b"key", artefact())
    cache.get(b"key")
    watched = Artefact.load

    def replacing(path: str | os.PathLike[str], check: bool = True) -> Artefact:
        if not check:
            cache.put(b"key", artefact(9))
        return watched(path, check)

    monkeypatch.setattr(Artefact, "load", staticmethod(replacing))
    found = cache.get(b"key")
    assert found is not None and found.constants[0].array()[0] == 9
    assert checks[1:] == [False, True]
