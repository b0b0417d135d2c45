"""Compiled programs for recorded graphs: found by structure, in this process and in the cache on disk, and run.

A graph whose numbers differ from call to call (`x * (1 / step)`) is compiled for each of the first few; then the numbers that
were seen to differ become inputs of one program that serves them all.
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
from burn.dialect.types import DTYPES, numpy_dtype
from burn.lazy.graph import Graph, collect, exact
from burn.runtime import Executable

PASSES = "simplify{absorb=false},recognise,decompose,simplify,layout,simplify,fuse,release"
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
    """Computes values in one program. Raises CompileError and RunError."""
    with _lock:
        roots = [value for value in values if value.array is None]
        if not roots:
            return
        graph = collect(roots)
        entry = find(graph)
        arrays = [leaf.array for leaf in graph.leaves]
    outputs = entry.executable(*arrays, *_numbers(graph, entry.free))
    with _lock:
        for value, array in zip(graph.outputs, outputs if isinstance(outputs, tuple) else (outputs,), strict=True):
            if value.array is None:
                value.type = value.type.with_shape(array.shape)  # sizes that the data decided are numbers now
                value.array, value.application, value.entry = array, None, entry


def plan(values: Iterable[Deferred]) -> Entry:
    """The program that would compute values, which are left as they are."""
    with _lock:
        return find(collect(value for value in values if value.array is None))


def find(graph: Graph) -> Entry:
    """The program for a graph, compiled if there is none yet."""
    global _hits
    with _lock:
        structure = _structures.setdefault(graph.key, _Structure())
        _structures.move_to_end(graph.key)
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
            table[key] = _make(graph, free)
        table[key].uses += 1
        return table[key]


def _make(graph: Graph, free: frozenset[int]) -> Entry:
    global _compiled
    start = time.perf_counter()
    numbers = tuple(None if i in free else n for i, n in enumerate(graph.numbers))
    identity = f"lazy {graph.key} {numbers}"
    artefact = artefact_of([identity], lambda: graph.program(free), passes=PASSES)
    _compiled += 1
    return Entry(Executable(artefact), free, time.perf_counter() - start)


def _differing(variants: Sequence[tuple[Hashable, ...]]) -> frozenset[int]:
    return frozenset(i for i, column in enumerate(zip(*variants, strict=True)) if len(set(column)) > 1)


def _numbers(graph: Graph, free: frozenset[int]) -> list[np.ndarray]:
    if not free:
        return []
    fulls = [a for a in graph.applications if a.op.OP_NAME == "full"]
    return [_scalar(graph.numbers[i], fulls[i].types[0].dtype) for i in sorted(free)]


def _scalar(number: float | int, dtype: str) -> np.ndarray:
    if DTYPES[dtype].kind == "uint":
        number = int(number) % (1 << DTYPES[dtype].bits)  # the upper half of uint64 is kept as negative numbers
    return np.array(number, numpy_dtype(dtype))
