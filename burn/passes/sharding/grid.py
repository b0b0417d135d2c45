"""`Grid`: the axes of a mesh, and the coordinates of one device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import TypeAlias

Names: TypeAlias = tuple[str, ...]
Axes: TypeAlias = tuple[Names, ...]
"""The sharding of a tensor: for each of its axes the mesh axes that divide it, the outer one first."""


@dataclass(frozen=True)
class Grid:
    """sizes: of the mesh axes, the last one with neighbouring devices. rank: of the process whose program is made. ranks: the
    process of each device, in the order of the grid; by default counted from 0."""

    sizes: Mapping[str, int]
    rank: int = 0
    ranks: tuple[int, ...] = ()

    @property
    def processes(self) -> tuple[int, ...]:
        return self.ranks or tuple(range(prod(self.sizes.values())))

    def count(self, names: Sequence[str]) -> int:
        """Devices along some axes."""
        return prod(self.sizes[name] for name in names)

    @property
    def coordinates(self) -> dict[str, int]:
        """The position of the device along each axis."""
        index = self.processes.index(self.rank)
        found: dict[str, int] = {}
        for name in reversed(list(self.sizes)):
            index, found[name] = divmod(index, self.sizes[name])
        return found

    def position(self, names: Sequence[str]) -> int:
        """The position along several axes, the outer one first."""
        coordinates, index = self.coordinates, 0
        for name in names:
            index = index * self.sizes[name] + coordinates[name]
        return index

    def groups(self, names: Sequence[str]) -> tuple[int, ...]:
        """The processes in groups that differ along these axes alone, one group after another, each by position."""
        order = list(self.sizes)
        rest = [name for name in order if name not in names]
        found: list[int] = []
        for outer in product(*(range(self.sizes[name]) for name in rest)):
            for inner in product(*(range(self.sizes[name]) for name in names)):
                coordinates = {**dict(zip(rest, outer, strict=True)), **dict(zip(names, inner, strict=True))}
                index = 0
                for name in order:
                    index = index * self.sizes[name] + coordinates[name]
                found.append(self.processes[index])
        return tuple(found)


def whole(rank: int) -> Axes:
    """The sharding of a tensor that is whole on every device."""
    return ((),) * rank


def used(axes: Axes) -> frozenset[str]:
    """The mesh axes that divide something."""
    return frozenset(name for names in axes for name in names)


def local(shape: Sequence[int], axes: Axes, grid: Grid) -> tuple[int, ...]:
    """The shape of one device's block."""
    return tuple(size if not names else size // grid.count(names) for size, names in zip(shape, axes, strict=True))
