"""`Elements`: the block of a tensor that this process has."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from burn.dialect.types import numpy_dtype
from burn.distributed import processes
from burn.distributed.layout import Layout
from burn.distributed.mesh import Mesh
from burn.errors import DistributedError, Problem
from burn.passes.sharding.grid import Axes, Grid
from burn.runtime.arrays import own_copy
from burn.runtime.device_array import DeviceArray

if TYPE_CHECKING:
    from burn.distributed.spmd.engine import Spmd

Array = np.ndarray | DeviceArray
Box = tuple[tuple[int, int], ...]
"""For each axis of a tensor, the first index of a block and the index behind its last."""


def grid_of(mesh: Mesh) -> Grid:
    """The grid of a mesh, seen from this process."""
    return Grid(mesh.sizes, processes.rank(), tuple(mesh.devices or ()))


def axes_of(layout: Layout, rank: int) -> Axes:
    """A layout for a tensor of this many axes."""
    return (*layout.axes, *((),) * (rank - len(layout.axes)))


def box(shape: Sequence[int], layout: Layout, grid: Grid) -> Box:
    """The indices of the device's block."""
    found = []
    for size, names in zip(shape, axes_of(layout, len(shape)), strict=True):
        each = size // grid.count(names)
        found.append((grid.position(names) * each, (grid.position(names) + 1) * each))
    return tuple(found)


class Elements:
    """See `burn.distributed.engine.Held`. array: the block, on this process's device."""

    def __init__(
        self, engine: Spmd, array: Array, dtype: str, shape: tuple[int, ...], mesh: Mesh, layout: Layout
    ) -> None:
        self.engine, self.array, self.dtype, self.shape = engine, array, dtype, shape
        self.mesh, self.layout = mesh, layout

    def _block(self) -> np.ndarray:
        found = self.array.numpy() if isinstance(self.array, DeviceArray) else self.array
        return found.view(numpy_dtype(self.dtype))

    @property
    def _is_whole(self) -> bool:
        return prod(self.mesh.sizes[name] for name in self.layout.names) == 1

    def numpy(self) -> np.ndarray:
        if self._is_whole:
            return np.array(self._block())
        hint = "mesh.gather(model) on every process, or read a checkpoint"
        raise DistributedError(
            "some of the elements are in other processes", [Problem(f"the layout is {self.layout}", hint=hint)]
        )

    def gathered(self) -> np.ndarray:
        return self.numpy() if self._is_whole else self.engine.whole(self).numpy()

    def shards(self) -> list[tuple[tuple[int, ...], np.ndarray]]:
        """Of the processes that have the same block, the one at the start of all other mesh axes saves it."""
        grid = grid_of(self.mesh)
        others = [name for name in self.mesh.sizes if name not in self.layout.names]
        if any(grid.coordinates[name] for name in others):
            return []
        return [(tuple(start for start, _ in box(self.shape, self.layout, grid)), self._block())]

    def copy(self) -> Elements:
        array = self.array.copy() if isinstance(self.array, DeviceArray) else own_copy(self.array, self.array.dtype)
        return Elements(self.engine, array, self.dtype, self.shape, self.mesh, self.layout)

    def is_of(self, mesh: Mesh, layout: Layout) -> bool:
        alike = self.mesh is mesh or _order(self.mesh) == _order(mesh)
        return self.layout == layout and alike and self.mesh.device == mesh.device


def _order(mesh: Mesh) -> tuple[object, ...]:
    """The devices of a mesh. The order of its axes says which of them a device is."""
    return tuple(mesh.sizes.items()), mesh.devices
