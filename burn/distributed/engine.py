"""The protocol of engines, which run programs on a mesh: `Engine`, and the table of engines.

An engine runs one program on all devices of a mesh. Each process of a training calls it with the same programs in the same
order, and puts only the elements of its own devices there. `burn/distributed/spmd` runs burn's own kernels with collectives
between them, one process for each device. `burn/distributed/xla` gives the program of the whole mesh to XLA, which divides it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

import numpy as np

from burn.distributed.layout import Layout

if TYPE_CHECKING:
    from burn.dialect.program import Program
    from burn.distributed.communication import Communication
    from burn.distributed.mesh import Mesh
    from burn.distributed.rows import Rows


class Held(Protocol):
    """The elements of a tensor on the devices of a mesh. A parameter of `burn.nn` has them in place of host memory."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> str: ...

    @property
    def layout(self) -> Layout: ...

    def numpy(self) -> np.ndarray:
        """A copy in host memory. Raises DistributedError if other processes have some of the elements."""
        ...

    def gathered(self) -> np.ndarray:
        """A copy in host memory; every process calls it."""
        ...

    def shards(self) -> Sequence[tuple[tuple[int, ...], np.ndarray]]:
        """The blocks that this process saves, with the indices of their first elements. Each element is in one block."""
        ...

    def copy(self) -> Held: ...

    def is_of(self, mesh: Mesh, layout: Layout) -> bool:
        """True if it lies as a program on this mesh takes it."""
        ...


@dataclass(frozen=True)
class Port:
    """An input or an output of a program on a mesh."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    layout: Layout
    batch: bool = False
    """Of a batch; such inputs come first."""


class Runnable(Protocol):
    """A program compiled for a mesh and for sizes."""

    def __call__(self, inputs: Sequence[Held]) -> list[Held]:
        """The outputs. Donated inputs are gone afterwards. Raises RunError, IndexRunError, and DistributedError if a process is
        lost."""
        ...

    def communication(self) -> Communication:
        """The collectives of a run, in bytes."""
        ...


class Engine(Protocol):
    def device_count(self) -> int:
        """Devices of all processes."""
        ...

    def part(self, mesh: Mesh, rows: int) -> tuple[int, int]:
        """See `Mesh.part`."""
        ...

    def put(self, array: np.ndarray | Rows, dtype: str, mesh: Mesh, layout: Layout) -> Held:
        """A tensor on the devices of this process; all processes put theirs."""
        ...

    def compile(
        self,
        program: Program,
        mesh: Mesh,
        inputs: Sequence[Port],
        outputs: Sequence[Layout],
        donated: Mapping[int, int],
    ) -> Runnable:
        """donated: the outputs that take the memory of an input, by number. If a check on data fails in a run, these outputs are
        the inputs as they were. Raises CompileError."""
        ...


ENGINES: dict[str, Callable[[], Engine]] = {
    "burn": lambda: import_module("burn.distributed.spmd.engine").engine(),
    "xla": lambda: import_module("burn.distributed.xla.engine").engine(),
}
"""By name; an engine is imported when it is first used."""

_started: dict[str, Engine] = {}


def engine(name: str) -> Engine:
    """The engine of a name, started once."""
    if name not in _started:
        _started[name] = ENGINES[name]()
    return _started[name]
