"""The processes of a training on several hosts: `initialize`, and what they exchange.

Every process runs the same code. Each is connected to a coordinator (coordinator.py), which says when one of them is lost. Then a
call that waits for others raises DistributedError. If an engine's collective does not return, the process ends instead.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib.util
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

from burn.distributed.coordinator import split
from burn.errors import BurnError, DistributedError, Problem
from burn.variables import variable

TIMEOUT, STALL = 60.0, 600.0
"""Seconds that a process may take to come up and between two signs of life, and that others wait for one in an operation."""

EXIT = 70
"""Exit status of a process that ends because another one is lost and a collective does not return (EX_SOFTWARE)."""

GRACE = 2.0
"""Seconds that a collective has to fail by itself after a process was lost."""

LAUNCHERS = (
    ("BURN_COORDINATOR", "BURN_PROCESSES", "BURN_RANK"),
    ("MASTER_ADDR", "WORLD_SIZE", "RANK"),
    ("", "SLURM_NTASKS", "SLURM_PROCID"),
    ("", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"),
)
"""The environment variables of burn's own launcher and of others: address, number of processes, rank."""

AUTO = "auto"
"""The engine of BURN_ENGINE; else "xla" if JAX is installed, else "burn"."""

ENGINES: dict[str, Callable[[Processes, str], Callable[[], None]]] = {
    "burn": lambda *given: lambda: None,  # communicators are opened when a program needs them
    "xla": lambda *given: import_module("burn.distributed.xla.service").connect(*given),
}
"""Functions that connect an engine's own runtime, by name. Each returns a function that ends the connection."""


