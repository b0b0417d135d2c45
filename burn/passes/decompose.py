"""Decomposes composites into other ops, until only primitives are left.

`keep` names composites that a later pass or the back end handles as a whole; `only` restricts the pass to the named
ones.

A custom op (`burn.custom_op`) with several bodies gets the one that the back end prefers. Burn functions are built in its
place; an op with another body stays, and its attribute says which.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from burn.dialect.control import defined_symbols
from burn.dialect.custom import BODIES, Custom
from burn.dialect.mentions import used_symbols
from burn.dialect.mlir import context, ir
from burn.dialect.op import Op, full_name
from burn.dialect.program import Program
from burn.errors import CompileError, Problem
from burn.passes.environment import ANYWHERE, Device, Environment
from burn.passes.pipeline import register
from burn.runtime.origins import resolved


@register
@dataclass(frozen=True)
class Decompose:
    """Expands every op with a `decompose`, including those in nested regions, until no composite remains."""

    name: ClassVar[str] = "decompose"
    keep: str = ""  # names joined by "+"
    only: str = ""

    def run(self, program: Program, env: Environment = ANYWHERE) -> None:
        with context():
            self._block(program.block, frozenset(self.keep.split("+")), frozenset(filter(None, self.only.split("+"))))
            if not self.only and env.backend is not None:
                while any(isinstance(op, Custom) and not op.body for op in _all_ops(program.block)):
                    _choose_bodies(program, env.backend)
                    self._block(program.block, frozenset(self.keep.split("+")), frozenset())

    def _block(self, block: ir.Block, kept: frozenset[str], wanted: frozenset[str]) -> None:
        """Repeats until nothing changes: an expansion may contain composites."""
        while composites := [o.opview for o in block.operations if _expands(o.opview, kept, wanted)]:
            for op in composites:
                expand(op)
        for operation in block.operations:
            for region in operation.operation.regions:
                for inner in region.blocks:
                    self._block(inner, kept, wanted)


def _expands(op: ir.OpView, kept: frozenset[str], wanted: frozenset[str]) -> bool:
    if not isinstance(op, Op) or op.decompose is None or op.OP_NAME in kept:
        return False
    return not wanted or op.OP_NAME in wanted


def _all_ops(block: ir.Block) -> Iterator[ir.OpView]:
    for operation in block.operations:
        yield operation.opview
        for region in operation.operation.regions:
            for inner in region.blocks:
                yield from _all_ops(inner)


def _choose_bodies(program: Program, backend: Device) -> None:
    """Decides the body of each custom op, and builds those that are burn functions. Raises CompileError that names every op
    without a body for the back end."""
    customs = [op for op in _all_ops(program.block) if isinstance(op, Custom) and not op.body]
    ops_ = (op for op in _all_ops(program.block) if isinstance(op, Op))
    taken = {name for op in ops_ for name in (*used_symbols(op), *defined_symbols(op))}
    problems = []
    for op in customs:
        have = op.definition.bodies
        body = next((kind for kind in backend.custom_bodies if kind in have), None)
        if body is None:
            said = " and ".join(BODIES[kind] for kind in sorted(have)) or "none at all"
            hint = "burn.custom_op takes several bodies for one op, such as .functions"
            where = f"it has no body for {backend.name}: it has {said}"
            problems.append(Problem(where, op=op.called, node=resolved(full_name(op)), hint=hint))
        elif body != "functions":
            op.operation.attributes["body"] = ir.StringAttr.get(body)
        else:
            operation = op.operation
            with operation.location, ir.InsertionPoint(operation):
                values = op.definition.expand(op.values, op.shown, program, taken)
            for old, new in zip(operation.results, values, strict=True):
                old.replace_all_uses_with(new)
            operation.erase()
    if problems:
        raise CompileError("a custom op cannot be compiled", problems)


def expand(op: Op) -> None:
    """Replaces one composite by its decomposition."""
    operation = op.operation
    with operation.location, ir.InsertionPoint(operation):
        assert op.decompose is not None
        values = op.decompose(*op.args, **op.attrs)
    values = [values] if isinstance(values, ir.Value) else list(values)
    for old, new in zip(operation.results, values, strict=True):
        old.replace_all_uses_with(new)
    operation.erase()
