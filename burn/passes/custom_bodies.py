"""The bodies of custom ops (`burn.custom_op`) for a back end: `choose_bodies`, a part of the pass `decompose`."""

from __future__ import annotations

from collections.abc import Iterator

from burn.dialect.control import defined_symbols
from burn.dialect.custom import BODIES, Custom
from burn.dialect.mentions import used_symbols
from burn.dialect.mlir import ir
from burn.dialect.op import Op, site
from burn.dialect.program import Program
from burn.errors import CompileError, Problem
from burn.passes.environment import Environment

ANYWHERE = ("functions",)
"""Bodies that are chosen without a back end. Ops that have none of them stay undecided."""


def choose_bodies(program: Program, env: Environment) -> bool:
    """Decides the body of each custom op that has none yet. Burn functions replace the op. Returns True if it
    built some: they may hold composites and further custom ops. Raises CompileError that names every op without a body for the
    back end."""
    customs = [op for op in _ops(program.block) if isinstance(op, Custom) and not op.body]
    if not customs:
        return False
    taken = {name for op in _ops(program.block) for name in (*used_symbols(op), *defined_symbols(op))}
    bodies = ANYWHERE if env.backend is None else env.backend.custom_bodies
    problems, built = [], False
    for op in customs:
        body = next((kind for kind in bodies if kind in op.definition.bodies), None)
        if body == "functions":
            _build(op, program, taken)
            built = True
        elif body is not None:
            op.operation.attributes["body"] = ir.StringAttr.get(body)
        elif env.backend is not None:
            problems.append(_without_body(op, env.backend.name))
    if problems:
        raise CompileError("a custom op cannot be compiled", problems)
    return built


def _ops(block: ir.Block) -> Iterator[Op]:
    for operation in block.operations:
        if isinstance(operation.opview, Op):
            yield operation.opview
        for region in operation.operation.regions:
            for inner in region.blocks:
                yield from _ops(inner)


def _build(op: Custom, program: Program, taken: set[str]) -> None:
    operation = op.operation
    with operation.location, ir.InsertionPoint(operation):
        values = op.definition.expand(list(operation.operands), op.shown, program, taken)
    for old, new in zip(operation.results, values, strict=True):
        old.replace_all_uses_with(new)
    operation.erase()


def _without_body(op: Custom, target: str) -> Problem:
    said = " and ".join(BODIES[kind] for kind in sorted(op.definition.bodies))
    hint = "give it a body of burn functions with .functions, which runs on every device"
    return Problem(f"it has no body for the target {target}, only {said}", op=op.called, node=site(op), hint=hint)
