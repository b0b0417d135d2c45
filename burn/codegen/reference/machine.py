"""One run of a program on the reference device: the values and sizes so far, and the limits of the run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from burn.codegen.failure import failed
from burn.codegen.hosted import name_of, size_of
from burn.codegen.reference.operators import RUNS
from burn.dialect.control import Group
from burn.dialect.dims import Dim
from burn.dialect.mlir import ir
from burn.dialect.op import Agreement, Op, full_name
from burn.dialect.types import numpy_dtype, type_of
from burn.kernels.builders import kernels
from burn.kernels.builders.builder import Call
from burn.kernels.preferences import Preferences
from burn.runtime.abi import Status


@dataclass(frozen=True)
class TensorList:
    """The element of a value of type `list`: tensors, or lists as 0-d arrays of one."""

    items: tuple[np.ndarray, ...] = ()


class Code:
    """A program as all its runs share it. weights: constants by key. numbers: of its launches, for profiles."""

    def __init__(self, weights: Mapping[str, np.ndarray], launches: Sequence[Op], preferences: Preferences) -> None:
        self.weights, self.preferences = weights, preferences
        self.numbers = {op.operation: number for number, op in enumerate(launches)}
        self._kernels: dict[ir.Operation, list[Call]] = {}
        self._lock = threading.Lock()

    def kernels(self, group: Group) -> list[Call]:
        """The kernels of a group, described at its first run."""
        with self._lock:
            if group.operation not in self._kernels:
                self._kernels[group.operation] = kernels(group, self.preferences)
            return self._kernels[group.operation]


@dataclass
class Machine:
    """watch: raises if the run is to end. most: bytes of results that the run may have; None: no limit. Results stay in memory
    until the run ends."""

    code: Code
    watch: Callable[[], None] = lambda: None
    most: int | None = None
    sizes: dict[str, int] = field(default_factory=dict)
    values: dict[ir.Value, np.ndarray] = field(default_factory=dict)
    bytes: int = 0
    events: list[tuple[int, int, int, bool]] = field(default_factory=list)
    began: int = field(default_factory=time.perf_counter_ns)

    # ---- values --------------------------------------------------------------------------------------------------------
    def read(self, value: ir.Value) -> np.ndarray:
        return self.values[value]

    def flag(self, value: ir.Value) -> bool:
        return bool(self.values[value])

    def constant(self, key: str) -> np.ndarray:
        return self.code.weights[key]

    def set(self, value: ir.Value, array: np.ndarray) -> None:
        """Defines a value, and the sizes that its type has symbols of its own for."""
        for dim, size in zip(type_of(value).shape, array.shape, strict=True):
            if (name := name_of(dim)) is not None:
                self.sizes[name] = size
        self.values[value] = array

    def give(self, op: Op, *arrays: np.ndarray) -> None:
        """Defines the results of an op."""
        for result, array in zip(op.operation.results, arrays, strict=True):
            self.set(result, array)

    def empty(self, value: ir.Value) -> np.ndarray:
        """Memory for a result whose sizes are known."""
        return self.allocate(self.shape(value), type_of(value).dtype)

    def allocate(self, shape: Sequence[int], dtype: str) -> np.ndarray:
        """Memory that counts towards the run's limit."""
        elements = 1
        for size in shape:
            elements *= max(size, 0)
        size = elements * numpy_dtype(dtype).itemsize
        self.bytes += size
        if self.most is not None and self.bytes > self.most:
            failed(Status.TOO_LARGE, value=self.bytes)
        try:
            return empty(shape, dtype)
        except (MemoryError, ValueError):
            failed(Status.OUT_OF_MEMORY, value=size)

    # ---- sizes ---------------------------------------------------------------------------------------------------------
    def dim(self, dim: Dim) -> int:
        return size_of(dim, self.sizes)

    def shape(self, value: ir.Value) -> tuple[int, ...]:
        return tuple(self.dim(d) for d in type_of(value).shape)

    def defines(self, op: Op, dim: Dim) -> bool:
        """True for a size that is one of the symbols of a loop."""
        return name_of(dim) in op.symbols

    def check_sizes(self, op: Op) -> None:
        """Ends the run if sizes differ that the op's kernel takes to be equal."""
        for need in op.must_agree():
            self.require(need, full_name(op))

    def require(self, need: Agreement, site: str) -> None:
        size, wanted = self.dim(need.size), self.dim(need.wanted)
        match need.relation:
            case "at most":
                holds = size <= wanted
            case "broadcast":
                holds = size in (1, wanted)
            case "indexed":
                holds = size > 0 or wanted <= 0
            case _:
                holds = size == wanted
        if not holds:
            status = Status.INDEX_OUT_OF_RANGE if need.relation == "indexed" else Status.SHAPE_MISMATCH
            failed(status, site, size)

    # ---- ops -----------------------------------------------------------------------------------------------------------
    def block(self, block: ir.Block) -> None:
        for operation in block.operations:
            op = operation.opview
            self.watch()
            start = time.perf_counter_ns()
            RUNS[op.OP_NAME].run(self, op)
            number = self.code.numbers.get(operation)
            if number is not None:
                self.events.append((number, start - self.began, time.perf_counter_ns() - start, False))


def empty(shape: Sequence[int], dtype: str) -> np.ndarray:
    """Zeros, empty strings or empty lists. Raises MemoryError, and ValueError for sizes that no memory has."""
    made = np.zeros(tuple(shape), numpy_dtype(dtype))
    if dtype in ("string", "list"):
        made.fill("" if dtype == "string" else TensorList())
    return made
