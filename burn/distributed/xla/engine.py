"""Arrays and programs on a mesh of JAX's devices: the engine "xla". Enter at `engine`.

A program is one function of `jax.lax` ops, jitted with the layouts of its inputs and outputs. XLA's partitioner divides it and
puts the collectives in. Element types are burn's: int64 and float64 stay 64 bits wide.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from burn.adapters.to_jax.function import Lowered
from burn.codegen.stablehlo.emitter import STATUS_BITS
from burn.dialect.program import Program
from burn.dialect.types import numpy_dtype
from burn.distributed import processes
from burn.distributed.communication import Communication
from burn.distributed.engine import Port
from burn.distributed.layout import REPLICATED, Layout
from burn.distributed.mesh import Mesh
from burn.distributed.program import FailedRun
from burn.distributed.rows import Rows
from burn.distributed.xla import hlo
from burn.errors import BurnError, CompileError, DistributedError, Problem, RunError, TypeMismatch
from burn.runtime.abi import Status
from burn.runtime.executable import run_failure
from burn.runtime.origins import resolved

if TYPE_CHECKING:
    import jax

OPTIONS: dict[str, Any] = {"xla_allow_excess_precision": False}
"""Half precision is rounded after each op, as on burn's other devices."""


def engine() -> Xla:
    """Raises CompileError without JAX."""
    if importlib.util.find_spec("jax") is None:
        hint = "pip install 'burn-mlir[jax]'"
        raise CompileError('a mesh with engine="xla" needs JAX', [Problem("jax is not installed", hint=hint)])
    return Xla()


class Xla:
    """See `burn.distributed.engine.Engine`."""

    def __init__(self) -> None:
        self._grids: dict[Any, jax.sharding.Mesh] = {}

    def device_count(self) -> int:
        import jax

        return jax.device_count()

    def grid(self, mesh: Mesh) -> jax.sharding.Mesh:
        """The mesh of JAX. Raises TypeMismatch if there are not enough devices."""
        import jax

        sizes = mesh.sizes
        key = (tuple(sizes.items()), mesh.devices)
        if key not in self._grids:
            devices = jax.devices()
            chosen = range(prod(sizes.values())) if mesh.devices is None else mesh.devices
            if len(chosen) != prod(sizes.values()) or max(chosen) >= len(devices):
                text = " x ".join(f"{name}={size}" for name, size in sizes.items())
                hint = "burn.distributed.simulate(count) makes devices of one CPU" if mesh.devices is None else ""
                raise TypeMismatch(
                    f"the mesh does not fit the devices{mesh.where}",
                    [Problem(f"{text} takes {prod(sizes.values())} devices, there are {len(devices)}", hint=hint)],
                )
            array = np.array([devices[i] for i in chosen], object).reshape(tuple(sizes.values()))
            self._grids[key] = jax.sharding.Mesh(array, tuple(sizes))
        return self._grids[key]

    def sharding(self, mesh: Mesh, layout: Layout) -> Any:
        import jax

        spec = jax.sharding.PartitionSpec(*(names or None for names in layout.axes))
        return jax.sharding.NamedSharding(self.grid(mesh), spec)

    def part(self, mesh: Mesh, rows: int) -> tuple[int, int]:
        indices = self.sharding(mesh, mesh.of_batch).addressable_devices_indices_map((rows,)).values()
        ranges = sorted({(index[0].start or 0, rows if index[0].stop is None else index[0].stop) for index in indices})
        end = ranges[0][1]
        for start, stop in ranges[1:]:
            if start != end:  # other processes have rows between them
                return 0, rows
            end = stop
        return ranges[0][0], end

    def put(self, array: np.ndarray | Rows, dtype: str, mesh: Mesh, layout: Layout) -> Elements:
        import jax

        sharding = self.sharding(mesh, layout)
        shape, kind = tuple(array.shape), numpy_dtype(dtype)
        source, first = (array.array, array.start) if isinstance(array, Rows) else (np.asarray(array), 0)

        def block(index: tuple[slice, ...]) -> np.ndarray:
            if not index:
                return source
            start, stop, _ = index[0].indices(shape[0])
            if start < first or stop > first + len(source):
                raise DistributedError(
                    "a device takes rows that this process did not read",
                    [f"rows {start} to {stop}, read were {first} to {first + len(source)}"],
                )
            return source[(slice(start - first, stop - first), *index[1:])]

        with jax.enable_x64(True):
            made = jax.make_array_from_callback(
                shape, sharding, lambda index: np.array(block(index), kind, order="C")
            )  # JAX may keep the memory
        return Elements(self, made, dtype, mesh, layout)

    def compile(
        self,
        program: Program,
        mesh: Mesh,
        inputs: Sequence[Port],
        outputs: Sequence[Layout],
        donated: Mapping[int, int],
    ) -> Compiled:
        return Compiled(self, Lowered.of(program, calls=False), mesh, inputs, outputs, donated)


