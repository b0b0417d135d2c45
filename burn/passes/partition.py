"""Partitions a program over the devices of a mesh: the result is the program of one device, with collectives.

The shardings of inputs and outputs are given. Shardings spread through the program along a table of factors for each op class
(`sharding/`). Each op is then built on the device's blocks, with collectives where shardings differ. Sizes must be numbers.
Programs of different devices have the same ops, and differ in the offsets of slices alone. Source: GSPMD (arXiv 2105.04663),
Shardy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from burn.dialect.collective import COLLECTIVES
from burn.dialect.mlir import context, ir
from burn.dialect.program import Program
from burn.dialect.query import erase_dead
from burn.dialect.types import type_of
from burn.errors import CompileError, Problem
from burn.passes.environment import ANYWHERE, Environment
from burn.passes.pipeline import Counts, register
from burn.passes.sharding.buckets import awaited, bucketed
from burn.passes.sharding.grid import Axes, Grid
from burn.passes.sharding.lower import lower
from burn.passes.sharding.order import hoisted, updates_last
from burn.passes.sharding.propagate import propagate

BUCKET = 32 << 20
"""Bytes of the operands of a bucket."""


@register
@dataclass(frozen=True)
class Partition:
    """mesh: names and sizes, "data:2,model:4". rank: the process whose program is made. ranks: the process of each device
    ("0,1"), by default counted from 0. inputs, outputs: their shardings, with ";" between values and "," between axes; an axis
    has mesh axes joined by "+", or "-": "data,-;-;model+data". Axes behind the last are whole. batch: how many of the first
    inputs are of a batch. bucket: bytes of collectives that become one. wait: results are awaited where they are used."""

    name: ClassVar[str] = "partition"
    mesh: str = ""
    rank: int = 0
    ranks: str = ""
    inputs: str = ""
    outputs: str = ""
    batch: int = 0
    bucket: int = BUCKET
    wait: bool = False

    def run(self, program: Program, env: Environment = ANYWHERE) -> Counts:
        sizes = {name: int(size) for name, size in (part.split(":") for part in self.mesh.split(",") if part)}
        ranks = tuple(int(rank) for rank in self.ranks.split(",") if rank)
        grid = Grid(sizes, self.rank, ranks)
        with context():
            inputs, outputs = _read(self.inputs, program.inputs, sizes), _read(self.outputs, program.outputs, sizes)
            erase_dead(program.block, COLLECTIVES)
            found = propagate(program, grid, inputs, outputs, self.batch)
            lower(program, found, inputs, outputs)
            erase_dead(program.block, COLLECTIVES)  # here the ops of all devices are still the same
            hoisted(program)
            count = bucketed(program, self.bucket)
            if self.wait:
                awaited(program)
                updates_last(program)
        return {"collectives": count}


def _read(text: str, values: list[ir.Value], sizes: dict[str, int]) -> list[Axes]:
    """The shardings of values. Mesh axes of one device divide nothing."""
    parts = text.split(";") if text else []
    if len(parts) > len(values):
        problem = Problem(f"{len(parts)} shardings are given for {len(values)} values")
        raise CompileError("the program cannot be partitioned", [problem])
    found = []
    for value, part in zip(values, [*parts, *[""] * (len(values) - len(parts))], strict=True):
        rank = type_of(value).rank
        named = [tuple(n for n in axis.split("+") if sizes.get(n, 1) > 1) for axis in part.split(",") if axis]
        found.append((*named, *((),) * (rank - len(named)))[:rank])
    return found


def shardings_text(shardings: list[Axes]) -> str:
    """The form of `inputs` and `outputs`."""
    return ";".join(",".join("+".join(names) or "-" for names in axes) or "-" for axes in shardings)
