"""Modules that hold others.

An element's annotation is Any: its attributes (`layers[0].weight`) are those of a class that type checkers do not know.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from burn.errors import Problem, TypeMismatch
from burn.nn.module import Module
from burn.nn.parameter import Parameter


class _Container(Module):
    """Base of containers: modules are elements, so an attribute would not be found by `named_modules`."""

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, (Module, Parameter)):
            hint = "append it, or write a Module that holds it beside the container"
            kind = "module" if isinstance(value, Module) else "parameter"
            problem = Problem(f"'{name}' is no element, so this {kind} would not be part of the module", hint=hint)
            raise TypeMismatch(f"the modules of a {type(self).__name__} are its elements", [problem])
        super().__setattr__(name, value)


class ModuleList(_Container):
    """Modules by number; a path says `blocks.0`."""

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        self._modules = [_checked(self, module) for module in modules]

    def children(self) -> Iterator[tuple[str, Module]]:
        return ((str(i), module) for i, module in enumerate(self._modules))

    def append(self, module: Module) -> None:
        self._modules.append(_checked(self, module))

    def extend(self, modules: Iterable[Module]) -> None:
        for module in modules:
            self.append(module)

    def insert(self, index: int, module: Module) -> None:
        self._modules.insert(index, _checked(self, module))

    def __getitem__(self, index: int) -> Any:
        return self._modules[index]

    def __setitem__(self, index: int, module: Module) -> None:
        self._modules[index] = _checked(self, module)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules)


class ModuleDict(_Container):
    """Modules by name; a path says `heads.classes`. Names are not empty and have no dots."""

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        self._modules: dict[str, Module] = {}
        for name, module in (modules or {}).items():
            self[name] = module

    def children(self) -> Iterator[tuple[str, Module]]:
        return iter(self._modules.items())

    def __getitem__(self, name: str) -> Any:
        return self._modules[name]

    def __setitem__(self, name: str, module: Module) -> None:
        self._modules[_name(self, name)] = _checked(self, module)

    def __delitem__(self, name: str) -> None:
        del self._modules[name]

    def __contains__(self, name: object) -> bool:
        return name in self._modules

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def keys(self) -> Iterable[str]:
        return self._modules.keys()

    def values(self) -> Iterable[Any]:
        return self._modules.values()

    def items(self) -> Iterable[tuple[str, Any]]:
        return self._modules.items()


class Sequential(ModuleList):
    """Modules in sequence; each receives the result of the one before. Modules may have names: `Sequential(up=nn.Linear(4, 8),
    act=nn.ReLU())` has the paths `up` and `act`."""

    def __init__(self, *modules: Module, **named: Module) -> None:
        if modules and named:
            raise TypeMismatch("a Sequential takes modules by position or by name", ["not both"])
        super().__init__([*modules, *named.values()])
        self._names = tuple(_name(self, name) for name in named)

    def children(self) -> Iterator[tuple[str, Module]]:
        names = self._names
        return ((names[i] if i < len(names) else str(i), module) for i, module in enumerate(self._modules))

    def forward(self, x: Any) -> Any:
        for module in self:
            x = module(x)
        return x

    def __setattr__(self, name: str, value: Any) -> None:
        if name in vars(self).get("_names", ()):
            self[self._names.index(name)] = value
        else:
            super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and name in vars(self).get("_names", ()):
            return self._modules[self._names.index(name)]
        return super().__getattr__(name)  # type: ignore[misc]  # which raises AttributeError


def replace(owner: Module, old: Module, name: str, new: Module) -> None:
    """Puts a module where another one is: `name` is its name in the owner's children."""
    match owner:
        case ModuleList():
            owner[[module is old for module in owner].index(True)] = new
        case ModuleDict():
            owner[name] = new
        case _:
            setattr(owner, name, new)


def _checked(owner: Module, module: Any) -> Module:
    if not isinstance(module, Module):
        raise TypeMismatch(f"a {type(owner).__name__} holds modules", [f"not a {type(module).__name__}"])
    return module


def _name(owner: Module, name: Any) -> str:
    if not isinstance(name, str) or not name or "." in name:
        raise TypeMismatch(f"{name!r} is no name in a {type(owner).__name__}", ["names are texts without dots"])
    return name
