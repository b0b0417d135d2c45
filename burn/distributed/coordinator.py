"""The coordinator of a training on several processes: a small server that all ranks are connected to.

    python -m burn.distributed.coordinator HOST:PORT COUNT --timeout 60 --stall 600

It runs in a process of its own, so it outlives every rank. It finds out which rank does not come up, has ended, or does not
answer, and tells the others. It also exchanges small values: those that all ranks gather, and those that the first one decides.
Messages are lines of JSON (`FIELDS`). With `--service` it also hosts the service of `jax.distributed`.

A rank is lost when its connection closes without a `leave`, or when it sends nothing for `timeout` seconds. It is also lost when
others wait `stall` seconds for an operation that it has not begun, and when it says that it cannot go on.
"""

from __future__ import annotations

import argparse
import json
import socket
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

LONGEST = 1 << 24
"""Bytes of a message; a longer one ends the connection."""

LOOK = 0.2
"""Seconds between two looks at the ranks."""

LINGER = 10.0
"""Seconds that the server stays after the first rank was lost, for the others to learn of it."""

FIELDS = {
    "join": ("rank", "count"),
    "beat": ("begun", "waiting"),
    "gather": ("key", "value"),
    "first": ("key", "value"),
    "peek": ("key",),
    "fail": ("why",),
    "leave": (),
}
"""The requests of ranks, and their fields. Answers: started, failed, gathered, value, lost."""


@dataclass
class Member:
    """A connected rank. begun: the operations on all devices that it has begun; waiting: its seconds in the last one."""

    rank: int
    connection: socket.socket
    heard: float
    begun: int = 0
    waiting: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def send(self, message: Mapping[str, Any]) -> None:
        data = json.dumps(message).encode() + b"\n"
        try:
            with self.lock:
                self.connection.sendall(data)
        except OSError:
            pass  # its reader finds out


class Coordinator:
    """count: how many ranks there are. service: the address of another service that ranks are sent when all have come up."""

    def __init__(self, count: int, timeout: float, stall: float, service: str = "") -> None:
        self.count, self.timeout, self.stall, self.service = count, timeout, stall, service
        self.members: dict[int, Member] = {}
        self.left: set[int] = set()
        self.lost: dict[str, Any] | None = None
        self.ended = threading.Event()
        self._began = time.monotonic()
        self._gathers: dict[str, dict[int, Any]] = {}
        self._values: dict[str, Any] = {}
        self._started = False
        self._lock = threading.RLock()

    # ---- connections ---------------------------------------------------------------------------------------------------
    def serve(self, listener: socket.socket) -> None:
        """Until all ranks have left, or some time after one was lost."""
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
        while not self.ended.wait(LOOK):
            self._look()
        listener.close()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._read, args=(connection,), daemon=True).start()

    def _read(self, connection: socket.socket) -> None:
        member: Member | None = None
        with connection, connection.makefile("rb") as stream:
            while True:
                try:
                    line = stream.readline(LONGEST)
                    message = json.loads(line) if line.endswith(b"\n") else None
                except (OSError, ValueError):
                    message = None
                if not isinstance(message, dict) or message.get("op") not in FIELDS:
                    break
                if message["op"] == "join":
                    member = self._join(message, connection)
                elif member is not None and not self._take(member, message):
                    break
                if member is None:
                    break
        if member is not None:
            self._closed(member)

    def _join(self, message: Mapping[str, Any], connection: socket.socket) -> Member | None:
        rank, count = message.get("rank"), message.get("count")
        member = Member(rank if isinstance(rank, int) else -1, connection, time.monotonic())
        with self._lock:
            if self.lost is not None:
                member.send({"op": "lost", **self.lost})
                return None
            if count != self.count or not 0 <= member.rank < self.count:
                member.send(
                    {"op": "failed", "why": f"rank {rank} of {count}: this training has ranks 0 to {self.count - 1}"}
                )
                return None
            if rank in self.members:
                member.send({"op": "failed", "why": f"there is a rank {rank} already"})
                return None
            self.members[member.rank] = member
            if len(self.members) == self.count:
                self._started = True
                self._tell({"op": "started", "service": self.service})
        return member

    def _closed(self, member: Member) -> None:
        with self._lock:
            if member.rank in self.left:
                for gathered in self._gathers.values():
                    if member.rank not in gathered:
                        self._lose(member.rank, "has ended")
            elif self.members.get(member.rank) is member:
                if self._started:
                    self._lose(member.rank, "has ended: its connection was closed")
                else:
                    del self.members[member.rank]
            if len(self.left) == self.count:
                self.ended.set()

    # ---- requests ------------------------------------------------------------------------------------------------------
    def _take(self, member: Member, message: Mapping[str, Any]) -> bool:
        """False if it was the last one."""
        with self._lock:
            member.heard = time.monotonic()
            key = str(message.get("key"))
            match message["op"]:
                case "leave":
                    self.left.add(member.rank)
                    return False
                case "beat":
                    member.begun, member.waiting = int(message["begun"]), float(message["waiting"])
                case "fail":
                    self._lose(member.rank, str(message["why"]))
                case "gather":
                    gathered = self._gathers.setdefault(key, {})
                    gathered[member.rank] = message.get("value")
                    if len(gathered) == self.count:
                        del self._gathers[key]
                        self._tell({"op": "gathered", "key": key, "value": [gathered[r] for r in range(self.count)]})
                    elif self.left:
                        self._lose(min(self.left), "has ended")
                case "first":
                    member.send(
                        {"op": "value", "key": key, "value": self._values.setdefault(key, message.get("value"))}
                    )
                case "peek":
                    member.send({"op": "value", "key": key, "value": self._values.get(key)})
        return True

    def _tell(self, message: Mapping[str, Any]) -> None:
        for member in self.members.values():
            if member.rank not in self.left:
                member.send(message)

    # ---- ranks that are lost -------------------------------------------------------------------------------------------
    def _look(self) -> None:
        now = time.monotonic()
        with self._lock:
            if self.lost is not None:
                if now - self._began > LINGER or len(self.left) == self.count:
                    self.ended.set()
                return
            if not self._started:
                if now - self._began > self.timeout:
                    missing = [r for r in range(self.count) if r not in self.members]
                    self._lose(missing[0], f"did not come up within {self.timeout:g} s", missing)
                return
            present = [m for m in self.members.values() if m.rank not in self.left]
            for member in present:
                if now - member.heard > self.timeout:
                    self._lose(member.rank, f"has not answered for {self.timeout:g} s")
                    return
            latest = max((m.begun for m in present if m.waiting > self.stall), default=0)
            late = [m.rank for m in present if m.begun < latest]
            if late:
                self._lose(late[0], f"does not go on: the others wait for it since {self.stall:g} s", late)

    def _lose(self, rank: int, why: str, ranks: list[int] | None = None) -> None:
        if self.lost is None:
            self.lost = {"rank": rank, "ranks": ranks or [rank], "why": why}
            self._began = time.monotonic()
            self._tell({"op": "lost", **self.lost})


