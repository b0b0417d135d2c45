"""A program as text: lines that burn and torch both run, and the arrays it starts from.

    v0 = m.exp(x0)
    v1, v2 = m.scan(lambda c, s: (c * s, c), x1, v0)

`m` is a library (`sides.py`). Where the libraries spell a line differently it has two texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

NAME = re.compile(r"\b[xv]\d+\b")


@dataclass(frozen=True)
class Line:
    """One step. names: of the values it computes. torch: None where torch has no twin of it."""

    names: tuple[str, ...]
    burn: str
    torch: str | None

    @property
    def uses(self) -> frozenset[str]:
        return frozenset(NAME.findall(self.burn))


@dataclass
class Program:
    """Inputs by name (x0, x1 ..) and lines. dtype: the element type of its floats."""

    dtype: str = "float64"
    inputs: dict[str, np.ndarray] = field(default_factory=dict)
    lines: list[Line] = field(default_factory=list)

    def needed(self, outputs: Sequence[str]) -> Program:
        """The program with the lines that these values depend on, and all inputs."""
        wanted, kept = set(outputs), []
        for line in reversed(self.lines):
            if wanted & set(line.names):
                wanted |= line.uses
                kept.append(line)
        return replace(self, lines=kept[::-1])

    def used(self, outputs: Sequence[str]) -> list[str]:
        """The inputs that these values depend on."""
        found = set(outputs).union(*(line.uses for line in self.needed(outputs).lines))
        return [name for name in self.inputs if name in found]

    def text(self, outputs: Sequence[str], side: str = "burn") -> str:
        body = []
        for line in self.needed(outputs).lines:
            expression = line.burn if side == "burn" else line.torch
            body.append(f"    {', '.join(line.names)} = {expression}\n")
        return f"def program({', '.join(self.inputs)}):\n{''.join(body)}    return [{', '.join(outputs)}]\n"

    def mirrored(self, outputs: Sequence[str]) -> bool:
        """True if torch can run it."""
        return all(line.torch is not None for line in self.needed(outputs).lines)

    def function(self, outputs: Sequence[str], side: str, scope: dict[str, Any]) -> Callable[..., list[Any]]:
        own = dict(scope)
        exec(self.text(outputs, side), own)
        return own["program"]
