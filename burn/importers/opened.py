"""An imported model whose weights are inputs of its program rather than constants in it: what can be trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from burn.dialect.program import Program
from burn.dialect.weights import Weight


@dataclass(frozen=True)
class Opened:
    """A program with a model's weights as inputs.

    `parameters`: the name of the weight, by the input's number; the other inputs are the model's. `weights`: their elements, by
    name. `buffers`: weights that training does not update: running statistics, tables. `frozen`: weights that are not trained by
    default, but could be. New values of buffers are outputs (`program.renews`)."""

    program: Program
    parameters: Mapping[int, str]
    weights: Mapping[str, Weight]
    buffers: frozenset[str] = frozenset()
    frozen: frozenset[str] = field(default=frozenset())
