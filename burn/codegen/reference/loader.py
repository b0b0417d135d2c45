"""Runs artefacts of the reference device: the loader that its registry entry names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from burn.codegen.failure import failed
from burn.codegen.hosted import Hosted, operators
from burn.codegen.reference.lists import items_of_element, listed
from burn.codegen.reference.machine import Code, Machine
from burn.codegen.reference.printer import is_launch, sites_of
from burn.dialect.mlir import context
from burn.errors import Problem
from burn.kernels.preferences import Preferences
from burn.runtime.abi import Status
from burn.runtime.artefact import Artefact, Target
from burn.runtime.device import Device


class ReferenceLoader:
    """See `Loader`."""

    def cannot_run(self, target: Target, device: Device) -> list[Problem]:
        return device.cannot_run(target)

    def load(self, artefact: Artefact, device: Device) -> Interpreted:
        return Interpreted(artefact)


def loader() -> ReferenceLoader:
    return ReferenceLoader()


class Interpreted(Hosted):
    """See `Loaded`."""

    def __init__(self, artefact: Artefact) -> None:
        super().__init__(artefact)
        with context():
            launches = [op for op in operators(self.program) if is_launch(op)]
            self.sites = {name: number for number, name in reversed(list(enumerate(sites_of(self.program))))}
            self.code = Code(self.weights, launches, Preferences())

    def execute(
        self, inputs: Sequence[np.ndarray], sizes: dict[str, int], watch: Callable[[], None], most: int | None
    ) -> tuple[list[Any], list[tuple[int, int, int, bool]]]:
        machine = Machine(self.code, watch, most, sizes)
        machine.values |= zip(self.program.inputs, inputs, strict=True)
        try:
            machine.block(self.program.block)
            results = [machine.read(value) for value in self.program.outputs]
            machine.bytes += sum(array.nbytes for array in results)
            if most is not None and machine.bytes > most:
                failed(Status.TOO_LARGE, value=machine.bytes)
        finally:
            self.measured(machine.bytes)
        specs = self.artefact.signature.outputs
        outputs = [_given(array, spec.containers) for array, spec in zip(results, specs, strict=True)]
        return outputs, machine.events

    def contained(self, value: Any) -> np.ndarray:
        """Lists of arrays as a value of type `list`."""
        if isinstance(value, list):
            return listed(tuple(map(self.contained, value)))
        return np.ascontiguousarray(value).reshape(value.shape)


def _given(array: np.ndarray, containers: Sequence[str]) -> Any:
    """An output as the caller gets it: a new array, lists, or None for an optional without a value."""
    if not containers:
        return np.array(array, order="C")
    items = [_given(item, containers[1:]) for item in items_of_element(array)]
    if containers[0] == "optional":
        return items[0] if items else None
    return items
