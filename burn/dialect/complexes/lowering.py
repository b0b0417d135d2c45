"""Replaces complex values by pairs of real ones: in a program (`Lowering`), or in one op (`expanded`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from burn.dialect import ops
from burn.dialect.complexes import pair
from burn.dialect.complexes.pair import Complex
from burn.dialect.complexes.rules import RULES, WHOLE, refusal
from burn.dialect.compose import as_list
from burn.dialect.control import If, Loop
from burn.dialect.deferred import Value
from burn.dialect.mlir import ir
from burn.dialect.op import Op, site
from burn.dialect.program import Program
from burn.dialect.query import blocks
from burn.dialect.types import PARTS, TensorType, type_of
from burn.dialect.weights import array_weight
from burn.errors import CompileError, Problem

REFUSED = "complex tensors reach ops that do not take them"


def _problem(op: Op, reason: str) -> Problem:
    dtype = next(type_of(v).dtype for v in (*op.operation.operands, *op.operation.results) if is_complex(v))
    return Problem(f"burn.{op.OP_NAME} of {dtype}: {reason}", op=op.OP_NAME, node=site(op))


def is_complex(value: Value) -> bool:
    return type_of(value).dtype in PARTS


def _flat(operands: Iterable[Any]) -> list[Value]:
    return [v for o in operands for v in (o if isinstance(o, list) else [o]) if v is not None]


def expansion(cls: type[Op], operands: Sequence[Any], attrs: dict[str, Any]) -> Callable[..., Any] | None:
    """A function of the op's operands and attributes that builds it from ops on real tensors. None for an op without complex
    values, and for one without a rule."""
    touched = any(map(is_complex, _flat(operands))) or attrs.get("dtype") in PARTS
    if not touched or cls.OP_NAME not in RULES or refusal(cls.OP_NAME, attrs):
        return None
    return lambda *given, **rest: _expanded(cls, given, rest)


def _expanded(cls: type[Op], operands: Sequence[Any], attrs: dict[str, Any]) -> Any:
    def apart(operand: Any) -> Any:
        if isinstance(operand, list):
            return [apart(v) for v in operand]
        if operand is None or not is_complex(operand):
            return operand
        return Complex(ops.real(operand), ops.imag(operand))

    def together(value: Any) -> Value:
        return ops.complex(value.real, value.imag) if isinstance(value, Complex) else value

    made = RULES[cls.OP_NAME](*map(apart, operands), **attrs)
    return [together(v) for v in made] if isinstance(made, list) else together(made)


def needs_lowering(program: Program) -> bool:
    """True if a value of the program is complex."""
    if any(t.dtype in PARTS for t in program.input_types):
        return True
    return any(
        is_complex(value)
        for block in blocks(program.block)
        for operation in block.operations
        for value in operation.operation.results
    )


class Lowering:
    """The state of the pass: the pair of each complex value, and for some the real tensor [..., 2] in the same memory."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.pairs: dict[ir.Value, Complex] = {}
        self.interleaved: dict[ir.Value, ir.Value] = {}
        self.dead: list[ir.Operation] = []
        self.stale: list[tuple[ir.Operation, int]] = []  # loops whose first arguments have no more uses

    def run(self) -> None:
        """Raises CompileError naming every op without a rule."""
        self._refuse()
        first = len(list(self.program.block.operations))
        with ir.InsertionPoint.at_block_begin(self.program.block), ir.Location.name("inputs"):
            for value in self.program.inputs:
                if is_complex(value):
                    self._split(value, ops.view_as_real(value))
        self._ops(list(self.program.block.operations)[-first:])
        for operation in reversed(self.dead):
            operation.erase()
        for operation, count in self.stale:
            for _ in range(count):
                operation.regions[0].blocks[0].erase_argument(0)

    def _refuse(self) -> None:
        problems = []
        for block in blocks(self.program.block):
            for operation in block.operations:
                op = operation.opview
                if not isinstance(op, Op) or op.REGIONS or op.OP_NAME in ("return", "yield", "weight"):
                    continue
                touched = any(map(is_complex, (*op.operation.operands, *op.operation.results)))
                if touched and (reason := refusal(op.OP_NAME, op.attrs)) and op.decompose is None:
                    problems.append(_problem(op, reason))
        if problems:
            raise CompileError(REFUSED, problems)

    # ---- values -----------------------------------------------------------------------------------------------------
    def _split(self, value: ir.Value, whole: ir.Value) -> None:
        """Sets the pair of a value that is in memory."""
        self.interleaved[value] = whole
        self.pairs[value] = pair.of_pairs(whole)

    def _whole(self, value: ir.Value) -> ir.Value:
        """A complex value in memory, for its users outside of the lowered program."""
        whole = self.interleaved.get(value)
        return ops.view_as_complex(pair.as_pairs(self.pairs[value]) if whole is None else whole)

    def _parts(self, values: Iterable[ir.Value]) -> list[ir.Value]:
        found = []
        for value in values:
            known = self.pairs.get(value)
            found += [value] if known is None else [known.real, known.imag]
        return found

    # ---- ops --------------------------------------------------------------------------------------------------------
    def _block(self, block: ir.Block) -> None:
        self._ops(list(block.operations))

    def _ops(self, operations: Iterable[Any]) -> None:
        for operation in operations:
            op = operation.opview
            if isinstance(op, Op):
                with operation.location, ir.InsertionPoint(operation):
                    self._op(op)

    def _op(self, op: Op) -> None:
        operation = op.operation
        if isinstance(op, Loop):
            self._loop(op)
        elif isinstance(op, If):
            self._if(op)
        elif not any(map(is_complex, (*operation.operands, *operation.results))):
            return
        elif op.OP_NAME == "yield":
            ops.yield_(self._parts(operation.operands))
            operation.erase()
        elif op.OP_NAME == "return":
            for i, value in enumerate(list(operation.operands)):
                if is_complex(value):
                    operation.operands[i] = self._whole(value)
        elif op.OP_NAME == "weight":
            self._weight(op)
        elif op.OP_NAME == "view_as_complex":
            self._split(operation.results[0], op.x)
            self.dead.append(operation)
        elif op.OP_NAME == "view_as_real" and op.z in self.interleaved:
            operation.results[0].replace_all_uses_with(self.interleaved[op.z])
            self.dead.append(operation)
        elif op.OP_NAME in WHOLE:
            for i, value in enumerate(list(operation.operands)):
                if is_complex(value):
                    operation.operands[i] = self._whole(value)
            with ir.InsertionPoint.after(operation):
                for result in operation.results:
                    if is_complex(result):
                        self._split(result, ops.view_as_real(result))
        elif op.OP_NAME in RULES and not refusal(op.OP_NAME, op.attrs):
            operands = [self._given(operand) for operand in op.args]
            self._set(op, as_list(RULES[op.OP_NAME](*operands, **op.attrs)))
        else:
            self._decompose(op)

    def _given(self, operand: Any) -> Any:
        if isinstance(operand, list):
            return [self._given(v) for v in operand]
        return operand if operand is None else self.pairs.get(operand, operand)

    def _set(self, op: Op, made: Sequence[Any]) -> None:
        for old, new in zip(op.operation.results, made, strict=True):
            if isinstance(new, Complex):
                self.pairs[old] = new
            else:
                old.replace_all_uses_with(new)
        self.dead.append(op.operation)

    def _decompose(self, op: Op) -> None:
        """A composite without a rule of its own."""
        operation = op.operation
        assert op.decompose is not None
        before = _position(operation)
        made = as_list(op.decompose(*op.args, **op.attrs))
        inner = [o.operation for o in list(operation.block.operations)[before : _position(operation)]]
        for each in inner:
            view = each.opview
            if isinstance(view, Op):
                with each.location, ir.InsertionPoint(each):
                    self._check(view)
                    self._op(view)
        self._set(op, [self.pairs.get(v, v) for v in made])

    def _check(self, op: Op) -> None:
        touched = any(map(is_complex, (*op.operation.operands, *op.operation.results)))
        if not touched or op.REGIONS or op.decompose is not None or op.OP_NAME in ("yield", "weight"):
            return
        if reason := refusal(op.OP_NAME, op.attrs):
            raise CompileError(REFUSED, [_problem(op, reason)])

    def _weight(self, op: Op) -> None:
        """Elements of a constant as real ones: a number, or its real and its imaginary parts."""
        result, weights = op.operation.results[0], self.program.weights
        type_ = type_of(result)
        part = PARTS[type_.dtype]
        if op.key not in weights:  # passes may run without the bytes
            real = TensorType(part, (*type_.shape, 2))
            self._split(result, ops.weight(key=op.key, shape=real.shape, dtype=real.dtype))
        elif type_.elements == 1:
            element: complex = weights.get(op.key).reshape(-1)[0].item()
            self.pairs[result] = Complex(
                *(pair.full(TensorType(part, type_.shape), float(x)) for x in (element.real, element.imag))
            )
        else:
            array: Any = np.ascontiguousarray(weights.get(op.key))
            self.pairs[result] = Complex(
                *(
                    ops.weight(
                        key=weights.add(array_weight(np.ascontiguousarray(x)), op.key), shape=type_.shape, dtype=part
                    )
                    for x in (array.real, array.imag)
                )
            )
        self.dead.append(op.operation)

    # ---- control flow ---------------------------------------------------------------------------------------------------
    def _if(self, op: If) -> None:
        for region in op.operation.regions:
            self._block(region.blocks[0])
        results = list(op.operation.results)
        if not any(map(is_complex, results)):
            return
        made = If.create(op.condition, result_types=_doubled(results), symbols=op.symbols)
        for old, new in zip(op.operation.regions, made.regions, strict=True):
            old.blocks[0].append_to(new)
        self._replace(results, list(made.results))
        self.dead.append(op.operation)

    def _loop(self, op: Loop) -> None:
        """Moves the body to a loop of parts if a value is complex. The old arguments stay until nothing uses them."""
        carried: Any = op.carried
        old, results, count = op.operation.regions[0].blocks[0], list(op.operation.results), len(carried)
        arguments = list(old.arguments)
        if not any(map(is_complex, (*results, *arguments))):
            self._block(old)
            return
        scans = sum(1 + is_complex(v) for v in results[count:])
        made = Loop.create(
            op.trips,
            op.condition,
            self._parts(carried),
            result_types=_doubled(results),
            scans=scans,
            symbols=op.symbols,
        )
        new = [old.add_argument(t.to_mlir(), ir.Location.unknown()) for t in _doubled(arguments)]
        self._replace(arguments, new)
        self._block(old)
        old.append_to(made.regions[0])
        self.stale.append((made, len(arguments)))
        self._replace(results, list(made.results))
        self.dead.append(op.operation)

    def _replace(self, old: Sequence[ir.Value], new: Sequence[ir.Value]) -> None:
        rest = iter(new)
        for value in old:
            if is_complex(value):
                self.pairs[value] = Complex(next(rest), next(rest))
            else:
                value.replace_all_uses_with(next(rest))


def _doubled(values: Sequence[ir.Value]) -> list[TensorType]:
    """The types of values, with those of two parts for a complex one."""
    found = []
    for type_ in map(type_of, values):
        found += [type_] if type_.dtype not in PARTS else [type_.with_dtype(PARTS[type_.dtype])] * 2
    return found


def _position(operation: ir.Operation) -> int:
    """An op's index in its block."""
    return next(i for i, other in enumerate(operation.block.operations) if other.operation == operation)