class Processes:
    """This process among all. Enter at `initialize`.

    rank: its number, from 0. count: how many there are."""

    def __init__(self, rank: int, count: int, address: str, timeout: float) -> None:
        """Connects to the coordinator and waits for all processes. Raises DistributedError."""
        self.rank, self.count, self.address, self.timeout = rank, count, address, timeout
        self.service = ""
        self._lost: str | None = None
        self._answers: dict[str, Any] = {}
        self._changed = threading.Condition()
        self._begun, self._since = 0, 0.0
        self._operations = 0
        self._leaving = False
        self._started = False
        self._told: list[Callable[[str], None]] = []
        self._watched: list[Callable[[], str | None]] = []
        self._socket = self._connected()
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sending = threading.Lock()
        self._send({"op": "join", "rank": rank, "count": count})
        for work in (self._read, self._beat):
            threading.Thread(target=work, name="burn-distributed", daemon=True).start()
        self._wait(lambda: self._started, timeout + 5)

    def _connected(self) -> socket.socket:
        """Rank 0 may start the coordinator later than this."""
        deadline = time.monotonic() + self.timeout
        while True:
            try:
                found = socket.create_connection(split(self.address), timeout=self.timeout)
            except ValueError as error:
                raise self._error(str(error)) from None
            except OSError as error:
                if time.monotonic() > deadline:
                    text = f"no coordinator, which rank 0 starts, at {self.address} within {self.timeout:g} s: {error}"
                    raise self._error(text) from None
                time.sleep(0.1)
                continue
            found.settimeout(None)
            return found

    # ---- exchange ------------------------------------------------------------------------------------------------------
    def gather(self, key: str, value: Any) -> list[Any]:
        """The values of all processes, by rank: plain values, as JSON has them. Every process calls it, in the same order. Raises
        DistributedError if one is lost."""
        self._operations += 1
        name = f"{self._operations} {key}"
        self._begin()
        try:
            self._send({"op": "gather", "key": name, "value": value})
            return self._wait(lambda: name in self._answers and [self._answers.pop(name)])[0]
        finally:
            self._end()

    def agree(self, what: str, value: Any) -> None:
        """Raises DistributedError unless all processes have the same value, naming those that differ from rank 0."""
        digest = hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()
        found = self.gather(what, digest)
        other = [rank for rank, theirs in enumerate(found) if theirs != found[0]]
        if other:
            names = ", ".join(map(str, other))
            hint = "all processes run the same code with the same data, seeds and library versions"
            raise DistributedError(
                f"the processes disagree about {what}",
                [Problem(f"rank {names} of {self.count} differs from rank 0", hint=hint)],
            )

    def on_first(self, what: str, function: Callable[[], Any]) -> Any:
        """The result of a function that rank 0 alone calls, a plain value. Its BurnError is raised in every process."""
        result, error = None, None
        if self.rank == 0:
            try:
                result = function()
            except BurnError as raised:
                error = raised
        told = None if error is None else [error.summary, [str(problem) for problem in error.problems]]
        value, failed = self.gather(what, [result, told])[0]
        if error is not None:
            raise error
        if failed is not None:
            raise DistributedError(f"rank 0: {failed[0]}", failed[1])
        return value

    def first(self, key: str, value: Any) -> Any:
        """The value of the first process that gave one for the key."""
        return self._ask({"op": "first", "key": key, "value": value})

    def peek(self, key: str) -> Any:
        """The value that a process has given for a key; None so far."""
        return self._ask({"op": "peek", "key": key})

    def _ask(self, message: dict[str, Any]) -> Any:
        self._send(message)
        name = f"= {message['key']}"
        return self._wait(lambda: name in self._answers and [self._answers.pop(name)], self.timeout)[0]

    @contextmanager
    def operation(self) -> Iterator[None]:
        """A block that computes on the devices of all processes. Its errors become DistributedError if a process is lost."""
        self._begin()
        try:
            yield
        except BurnError:
            raise
        except Exception as error:
            raise self.explained(error) from error
        finally:
            self._end()

    def explained(self, error: Exception) -> Exception:
        """The error of a lost process, for an engine's own error; that itself if no process is lost within the time limit."""
        with self._changed:
            self._changed.wait_for(lambda: self._lost is not None, self.timeout + 1)
            return error if self._lost is None else self._error(self._lost)

    def _begin(self) -> None:
        self._begun, self._since = self._begun + 1, time.monotonic()
        if self._lost is not None:
            self._end()
            raise self._error(self._lost)
        self._report()

    def _end(self) -> None:
        self._since = 0.0

    def when_lost(self, act: Callable[[str], None]) -> None:
        """Calls a function, on another thread, when a process is lost; at once if one is."""
        with self._changed:
            self._told.append(act)
            lost = self._lost
        if lost is not None:
            act(lost)

    def watch(self, look: Callable[[], str | None]) -> None:
        """Calls a function every second or oftener, on another thread. If it returns an error, this process counts as lost, and
        every process raises that error from then on."""
        with self._changed:
            self._watched.append(look)

    def fail(self, why: str) -> None:
        """Ends the work of all processes, because this one cannot go on: collectives end, and later operations of each process
        are errors with this reason."""
        self._send({"op": "fail", "why": why})
        with self._changed:
            if not self._changed.wait_for(lambda: self._lost is not None, self.timeout):
                self._lost = f"rank {self.rank} of {self.count} {why}"

    def lost_error(self) -> DistributedError | None:
        """The error of a lost process, if one is lost."""
        return None if self._lost is None else self._error(self._lost)

    # ---- the connection ------------------------------------------------------------------------------------------------
    def _send(self, message: dict[str, Any]) -> None:
        with suppress(OSError), self._sending:  # the reader finds out
            self._socket.sendall(json.dumps(message).encode() + b"\n")

    def _report(self) -> None:
        since = self._since
        self._send({"op": "beat", "begun": self._begun, "waiting": time.monotonic() - since if since else 0.0})

    def _beat(self) -> None:
        while not self._leaving and self._lost is None:
            self._report()
            with self._changed:
                watched = list(self._watched)
            if why := next((why for look in watched if (why := look()) is not None), None):
                self._send({"op": "fail", "why": why})  # the coordinator tells everyone
                watched.clear()
            time.sleep(min(1.0, self.timeout / 8))

    def _read(self) -> None:
        with self._socket.makefile("rb") as stream:
            while True:
                try:
                    line = stream.readline()
                    message = json.loads(line) if line else None
                except (OSError, ValueError):
                    message = None
                with self._changed:
                    if message is None:
                        if not self._leaving and self._lost is None:
                            self._lost = f"the coordinator at {self.address} is gone"
                    elif message["op"] == "started":
                        self.service, self._started = message["service"], True
                    elif message["op"] == "failed":
                        self._lost = message["why"]
                    elif message["op"] == "lost":
                        ranks = ", ".join(map(str, message["ranks"]))
                        self._lost = f"rank {ranks} of {self.count} {message['why']}"
                    else:
                        name = message["key"] if message["op"] == "gathered" else f"= {message['key']}"
                        self._answers[name] = message["value"]
                    self._changed.notify_all()
                    lost, told = self._lost, list(self._told)
                if lost is not None:
                    for act in told:
                        act(lost)
                    self._leave_collective()
                if message is None or lost is not None:
                    return

    def _leave_collective(self) -> None:
        """Ends the process if the operation that it is in does not end by itself."""
        begun = self._begun
        time.sleep(GRACE)
        if self._started and self._since and self._begun == begun and not self._waits:
            os.write(2, f"error: {self._error(self._lost or '')}\n".encode())
            os._exit(EXIT)

    _waits = 0
    """Threads that wait for an answer here, and not in an engine."""

    def _wait(self, found: Callable[[], Any], seconds: float | None = None) -> Any:
        """The first true result. Raises DistributedError if a process is lost before."""
        with self._changed:
            self._waits += 1
            try:
                result = self._changed.wait_for(lambda: found() or self._lost, seconds)
            finally:
                self._waits -= 1
            if isinstance(result, str) or not result:
                why = result or f"the coordinator at {self.address} did not answer for {seconds} s"
                raise self._error(why)
            return result

    def _error(self, why: str) -> DistributedError:
        return DistributedError(f"rank {self.rank} of {self.count} cannot go on", [why])

    def leave(self) -> None:
        """Ends the connection; the other processes go on only if they need nothing more from this one."""
        self._leaving = True
        self._send({"op": "leave"})
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


