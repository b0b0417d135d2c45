"""Training on many devices and hosts: meshes, the processes of a training, and what they send each other.

burn.distributed.initialize()                       # in each process; `burn train --processes 4` starts them
mesh = burn.Mesh({"data": -1}, fully_sharded="data")
step = burn.train.step(model, loss, optimizer, mesh=mesh)
print(step.communication())
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from burn.distributed.communication import Collective, Communication
    from burn.distributed.layout import Layout
    from burn.distributed.mesh import Mesh
    from burn.distributed.processes import count, initialize, rank, shutdown
    from burn.distributed.rows import Rows
    from burn.distributed.simulated import simulate

__all__ = [
    "Mesh", "Layout", "Rows", "initialize", "shutdown", "rank", "count", "simulate", "Communication", "Collective",
]  # fmt: skip

_HOMES = {
    "mesh": ("Mesh",),
    "layout": ("Layout",),
    "rows": ("Rows",),
    "processes": ("initialize", "shutdown", "rank", "count"),
    "simulated": ("simulate",),
    "communication": ("Communication", "Collective"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


if not TYPE_CHECKING:  # the coordinator's process imports this package without the rest of burn

    def __getattr__(name: str) -> Any:
        if name not in _HOME:
            raise AttributeError(f"module 'burn.distributed' has no attribute '{name}'")
        value = getattr(import_module(f"burn.distributed.{_HOME[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return list(__all__)
