"""A program of the whole mesh as the program of one of its devices: `of_one_device`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from burn.dialect.attention_gradient import MASK_GRADIENT
from burn.dialect.collective import COLLECTIVES
from burn.dialect.dims import Dim, Expr, Symbol
from burn.dialect.mlir import context
from burn.dialect.op import Op
from burn.dialect.program import Program
from burn.dialect.query import blocks
from burn.dialect.types import type_of
from burn.distributed.communication import Collective
from burn.distributed.engine import Port
from burn.distributed.layout import Layout
from burn.distributed.mesh import Mesh
from burn.distributed.spmd.elements import axes_of
from burn.passes import pipeline
from burn.passes.environment import Environment
from burn.passes.partition import shardings_text
from burn.passes.sharding.grid import Grid
from burn.passes.sizes import replace_sizes

KEPT = f"attention+attention_forward+attention_backward+{MASK_GRADIENT}+windows"
"""Composites with kernels of their own, and features of these (`Op.kernel_features`), which have rules in the pass."""

BEFORE = f"lower_complex,simplify{{absorb=false}},recognise,decompose{{keep={KEPT}}},simplify"
"""Ops are primitive before they are divided."""

NAMES = {
    "all_reduce": "all-reduce",
    "all_gather": "all-gather",
    "reduce_scatter": "reduce-scatter",
    "collective_broadcast": "collective-broadcast",
}


@dataclass(frozen=True)
class Divided:
    """program: of one device. groups: the groups of its collectives, and their sizes. collectives: those of a run. described: the
    same in full, which all processes must have alike."""

    program: Program
    groups: tuple[tuple[tuple[int, ...], int], ...]
    collectives: tuple[Collective, ...]
    described: tuple[str, ...]


def of_one_device(
    program: Program,
    mesh: Mesh,
    grid: Grid,
    inputs: Sequence[Port],
    outputs: Sequence[Layout],
    donated: Mapping[int, int],
    env: Environment,
) -> Divided:
    """See `burn.distributed.engine.Engine.compile`. The random state becomes an input like the others."""
    own = program.copy()
    with context():
        replace_sizes(own, _sizes(own, inputs))
        kept = [type_of(value).rank for value in own.outputs]
    pipeline.run(pipeline.parse(BEFORE), own, env)
    into = [axes_of(port.layout, len(port.shape)) for port in inputs]
    out = [axes_of(layout, rank) for layout, rank in zip(outputs, kept, strict=True)]
    batch = sum(1 for port in inputs if port.batch)
    mesh_text = ",".join(f"{name}:{size}" for name, size in grid.sizes.items())
    options = [f"mesh={mesh_text}", f"rank={grid.rank}", f"batch={batch}", "wait"]
    options += [f"ranks={','.join(map(str, grid.ranks))}"] if grid.ranks else []
    options += [f"inputs={shardings_text(into)}", f"outputs={shardings_text(out)}"]
    pipeline.run(pipeline.parse(f"partition{{{' '.join(options)}}},simplify"), own, env)
    own.random_state = False
    own.given_up, own.renews = tuple(sorted(set(donated.values()))), dict(donated)
    with context():
        found = list(_collectives(own, mesh))
    groups = dict.fromkeys((op.groups, op.size) for op, _ in found)
    with context():
        described = tuple(map(_described, (op for op, _ in found)))
    return Divided(own, tuple(groups), tuple(one for _, one in found), described)


def _described(op: Op) -> str:
    """A collective's kind, attributes and types."""
    return f"{op.OP_NAME} {op.attrs} {[str(value.type) for value in op.operation.operands]}"


def _sizes(program: Program, inputs: Sequence[Port]) -> dict[str, Dim]:
    """The sizes that the inputs give to names."""
    found: dict[str, Dim] = {}
    for value, port in zip(program.inputs, inputs, strict=True):
        for dim, size in zip(type_of(value).shape, port.shape, strict=True):
            atom = dim.terms[0][0][0] if isinstance(dim, Expr) and dim.is_symbol else None
            if isinstance(atom, Symbol):
                found.setdefault(atom.name, size)
    return found


def _collectives(program: Program, mesh: Mesh) -> Iterator[tuple[Any, Collective]]:
    for block in blocks(program.block):
        for operation in block.operations:
            op = operation.opview
            if not isinstance(op, COLLECTIVES):
                continue
            axes = _along(op.groups[: op.size], mesh)
            whole = op.operation.results if op.OP_NAME == "all_gather" else op.operation.operands
            size = sum(b for v in whole if isinstance(b := type_of(v).bytes, int))
            yield op, Collective(NAMES[op.OP_NAME], size, op.size, axes)


def _along(group: Sequence[int], mesh: Mesh) -> tuple[str, ...]:
    """The mesh axes along which the processes of a group differ."""
    grid = Grid(mesh.sizes, ranks=tuple(mesh.devices or ()))
    coordinates = [replace(grid, rank=rank).coordinates for rank in group]
    return tuple(name for name in mesh.sizes if len({each[name] for each in coordinates}) > 1)
