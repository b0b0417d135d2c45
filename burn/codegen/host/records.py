"""The artefact's records of a program's launches, for profiles: `Records`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from burn.dialect.dims import Dim
from burn.dialect.mlir import ir
from burn.dialect.types import type_of
from burn.kernels.liveness import Liveness

ON_HOST = "host"
"""The kind of launches that run on the host in a program for a GPU."""


@dataclass(frozen=True)
class KernelRecord:
    """A launch site's record for profiles. reads: the numbers of the launches whose results it reads; step: the
    program's op, in the numbering of live ranges."""

    name: str
    kind: str
    sources: tuple[str, ...]
    flops: Dim
    bytes: Dim
    reads: tuple[int, ...] = ()
    step: int = 0


class Records:
    """The records of one program, in the order of its launches."""

    def __init__(self, live: Liveness) -> None:
        self.live = live
        self.all: list[KernelRecord] = []
        self.operations: list[ir.Operation] = []  # of each record
        self._makers: dict[ir.Value, int] = {}  # the last record that wrote a buffer

    def add(self, record: KernelRecord, operation: ir.Operation) -> int:
        """The record number for launches of an op."""
        number = len(self.all)
        read = [root for value in operation.operands for root in self.live.roots(value)]
        made = [root for value in operation.results for root in self.live.roots(value)]
        before = {self._makers[root] for root in (*read, *made) if root in self._makers}
        step = min((self.live.range(root)[0] for root in made), default=0)
        self._makers |= dict.fromkeys(made, number)
        self.all.append(replace(record, reads=tuple(sorted(before)), step=step))
        self.operations.append(operation)
        return number


def moved(operation: ir.Operation) -> Dim:
    """Bytes that an op reads and writes."""
    return sum_dims([type_of(v).bytes for v in (*operation.operands, *operation.results)])


def sum_dims(dims: Sequence[Dim]) -> Dim:
    total: Dim = 0
    for d in dims:
        total = total + d
    return total
