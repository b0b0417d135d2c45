"""Modules that hold others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from burn.nn.module import Module


class ModuleList(Module):
    """Modules by number; a path says `blocks.0`."""

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        self._modules = list(modules)

    def children(self) -> Iterator[tuple[str, Module]]:
        return ((str(i), module) for i, module in enumerate(self._modules))

    def append(self, module: Module) -> None:
        self._modules.append(module)

    def __getitem__(self, index: int) -> Module:
        return self._modules[index]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules)


class Sequential(ModuleList):
    """Modules one after another."""

    def __init__(self, *modules: Module) -> None:
        super().__init__(modules)

    def forward(self, x: Any) -> Any:
        for module in self:
            x = module(x)
        return x