# ---- this process ----------------------------------------------------------------------------------------------------------
_current: Processes | None = None
_engine: str | None = None
_endings: list[Callable[[], None]] = []


def initialize(
    coordinator: str | None = None,
    processes: int | None = None,
    rank: int | None = None,
    *,
    timeout: float | None = None,
    stall: float | None = None,
    engine: str | None = AUTO,
) -> Processes:
    """Makes this process one of a training on several; all of them call it before their first computation.

    - `coordinator`: the address HOST:PORT that all processes reach. Rank 0 starts the coordinator there, if none runs yet.
    - `processes`, `rank`: how many processes there are, and the number of this one.
    - `timeout`: seconds within which all processes must come up, and after which one that gives no sign of life is lost (60).
    - `stall`: seconds after which a process is lost that others wait for, although it is alive (600). More than the time to
      compile a step, if one process may find it in a cache.
    - `engine`: of meshes that name none, whose runtime is connected: "burn", or "xla" (`jax.distributed`; gloo between CPUs).
      "auto": that of BURN_ENGINE; else "xla" if JAX is installed, else "burn". None: none.

    Missing arguments are taken from the environment: BURN_COORDINATOR, BURN_PROCESSES and BURN_RANK, as `burn train` sets them,
    or the variables of torchrun, Slurm and Open MPI. The seed becomes that of rank 0. Raises DistributedError, which names the
    ranks that did not come up, and if it is called twice."""
    global _current, _engine
    engine = chosen_engine(engine)
    if _current is not None:
        raise DistributedError("burn.distributed.initialize was called twice", [f"this is rank {_current.rank}"])
    coordinator, processes, rank = _from_environment(coordinator, processes, rank)
    timeout = timeout if timeout is not None else float(variable("BURN_TIMEOUT") or TIMEOUT)
    if rank == 0 and not _answers(coordinator):
        start_coordinator(coordinator, processes, timeout, stall or STALL, engine)
    made = Processes(rank, processes, coordinator, timeout)
    try:
        ending = ENGINES[engine](made, made.service) if engine else None
    except BaseException:
        made.leave()
        raise
    _current, _engine = made, engine
    _endings[:] = [ending] if ending is not None else []
    atexit.register(shutdown)
    _share_seed(made)
    return made


def _share_seed(made: Processes) -> None:
    """Random numbers of all processes go on from where rank 0's are."""
    from burn.runtime.random import process

    process.go_to(tuple(made.gather("seed", list(process.position))[0]))


