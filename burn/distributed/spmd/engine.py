"""Tensors and programs on a mesh of processes with burn's own kernels: the engine "burn". Enter at `engine`.

Each process has one device of the mesh. The pass `partition` makes its program from the program of the whole mesh, with
collectives between the kernels. The runtime does these through a communicator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from burn.dialect.program import Program
from burn.dialect.text import to_text
from burn.dialect.types import TensorType, numpy_dtype
from burn.distributed import processes
from burn.distributed.communication import Communication
from burn.distributed.engine import Port
from burn.distributed.layout import REPLICATED, Layout
from burn.distributed.mesh import Mesh
from burn.distributed.rows import Rows
from burn.distributed.spmd import communicators
from burn.distributed.spmd.elements import Array, Elements, axes_of, box, grid_of
from burn.distributed.spmd.programs import Divided, of_one_device
from burn.errors import BurnError, DistributedError, Problem, RunError, TypeMismatch
from burn.options import Options
from burn.passes.sharding.grid import Grid, local
from burn.runtime import _native
from burn.runtime.arrays import own_copy
from burn.runtime.device import Device
from burn.runtime.device import device as as_device
from burn.runtime.device_array import DeviceArray, to_device
from burn.runtime.executable import Executable


def engine() -> Spmd:
    return Spmd()


class Spmd:
    """See `burn.distributed.engine.Engine`."""

    def __init__(self) -> None:
        self._gathers: dict[Any, Compiled] = {}

    def device_count(self) -> int:
        return processes.count()

    def device(self, mesh: Mesh) -> Device:
        """This process's device of a mesh: the CPU, or a GPU of the host by the process's number there. Raises DeviceError."""
        named = as_device(mesh.device)
        if named.memory.is_host or ":" in mesh.device:
            return named
        return as_device(f"{named.kind}:{processes.local_rank()}")

    def part(self, mesh: Mesh, rows: int) -> tuple[int, int]:
        self.check(mesh)
        return box((rows,), mesh.of_batch, grid_of(mesh))[0]

    def check(self, mesh: Mesh) -> None:
        """Raises TypeMismatch unless the mesh has one device for each process."""
        count, there = mesh.size, processes.count()
        ranks = sorted(mesh.devices) if mesh.devices is not None else list(range(count))
        if count == there and ranks == list(range(there)):
            return
        text = " x ".join(f"{name}={size}" for name, size in mesh.sizes.items())
        hint = f"burn train --processes {count}, or burn.distributed.initialize() in {count} processes"
        raise TypeMismatch(
            f"the mesh does not fit the processes{mesh.where}",
            [Problem(f"{text} takes {count} processes, there are {there}", hint=hint)],
        )

    def put(self, array: np.ndarray | Rows, dtype: str, mesh: Mesh, layout: Layout) -> Elements:
        self.check(mesh)
        shape = tuple(array.shape)
        source, first = (array.array, array.start) if isinstance(array, Rows) else (np.asarray(array), 0)
        bounds = box(shape, layout, grid_of(mesh))
        if bounds and (bounds[0][0] < first or bounds[0][1] > first + len(source)):
            raise DistributedError(
                "a device takes rows that this process did not read",
                [f"rows {bounds[0][0]} to {bounds[0][1]}, read were {first} to {first + len(source)}"],
            )
        index = tuple(
            slice(a - (first if i == 0 else 0), b - (first if i == 0 else 0)) for i, (a, b) in enumerate(bounds)
        )
        block: Array = own_copy(source[index], numpy_dtype(dtype))
        where = self.device(mesh)
        if not where.memory.is_host:
            block = to_device(block, where)  # type: ignore[arg-type]
        return Elements(self, block, dtype, shape, mesh, layout)

    def whole(self, held: Elements) -> Elements:
        """The tensor with all elements in each process; every process calls it."""
        key = (held.dtype, held.shape, held.layout, tuple(held.mesh.sizes.items()), held.mesh.devices, held.mesh.device)
        if key not in self._gathers:
            type_ = TensorType(held.dtype, held.shape)
            program = Program.create([("x", type_)])
            program.finish([("y", program.inputs[0])])
            port = Port("x", held.dtype, held.shape, held.layout)
            self._gathers[key] = self.compile(program, held.mesh, [port], [REPLICATED], {})
        return self._gathers[key]([held])[0]

    def compile(
        self,
        program: Program,
        mesh: Mesh,
        inputs: Sequence[Port],
        outputs: Sequence[Layout],
        donated: Mapping[int, int],
    ) -> Compiled:
        return Compiled(self, program, mesh, inputs, outputs, donated)


class Compiled:
    """See `burn.distributed.engine.Runnable`. Its collectives can be counted for a mesh that is not there."""

    def __init__(
        self,
        engine: Spmd,
        program: Program,
        mesh: Mesh,
        inputs: Sequence[Port],
        outputs: Sequence[Layout],
        donated: Mapping[int, int],
    ) -> None:
        from burn.compiler import environment

        self._engine, self._mesh, self._layouts = engine, mesh, list(outputs)
        self._inputs, self._donated = list(inputs), dict(donated)
        own = processes.current()
        fits = mesh.size == processes.count()
        if own is not None and fits:
            described = [to_text(program), list(mesh.sizes.items()), list(mesh.devices or ())]
            described += [[(str(port.layout), port.shape) for port in inputs], [str(layout) for layout in outputs]]
            own.agree("the program of a step", described)
        grid = grid_of(mesh) if fits else Grid(mesh.sizes)
        self._divided: Divided = of_one_device(program, mesh, grid, inputs, outputs, donated, environment())
        if own is not None and fits:
            own.agree("the collectives of a step", self._divided.described)
        self._grid = grid
        self._executable: Executable | None = None
        self._communicator: communicators.Communicator | None = None

    # ---- compilation -------------------------------------------------------------------------------------------------------
    @property
    def executable(self) -> Executable:
        """This process's program."""
        if self._executable is None:
            from burn.caching import executable

            self._executable = executable(self._divided.program, Options(device=self._engine.device(self._mesh)))
        return self._executable

    def _connected(self) -> Executable:
        """The program, with a communicator for its collectives. Every process calls it."""
        found = self.executable
        if self._communicator is None:
            self._communicator = communicators.of(self._engine.device(self._mesh))
            if self._communicator is not None:
                self._communicator.connect(self._divided.groups)
        return found

    def communication(self) -> Communication:
        counted = sum(
            prod(local(port.shape, axes_of(port.layout, len(port.shape)), self._grid))
            * numpy_dtype(port.dtype).itemsize
            for port in self._inputs
        )
        artefact = self.executable.artefact
        flops = sum(_number(kernel.flops) for kernel in artefact.kernels)
        sizes = [int(_number(size)) for size in artefact.buffers]
        temporaries = _native.plan(artefact.live_ranges, sizes)[1] if sizes else 0
        return Communication(self._mesh.sizes, self._divided.collectives, counted, temporaries, flops)

    # ---- runs ----------------------------------------------------------------------------------------------------------------
    def __call__(self, inputs: Sequence[Elements]) -> list[Elements]:
        self._engine.check(self._mesh)
        executable = self._connected()
        arrays = [held.array for held in inputs]
        own = processes.current()
        if own is None:
            return self._held(self._run(executable, arrays))
        with own.operation():
            try:
                outputs = self._run(executable, arrays)
            except BurnError as error:
                raise self._explained(error, own) from None
        return self._held(outputs)

    def _run(self, executable: Executable, arrays: Sequence[Array]) -> list[Any]:
        return executable.run_giving(arrays, sorted(set(self._donated.values())))

    def _held(self, outputs: Sequence[Any]) -> list[Elements]:
        found = []
        for array, layout in zip(outputs, self._layouts, strict=True):
            counts = [self._grid.count(names) for names in axes_of(layout, len(array.shape))]
            shape = tuple(size * count for size, count in zip(array.shape, counts, strict=True))
            dtype = array.dtype if isinstance(array, DeviceArray) else _name(array)
            found.append(Elements(self._engine, array, dtype, shape, self._mesh, layout))
        return found

    def _explained(self, error: BurnError, own: processes.Processes) -> Exception:
        """The error of a run. Its processes fail together: each one raises its own error, or names the process whose error ended
        its collectives."""
        if (lost := own.lost_error()) is not None:
            return lost
        communicator = self._communicator
        if communicator is None:
            return error
        if not communicator.device.memory.is_host:  # NCCL's collectives cannot go on after one is aborted
            own.fail(f"has failed: {error.summary}: {'; '.join(map(str, error.problems))}")
            return error
        is_other = isinstance(error, DistributedError)
        communicator.fail()
        told = None if is_other else f"{error.summary}: {'; '.join(str(p) for p in error.problems)}"
        found = own.gather("the errors of a run", [type(error).__name__, told, _native.communicator_error()])
        communicator.reset()
        if not is_other:
            return error
        causes = [(rank, kind, text) for rank, (kind, text, _) in enumerate(found) if text is not None]
        if not causes:
            return DistributedError("a collective failed", sorted({why for _, _, why in found}))
        kinds = {cls.__name__: cls for cls in _kinds(RunError)}
        rank, kind, text = causes[0]
        return kinds.get(kind, RunError)(f"the program of rank {rank} failed", [text])


def _kinds(cls: type[Any]) -> list[type[Any]]:
    return [cls, *(each for sub in cls.__subclasses__() for each in _kinds(sub))]


def _name(array: np.ndarray) -> str:
    from burn.dialect.types import dtype_of_numpy

    return dtype_of_numpy(array.dtype)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:  # a size that is read from data
        return 0.0
