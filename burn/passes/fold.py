"""Constant folding: what depends on constants alone is computed once, by the compiler itself.

All foldable parts of a program are cut out into one program without inputs, which is compiled and run; its outputs
become weights (or `constant`, `full` where they are small or uniform). No second implementation of any op is involved,
so a folded value is the number that the program would have computed. Enter at `Fold`; the environment says how to run a
program.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from burn.dialect import ops
from burn.dialect.compose import signed
from burn.dialect.mlir import context, ir
from burn.dialect.op import Op, source_name
from burn.dialect.program import Program
from burn.dialect.query import LEAVES, blocks, erase_dead, op_of
from burn.dialect.types import DTYPES, type_of
from burn.errors import CompileError
from burn.passes.cleanup import merge_equal
from burn.passes.constants import Constants, full, is_pure, uniform_number
from burn.passes.environment import ANYWHERE, Environment
from burn.passes.pipeline import register

if TYPE_CHECKING:
    import numpy as np

MAX_WRITTEN = 16
"""A constant of up to so many elements is written into the IR."""


@register
@dataclass(frozen=True)
class Fold:
    """Replaces values computed from constants by constants, and drops the weights that only they needed.

    A value more than `growth` times larger than the constants it comes from and above `large` bytes stays computed:
    a broadcast weight is cheaper to read than its copies."""

    name: ClassVar[str] = "fold"
    growth: int = 4
    large: int = 1 << 20
    part: int = 20 << 20  # bytes computed in one run

    def run(self, program: Program, env: Environment = ANYWHERE) -> None:
        with context():
            merge_equal(program)  # what is computed of one constant in several places is computed once
            wanted = self._wanted(program)
            computed = [v for v in wanted if not _reshape_weight(program, v)]
            _check_weights(program, computed)
            if computed and env.evaluate is None:
                raise CompileError("internal: fold has nothing to evaluate programs with")
            for part in self._parts(computed):
                assert env.evaluate is not None
                for value, array in zip(part, env.evaluate(_cut(program, part)), strict=True):
                    _replace(value, array, program)
                erase_dead(program.block)
                drop_unused_weights(program)
            if not computed:
                erase_dead(program.block)
                drop_unused_weights(program)

    def _parts(self, values: list[ir.Value]) -> list[list[ir.Value]]:
        """The values in runs of at most `part` bytes (or one value): what a run has read is given back before the next."""
        parts: list[list[ir.Value]] = []
        room = 0
        for value in values:
            bytes_ = type_of(value).bytes
            assert isinstance(bytes_, int)
            if bytes_ > room or not parts:
                parts.append([])
                room = self.part
            parts[-1].append(value)
            room -= bytes_
        return parts

    def _wanted(self, program: Program) -> list[ir.Value]:
        """The values to compute, in program order: constant, worth it, and read by something that is not constant."""
        constant = Constants()
        sizes: dict[ir.Value, int] = {}
        wanted: dict[ir.Value, None] = {}

        def demand(value: ir.Value) -> None:
            stack = [value]
            while stack:
                v = stack.pop()
                op = op_of(v)
                if v in wanted or op is None or op.OP_NAME in LEAVES or not constant(v):
                    continue
                if self._worth(v, sizes):
                    wanted[v] = None
                else:
                    stack += op.operation.operands

        for block in blocks(program.block):
            for operation in block.operations:
                op = operation.opview
                if isinstance(op, Op) and is_pure(op) and all(constant(r) for r in op.operation.results):
                    continue
                for operand in operation.operation.operands:
                    demand(operand)
        return list(wanted)

    def _worth(self, value: ir.Value, sizes: dict[ir.Value, int]) -> bool:
        type_ = type_of(value)
        if DTYPES[type_.dtype].kind in ("string", "complex"):
            return False
        bytes_ = type_.bytes
        assert isinstance(bytes_, int)
        return bytes_ <= self.large or bytes_ <= self.growth * _source_bytes(value, sizes)


def _source_bytes(value: ir.Value, sizes: dict[ir.Value, int]) -> int:
    """Bytes of the constants that a constant value is computed from."""
    stack = [value]
    while stack:
        v = stack[-1]
        op = op_of(v)
        assert op is not None
        operands = list(op.operation.operands)
        waiting = [o for o in operands if o not in sizes]
        if v in sizes or not waiting:
            stack.pop()
            bytes_ = type_of(v).bytes
            assert isinstance(bytes_, int)
            stored = bytes_ if op.OP_NAME in ("weight", "constant") else 0
            sizes.setdefault(v, min(stored + sum(sizes[o] for o in operands), 1 << 62))
        else:
            stack += waiting
    return sizes[value]


def _check_weights(program: Program, values: Sequence[ir.Value]) -> None:
    """Raises CompileError naming every weight whose bytes are not there: a program may be read without them."""
    missing: set[str] = set()
    seen: set[ir.Value] = set()
    stack = list(values)
    while stack:
        op = op_of(stack.pop())
        assert op is not None
        if op.OP_NAME == "weight" and op.key not in program.weights:
            missing.add(op.key)
        new = [v for v in op.operation.operands if v not in seen]
        seen.update(new)
        stack += new
    if missing:
        problems = [f"'{key}' is missing" for key in sorted(missing)]
        raise CompileError("constants cannot be folded without their weights", problems)


def _cut(program: Program, wanted: list[ir.Value]) -> Program:
    """A program without inputs that computes these values from copies of the ops they need."""
    cut = Program.create([], program.weights)
    copies: dict[ir.Value, ir.Value] = {}
    for value in wanted:
        stack = [value]
        while stack:
            v = stack[-1]
            if v in copies:
                stack.pop()
                continue
            operation = op_of(v).operation  # type: ignore[union-attr]  # constant values have an op
            waiting = [o for o in operation.operands if o not in copies]
            if waiting:
                stack += waiting
                continue
            stack.pop()
            with ir.InsertionPoint(cut.block):
                copy = operation.clone()
            for i, operand in enumerate(operation.operands):
                copy.operands[i] = copies[operand]
            copies.update(zip(operation.results, copy.operation.results, strict=True))
    return cut.finish([(f"value{i}", copies[v]) for i, v in enumerate(wanted)])


def _replace(value: ir.Value, array: np.ndarray, program: Program) -> None:
    """Puts a constant with these elements in a value's place."""
    operation = value.owner
    with operation.location, ir.InsertionPoint(operation):
        made = constant_of(array, value, program)
    value.replace_all_uses_with(made)