def shutdown() -> None:
    """Leaves the training. Called when Python ends."""
    global _current, _engine
    if _current is None:
        return
    atexit.unregister(shutdown)
    made, _current, _engine = _current, None, None
    for ending in _endings:
        with suppress(Exception):  # the service may be gone
            ending()
    _endings.clear()
    made.leave()


def current() -> Processes | None:
    """This process among those of the training; None if it is alone."""
    return _current


def rank() -> int:
    """The number of this process, from 0."""
    return 0 if _current is None else _current.rank


def count() -> int:
    """How many processes there are."""
    return 1 if _current is None else _current.count


def engine() -> str:
    """The engine of meshes that name none."""
    return _engine if _current is not None and _engine is not None else chosen_engine(AUTO) or "burn"


def chosen_engine(name: str | None) -> str | None:
    """The engine that "auto" stands for. Raises DistributedError for an unknown one."""
    if name == AUTO:
        has_jax = importlib.util.find_spec("jax") is not None
        name = variable("BURN_ENGINE") or ("xla" if has_jax else "burn")
    if name is not None and name not in ENGINES:
        raise DistributedError(f"there is no engine {name!r}", [f"engines are {', '.join(ENGINES)}"])
    return name


LOCAL = ("BURN_LOCAL_RANK", "LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK")
"""The environment variables of the number of a process on its host."""


def local_rank() -> int:
    """The number of this process on its host, from 0. Raises DistributedError if a launcher's variable is no number."""
    for name in LOCAL:
        if (found := variable(name)) is not None:
            if not found.isdecimal():
                raise DistributedError("the processes are not described", [f"{name} is {found!r}, not a number"])
            return int(found)
    return rank()


def is_launched() -> bool:
    """True if a launcher's environment says that this process is one of several."""
    address, number = variable("BURN_COORDINATOR"), variable("BURN_PROCESSES")
    return address is not None and number is not None and number != "1"


def _from_environment(coordinator: str | None, processes: int | None, rank: int | None) -> tuple[str, int, int]:
    """Raises DistributedError for what is missing or no number."""
    for address, number, own in LAUNCHERS:
        if (found := variable(number)) is None or variable(own) is None:
            continue
        if coordinator is None and address and (host := variable(address)) is not None:
            port = variable("MASTER_PORT") if address == "MASTER_ADDR" else None
            coordinator = f"{host}:{port}" if port else host
        try:
            processes = int(found) if processes is None else processes
            rank = int(variable(own) or "") if rank is None else rank
        except ValueError:
            raise DistributedError("the processes are not described", [f"{number} and {own} are numbers"]) from None
        break
    hint = "give it, or set BURN_COORDINATOR, BURN_PROCESSES and BURN_RANK"
    given = {"coordinator": coordinator, "processes": processes, "rank": rank}
    problems = [Problem(f"{name} is missing", hint=hint) for name, value in given.items() if value is None]
    if not problems and not 0 <= (rank or 0) < (processes or 0):
        problems = [Problem(f"rank {rank} of {processes}", hint="ranks are 0 to processes - 1")]
    if problems:
        raise DistributedError("the processes are not described", problems)
    assert coordinator is not None and processes is not None and rank is not None
    return coordinator, processes, rank


def _answers(address: str) -> bool:
    try:
        socket.create_connection(split(address), timeout=1).close()
    except (OSError, ValueError):
        return False
    return True


def start_coordinator(
    address: str, count: int, timeout: float = TIMEOUT, stall: float = STALL, engine: str | None = AUTO
) -> tuple[subprocess.Popen[str], str]:
    """The coordinator's process, which ends when all ranks have left, and its address. Port 0: any free one. Raises
    DistributedError."""
    options: Sequence[str] = [
        "--timeout",
        str(timeout),
        "--stall",
        str(stall),
        *["--service"] * (chosen_engine(engine) == "xla"),
    ]
    command = [sys.executable, "-m", "burn.distributed.coordinator", address, str(count), *options]
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", **os.environ}  # of the service of jax.distributed
    started = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True, env=quiet)
    assert started.stdout is not None
    word, _, rest = started.stdout.readline().strip().partition(" ")
    if word != "ready":
        started.kill()
        started.wait()
        raise DistributedError(f"no coordinator can be started at {address}", [rest or "it wrote no port"])
    return started, f"{address.rpartition(':')[0]}:{rest}"
