"""Communicators of this process: shared memory between processes of one host, NCCL between GPUs."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
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

    @staticmethod
    def open(own: Processes, device: Device) -> Communicator:
        """Every process calls it. Raises DistributedError."""
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


def _shared(own: Processes) -> Any:
    hosts = own.gather("hosts", socket.gethostname())
    if len(set(hosts)) > 1:
        names = ", ".join(dict.fromkeys(hosts))
        hint = 'processes on several hosts need engine="xla", or GPUs'
        raise DistributedError("CPUs of several hosts share no memory", [Problem(f"the hosts are {names}", hint=hint)])

    def create() -> str | None:
        if own.rank:
            return None
        folder = MEMORY if MEMORY.is_dir() else Path(tempfile.gettempdir())
        handle, path = tempfile.mkstemp(prefix="burn-", dir=folder)
        try:
            os.posix_fallocate(handle, 0, _native.shared_bytes(own.count))
        except OSError:
            os.unlink(path)
            raise
        finally:
            os.close(handle)
        return path

    path = own.gather("the memory of a mesh", _together(own, "memory", create))[0]
    try:
        return _together(own, "opened memory", lambda: _native.shared_communicator(path, own.rank, own.count))
    finally:
        if own.rank == 0:
            with suppress(OSError):
                os.unlink(path)


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
    return _together(own, "communicator", lambda: _native.nccl_communicator(device.native, own.rank, own.count))


_open: dict[Device, Communicator] = {}


def of(device: Device) -> Communicator | None:
    """The communicator for a device; None for a process alone. Every process makes the first call."""
    own = processes.current()
    if own is None or own.count == 1:
        return None
    found = _open.get(device)
    if found is None or found.own is not own:
        found = _open[device] = Communicator.open(own, device)
    return found
