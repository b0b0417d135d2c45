"""Artefacts whose code is a program as text, and which Python runs instead of the native runtime: `Hosted`.

The reference device and XLA load such. Here are what they share: reading the program, checks of inputs, sizes, limits.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from burn.codegen.failure import Failed, failed
from burn.dialect.dims import Dim, Expr, Symbol, evaluate, symbols
from burn.dialect.mlir import context
from burn.dialect.op import Op
from burn.dialect.program import Program
from burn.dialect.query import blocks
from burn.dialect.text import parse_text
from burn.dialect.types import LARGEST, TensorType, numpy_dtype, type_of
from burn.errors import BurnError
from burn.runtime import _native
from burn.runtime.abi import Status
from burn.runtime.artefact import Artefact, ValueSpec


class Hosted(ABC):
    """See `Loaded`. The outputs of a run are new arrays; donated inputs stay as they are."""

    def __init__(self, artefact: Artefact) -> None:
        """Raises ValueError if the artefact's code is not a program."""
        try:
            self.program = parse_text(bytes(artefact.code).decode(), file="the compiled program")
        except (BurnError, UnicodeDecodeError) as error:
            raise ValueError(str(error)) from error
        self.artefact = artefact
        with context():
            ops = operators(self.program)
            keys = dict.fromkeys(op.key for op in ops if op.OP_NAME == "weight")
            self.weights = {key: c.array() for key, c in zip(keys, artefact.constants, strict=True)}
            self.types = [type_of(value) for value in self.program.inputs]
        self.sites: Mapping[str, int] = {}
        """The numbers of source nodes in the artefact."""
        self._most = 0
        self._lock = threading.Lock()
        self._runs: set[threading.Event] = set()

    def arena_bytes(self) -> int:
        """The bytes of the largest run."""
        return self._most

    def measured(self, bytes: int) -> None:
        """Called at the end of each run with its bytes, also if it failed."""
        with self._lock:
            self._most = max(self._most, bytes)

    @abstractmethod
    def execute(
        self, inputs: Sequence[np.ndarray], sizes: dict[str, int], watch: Callable[[], None], most: int | None
    ) -> tuple[list[Any], list[tuple[int, int, int, bool]]]:
        """The outputs, and events. watch: raises if the run is to end. most: bytes of results that it may have. Raises Failed."""

    def run(
        self,
        arrays: Sequence[Any],
        donated: Sequence[int] | None = None,
        *,
        profile: bool = False,
        keep: bool | None = None,
        seconds: float | None = None,
        bytes: int | None = None,
    ) -> Any:
        inputs = self._checked(arrays)
        cancelled = threading.Event()
        deadline = time.monotonic() + seconds if seconds else None

        def watch() -> None:
            if cancelled.is_set():
                failed(Status.CANCELLED)
            if deadline is not None and time.monotonic() > deadline:
                failed(Status.TOO_LONG)

        with self._lock:
            self._runs.add(cancelled)
        try:
            with context():
                outputs, events = self.execute(inputs, bound(self.types, inputs), watch, bytes or None)
        except Failed as error:
            raise error.error(self.sites) from None
        finally:
            with self._lock:
                self._runs.discard(cancelled)
        if not profile:
            return outputs
        rows = [(0, 0) for _ in self.artefact.kernels]
        for number, _, took, _ in events:
            rows[number] = rows[number][0] + 1, rows[number][1] + took
        return outputs, rows, events

    def cancel(self) -> None:
        with self._lock:
            for run in self._runs:
                run.set()

    def _checked(self, arrays: Sequence[Any]) -> list[np.ndarray]:
        """Raises InputMismatch for inputs that are not of the declared types."""
        specs: list[ValueSpec | None] = list(self.artefact.signature.inputs)
        specs += [None] * self.artefact.signature.random_state
        if len(arrays) != len(specs):
            raise _native.InputMismatch("number of inputs")
        found: list[np.ndarray] = []
        for number, (array, spec, type_) in enumerate(zip(arrays, specs, self.types, strict=True)):
            if spec is not None and spec.containers:
                found.append(self.contained(array))
                continue
            fits = type(array) is np.ndarray and array.dtype == numpy_dtype(type_.dtype) and array.ndim == type_.rank
            if not fits or any(isinstance(d, int) and d != n for d, n in zip(type_.shape, array.shape, strict=True)):
                raise _native.InputMismatch(f"input {number}")
            if type_.dtype == "string" and not all(isinstance(text, str) for text in array.reshape(-1)):
                raise _native.InputMismatch(f"input {number}")
            found.append(np.ascontiguousarray(array).reshape(array.shape))
        return found

    @abstractmethod
    def contained(self, value: Any) -> Any:
        """An input that is a sequence or an optional, as `execute` takes it."""


def bound(types: Sequence[TensorType], inputs: Sequence[Any]) -> dict[str, int]:
    """The sizes of the inputs: symbols that are an axis first, then those that an axis depends on in a straight line. Raises
    InputMismatch and Failed."""
    sizes: dict[str, int] = {}
    axes: list[tuple[int, Dim, int]] = [
        (number, dim, size)
        for number, (type_, array) in enumerate(zip(types, inputs, strict=True))
        if isinstance(array, np.ndarray) and array.ndim == type_.rank
        for dim, size in zip(type_.shape, array.shape, strict=True)
    ]
    for number, dim, size in axes:
        if (name := name_of(dim)) is not None and sizes.setdefault(name, size) != size:
            raise _native.InputMismatch(f"input {number}")
    for number, dim, size in axes:
        unknown = symbols(dim) - sizes.keys()
        if len(unknown) == 1:
            sizes |= _solved(number, dim, size, next(iter(unknown)), sizes)
    for number, dim, size in axes:
        if symbols(dim) <= sizes.keys() and size_of(dim, sizes) != size:
            failed(Status.INPUT_MISMATCH, value=number)
    return sizes


def _solved(number: int, dim: Dim, size: int, name: str, sizes: Mapping[str, int]) -> dict[str, int]:
    """The size of a symbol that an axis is a linear expression of; nothing if it is not."""
    at = [evaluate(dim, {**sizes, name: value}) for value in (0, 1, 2)]
    factor = at[1] - at[0]
    if factor == 0 or at[2] - at[1] != factor:
        return {}
    found = (size - at[0]) // factor
    if found < 0:
        failed(Status.INPUT_MISMATCH, value=number)
    return {name: found}


def size_of(dim: Dim, sizes: Mapping[str, int]) -> int:
    """Raises Failed for a size beyond 64 bits."""
    size = dim if isinstance(dim, int) else evaluate(dim, sizes)
    if abs(size) > LARGEST:
        failed(Status.SIZE_OVERFLOW)
    return size


def name_of(dim: Dim) -> str | None:
    """The name of a dim that is a symbol."""
    atom = dim.terms[0][0][0] if isinstance(dim, Expr) and dim.is_symbol else None
    return atom.name if isinstance(atom, Symbol) else None


def operators(program: Program) -> list[Op]:
    """The ops of a program and of its control flow, in order; not those inside of groups."""
    return [
        operation.opview
        for block in blocks(program.block)
        for operation in block.operations
        if isinstance(operation.opview, Op)
    ]