def constant_of(array: np.ndarray, value: ir.Value, program: Program) -> ir.Value:
    """The op that holds a computed value's elements."""
    type_ = type_of(value)
    integer = DTYPES[type_.dtype].kind in ("int", "uint")
    number = uniform_number(array, type_.dtype)
    if number is not None:
        return full(number, type_)
    if array.size <= MAX_WRITTEN:
        numbers = [float(n) for n in array.reshape(-1)]
        bits = tuple(signed(int(n)) for n in array.reshape(-1)) if integer else None
        return ops.constant(values=tuple(numbers), shape=type_.shape, dtype=type_.dtype, bits=bits)
    key = program.weights.add_array(array, source_name(value.owner) or "folded")
    return ops.weight(key=key, shape=type_.shape, dtype=type_.dtype)


def _reshape_weight(program: Program, value: ir.Value) -> bool:
    """A reshaped weight is a weight of another shape over the same bytes. Returns whether the value was one."""
    op = op_of(value)
    while op is not None and op.OP_NAME == "reshape":
        op = op_of(op.x)
    if op is None or op.OP_NAME != "weight" or op.key not in program.weights:
        return False
    shape = [d for d in type_of(value).shape if isinstance(d, int)]
    weight = program.weights.weight(op.key)
    buffer = weight.buffer if isinstance(weight.buffer, memoryview) else weight.array().reshape(shape)
    assert math.prod(shape) == math.prod(weight.shape)
    key = program.weights.add(replace(weight, shape=tuple(shape), buffer=buffer), op.key)
    with value.owner.location, ir.InsertionPoint(value.owner):
        made = ops.weight(key=key, shape=tuple(shape), dtype=op.dtype)
    value.replace_all_uses_with(made)
    return True


def drop_unused_weights(program: Program) -> None:
    """Removes weights that no op names from the store, and gives their pages back."""
    used: set[str] = set()

    def collect(block: ir.Block) -> None:
        for operation in block.operations:
            if operation.operation.name == "burn.weight":
                used.add(ir.StringAttr(operation.operation.attributes["key"]).value)
            for region in operation.operation.regions:
                for inner in region.blocks:
                    collect(inner)

    collect(program.block)
    for key in [k for k, _ in program.weights.items() if k not in used]:
        program.weights.release(key)
        program.weights.remove(key)
