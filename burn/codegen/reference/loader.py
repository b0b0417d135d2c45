"""Runs artefacts of the reference device: the loader that its registry entry names."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from burn.codegen.reference.failure import Failed, failed
from burn.codegen.reference.lists import items_of_element, listed
from burn.codegen.reference.machine import Code, Machine, name_of
from burn.codegen.reference.printer import is_launch, operators, sites_of
from burn.dialect.dims import Dim, evaluate, symbols
from burn.dialect.mlir import context
from burn.dialect.op import Op
from burn.dialect.text import parse_text
from burn.dialect.types import numpy_dtype, type_of
from burn.errors import BurnError, Problem
from burn.kernels.preferences import Preferences
from burn.runtime import _native
from burn.runtime.abi import Status
from burn.runtime.artefact import Artefact, Target, ValueSpec
from burn.runtime.device import Device


class ReferenceLoader:
    """See `Loader`."""

    def cannot_run(self, target: Target, device: Device) -> list[Problem]:
        return device.cannot_run(target)

    def load(self, artefact: Artefact, device: Device) -> Interpreted:
        return Interpreted(artefact)


def loader() -> ReferenceLoader:
    return ReferenceLoader()


class Interpreted:
    """See `Loaded`. The outputs of a run are new arrays; donated inputs stay as they are."""

    def __init__(self, artefact: Artefact) -> None:
        """Raises ValueError if the artefact's code is not a program."""
        try:
            self.program = parse_text(bytes(artefact.code).decode(), file="the reference program")
        except (BurnError, UnicodeDecodeError) as error:
            raise ValueError(str(error)) from error
        self.artefact = artefact
        with context():
            ops = list(operators(self.program))
            keys = dict.fromkeys(op.key for op in ops if op.OP_NAME == "weight")
            weights = {key: c.array() for key, c in zip(keys, artefact.constants, strict=True)}
            launches: list[Op] = [op for op in ops if is_launch(op)]
            self.sites = {name: number for number, name in reversed(list(enumerate(sites_of(self.program))))}
            self.code = Code(weights, launches, Preferences())
            self.types = [type_of(value) for value in self.program.inputs]
        self._lock = threading.Lock()
        self._runs: set[threading.Event] = set()
        self._most = 0

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

        machine = Machine(self.code, watch, bytes or None)
        with self._lock:
            self._runs.add(cancelled)
        try:
            with context():
                outputs = self._run(machine, inputs)
        except Failed as error:
            raise error.told(self.sites) from None
        finally:
            with self._lock:
                self._runs.discard(cancelled)
                self._most = max(self._most, machine.bytes)
        if not profile:
            return outputs
        rows = [(0, 0) for _ in self.artefact.kernels]
        for number, _, took, _ in machine.events:
            rows[number] = rows[number][0] + 1, rows[number][1] + took
        return outputs, rows, machine.events

    def cancel(self) -> None:
        with self._lock:
            for run in self._runs:
                run.set()

    def arena_bytes(self) -> int:
        return self._most

    def _run(self, machine: Machine, inputs: Sequence[np.ndarray]) -> list[Any]:
        self._bind(machine, inputs)
        machine.block(self.program.block)
        specs = self.artefact.signature.outputs
        results = [machine.read(value) for value in self.program.outputs]
        machine.bytes += sum(array.nbytes for array in results)
        if machine.most is not None and machine.bytes > machine.most:
            failed(Status.TOO_LARGE, value=machine.bytes)
        return [_given(array, spec.containers) for array, spec in zip(results, specs, strict=True)]

    # ---- inputs --------------------------------------------------------------------------------------------------------
    def _checked(self, arrays: Sequence[Any]) -> list[np.ndarray]:
        """Raises InputMismatch for inputs that are not of the declared types."""
        specs: list[ValueSpec | None] = list(self.artefact.signature.inputs)
        specs += [None] * self.artefact.signature.random_state
        if len(arrays) != len(specs):
            raise _native.InputMismatch("number of inputs")
        found: list[np.ndarray] = []
        for number, (array, spec, type_) in enumerate(zip(arrays, specs, self.types, strict=True)):
            if spec is not None and spec.containers:
                found.append(_contained(array))
                continue
            fits = type(array) is np.ndarray and array.dtype == numpy_dtype(type_.dtype) and array.ndim == type_.rank
            if not fits or any(isinstance(d, int) and d != n for d, n in zip(type_.shape, array.shape, strict=True)):
                raise _native.InputMismatch(f"input {number}")
            if type_.dtype == "string" and not all(isinstance(text, str) for text in array.reshape(-1)):
                raise _native.InputMismatch(f"input {number}")
            found.append(np.ascontiguousarray(array).reshape(array.shape))
        return found

    def _bind(self, machine: Machine, inputs: Sequence[np.ndarray]) -> None:
        """The sizes of the inputs: symbols that are an axis first, then those that an axis depends on in a straight line."""
        axes: list[tuple[int, Dim, int]] = [
            (number, dim, size)
            for number, (type_, array) in enumerate(zip(self.types, inputs, strict=True))
            if array.ndim == type_.rank
            for dim, size in zip(type_.shape, array.shape, strict=True)
        ]
        for number, dim, size in axes:
            if (name := name_of(dim)) is not None and machine.sizes.setdefault(name, size) != size:
                raise _native.InputMismatch(f"input {number}")
        for number, dim, size in axes:
            unknown = symbols(dim) - machine.sizes.keys()
            if len(unknown) == 1:
                machine.sizes |= _solved(number, dim, size, next(iter(unknown)), machine.sizes)
        for number, dim, size in axes:
            if symbols(dim) <= machine.sizes.keys() and machine.dim(dim) != size:
                failed(Status.INPUT_MISMATCH, value=number)
        for value, array in zip(self.program.inputs, inputs, strict=True):
            machine.values[value] = array


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


def _contained(value: Any) -> np.ndarray:
    """Lists of arrays as a value of type `list`."""
    return (
        listed(tuple(map(_contained, value)))
        if isinstance(value, list)
        else np.ascontiguousarray(value).reshape(value.shape)
    )


def _given(array: np.ndarray, containers: Sequence[str]) -> Any:
    """An output as the caller gets it: a new array, lists, or None for an optional without a value."""
    if not containers:
        return np.array(array, order="C")
    items = [_given(item, containers[1:]) for item in items_of_element(array)]
    if containers[0] == "optional":
        return items[0] if items else None
    return items
