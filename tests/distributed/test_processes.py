"""The processes of a training: what they exchange, and errors that name the rank that is lost. Ranks here are threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from burn.distributed import processes
from burn.distributed.coordinator import Coordinator, listen, split
from burn.distributed.processes import Processes
from burn.errors import DistributedError, ModelError


@contextmanager
def coordinated(count: int, timeout: float = 60.0, stall: float = 300.0) -> Iterator[str]:
    listener = listen("127.0.0.1:0")
    coordinator = Coordinator(count, timeout, stall)
    thread = threading.Thread(target=coordinator.serve, args=(listener,), daemon=True)
    thread.start()
    yield f"127.0.0.1:{listener.getsockname()[1]}"
    coordinator.ended.set()
    thread.join()


def together(count: int, work: Callable[[Processes], Any], timeout: float = 60.0, stall: float = 300.0) -> list[Any]:
    """The results, or the errors, of all ranks."""
    results: list[Any] = [None] * count

    def run(rank: int, address: str) -> None:
        try:
            own = Processes(rank, count, address, timeout)
            try:
                results[rank] = work(own)
            finally:
                own.leave()
        except Exception as error:
            results[rank] = error

    with coordinated(count, timeout, stall) as address:
        threads = [threading.Thread(target=run, args=(rank, address)) for rank in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return results


def test_gather_and_agree() -> None:
    def work(own: Processes) -> Any:
        own.agree("one", {"a": [1, 2.5]})
        return own.gather("ranks", own.rank), own.gather("ranks", -own.rank)

    assert together(3, work) == [([0, 1, 2], [0, -1, -2])] * 3


def test_disagreement_names_the_rank() -> None:
    errors = together(3, lambda own: own.agree("the program of a step", own.rank == 2))
    assert all(isinstance(error, DistributedError) for error in errors)
    assert "disagree about the program of a step" in str(errors[0]) and "rank 2 of 3 differs" in str(errors[0])


def test_the_first_request_counts() -> None:
    def work(own: Processes) -> Any:
        before = own.peek("stop")
        own.gather("all have looked", None)
        found = own.first("stop", own.rank)
        own.gather("all have asked", None)
        return before, found, own.peek("stop")

    found = together(3, work)
    assert {before for before, _, _ in found} == {None}
    assert len({(value, after) for _, value, after in found}) == 1


def test_an_error_of_rank_0_is_everyones() -> None:
    def fails() -> None:
        raise ModelError("cannot write x", ["the disk is full"])

    own, other = together(2, lambda own: own.on_first("a file", fails))
    assert isinstance(own, ModelError) and isinstance(other, DistributedError)
    assert "rank 0: cannot write x" in str(other) and "the disk is full" in str(other)
    assert together(2, lambda own: own.on_first("a number", lambda: 7)) == [7, 7]


def test_a_rank_that_ends_is_named() -> None:
    def work(own: Processes) -> Any:
        if own.rank == 1:
            own._socket.shutdown(2)  # as a killed process
            return "gone"
        return own.gather("never", None)

    found = together(3, work)
    for rank in (0, 2):
        assert isinstance(found[rank], DistributedError)
        assert f"rank {rank} of 3 cannot go on" in str(found[rank]) and "rank 1 of 3 has ended" in str(found[rank])


def test_a_rank_that_leaves_early_is_named() -> None:
    found = together(2, lambda own: own.gather("never", None) if own.rank else "left")
    assert "rank 0 of 2 has ended" in str(found[1])


def test_a_rank_that_is_silent_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    beat, look, named = Processes._beat, Coordinator._look, threading.Event()
    monkeypatch.setattr(Processes, "_beat", lambda own: None if own.rank == 1 else beat(own))

    def heard(coordinator: Coordinator) -> None:
        """Rank 0 counts as alive, although its signs of life come late on a busy machine."""
        if 0 in coordinator.members:
            coordinator.members[0].heard = time.monotonic()
        look(coordinator)

    monkeypatch.setattr(Coordinator, "_look", heard)

    def work(own: Processes) -> Any:
        if own.rank == 1:
            return named.wait(300)
        try:
            return own.gather("never", None)
        finally:
            named.set()

    found = together(2, work, timeout=1.0)
    assert "rank 1 of 2 has not answered for 1 s" in str(found[0])


def test_a_rank_that_the_others_wait_for_is_named() -> None:
    named = threading.Event()

    def work(own: Processes) -> Any:
        if own.rank == 1:
            return named.wait(300)
        try:
            return own.gather("never", None)
        finally:
            named.set()

    found = together(2, work, stall=0.5)
    assert "rank 1 of 2 does not go on: the others wait for it since 0.5 s" in str(found[0])


def test_an_engines_error_is_explained() -> None:
    def work(own: Processes) -> Any:
        if own.rank == 1:
            own._socket.shutdown(2)
            return None
        with own.operation():
            raise RuntimeError("connection closed by peer")

    assert "rank 1 of 2 has ended" in str(together(2, work)[0])


def test_an_engines_own_error_stays() -> None:
    def work(own: Processes) -> Any:
        own.timeout = 0.5  # so long it waits for the news of a lost process
        with own.operation():
            raise RuntimeError("out of memory")

    found = together(2, work)
    assert all(isinstance(error, RuntimeError) and "out of memory" in str(error) for error in found)


def test_ranks_that_do_not_come_up_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    look = Coordinator._look
    monkeypatch.setattr(Coordinator, "_look", lambda own: look(own) if 0 in own.members else None)
    error = pytest.raises(DistributedError, match="rank 1, 2, 3 of 4 did not come up within 1 s")
    with coordinated(4, timeout=1.0) as address, error:
        Processes(0, 4, address, 60.0)


def test_wrong_ranks_are_refused() -> None:
    with (
        coordinated(2) as address,
        pytest.raises(DistributedError, match="rank 2 of 3: this training has ranks 0 to 1"),
    ):
        Processes(2, 3, address, 60.0)


def test_no_coordinator() -> None:
    listener = listen("127.0.0.1:0")
    address = f"127.0.0.1:{listener.getsockname()[1]}"
    listener.close()
    with pytest.raises(DistributedError, match=r"no coordinator, which rank 0 starts, at .* within 0.3 s"):
        Processes(1, 2, address, 0.3)


def test_addresses() -> None:
    assert split("host:80") == ("host", 80) and split("[::1]:80") == ("::1", 80)
    for text in ("host", "host:", ":80", "host:http", "host:99999"):
        with pytest.raises(ValueError, match="is no address"):
            split(text)


def test_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    read = processes._from_environment
    for names in processes.LAUNCHERS:
        for name in filter(None, names):
            monkeypatch.delenv(name, raising=False)
    with pytest.raises(DistributedError) as caught:
        read(None, None, None)
    assert [p.message for p in caught.value.problems] == [
        "coordinator is missing",
        "processes is missing",
        "rank is missing",
    ]
    monkeypatch.setenv("SLURM_NTASKS", "4")
    monkeypatch.setenv("SLURM_PROCID", "3")
    assert read("a:1", None, None) == ("a:1", 4, 3)
    with pytest.raises(DistributedError, match="coordinator is missing"):
        read(None, None, None)
    for name, value in {"MASTER_ADDR": "b", "MASTER_PORT": "2", "WORLD_SIZE": "2", "RANK": "1"}.items():
        monkeypatch.setenv(name, value)
    assert read(None, None, None) == ("b:2", 2, 1)
    for name, value in {"BURN_COORDINATOR": "c:3", "BURN_PROCESSES": "8", "BURN_RANK": "7"}.items():
        monkeypatch.setenv(name, value)
    assert read(None, None, None) == ("c:3", 8, 7) and read("d:4", 9, 8) == ("d:4", 9, 8)
    with pytest.raises(DistributedError, match="rank 8 of 8"):
        read(None, None, 8)
    monkeypatch.setenv("BURN_RANK", "x")
    with pytest.raises(DistributedError, match="are numbers"):
        read(None, None, None)
