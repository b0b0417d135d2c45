"""One run of a program with XLA: the values and sizes so far, and the limits of the run."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from burn.codegen.failure import failed
from burn.codegen.hosted import name_of, size_of
from burn.codegen.stablehlo.elements import carrier
from burn.codegen.stablehlo.emitter import STATUS_BITS
from burn.codegen.stablehlo.ops.shape import carried
from burn.codegen.stablehlo.text import Tensor
from burn.codegen.xla.client import Client
from burn.codegen.xla.modules import Compiled, Modules
from burn.codegen.xla.plan import Plan, Segment
from burn.dialect.dims import Dim
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.types import numpy_dtype, type_of
from burn.runtime.abi import Status


@dataclass(frozen=True)
class Held:
    """A tensor: the array on XLA's device, of the carrier's type. It may be longer along an axis than `shape`."""

    array: Any
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class TensorList:
    """A sequence, or an optional (of at most one element)."""

    items: tuple[Any, ...] = ()


@dataclass
class Machine:
    """watch: raises if the run is to end. most: bytes of results that the run may have; None: no limit."""

    plan: Plan
    modules: Modules
    watch: Callable[[], None]
    most: int | None
    sizes: dict[str, int]
    values: dict[ir.Value, Any] = field(default_factory=dict)
    bytes: int = 0
    events: list[tuple[int, int, int, bool]] = field(default_factory=list)
    began: int = field(default_factory=time.perf_counter_ns)

    @property
    def client(self) -> Client:
        return self.modules.client

    # ---- values --------------------------------------------------------------------------------------------------------
    def put(self, array: np.ndarray, dtype: str) -> Held:
        """A tensor in host memory as a value."""
        array = carried(array, dtype)
        return Held(self.client.put(array), array.shape, dtype)

    def fetch(self, value: Any) -> np.ndarray:
        """A value in host memory, in an array of its own."""
        array = self.client.get(self.exact(value).array)
        return array.view(numpy_dtype(value.dtype)) if carrier(value.dtype) != value.dtype else array

    def exact(self, value: Held) -> Held:
        """A value whose array has its shape."""
        have = tuple(value.array.shape)
        if have == value.shape:
            return value
        starts, strides = [0] * len(have), [1] * len(have)
        (array,) = self.compute(("cut", value.shape), lambda b, x: [b.slice(x, starts, value.shape, strides)], [value])
        return Held(array, value.shape, value.dtype)

    def compute(
        self, key: Hashable, function: Callable[..., Sequence[Tensor]], values: Sequence[Held]
    ) -> Sequence[Any]:
        """Arrays that a function of a builder makes of values. key: what the function depends on."""
        arrays = [value.array for value in values]
        shapes = [tuple(a.shape) for a in arrays]
        compiled = self.modules.of_function(key, function, shapes, [carrier(v.dtype) for v in values])
        return self._ran(compiled, arrays)

    def read(self, value: ir.Value) -> Any:
        return self.values[value]

    def number(self, value: ir.Value) -> Any:
        """A scalar, as Python's."""
        return self.fetch(self.values[value]).reshape(-1)[0].item()

    def set(self, value: ir.Value, held: Any) -> None:
        """Defines a value, and the sizes that its type has symbols of its own for."""
        if isinstance(held, Held):
            for dim, size in zip(type_of(value).shape, held.shape, strict=True):
                if (name := name_of(dim)) is not None:
                    self.sizes[name] = size
        self.values[value] = held

    def give(self, op: Op, *values: Any) -> None:
        for result, held in zip(op.operation.results, values, strict=True):
            self.set(result, held)

    # ---- sizes ---------------------------------------------------------------------------------------------------------
    def dim(self, dim: Dim) -> int:
        return size_of(dim, self.sizes)

    def shape(self, value: ir.Value) -> tuple[int, ...]:
        return tuple(self.dim(d) for d in type_of(value).shape)

    # ---- running -------------------------------------------------------------------------------------------------------
    def block(self, block: ir.Block) -> None:
        from burn.codegen.xla.host import RUNS

        for step in self.plan.blocks[block]:
            self.watch()
            if isinstance(step, Segment):
                self._segment(step)
            else:
                RUNS[step.OP_NAME](self, step)

    def _segment(self, segment: Segment) -> None:
        start = time.perf_counter_ns()
        inputs = [self.values[value] for value in segment.inputs]
        compiled = self.modules.of_segment(segment, self.sizes, [tuple(v.array.shape) for v in inputs])
        arrays = [*(v.array for v in inputs), *(self.modules.weight(key) for key in compiled.weights)]
        results = list(self._ran(compiled, arrays))
        if compiled.watches:
            self._raise(compiled, results.pop(-2), results.pop())
        counted = segment.counted
        if counted is not None:
            self.sizes[counted.count] = int(self.client.get(results.pop()))
        for value, array in zip(segment.outputs, results, strict=True):
            self.set(value, Held(array, self.shape(value), type_of(value).dtype))
        self.events.append((segment.number, start - self.began, time.perf_counter_ns() - start, False))

    def _ran(self, compiled: Compiled, arrays: Sequence[Any]) -> Sequence[Any]:
        results = compiled.module(arrays)
        self.bytes += sum(array.nbytes for array in results)
        if self.most is not None and self.bytes > self.most:
            failed(Status.TOO_LARGE, value=self.bytes)
        return results

    def _raise(self, compiled: Compiled, code: Any, value: Any) -> None:
        number = int(self.client.get(code))
        if number:
            site = compiled.sites[(number >> STATUS_BITS) - 1]
            failed(Status(number & ((1 << STATUS_BITS) - 1)), site, int(self.client.get(value)))
