"""Compiled programs for recorded graphs: found by structure, in this process and in the cache on disk, and run.

A graph whose numbers change from call to call (`x * (1 / step)`) is compiled for each of the first few values. Then the changing
numbers become inputs of one program for all of them.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from burn.caching import artefact_of
from burn.dialect.deferred import Deferred
from burn.dialect.shape import Full
from burn.dialect.types import DTYPES, numpy_dtype
from burn.errors import RunError, TypeMismatch
from burn.lazy.graph import Graph, collect, exact, is_sequence
from burn.options import Options
from burn.runtime import Executable
from burn.runtime.compilations import about
from burn.runtime.debugging import checked
from burn.runtime.device import CPU, Device, device
from burn.runtime.device_array import DeviceArray

PASSES = "lower_complex,simplify{absorb=false},recognise,decompose,simplify,layout,simplify,fuse,release"
"""No weights: nothing to pack or to fold."""

BAKED = 2
"""Programs with different numbers written into them, before those that differ become inputs."""

KEPT = 4096
"""Structures whose programs are kept in memory; the least recently used go first."""


@dataclass
class Entry:
    """A compiled program and what became of it. free: the indices of the graph's numbers that are inputs."""

    executable: Executable
    free: frozenset[int]
    seconds: float
    uses: int = 0


@dataclass
class _Structure:
    """The programs of one key: by the numbers written into them, and the open ones by which numbers are inputs."""

    baked: dict[tuple[Hashable, ...], Entry] = field(default_factory=dict)
    opened: dict[Hashable, Entry] = field(default_factory=dict)


@dataclass(frozen=True)
class Statistics:
    """Since the process began. compiled: programs made (or taken from the disk); hits: evaluations that found theirs."""

    compiled: int
    hits: int


_structures: OrderedDict[Hashable, _Structure] = OrderedDict()
_lock = threading.RLock()  # over the recorded graphs and the table; not held while a program runs
_compiled = _hits = 0


def statistics() -> Statistics:
    return Statistics(_compiled, _hits)


def evaluate(values: Iterable[Deferred]) -> None:
    """Computes values in one program for each device that they are on, except sequences. Raises CompileError, RunError and
    DeviceError."""
    roots = [value for value in values if value.array is None and not is_sequence(value)]
    for name in dict.fromkeys(root.device or "cpu" for root in roots):
        _evaluate([root for root in roots if (root.device or "cpu") == name], device(name))


def _evaluate(values: Iterable[Deferred], where: Device) -> None:
    with _lock:
        roots = [value for value in values if value.array is None]
        if not roots:
            return
        graph = collect(roots)
        entry = find(graph, where)
        arrays = [_at(leaf.array, where) for leaf in graph.leaves]
    try:
        outputs = entry.executable(*arrays, *_numbers(graph, entry.free))
    except RunError as error:
        raise error.renamed(graph.located) from None
    with _lock:
        for value, array in zip(graph.outputs, outputs if isinstance(outputs, tuple) else (outputs,), strict=True):
            if value.array is None:
                value.type = value.type.with_shape(array.shape)  # sizes that the data decided are numbers now
                value.array, value.application, value.entry = array, None, entry


def plan(values: Iterable[Deferred]) -> tuple[Entry, Graph]:
    """The program that would compute values, which are left as they are, and the graph that was recorded of them."""
    with _lock:
        pending = [value for value in values if value.array is None]
        names = list(dict.fromkeys(value.device for value in pending if value.device)) or ["cpu"]
        if len(names) > 1:
            raise TypeMismatch("these tensors are computed by several programs", [f"on {', '.join(names)}"])
        graph = collect(pending)
        return find(graph, device(names[0])), graph


def _at(array: np.ndarray | DeviceArray | None, where: Device) -> np.ndarray | DeviceArray | None:
    """A leaf's elements as a program takes them: what goes anywhere may have been computed on another device."""
    if isinstance(array, DeviceArray) and array.device != where:
        return array.to(where)
    return array


def find(graph: Graph, where: Device = CPU) -> Entry:
    """The program for a graph on a device, compiled if there is none yet."""
    global _hits
    with _lock:
        name = (graph.key, where, checked())
        structure = _structures.setdefault(name, _Structure())
        _structures.move_to_end(name)
        while len(_structures) > KEPT:
            _structures.popitem(last=False)
        table: dict = structure.baked
        numbers = tuple(map(exact, graph.numbers))
        key: Hashable = numbers
        free: frozenset[int] = frozenset()
        if key not in structure.baked and len(structure.baked) >= BAKED:
            free = _differing([*structure.baked, numbers])
            table, key = structure.opened, tuple(None if i in free else n for i, n in enumerate(numbers))
        if key in table:
            _hits += 1
        else:
            table[key] = _make(graph, free, where)
        table[key].uses += 1
        return table[key]


def _make(graph: Graph, free: frozenset[int], where: Device) -> Entry:
    global _compiled
    start = time.perf_counter()
    numbers = tuple(None if i in free else n for i, n in enumerate(graph.numbers))
    identity = f"lazy {graph.key} {numbers}"
    line = next((str(a.line) for a in reversed(graph.applications) if a.line is not None), "")
    with about(f"lazy tensors{f' ({line})' if line else ''}", "a new structure"):
        artefact = artefact_of([identity], lambda: graph.program(free), Options(passes=PASSES, device=where))
    _compiled += 1
    return Entry(Executable(artefact, device=where), free, time.perf_counter() - start)


def _differing(variants: Sequence[tuple[Hashable, ...]]) -> frozenset[int]:
    return frozenset(i for i, column in enumerate(zip(*variants, strict=True)) if len(set(column)) > 1)


def _numbers(graph: Graph, free: frozenset[int]) -> list[np.ndarray]:
    if not free:
        return []
    fulls = [a for a in graph.applications if a.op is Full]
    return [_scalar(graph.numbers[i], fulls[i].types[0].dtype) for i in sorted(free)]


def _scalar(number: float | int, dtype: str) -> np.ndarray:
    if DTYPES[dtype].kind == "uint":
        number = int(number) % (1 << DTYPES[dtype].bits)  # the upper half of uint64 is kept as negative numbers
    return np.array(number, numpy_dtype(dtype))
