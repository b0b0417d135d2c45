"""Constant folding: the compiler evaluates ops whose operands are all constant.

It extracts the foldable parts into programs, which it compiles and runs; their outputs become weights (or `constant`,
`full` if they are small or uniform). There is no second implementation of any op, so a folded value equals the value
that the program would compute. Enter at `Fold`; the environment can run programs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from burn.dialect import ops
from burn.dialect.compose import signed
from burn.dialect.custom import Custom
from burn.dialect.locations import source_name
from burn.dialect.mlir import context, ir
from burn.dialect.op import Op
from burn.dialect.program import Program
from burn.dialect.query import blocks, erase_dead, has_regions, op_of, settled
from burn.dialect.reduction import WindowReduce
from burn.dialect.shape import Reshape, Weight
from burn.dialect.traits import Trait
from burn.dialect.types import DTYPES, type_of
from burn.errors import CompileError
from burn.passes.cleanup import merge_equal
from burn.passes.constants import Constants, full, is_pure, uniform_number
from burn.passes.environment import ANYWHERE, Environment, Evaluate
from burn.passes.pipeline import register
from burn.runtime import _native

if TYPE_CHECKING:
    import numpy as np

MAX_WRITTEN = 16
"""Constants of up to this many elements become part of the IR."""

ALONE = 64 << 10
"""From this many bytes on, a value gets a program of its own."""

SHARED = 256
"""From this many bytes on, a value gets a program that equal computations share."""


@register
@dataclass(frozen=True)
class Fold:
    """Replaces values computed from constants by constants, and drops the weights that only they needed.

    A value stays computed if it is more than `growth` times larger than its source constants and above `large` bytes. (A
    broadcast weight is cheaper to read than its copies.) This does not hold if computing it takes `dear` element operations
    for each of its bytes. A smaller value that depends on it is still folded, if the larger one has at most `intermediate`
    bytes. Packed operands of matmuls are always folded, because a kernel reads panels from memory.
    All folded values together take at most `growth` times the size of the program's constants, plus `budget` bytes. Evaluating
    them takes at most `work` element operations plus `work-per-byte` for each byte of constants; the rest is computed at run
    time.
    """

    name: ClassVar[str] = "fold"
    growth: int = 4
    large: int = 1 << 20
    dear: int = 16
    intermediate: int = 64 << 20
    budget: int = 256 << 20
    work: int = 1 << 33
    work_per_byte: int = 256
    part: int = 8 << 20  # bytes evaluated before their source constants are released

    def run(self, program: Program, env: Environment = ANYWHERE) -> None:
        with context():
            merge_equal(program)  # equal computations on one constant are evaluated once
            with settled():
                wanted = _Demand(self, program).wanted()
            computed = [v for v in wanted if not _reshape_weight(program, v)]
            check_weights(program, computed)
            if computed:
                if env.evaluate is None:
                    raise CompileError("internal: fold has nothing to evaluate programs with")
                folding = _Folding(program, env.evaluate)
                for part in self._parts(computed):
                    is_large = sum(map(_bytes, part)) >= self.large
                    folding.fold(part)
                    erase_dead(program.block)
                    drop_unused_weights(program)
                    if is_large:
                        _native.trim_memory()  # results that later folding replaced, and evaluators' scratch memory
            else:
                erase_dead(program.block)
                drop_unused_weights(program)

    def _parts(self, values: list[ir.Value]) -> list[list[ir.Value]]:
        """Splits the values into runs of at most `part` bytes (or one value)."""
        parts: list[list[ir.Value]] = []
        room = 0
        for value in values:
            bytes_ = _bytes(value)
            if bytes_ > room or not parts:
                parts.append([])
                room = self.part
            parts[-1].append(value)
            room -= bytes_
        return parts


class _Demand:
    """The values to evaluate: constant, worth it, and read by an op that is not folded."""

    def __init__(self, options: Fold, program: Program) -> None:
        self.options, self.program = options, program
        self.stored = sum(weight.nbytes for _, weight in program.weights.items())
        self.left = options.budget + options.growth * self.stored
        self.work = options.work + options.work_per_byte * self.stored
        self.constant = Constants()
        self.sources: dict[ir.Value, int] = {}  # an upper bound of the bytes of a value's source constants
        self.costs: dict[ir.Value, int] = {}  # the element operations of the longest chain that computes a value
        self.evaluable: dict[ir.Value, bool] = {}
        self.panels: dict[ir.Value, bool] = {}

    def wanted(self) -> list[ir.Value]:
        """The values, in program order."""
        wanted: dict[ir.Value, None] = {}
        for block in blocks(self.program.block):
            for operation in block.operations:
                op = operation.opview
                if isinstance(op, Op) and is_pure(op) and all(self.constant(r) for r in op.operation.results):
                    continue
                for operand in operation.operation.operands:
                    if not (self._must_lie(operand) and self._add(operand, wanted)):
                        self._demand(operand, wanted)
        return list(wanted)

    def _must_lie(self, value: ir.Value) -> bool:
        """True if a constant must be in memory but is not yet."""
        op = op_of(value)
        if op is None or op.has(Trait.STORED):
            return False
        if value not in self.panels:  # a number may have as many readers as the program has ops
            self.panels[value] = self.constant(value) and _in_panels(value)
        return self.panels[value]

    def _add(self, value: ir.Value, wanted: dict[ir.Value, None]) -> bool:
        """Adds a value if the remaining budget suffices."""
        if value not in wanted:
            if _bytes(value) > self.left:
                return False
            wanted[value] = None
            self.left -= _bytes(value)
        return True

    def _demand(self, value: ir.Value, wanted: dict[ir.Value, None]) -> None:
        """Adds the values nearest to `value` that can be folded."""
        stack, seen = [value], set()
        while stack:
            v = stack.pop()
            op = op_of(v)
            if v in wanted or v in seen or op is None or op.has(Trait.CONSTANT) or not self.constant(v):
                continue
            seen.add(v)
            if not self._may_fold(v) or not self._add(v, wanted):
                stack += op.operation.operands

    def _may_fold(self, value: ir.Value) -> bool:
        """True if a constant value can be evaluated and is small compared with its source constants."""
        return self._is_evaluable(value) and self._is_small(value)

    def _is_small(self, value: ir.Value, most: int = 0) -> bool:
        """True if a value, whose sources are known, may be stored, or has at most `most` bytes."""
        options, bytes_ = self.options, _bytes(value)
        op = op_of(value)
        generated = op is not None and op.has(Trait.CONSTANT)
        dear = self.costs[value] // options.dear
        return generated or bytes_ <= max(most, dear, options.large, options.growth * self.sources[value])

    def _is_evaluable(self, value: ir.Value) -> bool:
        """True if a constant value and all intermediate ones can be evaluated within the limits."""
        stack = [value]
        while stack:
            v = stack[-1]
            op = op_of(v)
            assert op is not None
            operands = list(dict.fromkeys(op.operation.operands))
            waiting = [o for o in operands if o not in self.evaluable]
            if v in self.evaluable or not waiting:
                stack.pop()
                bytes_ = _bytes(v)
                own = bytes_ if op.has(Trait.STORED) else 0
                self.sources[v] = own + min(sum(self.sources[o] for o in operands), self.stored)
                work = _work(op)
                copies = op.has(Trait.VIEW) and bytes_ > sum(map(_bytes, operands))
                self.costs[v] = 0 if copies else work + max((self.costs[o] for o in operands), default=0)
                small = self._is_small(v, self.options.intermediate)
                simple = DTYPES[type_of(v).dtype].kind not in ("string", "complex") and not _is_bound(op)
                self.evaluable[v] = small and simple and work <= self.work and all(self.evaluable[o] for o in operands)
                self.work -= work if self.evaluable[v] else 0
            else:
                stack += waiting
        return self.evaluable[value]


class _Folding:
    """Evaluates values. Values with equal computations, as in the layers of a network, share a program with the
    constants as inputs. All others are evaluated by one program."""

    def __init__(self, program: Program, evaluate: Evaluate) -> None:
        self.program, self.evaluate = program, evaluate
        self.known: dict[str, Callable[..., Sequence[np.ndarray]]] = {}

    def fold(self, values: list[ir.Value]) -> None:
        cuts = {value: cut(self.program, [value], open_weights=True) for value in values if _bytes(value) >= SHARED}
        texts = {value: str(program.module) for value, (program, _) in cuts.items()}
        counts = Counter(texts.values())
        together: list[ir.Value] = []
        for value in values:
            text = texts.get(value, "")
            if text not in self.known and counts[text] < 2 and _bytes(value) < ALONE:
                together.append(value)
                continue
            program, keys = cuts[value]
            if text not in self.known:
                self.known[text] = self.evaluate(program)
            (array,) = self.known[text](*(self.program.weights.get_once(key) for key in keys))
            _replace(value, array, self.program)
        if together:
            program, _ = cut(self.program, together)
            for value, array in zip(together, self.evaluate(program)(), strict=True):
                _replace(value, array, self.program)


def _in_panels(value: ir.Value) -> bool:
    """True if a matmul reads the value as panels."""
    for use in value.uses:
        op = use.owner.opview
        if isinstance(op, Op) and _is_laid_out(op) and use.operand_number > 0:
            return True
    return False


def _is_laid_out(op: Op) -> bool:
    """True for a contraction whose rhs is packed for the target. Only the target's own code can read it, because panel
    widths differ between CPUs."""
    return op.has(Trait.PACKED)


def _is_bound(op: Op) -> bool:
    """True for an op that only the program's own target, or only a run, may compute: a Python function may give other results
    each time."""
    return _is_laid_out(op) or (isinstance(op, Custom) and op.body == "python")


def _work(op: Op) -> int:
    """An estimate of element operations."""
    if op.has(Trait.CONSTANT) or op.has(Trait.VIEW):
        return 0
    sizes = (type_of(v).elements for v in (*op.operation.operands, *op.operation.results))
    elements = [size for size in sizes if isinstance(size, int)]  # Unique's result has a size known only after the run
    if op.has(Trait.CONTRACTION):
        rows, weights, results = elements[0], elements[1], elements[-1]
        return math.isqrt(rows * weights) * math.isqrt(results) + results  # m k * k n * m n is the square of m k n
    if isinstance(op, WindowReduce):
        return elements[-1] * math.prod(op.window)
    return max(elements)


def _bytes(value: ir.Value) -> int:
    bytes_ = type_of(value).bytes
    assert isinstance(bytes_, int)  # a constant's sizes are numbers
    return bytes_


def check_weights(program: Program, values: Sequence[ir.Value]) -> None:
    """Raises CompileError naming every weight without bytes: a program may be parsed without them."""
    missing: set[str] = set()
    seen: set[ir.Value] = set()
    stack = list(values)
    while stack:
        op = op_of(stack.pop())
        assert op is not None
        if isinstance(op, Weight) and op.key not in program.weights:
            missing.add(op.key)
        new = [v for v in op.operation.operands if v not in seen]
        seen.update(new)
        stack += new
    if missing:
        problems = [f"'{key}' is missing" for key in sorted(missing)]
        raise CompileError("constants cannot be folded without their weights", problems)


def cut(program: Program, wanted: list[ir.Value], open_weights: bool = False) -> tuple[Program, list[str]]:
    """A program that computes these values from copies of the required ops. With `open_weights` the weights are its
    inputs, and their keys are also returned."""
    order: list[ir.Operation] = []
    seen: set[ir.Value] = set()
    for value in wanted:
        stack = [value]
        while stack:
            v = stack[-1]
            operation = op_of(v).operation  # type: ignore[union-attr]  # constant values have an op
            waiting = [o for o in operation.operands if o not in seen]
            if v in seen or not waiting:
                stack.pop()
                if v not in seen:
                    seen.update(operation.results)
                    order.append(operation)
            else:
                stack += waiting
    weights = [o for o in order if open_weights and o.name == "burn.weight"]
    made = Program.create([(f"weight{i}", type_of(o.results[0])) for i, o in enumerate(weights)], program.weights)
    copies: dict[ir.Value, ir.Value] = {o.results[0]: v for o, v in zip(weights, made.inputs, strict=True)}
    for operation in order:
        if operation.results[0] in copies:
            continue
        with ir.InsertionPoint(made.block):
            copy = operation.clone()
        for i, operand in enumerate(operation.operands):
            copy.operands[i] = copies[operand]
        copies.update(zip(operation.results, copy.operation.results, strict=True))
    keys = [ir.StringAttr(o.attributes["key"]).value for o in weights]
    return made.finish([(f"value{i}", copies[v]) for i, v in enumerate(wanted)]), keys


def _replace(value: ir.Value, array: np.ndarray, program: Program) -> None:
    """Replaces a value by a constant with these elements."""
    operation = value.owner
    with operation.location, ir.InsertionPoint(operation):
        made = constant_of(array, value, program)
    value.replace_all_uses_with(made)


def constant_of(array: np.ndarray, value: ir.Value, program: Program) -> ir.Value:
    """The op that holds a computed value's elements."""
    type_ = type_of(value)
    integer = DTYPES[type_.dtype].kind in ("int", "uint")
    panels = _in_panels(value)
    number = uniform_number(array, type_.dtype)
    if number is not None and not panels:
        return full(number, type_)
    if array.size <= MAX_WRITTEN and not panels:
        numbers = [float(n) for n in array.reshape(-1)]
        bits = tuple(signed(int(n)) for n in array.reshape(-1)) if integer else None
        return ops.constant(values=tuple(numbers), shape=type_.shape, dtype=type_.dtype, bits=bits)
    key = program.weights.add_array(array, source_name(value.owner) or "folded")
    return ops.weight(key=key, shape=type_.shape, dtype=type_.dtype)


def _reshape_weight(program: Program, value: ir.Value) -> bool:
    """Turns a reshaped weight into a weight of another shape over the same bytes. Returns False if the value is
    something else."""
    op = op_of(value)
    while op is not None and isinstance(op, Reshape):
        op = op_of(op.x)
    if op is None or not isinstance(op, Weight) or op.key not in program.weights:
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
    """Removes weights that no op names from the store, and releases their pages."""
    used: set[str] = set()

    def collect(block: ir.Block) -> None:
        for operation in block.operations:
            if operation.operation.name == "burn.weight":
                used.add(ir.StringAttr(operation.operation.attributes["key"]).value)
            for region in operation.operation.regions if has_regions(operation) else ():
                for inner in region.blocks:
                    collect(inner)

    collect(program.block)
    for key in [k for k, _ in program.weights.items() if k not in used]:
        program.weights.release(key)
        program.weights.remove(key)
