"""`Communication`: what the devices of a mesh send to each other in one run of a program, in bytes by collective."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import burn.markup as markup

KINDS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute", "collective-broadcast")

SHARES: Mapping[str, int] = {"all-reduce": 2}
"""How often each element passes a device's link in a ring of n devices, times (n - 1) / n. Others: once."""


@dataclass(frozen=True)
class Collective:
    """One collective of a program. bytes: of the whole tensor on each device: the result, or for a reduce-scatter the operand.
    group: the devices that take part together. axes: the mesh axes that they lie along. times: executions in a run. is_known:
    False if a loop around it has a trip count that data decides; `times` then counts one iteration."""

    kind: str
    bytes: int
    group: int
    axes: tuple[str, ...] = ()
    times: int = 1
    is_known: bool = True
    source: str = ""

    @property
    def sent(self) -> int:
        """Bytes that each device sends in one execution, by the ring algorithm."""
        if self.kind == "collective-permute":
            return self.bytes
        return SHARES.get(self.kind, 1) * self.bytes * (self.group - 1) // max(self.group, 1)


@dataclass(frozen=True)
class Communication:
    """A run's collectives, and its needs on each device: bytes of arguments (parameters, state, its part of the batch), bytes of
    temporaries, and floating-point operations. `print` shows a table."""

    devices: Mapping[str, int]
    collectives: tuple[Collective, ...]
    arguments: int = 0
    temporaries: int = 0
    flops: float = 0.0

    @property
    def bytes(self) -> dict[str, int]:
        """Bytes of all executions by kind of collective; 0 for those that do not occur."""
        return {kind: sum(c.bytes * c.times for c in self.collectives if c.kind == kind) for kind in KINDS}

    @property
    def sent(self) -> int:
        """Bytes that each device sends in a run."""
        return sum(c.sent * c.times for c in self.collectives)

    def along(self, axis: str) -> int:
        """Bytes that each device sends along a mesh axis."""
        return sum(c.sent * c.times for c in self.collectives if axis in c.axes)

    def seconds(self, bytes_per_second: float) -> float:
        """The time that the links are busy, if each device sends so fast. Computation may overlap it."""
        return self.sent / bytes_per_second

    def _rows(self) -> list[tuple[Any, ...]]:
        found: dict[tuple[str, str], list[int]] = {}
        for c in self.collectives:
            axes = " x ".join(c.axes) or f"{c.group} devices"
            row = found.setdefault((c.kind, axes if c.is_known else f"{axes}, in a loop"), [0, 0, 0])
            for i, value in enumerate((c.times, c.bytes * c.times, c.sent * c.times)):
                row[i] += value
        order = {kind: number for number, kind in enumerate(KINDS)}
        return [(*key, *row) for key, row in sorted(found.items(), key=lambda item: (order[item[0][0]], item[0][1]))]

    def __str__(self) -> str:
        grid = " x ".join(f"{name}={size}" for name, size in self.devices.items())
        lines = [f"{grid}: each device sends {self.sent:,} bytes in a run"]
        rows = self._rows()
        if rows:
            lines.append(f"  {'collective':<20}{'along':<22}{'number':>8}{'bytes':>16}{'sent':>16}")
            lines += [f"  {kind:<20}{axes:<22}{n:>8,}{size:>16,}{sent:>16,}" for kind, axes, n, size, sent in rows]
        lines.append(f"  on each device: arguments {self.arguments:,} bytes, temporaries {self.temporaries:,} bytes")
        if self.flops:
            lines[-1] += f", {self.flops:.3g} flops"
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """For notebooks."""
        head = ("collective", "along", "number", "bytes", "sent")
        return markup.details(str(self).partition("\n")[0], markup.table(head, self._rows()), opened=True)