class Elements:
    """See `burn.distributed.engine.Held`: an array of JAX."""

    def __init__(self, engine: Xla, array: jax.Array, dtype: str, mesh: Mesh, layout: Layout) -> None:
        self.engine, self.array, self.dtype, self.mesh, self.layout = engine, array, dtype, mesh, layout

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.array.shape)

    def numpy(self) -> np.ndarray:
        if self.array.is_fully_replicated:
            return np.array(self.array.addressable_data(0))
        if self.array.is_fully_addressable:
            return np.array(self.array)
        hint = "mesh.gather(model) on every process, or read a checkpoint"
        raise DistributedError(
            "some of the elements are in other processes", [Problem(f"the layout is {self.layout}", hint=hint)]
        )

    def gathered(self) -> np.ndarray:
        import jax

        if self.array.is_fully_addressable or self.array.is_fully_replicated:
            return self.numpy()
        whole = self.engine.sharding(self.mesh, REPLICATED)
        with _operation(), jax.enable_x64(True):
            return np.array(jax.jit(lambda x: x, out_shardings=whole)(self.array).addressable_data(0))

    def shards(self) -> list[tuple[tuple[int, ...], np.ndarray]]:
        owned = [s for s in self.array.addressable_shards if s.replica_id == 0]
        return [(tuple(i.start or 0 for i in s.index), np.asarray(s.data)) for s in owned]

    def copy(self) -> Elements:
        import jax

        with jax.enable_x64(True):
            return Elements(self.engine, jax.numpy.copy(self.array), self.dtype, self.mesh, self.layout)

    def is_of(self, mesh: Mesh, layout: Layout) -> bool:
        return self.layout == layout and (self.mesh is mesh or self.engine.grid(self.mesh) is self.engine.grid(mesh))


class Compiled:
    """See `burn.distributed.engine.Runnable`."""

    def __init__(
        self,
        engine: Xla,
        lowered: Lowered,
        mesh: Mesh,
        inputs: Sequence[Port],
        outputs: Sequence[Layout],
        donated: Mapping[int, int],
    ) -> None:
        import jax

        self._engine, self._mesh, self._layouts = engine, mesh, list(outputs)
        self._sites: Sequence[str] = ()
        self._checks = False

        def main(*arrays: Any) -> Any:
            results, failure, sites = lowered.checked(arrays)
            self._sites, self._checks = sites, failure is not None
            if failure is None:
                return results
            bad = failure[0] != 0
            for output, source in donated.items():
                results[output] = jax.numpy.where(bad, arrays[source], results[output])
            return [*results, *failure]

        with jax.enable_x64(True):
            shapes = [jax.ShapeDtypeStruct(p.shape, numpy_dtype(p.dtype)) for p in inputs]
            traced = jax.jit(main).trace(*shapes)  # the number of results depends on the checks
            kinds = [output.dtype for output in traced.out_info]
            extra = [REPLICATED] * (len(kinds) - len(self._layouts))
            into = [engine.sharding(mesh, p.layout) for p in inputs]
            out = [engine.sharding(mesh, layout) for layout in (*self._layouts, *extra)]
            jitted = jax.jit(
                main, in_shardings=into, out_shardings=out, donate_argnums=tuple(sorted(set(donated.values())))
            )
            lowering = jitted.lower(*shapes)
            if (own := processes.current()) is not None:
                own.agree("the program of a step", lowering.as_text())
            try:
                self._executable = lowering.compile(compiler_options=OPTIONS)
            except Exception as error:  # jaxlib's own kinds
                raise CompileError("XLA cannot compile the program", [str(error)]) from error
        self._dtypes = [np.dtype(kind) for kind in kinds]
        self._bytes = [prod(p.shape) * np.dtype(numpy_dtype(p.dtype)).itemsize for p in inputs]

    def __call__(self, inputs: Sequence[Elements]) -> list[Elements]:
        import jax

        with _operation(), jax.enable_x64(True):
            try:
                results = list(self._executable(*(held.array for held in inputs)))
                if self._checks:
                    value, code = results.pop(), results.pop()
                    number = int(np.asarray(code.addressable_data(0)))
                    if number:
                        raise self._failed(number, int(np.asarray(value.addressable_data(0))), results)
                elif results:
                    results[0].block_until_ready()
            except BurnError:
                raise
            except Exception as error:
                raise _explained(error) from error
        return self._held(results)

    def _held(self, results: Sequence[Any]) -> list[Elements]:
        from burn.dialect.types import dtype_of_numpy

        return [
            Elements(self._engine, array, dtype_of_numpy(np.dtype(array.dtype)), self._mesh, layout)
            for array, layout in zip(results, self._layouts, strict=True)
        ]

    def _failed(self, number: int, value: int, results: Sequence[Any]) -> FailedRun:
        site = self._sites[(number >> STATUS_BITS) - 1]
        status = Status(number & ((1 << STATUS_BITS) - 1))
        return FailedRun(
            run_failure(status, resolved(site), value, "the program failed while it ran"), self._held(results)
        )

    def communication(self) -> Communication:
        memory = self._executable.memory_analysis()
        found: Callable[[str], int] = lambda name: int(getattr(memory, f"{name}_size_in_bytes", 0))  # noqa: E731
        cost = self._executable.cost_analysis() or {}
        return Communication(
            devices=self._mesh.sizes,
            collectives=tuple(hlo.collectives(self._executable.as_text(), self._mesh.sizes)),
            arguments=found("argument"),
            temporaries=found("temp"),
            flops=float(cost.get("flops", 0.0)),
        )


def _operation() -> Any:
    """Around what runs on all devices."""
    from contextlib import nullcontext

    own = processes.current()
    return nullcontext() if own is None else own.operation()


def _explained(error: Exception) -> Exception:
    own = processes.current()
    explained = error if own is None else own.explained(error)
    return explained if explained is not error else RunError("XLA failed to run the program", [str(error)])
