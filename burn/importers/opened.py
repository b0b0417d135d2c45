"""An imported model whose weights are inputs of its program rather than constants in it: what can be trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from burn.dialect.program import Program
from burn.dialect.weights import Weight


@dataclass(frozen=True)
class Opened:
    """parameters: by an input's number, the name of the weight that it is; the other inputs are the model's. weights: their
    elements, by name. buffers: those that training does not move: running statistics, tables. frozen: those that could be
    moved, and are not unless somebody asks for it. What the program gives buffers next are outputs (`program.renews`)."""

    program: Program
    parameters: Mapping[int, str]
    weights: Mapping[str, Weight]
    buffers: frozenset[str] = frozenset()
    frozen: frozenset[str] = field(default=frozenset())
