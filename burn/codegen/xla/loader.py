"""Runs artefacts with XLA: the loader that its registry entry names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from burn.codegen.hosted import Hosted
from burn.codegen.xla import client
from burn.codegen.xla.machine import Machine, TensorList
from burn.codegen.xla.modules import Modules
from burn.codegen.xla.plan import Plan
from burn.codegen.xla.printer import sites_of
from burn.dialect.mlir import context
from burn.dialect.types import dtype_of_numpy
from burn.errors import BurnError, Problem
from burn.runtime.artefact import Artefact, Target
from burn.runtime.device import Device


class XlaLoader:
    """See `Loader`."""

    def cannot_run(self, target: Target, device: Device) -> list[Problem]:
        problems = device.cannot_run(target)
        try:
            client.check_installed()
        except BurnError as error:
            problems += error.problems
        return problems

    def load(self, artefact: Artefact, device: Device) -> Loaded:
        return Loaded(artefact)


def loader() -> XlaLoader:
    return XlaLoader()


class Loaded(Hosted):
    """See `burn.runtime.loader.Loaded`. Time limits hold between modules: XLA does not interrupt one."""

    def __init__(self, artefact: Artefact) -> None:
        super().__init__(artefact)
        with context():
            self.plan = Plan.of(self.program.block)
            self.sites = {name: number for number, name in enumerate(sites_of(self.program))}
        self.modules = Modules(client.client(), self.weights)

    def execute(
        self, inputs: Sequence[np.ndarray], sizes: dict[str, int], watch: Callable[[], None], most: int | None
    ) -> tuple[list[Any], list[tuple[int, int, int, bool]]]:
        machine = Machine(self.plan, self.modules, watch, most, sizes)
        for value, array, type_ in zip(self.program.inputs, inputs, self.types, strict=True):
            machine.values[value] = (
                machine.put(array, type_.dtype) if isinstance(array, np.ndarray) else self._held(machine, array)
            )
        try:
            machine.block(self.program.block)
        finally:
            self.measured(machine.bytes)
        given = set(self.program.inputs)
        outputs = []
        for value, spec in zip(self.program.outputs, self.artefact.signature.outputs, strict=True):
            made = _given(machine, machine.read(value), spec.containers)
            own = value not in given and not spec.containers
            outputs.append(made if own else _copied(made))
        return outputs, machine.events

    def contained(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.contained(item) for item in value]
        return np.ascontiguousarray(value).reshape(value.shape)

    def _held(self, machine: Machine, value: Any) -> Any:
        if isinstance(value, list):
            return TensorList(tuple(self._held(machine, item) for item in value))
        return machine.put(value, dtype_of_numpy(value.dtype))


def _copied(value: Any) -> Any:
    if isinstance(value, list):
        return [_copied(item) for item in value]
    return None if value is None else np.array(value, order="C")


def _given(machine: Machine, value: Any, containers: Sequence[str]) -> Any:
    """An output as the caller gets it: an array, lists, or None for an optional without a value."""
    if not containers:
        return machine.fetch(value)
    items = [_given(machine, item, containers[1:]) for item in value.items]
    if containers[0] == "optional":
        return items[0] if items else None
    return items
