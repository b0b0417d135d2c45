"""Communicators of this process: shared memory between processes of one host, NCCL between GPUs."""

from __future__ import annotations

import os
import secrets
import socket
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from burn.distributed import processes
from burn.distributed.processes import Processes
from burn.distributed.spmd import nccl
from burn.errors import BurnError, DistributedError, Problem
from burn.runtime import _native
from burn.runtime.device import Device

MEMORY = Path("/dev/shm")
"""Files here are memory; elsewhere the system writes them to a disk in time."""


class Communicator:
    """Of the processes' programs on one kind of device."""

    def __init__(self, own: Processes, native: Any, device: Device) -> None:
        self.own, self.native, self.device = own, native, device
        self._connected: set[tuple[tuple[int, ...], int]] = set()
        own.when_lost(native.abort)
        if not device.memory.is_host:
            own.watch(self._look)

    @staticmethod
    def open(own: Processes, device: Device) -> Communicator:
        """Every process calls it. Raises DistributedError."""
        if not device.memory.is_host and device.kind != "cuda":
            hint = 'only device="cuda" has a library of collectives: RCCL of hip devices is not supported, and others have none'
            raise DistributedError("a mesh has no collectives", [Problem(f"its devices are {device.kind}", hint=hint)])
        native = _shared(own) if device.memory.is_host else _nccl(own, device)
        return Communicator(own, native, device)

    def connect(self, groups: Sequence[tuple[tuple[int, ...], int]]) -> None:
        """Connects the groups of a program's collectives. Every process calls it with the same ones."""
        for ranks, size in groups:
            if self.device.memory.is_host or (ranks, size) in self._connected:
                continue
            at = ranks.index(self.own.rank)
            first = ranks[at // size * size]
            made = _native.nccl_id().hex() if first == self.own.rank else None
            ids = self.own.gather("ids of NCCL", made)
            with self.own.operation():
                self.native.connect(list(ranks), size, bytes.fromhex(ids[first]))
            self._connected.add((ranks, size))

    def _look(self) -> str | None:
        """The error of a collective under way whose processes are all alive: a broken connection, for example."""
        why = self.native.look()
        return None if why is None else f"has a failed collective: {why}"

    def close(self) -> None:
        """Its programs cannot run any more."""
        self.native.close()

    def fail(self) -> None:
        """Ends the collectives of the other processes."""
        if self.device.memory.is_host:
            self.native.fail()

    def reset(self) -> None:
        """After a failure of all processes; every one calls it."""
        if self.device.memory.is_host:
            self.own.gather("all have failed", None)
            self.native.reset()
            self.own.gather("all go on", None)


def _together(own: Processes, what: str, act: Callable[[], Any]) -> Any:
    """The result of an action that all processes have to do. The errors of all are raised in each."""
    result, error = None, None
    try:
        result = act()
    except BurnError as raised:
        error = "; ".join([raised.summary, *(problem.message for problem in raised.problems)])
    except (RuntimeError, OSError) as raised:
        error = str(raised)
    found = own.gather(what, error)
    problems = [Problem(text, node=f"rank {rank}") for rank, text in enumerate(found) if text is not None]
    if problems:
        raise DistributedError("the processes of a mesh cannot be connected", problems)
    return result


def _opened(own: Processes, what: str, act: Callable[[], Any]) -> Any:
    """As `_together`, for a native communicator. If it raises, this process's is closed."""
    with ExitStack() as undo:

        def opened() -> Any:
            made = act()
            undo.callback(made.close)
            return made

        made = _together(own, what, opened)
        undo.pop_all()
    return made


def _shared(own: Processes) -> Any:
    hosts = own.gather("hosts", socket.gethostname())
    if len(set(hosts)) > 1:
        names = ", ".join(dict.fromkeys(hosts))
        hint = 'processes on several hosts need engine="xla", or GPUs'
        raise DistributedError("CPUs of several hosts share no memory", [Problem(f"the hosts are {names}", hint=hint)])
    with ExitStack() as ending:

        def create() -> tuple[str, str] | None:
            if own.rank:
                return None
            memory = _Memory()
            ending.callback(memory.close)
            memory.allocate(_native.shared_bytes(own.count))
            return memory.path, memory.name

        path, name = own.gather("the memory of a mesh", _together(own, "memory", create))[0]
        return _opened(own, "opened memory", lambda: _attached(path, name, own))


class _Memory:
    """A new file in memory, by a path that other processes of the user can open. It has no name in a folder, where the system has
    such files, so nothing is left of it if the process is killed."""

    def __init__(self) -> None:
        if hasattr(os, "memfd_create"):
            self.handle = os.memfd_create(f"burn-{secrets.token_hex(16)}", os.MFD_CLOEXEC)
            self.path = f"/proc/{os.getpid()}/fd/{self.handle}"
            self.name = os.readlink(self.path)
        else:
            folder = MEMORY if MEMORY.is_dir() else Path(tempfile.gettempdir())
            self.handle, self.path = tempfile.mkstemp(prefix="burn-", dir=folder)
            self.name = ""

    def allocate(self, size: int) -> None:
        """`size`: in bytes. Raises OSError if there is less."""
        os.posix_fallocate(self.handle, 0, size)

    def close(self) -> None:
        """Processes that have mapped it keep it."""
        os.close(self.handle)
        if not self.name:
            with suppress(OSError):
                os.unlink(self.path)


def _attached(path: str, name: str, own: Processes) -> Any:
    """A process of another container may have the same number, and another file."""
    if name and os.readlink(path) != name:
        raise OSError(f"{path} is not the memory of rank 0: the processes need one PID namespace")
    return _native.shared_communicator(path, own.rank, own.count)


def _nccl(own: Processes, device: Device) -> Any:
    version = _together(own, "NCCL", nccl.opened)
    versions = own.gather("NCCL's version", version)
    if len(set(versions)) > 1:
        text = ", ".join(f"rank {rank}: {found}" for rank, found in enumerate(versions))
        raise DistributedError("the processes have different versions of NCCL", [text])
    gpus = own.gather("the GPU", [socket.gethostname(), device.kind, device.index])
    for rank, gpu in enumerate(gpus):
        if gpus.index(gpu) < rank:
            hint = "one process for each GPU: `burn train --devices`, or BURN_LOCAL_RANK"
            text = f"rank {gpus.index(gpu)} and rank {rank} use {device.kind}:{gpu[2]} of {gpu[0]}"
            raise DistributedError("processes share a GPU", [Problem(text, hint=hint)])
    return _opened(own, "communicator", lambda: _native.nccl_communicator(device.native, own.rank, own.count))


_open: dict[Device, Communicator] = {}


def of(device: Device) -> Communicator | None:
    """The communicator for a device; None for a process alone. Every process makes the first call."""
    own = processes.current()
    if own is None or own.count == 1:
        return None
    found = _open.get(device)
    if found is not None and found.own is not own:
        _open.pop(device).close()
        found = None
    if found is None:
        found = _open[device] = Communicator.open(own, device)
    return found
