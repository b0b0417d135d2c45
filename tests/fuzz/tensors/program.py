"""A program as text: lines that numpy and burn both run, and the arrays it starts from.

    v2 = m.exp(x0)
    v3, v4 = m.topk(v2, 2)

`m` is the side that runs it (`numpy_side.py`, `burn_side.py`). Text can be printed, cut down and run again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

NAME = re.compile(r"\b[xv]\d+\b")


@dataclass(frozen=True)
class Line:
    """One step: the names it gives, and what it computes them with."""

    names: tuple[str, ...]
    expression: str
    many: bool = False  # whether the expression gives a container of them

    @property
    def uses(self) -> frozenset[str]:
        return frozenset(NAME.findall(self.expression))

    def __str__(self) -> str:
        return f"{', '.join(self.names)}{',' * self.many} = {self.expression}"


@dataclass
class Program:
    """Inputs x0, x1 .. and lines."""

    inputs: list[np.ndarray] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)

    def text(self, outputs: Sequence[str]) -> str:
        """The function that computes these values, with the lines that they need."""
        wanted, kept = set(outputs), []
        for line in reversed(self.lines):
            if wanted & set(line.names):
                wanted |= line.uses
                kept.append(line)
        body = [*map(str, reversed(kept)), f"return ({', '.join(outputs)},)"]
        return f"def program({self.parameters}):\n" + "".join(f"    {line}\n" for line in body)

    @property
    def parameters(self) -> str:
        return ", ".join(f"x{i}" for i in range(len(self.inputs)))

    def function(self, outputs: Sequence[str], side: Any) -> Callable[..., tuple[Any, ...]]:
        scope: dict[str, Any] = {"m": side}
        exec(self.text(outputs), scope)
        return scope["program"]