def listen(address: str) -> socket.socket:
    """A listening socket. Port 0: any free one. Raises OSError, and ValueError for what is no address."""
    host, port = split(address)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=1024)


def split(address: str) -> tuple[str, int]:
    """The host and the port of "host:port" or "[::1]:port". Raises ValueError."""
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"{address!r} is no address: write HOST:PORT")
    return host.strip("[]"), int(port)


def _service(host: str, count: int, timeout: float) -> tuple[Any, str]:
    """The service of `jax.distributed`, which ranks may leave and lose at any time."""
    from importlib import import_module

    library: Any = import_module("jaxlib._jax")
    with socket.create_server((host, 0)) as probe:
        port = probe.getsockname()[1]
    patience = max(10, round(10 * timeout))  # burn finds lost ranks itself, earlier
    made = library.get_distributed_runtime_service(
        f"{host}:{port}", count, heartbeat_timeout=patience, shutdown_timeout=5, recoverable=True
    )
    return made, f"{host}:{port}"


def main(arguments: list[str] | None = None) -> None:
    """Prints "ready PORT" when it listens."""
    parser = argparse.ArgumentParser(prog="burn.distributed.coordinator")
    parser.add_argument("address")
    parser.add_argument("count", type=int)
    parser.add_argument("--timeout", type=float, default=60.0)
    parser.add_argument("--stall", type=float, default=600.0)
    parser.add_argument("--service", action="store_true")
    given = parser.parse_args(arguments)
    try:
        listener = listen(given.address)
    except (OSError, ValueError) as error:
        print(f"failed {error}", flush=True)
        sys.exit(1)
    service, address = _service(split(given.address)[0], given.count, given.timeout) if given.service else (None, "")
    print(f"ready {listener.getsockname()[1]}", flush=True)
    Coordinator(given.count, given.timeout, given.stall, address).serve(listener)
    if service is not None:
        service.shutdown()


if __name__ == "__main__":
    main()
