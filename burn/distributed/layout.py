"""Layouts: how the elements of a tensor lie on the devices of a mesh, and the rules that give parameters theirs.

A layout names for each axis of a tensor the axes of the mesh that divide it. Device `i` of `n` along these has the i-th of n
equal blocks. A tensor axis without a name is whole on every device.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from burn.errors import Problem, near

AxisSpec: TypeAlias = str | tuple[str, ...] | None
"""The mesh axes that divide one axis of a tensor: a name, several, or None."""

Rule: TypeAlias = tuple[str, Sequence[AxisSpec]]
"""A regular expression that is found in parameters' paths, and the mesh axes of the parameter's axes."""


@dataclass(frozen=True)
class Layout:
    """axes: for each axis of the tensor the mesh axes that divide it; axes behind the last are whole."""

    axes: tuple[tuple[str, ...], ...] = ()

    @staticmethod
    def of(axes: Sequence[AxisSpec]) -> Layout:
        """Trailing whole axes are dropped, so that equal layouts compare equal."""
        named = [(axis,) if isinstance(axis, str) else tuple(axis or ()) for axis in axes]
        while named and not named[-1]:
            named.pop()
        return Layout(tuple(named))

    @property
    def names(self) -> tuple[str, ...]:
        """All mesh axes that divide something."""
        return tuple(name for names in self.axes for name in names)

    @property
    def is_replicated(self) -> bool:
        return not self.names

    def divided(self, axis: int, names: Sequence[str]) -> Layout:
        """The same with one more tensor axis divided."""
        axes = [*self.axes, *[()] * (axis + 1 - len(self.axes))]
        axes[axis] = (*axes[axis], *names)
        return Layout.of(axes)

    def problems(self, shape: Sequence[int], sizes: Mapping[str, int]) -> Iterator[str]:
        """Why a tensor of this shape cannot be divided so."""
        if len(self.axes) > len(shape):
            yield f"it has {len(shape)} axes, and the layout divides axis {len(self.axes) - 1}"
            return
        for axis, (size, names) in enumerate(zip(shape, self.axes, strict=False)):
            count = prod(sizes[name] for name in names)
            if size % count:
                devices = " x ".join(f"'{name}'" for name in names)
                yield f"axis {axis} has size {size}, which the {count} devices of mesh axis {devices} do not divide"

    def __str__(self) -> str:
        """As in "[data, -, model]"; "replicated" if no axis is divided."""
        if self.is_replicated:
            return "replicated"
        return f"[{', '.join(' x '.join(names) or '-' for names in self.axes)}]"


REPLICATED = Layout()


def largest_axis(shape: Sequence[int], layout: Layout, count: int) -> int | None:
    """The longest axis that the layout leaves whole and `count` divides, for fully sharded parameters. None if there is none."""
    free = [
        axis
        for axis, size in enumerate(shape)
        if size >= count and size % count == 0 and not (axis < len(layout.axes) and layout.axes[axis])
    ]
    return max(free, key=lambda axis: (shape[axis], -axis)) if free else None


def checked_rules(rules: Sequence[Rule], known: Sequence[str]) -> Iterator[Problem]:
    """The problems of rules for a mesh of these axes."""
    for rule in rules:
        if not (isinstance(rule, tuple) and len(rule) == 2 and isinstance(rule[0], str)):
            yield Problem(f"{rule!r} is no rule", hint="a rule is (pattern, axes), such as ('embed', ('model', None))")
            continue
        pattern, axes = rule
        try:
            re.compile(pattern)
        except re.error as error:
            yield Problem(f"the pattern '{pattern}' is no regular expression: {error}")
        if isinstance(axes, str) or not isinstance(axes, Sequence):
            yield Problem(f"the axes of '{pattern}' are {axes!r}", hint=f"write ({axes!r},), one entry for each axis")
            continue
        names = Layout.of(axes).names
        for name in dict.fromkeys(names):
            if name not in known:
                yield Problem(f"'{pattern}' names the mesh axis {name!r}", hint=near(str(name), known))
            elif names.count(name) > 1:
                yield Problem(f"'{pattern}' divides two axes of a tensor along the mesh axis '{name}'")
