"""Communicators without other processes: memory that is given back, and replaced ones."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Any

import pytest

from burn.distributed import processes
from burn.distributed.spmd import communicators
from burn.distributed.spmd.communicators import Communicator
from burn.errors import DistributedError
from burn.runtime.device import CPU


class Lone:
    """Rank 0 of 2, whose peer is lost at one of its exchanges."""

    rank, count = 0, 2

    def __init__(self, lost_at: int) -> None:
        self.left = lost_at

    def gather(self, key: str, value: Any) -> list[Any]:
        self.left -= 1
        if self.left < 0:
            raise DistributedError("rank 0 of 2 cannot go on", ["rank 1 of 2 has ended"])
        return [value, value if key == "hosts" else None]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of this test's, in the place of /dev/shm."""
    monkeypatch.setattr(communicators, "MEMORY", tmp_path)
    return tmp_path


def held() -> tuple[list[str], int]:
    """Open files, and mappings."""
    return os.listdir("/proc/self/fd"), Path("/proc/self/maps").read_text().count("burn-")


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs Linux")
@pytest.mark.parametrize("is_anonymous", [True, False])
@pytest.mark.parametrize("lost_at", range(4))
def test_a_peer_lost_while_memory_is_shared(
    folder: Path, monkeypatch: pytest.MonkeyPatch, lost_at: int, is_anonymous: bool
) -> None:
    if not is_anonymous:
        monkeypatch.delattr(os, "memfd_create", raising=False)
    gc.collect()  # files of earlier tests
    before = held()
    with pytest.raises(DistributedError, match="rank 1 of 2 has ended"):
        communicators._shared(Lone(lost_at))  # type: ignore[arg-type]
    assert held() == before and not os.listdir(folder)


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="needs Linux")
def test_memory_has_no_name_in_a_folder(folder: Path) -> None:
    """So nothing is left of it if its process is killed. Another file by that path is not taken for it."""
    memory = communicators._Memory()
    try:
        memory.allocate(1 << 20)
        assert not os.listdir(folder) and os.stat(memory.path).st_size == 1 << 20
        with pytest.raises(OSError, match="not the memory of rank 0"):
            communicators._attached(memory.path, "/memfd:another (deleted)", Lone(9))  # type: ignore[arg-type]
    finally:
        memory.close()


def test_a_replaced_communicator_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Made:
        closed = False

        def __init__(self, own: Any, device: Any) -> None:
            self.own = own

        def close(self) -> None:
            self.closed = True

    monkeypatch.setattr(Communicator, "open", Made)
    monkeypatch.setattr(communicators, "_open", {})
    found = []
    for own in (first := Lone(9), first, Lone(9)):
        monkeypatch.setattr(processes, "_current", own)
        found.append(communicators.of(CPU))
    assert found[0] is found[1] and found[0] is not found[2]
    assert [made.closed for made in found] == [True, True, False]  # type: ignore[union-attr]
