"""The runtime of `jax.distributed` between the processes of a training, hosted by burn's coordinator."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from burn.errors import DistributedError, Problem

if TYPE_CHECKING:
    from burn.distributed.processes import Processes


def connect(processes: Processes, service: str) -> Callable[[], None]:
    """Connects JAX to the service; afterwards `jax.devices()` are those of all processes. Returns what ends the connection.

    `jax.distributed.initialize` would host the service in rank 0, and JAX ends every process at once when the service is gone. So
    this makes the same client for a service elsewhere. Raises DistributedError, also if JAX has devices already."""
    if not service:
        raise DistributedError("the coordinator hosts no service of jax.distributed", [f"at {processes.address}"])
    import jax

    bridge: Any = import_module("jax._src.xla_bridge")
    distributed: Any = import_module("jax._src.distributed")
    library: Any = import_module("jax._src.lib")
    if bridge.backends_are_initialized():
        hint = "call burn.distributed.initialize() at the beginning"
        raise DistributedError("JAX was used before", [Problem("it has the devices of this process alone", hint=hint)])
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    state = distributed.global_state
    patience = max(10, round(10 * processes.timeout))
    client = library._jax.get_distributed_runtime_client(
        service,
        processes.rank,
        init_timeout=max(1, round(processes.timeout)),
        heartbeat_timeout=patience,
        shutdown_timeout=5,
        shutdown_on_destruction=False,
        use_compression=True,
    )
    try:
        client.connect()
    except Exception as error:
        raise DistributedError(f"rank {processes.rank} cannot connect JAX to {service}", [str(error)]) from error
    state.process_id, state.num_processes = processes.rank, processes.count
    state.coordinator_address, state.client = service, client

    def end() -> None:
        state.client = None
        client.shutdown()

    return end
