"""How other frameworks name and lay out a layer's parameters: a registry that layer classes enter their rules in.

A rule says, for one layer, which of its parameters come from which tensors, and what has to be done to them:

    @rule(Linear, "burn")
    def _(layer):
        yield Part("weight", ("weight",), (layer.weight.shape[::-1],), np.transpose, "transposed")

Paths are relative to the layer. A parameter that no rule names is taken under its own name as it is. There may be several
parts for one parameter: the first whose tensors are all there is taken. Classes inherit rules. Enter at `parts`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

Shape = tuple[int, ...]
LAYOUTS = ("torch", "burn", "flax")
"""Whose: PyTorch's, those of Burn, the Rust framework, and Flax's."""


@dataclass(frozen=True)
class Clash:
    """Two layers of one name that compute different things: what this one is, what the other is, and what to do."""

    ours: str
    theirs: str
    hint: str


@dataclass(frozen=True)
class Part:
    """The source of one parameter.

    `sources`: tensors, whose shapes must be `shapes`. `convert`: from those, as arrays, to the parameter's elements; None if they
    are the source's own. `how`: the same in words, for the report. `clash`: the reason why this layer would compute something
    else with them than the source's layer."""

    target: str
    sources: tuple[str, ...]
    shapes: tuple[Shape, ...]
    convert: Callable[..., np.ndarray] | None = None
    how: str = ""
    clash: Clash | None = None

    def under(self, prefix: str) -> Part:
        """The same with paths from the module that the layer is in."""
        if not prefix:
            return self
        return replace(
            self, target=f"{prefix}.{self.target}", sources=tuple(f"{prefix}.{source}" for source in self.sources)
        )


Rule = Callable[[Any], Iterable[Part]]
_RULES: dict[tuple[type, str], Rule] = {}
_NEEDLESS: dict[type, dict[str, str]] = {}


def rule(kind: type, *layouts: str) -> Callable[[Rule], Rule]:
    """Registers how a class of layers is laid out elsewhere."""
    unknown = [name for name in layouts if name not in LAYOUTS]
    if unknown or not layouts:
        raise ValueError(f"layouts are {', '.join(LAYOUTS)}, not {', '.join(unknown)}")

    def enter(function: Rule) -> Rule:
        _RULES.update({(kind, layout): function for layout in layouts})
        return function

    return enter


def needless(kind: type, names: Mapping[str, str]) -> None:
    """Registers tensors of a class of layers that inference has no use for, by name, and why."""
    _NEEDLESS[kind] = dict(names)


def parts(layer: Any, layout: str) -> list[Part]:
    """The parts by a layer's rule for a layout; none without a rule."""
    for kind in type(layer).__mro__:
        if (kind, layout) in _RULES:
            return list(_RULES[kind, layout](layer))
    return []


def needless_of(layer: Any) -> Mapping[str, str]:
    """Tensors of a layer that need not go anywhere."""
    for kind in type(layer).__mro__:
        if kind in _NEEDLESS:
            return _NEEDLESS[kind]
    return {}
