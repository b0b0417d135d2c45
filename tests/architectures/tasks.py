"""Architectures at work, several at a time, each in a process of its own. Enter at `Tasks`."""

from __future__ import annotations

import logging
import math
import resource
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import Any

import torch

import burn
from tests.architectures.apart import Apart, Ended, Send
from tests.architectures.reporting import SHOWN
from tests.architectures.ways import Result, results, run
from tests.onnx_suite.pool import Died, Pool

SLACK = 60.0
"""Seconds for what a way's own process is given no time for."""


@dataclass(frozen=True)
class Tasks:
    """timeout: seconds for a way, and for making the model. memory: bytes of addresses for a process, 0 for any. seconds: for
    all; what still runs then is ended and has no result."""

    ways: tuple[str, ...]
    timeout: float
    memory: int
    seconds: float = math.inf

    def run(self, names: Sequence[str], jobs: int) -> Iterator[Result]:
        """The results, as they come."""
        waiting = iter(names)
        running: dict[Apart, str] = {}
        end = time.monotonic() + self.seconds
        while time.monotonic() < end:
            while len(running) < jobs and (name := next(waiting, None)) is not None:
                running[self._start(name)] = name
            if not running:
                return
            yield from self._taken(running, end)
        for process in running:
            process.end()

    def run_in_workers(self, names: Sequence[str], jobs: int) -> Iterator[Result]:
        """The same in processes that run architecture after architecture. Each starts the GPU's driver and imports the packages
        once. They are forked, so this process must not have imported a package that starts the driver."""
        end = time.monotonic() + self.seconds
        pool = Pool(self._all, jobs, 2 * self.timeout, memory=self.memory)
        for number, found in pool.run(names):
            if isinstance(found, Died):
                text = f"{found.reason}: {found.message}"[:SHOWN]
                yield Result(names[number], self.ways[0], "ours", text, 2 * self.timeout)
            else:
                yield from (Result(**each) for each in found)
            if time.monotonic() > end:
                return

    def _all(self, name: str) -> list[dict[str, Any]]:
        self._quietly()
        return run(name, self.ways)

    def _start(self, name: str) -> Apart:
        def go(send: Send) -> None:
            self._quietly()
            for result in results(name, self.ways, self.timeout):
                send(result)

        return Apart(go, 2 * self.timeout + SLACK)  # a way that died is tried again without burn

    def _taken(self, running: dict[Apart, str], end: float) -> Iterator[Result]:
        """Waits for one process at least, or until the end, and takes those that are over from the list."""
        first = min(end, *(process.deadline for process in running))
        ready = wait([process.pipe for process in running], max(0.0, first - time.monotonic()))
        for process, name in list(running.items()):
            if process.pipe not in ready and time.monotonic() < process.deadline:
                continue
            try:
                message = process.take()
            except Ended:
                del running[process]
                continue
            if isinstance(message, Died):
                del running[process]
                message = Result(name, "", "unmade", f"{message.reason}: {message.message}", process.timeout)
            if message is not None:
                yield message

    def _quietly(self) -> None:
        if self.memory:
            resource.setrlimit(resource.RLIMIT_AS, (self.memory, self.memory))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        torch.set_num_threads(1)
        burn.set_num_threads(1)
