"""`MeshJit`: a traced function of batches as a program on a mesh, compiled for each size of a batch.

Parameters are inputs of the program. Between calls their elements stay on the devices, in their layouts, and each call gives the
memory of the old ones to the new ones. Other results are whole on every device.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from burn.dialect.dims import Expr, symbols
from burn.dialect.mlir import context
from burn.dialect.program import Program
from burn.dialect.types import numpy_dtype
from burn.distributed.communication import Communication
from burn.distributed.engine import Held, Port, Runnable
from burn.distributed.layout import REPLICATED, Layout
from burn.distributed.partition import Partition
from burn.distributed.rows import Rows
from burn.errors import InputError, Problem, RunError, TypeMismatch
from burn.jitted import Jit, fixed_values
from burn.nn.parameter import are_of, given_up, renew_on_mesh
from burn.runtime.arrays import as_given, like, on_host
from burn.runtime.debugging import checked
from burn.runtime.device import CPU, Device
from burn.runtime.origins import current_line
from burn.runtime.random import process
from burn.tensors import trees
from burn.tracing.arguments import Arguments, Dynamic
from burn.tracing.changes import Verified
from burn.tracing.guards import Captured
from burn.tracing.trace import Traced, is_module, trace_call

KEPT = 16
"""Sizes for which a program stays compiled."""


class MeshJit(Jit):
    """See `Jit`. batch: the name of the size that the mesh divides. whole_rest: each device computes the whole of a batch that
    the devices do not divide; otherwise such a batch is an error."""

    def __init__(
        self,
        function: Callable[..., Any],
        dynamic: Dynamic | None,
        partition: Partition,
        batch: str,
        whole_rest: bool = False,
    ) -> None:
        super().__init__(function, dynamic, (), opens=True)
        self._partition, self._batch, self._whole_rest = partition, batch, whole_rest

    def _where(self, devices: frozenset[Device], parameters: Sequence[Any]) -> Device:
        if devices:
            raise TypeMismatch("a step on a mesh takes batches in host memory", [f"one is on {next(iter(devices))}"])
        return CPU

    def _compiled(self, arguments: Arguments, devices: frozenset[Device]) -> Any:
        if checked():
            raise TypeMismatch(
                "burn.debug.nans does not check programs on a mesh", ["switch it off, or run on one device"]
            )
        whole = [self._function] if is_module(self._function) else []
        owners = {id(v): v for v in (*whole, *fixed_values(arguments.structures))}
        traced = trace_call(self._function, arguments, opens=True)
        captured = Captured({**owners, **traced.tracer.modules}.values())
        return MeshProgram(traced, captured, self._partition, self._batch, self._whole_rest)

    def communication(self, *args: Any, **kwargs: Any) -> Communication:
        """Of the program for a batch (arrays or types), which is compiled and not run; without one, of the last that ran."""
        if not args and not kwargs:
            if not self.programs:
                raise TypeMismatch("nothing is compiled yet", ["give a batch, or its types: 'float32[64, 8]'"])
            last: Any = next(reversed(self.programs.values()))[0]
            return last.communication()
        found, leaves = self.program_of(args, kwargs)
        return found.compiled([_shape_of(leaf) for leaf in leaves]).communication()


class MeshProgram:
    """One traced function on a mesh."""

    opened = True

    def __init__(self, traced: Traced, captured: Captured, partition: Partition, batch: str, whole_rest: bool) -> None:
        self.captured, self.device = captured, CPU
        self.parameters: tuple[Any, ...] = tuple(traced.tracer.parameters)
        self.given = [p.type for p in self.parameters]
        self.assigned: tuple[Any, ...] = traced.assigned
        self._program: Program = traced.program
        self._results = traced.results
        self._count = len(trees.paths(traced.results))
        self._partition, self._batch, self._whole_rest = partition, batch, whole_rest
        with context():
            self._types = self._program.input_types
        self._layouts = [partition.of_parameter(p) for p in self.parameters]
        numbers = {id(p): i for i, p in enumerate(self.parameters)}
        self._renewed = [numbers[id(p)] for p in self.assigned]
        self._made: dict[Hashable, Runnable] = {}
        self._last: Runnable | None = None
        self._lock = threading.Lock()
        self._agreed = False
        self.verified = Verified()

    def takes_parameters(self) -> bool:
        return are_of(self.parameters, self.given)

    @property
    def elements(self) -> list[Any]:
        """Nothing is drawn before a run puts it on the devices."""
        return []

    # ---- compilation ---------------------------------------------------------------------------------------------------
    def compiled(self, shapes: Sequence[tuple[int, ...]]) -> Runnable:
        """The program for leaves of these shapes. Raises InputError if the devices do not divide the batch."""
        key = tuple(shapes)
        with self._lock:
            if key not in self._made:
                if len(self._made) >= KEPT:
                    del self._made[next(iter(self._made))]
                self._made[key] = self._compile(shapes)
            self._last = self._made[key]
            return self._last

    def _compile(self, shapes: Sequence[tuple[int, ...]]) -> Runnable:
        mesh, names = self._partition.mesh, self._program.input_names
        ports = [
            Port(names[i], self._types[i].dtype, tuple(shape), self._layout(i, shape), batch=True)
            for i, shape in enumerate(shapes)
        ]
        for parameter, layout in zip(self.parameters, self._layouts, strict=True):
            ports.append(Port(parameter.name, parameter.type.dtype, tuple(map(int, parameter.type.shape)), layout))  # type: ignore[arg-type]
        if self._program.random_state:
            ports.append(Port("random_state", "uint64", (2,), REPLICATED))
        outputs = [*[REPLICATED] * self._count, *(self._layouts[number] for number in self._renewed)]
        donated = {self._count + i: len(shapes) + number for i, number in enumerate(self._renewed)}
        return mesh.started.compile(self._program, mesh, ports, outputs, donated)

    def _layout(self, number: int, shape: Sequence[int]) -> Layout:
        """The layout of a leaf of the batch."""
        type_ = self._types[number]
        first = type_.shape[0] if type_.shape else None
        if not isinstance(first, Expr) or symbols(first) != {self._batch}:
            return REPLICATED
        mesh = self._partition.mesh
        if not list(mesh.of_batch.problems(shape, mesh.sizes)):
            return mesh.of_batch
        if self._whole_rest:
            return REPLICATED
        count, names = mesh.count(mesh.batch), ", ".join(f"'{name}'" for name in mesh.of_batch.names)
        line = current_line()
        hint = f"{count * (shape[0] // count)} or {count * (shape[0] // count + 1)} rows do"
        raise InputError(
            f"the batch does not fit the mesh{f' ({line})' if line is not None else ''}",
            [Problem(f"the {count} devices of mesh axis {names} do not divide its {shape[0]} rows", hint=hint)],
        )

    def communication(self) -> Communication:
        if self._last is None:
            raise TypeMismatch("nothing is compiled yet", ["the step was never called"])
        return self._last.communication()

    # ---- runs ----------------------------------------------------------------------------------------------------------
    def run(self, leaves: Sequence[Any]) -> Any:
        given = [leaf if isinstance(leaf, Rows) else on_host(as_given(leaf)) for leaf in leaves]
        runnable = self.compiled([tuple(leaf.shape) for leaf in given])
        mesh = self._partition.mesh
        inputs: list[Held] = [
            mesh.started.put(leaf, self._types[i].dtype, mesh, self._layout(i, leaf.shape))
            for i, leaf in enumerate(given)
        ]
        inputs += self._placed()
        if self._program.random_state:
            state = np.array(process.draw(), np.uint64)
            inputs.append(mesh.started.put(state, "uint64", mesh, REPLICATED))
        try:
            outputs = runnable(inputs)
        except FailedRun as failure:
            renew_on_mesh(self.assigned, failure.results[self._count :])
            raise failure.error from None
        renew_on_mesh(self.assigned, outputs[self._count :])
        arrays = [held.numpy().view(numpy_dtype(held.dtype)) for held in outputs[: self._count]]
        shown = like(arrays, [leaf for leaf in leaves if not isinstance(leaf, Rows)])
        return trees.unflatten(self._results, shown)

    def _placed(self) -> list[Held]:
        """The parameters' elements on the devices. Those that the run overwrites are copied if something else refers to them."""
        mesh = self._partition.mesh
        self._agree()
        found: list[Held] = []
        for parameter, layout in zip(self.parameters, self._layouts, strict=True):
            held = parameter.on_mesh
            if held is None or not held.is_of(mesh, layout):
                array = parameter.array if held is None else held.gathered()
                held = mesh.started.put(array, parameter.type.dtype, mesh, layout)
                parameter.put_on_mesh(held)
            found.append(held)
        for number, free in zip(self._renewed, given_up(self.assigned), strict=True):
            if not free:
                found[number] = found[number].copy()
        return found

    def _agree(self) -> None:
        """Before the first run all processes must have equal parameters, and random numbers from the same position."""
        from burn.distributed import processes

        own = processes.current()
        if own is None or self._agreed:
            return
        sums = {p.name or str(i): checksum(p.array) for i, p in enumerate(self.parameters) if p.on_mesh is None}
        own.agree("the elements of parameters", sums)
        own.agree("the position of random numbers", list(process.position))
        self._agreed = True


class FailedRun(RunError):
    """A run whose check on data failed. error: what the caller gets. results: the outputs; those that take an input's memory are
    the input as it was."""

    def __init__(self, error: Exception, results: Sequence[Held]) -> None:
        super().__init__(str(error))
        self.error, self.results = error, results


def checksum(array: np.ndarray) -> int:
    """CRC-32 of an array's bytes."""
    import zlib

    return zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


def _shape_of(leaf: Any) -> tuple[int, ...]:
    return tuple(int(size) for size in leaf.shape)
