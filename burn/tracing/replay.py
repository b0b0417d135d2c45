"""Replay of a program's ops into the program being traced, or as recorded ops. Start at `replay`.

Every op is rebuilt, so types follow the given operands: a symbolic size of the program is replaced by the size of
the caller's tensors. Branches and loops become `burn.cond` and `burn.loop`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from burn.dialect import ops
from burn.dialect.adjoint.reverse import Customs, move_customs
from burn.dialect.compose import as_list
from burn.dialect.compose import check_size as check
from burn.dialect.control import Return, Yield, region_symbols
from burn.dialect.deferred import Deferred, Value
from burn.dialect.dims import Atom, Dim, Expr, Symbol, substitute, symbols
from burn.dialect.locations import source_name
from burn.dialect.mentions import dim_attributes
from burn.dialect.mlir import ir
from burn.dialect.op import DEFINES, DEFINES_SEVERAL, Op
from burn.dialect.program import Program
from burn.dialect.types import TensorType, type_of
from burn.dialect.weights import Weight
from burn.errors import Problem, TypeMismatch
from burn.random import next_key
from burn.tensors import Tensor
from burn.tensors.base import made
from burn.tensors.control import cond, loop
from burn.tensors.sorting import data_size
from burn.tensors.tracer import active


def replay(program: Program, inputs: Sequence[Tensor | None], customs: Customs | None = None) -> list[Tensor]:
    """The outputs that the program has for these inputs (None for one that it does not use, and for the random state).

    customs: values with backward functions. Values of the program pass their functions to the values that stand for them. Raises
    TypeMismatch for inputs that do not fit it."""
    own = _Replay(program, customs)
    own.bind(program.input_names, program.inputs, inputs)
    return [made(own.values[v]) for v in own.block(program.block)]


class _Replay:
    """values: what stands for the program's values here; sizes: for its symbols."""

    def __init__(self, program: Program, customs: Customs | None = None) -> None:
        self.program, self.customs = program, customs
        self.state = program.inputs[-1] if program.random_state else None
        self.values: dict[Any, Value] = {}
        self.sizes: dict[Atom, Dim] = {}

    # ---- sizes ---------------------------------------------------------------------------------------------------------
    def bind(self, names: Sequence[str], values: Sequence[ir.Value], given: Sequence[Tensor | None]) -> None:
        problems = []
        late: list[tuple[str, Dim, Dim]] = []
        for name, value, tensor in zip(names, values, given, strict=False):
            if tensor is None:
                continue
            have, want = tensor.type, type_of(value)
            if have.dtype != want.dtype or have.rank != want.rank:
                problems.append(Problem(f"'{name}' is {have}, not {want}"))
                continue
            late += [(name, h, w) for h, w in zip(have.shape, want.shape, strict=True) if not self._name(h, w)]
            self.values[value] = tensor.value
        if problems:
            raise TypeMismatch("these inputs do not fit the program", problems)
        for name, h, w in late:
            check(h, "==", self.size(w), f"a size of '{name}'")

    def _name(self, here: Dim, there: Dim) -> bool:
        """Takes a size here for what a symbol of the program stands for, if that is not known yet."""
        atom = _symbol(there)
        if atom is None or atom in self.sizes:
            return False
        self.sizes[atom] = here
        return True

    def size(self, dim: Dim) -> Dim:
        if isinstance(dim, int):
            return dim
        return substitute(dim, {a: self.sizes[a] for a in map(Symbol, symbols(dim)) if a in self.sizes})

    def type(self, type_: TensorType) -> TensorType:
        return type_.with_shape(tuple(map(self.size, type_.shape)))

    # ---- ops -----------------------------------------------------------------------------------------------------------
    def block(self, block: ir.Block) -> list[ir.Value]:
        """Builds a block's ops, and gives what its terminator takes."""
        for operation in block.operations:
            op = operation.opview
            assert isinstance(op, Op)
            if isinstance(op, Return | Yield):
                if self.customs:  # at the end of each iteration of a loop, which then has other values
                    move_customs(self.customs, dict(self.values))
                return list(operation.operands)
            with op.operation.location:  # what cannot be built or differentiated is named as it is in the model
                self._op(op)
        return []

    def _op(self, op: Op) -> None:
        special = getattr(self, f"_{op.OP_NAME}", None)
        results = special(op) if special is not None else self._built(op)
        for old, new in zip(op.operation.results, results, strict=True):
            self.values[old] = new
            if isinstance(new, Deferred) and new.application is not None:
                new.application.source_name = source_name(op)
            for here, there in zip(type_of(new).shape, type_of(old).shape, strict=True):
                self._name(here, there)

    def _built(self, op: Op) -> list[Value]:
        attrs = op.attrs
        for name, dims in dim_attributes(op).items():
            sizes = tuple(map(self.size, dims))
            attrs[name] = sizes if isinstance(attrs[name], tuple) else sizes[0]
        for name in (*DEFINES, *DEFINES_SEVERAL):
            if name in attrs:
                own = attrs[name]
                attrs[name] = data_size(own) if isinstance(own, str) else tuple(map(data_size, own))
        return as_list(op.build(*map(self._operand, op.args), **attrs))

    def _operand(self, operand: Any) -> Any:
        if isinstance(operand, list):
            return [self.values[v] for v in operand]
        return None if operand is None else self.values[operand]

    def _tensor(self, value: ir.Value | None) -> Tensor | None:
        return None if value is None else made(self.values[value])

    # ---- ops that are built otherwise ------------------------------------------------------------------------------------
    def _weight(self, op: Op) -> list[Value]:
        weight = self.program.weights.weight(op.key)
        tracer = active()
        return [_leaf(weight) if tracer is None else tracer.constant(weight, weight, op.key)]

    def _random_key(self, op: Op) -> list[Value]:
        return [next_key().value] if op.state == self.state else self._built(op)

    def _read_dim(self, op: Op) -> list[Value]:
        if active() is None:
            size = int(made(self.values[op.args[0]]).numpy().reshape(-1)[op.position])
            check(size, ">=", op.minimum, f"'{op.symbol}', read from a tensor")
            self.sizes[Symbol(op.symbol)] = size
            return []
        name = data_size(op.symbol)
        ops.read_dim(self.values[op.args[0]], symbol=name, position=op.position, minimum=op.minimum)
        self.sizes[Symbol(op.symbol)] = Expr.of(Symbol(name))
        return []

    def _check_size(self, op: Op) -> list[Value]:
        check(self.size(op.size), op.relation, self.size(op.bound), op.says)
        return []

    def _if(self, op: Op) -> list[Value]:
        branches = [
            lambda r=r: tuple(made(self.values[v]) for v in self.block(r.blocks[0])) for r in op.operation.regions
        ]
        names = self._defined(op)
        flag = made(self.values[op.condition])
        given = as_list(cond(flag, *branches, results=self._results(op), sizes=names))
        return [t.value for t in given]

    def _loop(self, op: Op) -> list[Value]:
        block = op.operation.regions[0].blocks[0]
        arguments = list(block.arguments)
        names = self._defined(op)
        # Outside of traced functions each iteration has its own sizes.
        found = {*op.symbols, *region_symbols(op.operation.regions[0])} if active() is None else set()

        def body(*given: Tensor) -> tuple[Tensor, ...]:
            for name in found:
                self.sizes.pop(Symbol(name), None)
            for argument, tensor in zip(arguments, given, strict=True):
                self.values[argument] = tensor.value
                for here, there in zip(tensor.type.shape, type_of(argument).shape, strict=True):
                    self._name(here, there)
            return tuple(made(self.values[v]) for v in self.block(block))

        given = loop(
            body,
            [made(self.values[v]) for v in op.carried],
            trips=self._tensor(op.trips),
            condition=self._tensor(op.condition),
            scans=op.scans,
            carried_types=[self.type(type_of(a)) for a in arguments[2:]],
            results=self._results(op),
            sizes=names,
        )
        return [t.value for t in given]

    def _defined(self, op: Op) -> list[str]:
        """Names here for the sizes that a branch or a loop finds out."""
        tracer = active()
        if tracer is None:  # the branch or the loop runs at once, and its results have their sizes
            return []
        names = [tracer.fresh(name) for name in op.symbols]
        self.sizes |= {Symbol(a): Expr.of(Symbol(b)) for a, b in zip(op.symbols, names, strict=True)}
        return names

    def _results(self, op: Op) -> list[TensorType]:
        return [self.type(type_of(r)) for r in op.operation.results]


def _symbol(dim: Dim) -> Symbol | None:
    if isinstance(dim, int) or not dim.is_symbol:
        return None
    atom = dim.terms[0][0][0]
    return atom if isinstance(atom, Symbol) else None


def _leaf(weight: Weight) -> Deferred:
    return Deferred(TensorType(weight.dtype, weight.shape), array=weight.array(), anywhere=True)
