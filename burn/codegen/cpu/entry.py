"""Prints a program's entry function: sizes, the memory plan, and one launch after another.

`EntryBuilder(program, target).build()` gives everything an artefact is made of. Before printing, `Liveness` numbers the ops
and finds how long each buffer lives; buffers whose size is known once the inputs are go into the arena, the others (sizes
read from data, values inside loops with sizes of their own) come from the runtime's allocator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from burn.codegen.cpu.emit import PTR, Function, Int, Value
from burn.codegen.cpu.kernels import Emitted, KernelPrinter
from burn.codegen.cpu.scalars import ScalarEmitter
from burn.codegen.cpu.target import Target
from burn.codegen.liveness import Liveness
from burn.dialect.control import Group, defined_symbols
from burn.dialect.dims import Dim, Expr, Symbol, product, symbols
from burn.dialect.mlir import ir
from burn.dialect.op import Agreement, Op, source_name
from burn.dialect.program import Program
from burn.dialect.query import op_of
from burn.dialect.types import TensorType, type_of
from burn.errors import CompileError, Problem
from burn.kernels.builders import kernels

SHAPE_MISMATCH, NEGATIVE_SIZE = 3, 4  # burn_status in burn_rt.h


@dataclass(frozen=True)
class KernelRecord:
    """What the artefact tells of a launch site, for profiles."""

    name: str
    kind: str
    sources: tuple[str, ...]
    flops: Dim
    bytes: Dim


@dataclass
class Entry:
    """A program, printed."""

    functions: list[str]
    constants: list[ir.Value]  # burn.weight and burn.constant values, in the order of their indices
    live_ranges: list[tuple[int, int]]
    records: list[KernelRecord]
    sites: list[str]


class EntryBuilder:
    def __init__(self, program: Program, target: Target) -> None:
        self.program, self.target = program, target
        self.results = program.outputs
        self.code = Function("burn_entry", [("run", PTR)], "i32", attributes=target.attributes)
        self.run = self.code.arguments[0]
        self.sites: list[str] = []
        self.sizes = ScalarEmitter(self.code, [], [], {}, self.run, self.sites)
        self.live = Liveness(program.block)
        self.pointers: dict[ir.Value, Value] = {}
        self.constants: dict[ir.Value, int] = {}  # and their indices
        self.slots: dict[ir.Value, int] = {}
        self.slot_memory: Value | None = None
        self.printer = KernelPrinter(target, self.sites)
        self.records: list[KernelRecord] = []
        self.outputs: dict[ir.Value, int] = {}
        self.checked: set[Agreement] = set()
        self.words: Value | None = None
        self.planned: list[ir.Value] = []

    # ---- the whole -----------------------------------------------------------------------------------------------------
    def build(self) -> Entry:
        code = self.code
        self.words = code.alloca(self._most_words(), "i64")
        if count := sum(op.opview.OP_NAME == "loop" for op in self.live.operations):
            self.slot_memory = code.alloca(2 * count, "i64")
        self._bind_inputs()
        checks.of_inputs(self)
        self._choose_outputs()
        self._plan()
        self.block(self.program.block)
        self._return()
        status = code.call("burn_rt_status", [self.run], "i32")
        code.return_(status)
        ranges = [self.live.range(v) for v in self.planned]
        return Entry([*self.printer.functions, code.text()], list(self.constants), ranges, self.records, self.sites)

    def _most_words(self) -> int:
        """Room for the longest argument list of any launch, and for shapes."""
        widest = max((len(op.operands) + len(op.results) for op in self.live.operations), default=0)
        return 64 + 2 * widest + len(self.live.symbols)

    def _bind_inputs(self) -> None:
        for i, value in enumerate(self.program.inputs):
            index = self.code.const(i)
            self.pointers[value] = _some(self.code.call("burn_rt_input", [self.run, index], PTR))
            for axis, dim in enumerate(type_of(value).shape):
                if isinstance(dim, Expr) and dim.is_symbol:
                    atom = dim.terms[0][0][0]
                    if atom not in self.sizes.places:
                        size = self.code.call("burn_rt_input_dim", [self.run, index, self.code.const(axis)], "i64")
                        self.sizes.places[atom] = _some(size)

    def _choose_outputs(self) -> None:
        """Outputs that a kernel can write straight to the caller: results of top-level ops, each wanted once. Not those
        that say themselves how large they are: an op that finds its results' size has placed them by then."""
        for i, value in enumerate(self.results):
            roots = self.live.roots(value)
            if len(roots) != 1 or roots[0] in self.outputs or not self.live.top_level(roots[0]):
                continue
            own = defined_symbols(roots[0].owner)
            if not any(symbols(d) & own for d in type_of(roots[0]).shape):
                self.outputs[roots[0]] = i

    def _plan(self) -> None:
        """Sizes of all arena buffers, and one call that places them."""
        code = self.code
        known = {atom.name for atom in self.sizes.places if isinstance(atom, Symbol)}
        for value in self.live.buffers:
            if value not in self.outputs and set(symbols(type_of(value).elements)) <= known:
                self.planned.append(value)
        if not self.planned:
            return
        count = len(self.planned)
        sizes = code.alloca(count, "i64")
        offsets = code.alloca(count, "i64")
        for i, value in enumerate(self.planned):
            size = self.sizes.dim(type_of(value).bytes)
            if not self.live.top_level(value):  # in a branch that is not taken it may be negative
                size = code.max(size, 0)
            code.store(code.value(size), sizes, i)
        base = _some(code.call("burn_rt_plan", [self.run, sizes, code.const(count), offsets], PTR))
        for i, value in enumerate(self.planned):
            self.pointers[value] = code.gep(base, code.load(offsets, i, "i64"), "i8")

    def _return(self) -> None:
        """Copies outputs that no kernel has written in place: inputs, constants, values wanted twice."""
        for i, value in enumerate(self.results):
            if self.live.roots(value) and self.outputs.get(self.live.roots(value)[0]) == i:
                continue
            target = self._output(i, type_of(value))
            self.copy(target, self.pointer(value), self.sizes.dim(type_of(value).bytes))

    def _output(self, index: int, type_: TensorType) -> Value:
        code = self.code
        for axis, dim in enumerate(type_.shape):
            code.store(code.value(self.sizes.dim(dim)), _some(self.words), axis)
        size = code.value(self.sizes.dim(type_.bytes))
        operands = [self.run, code.const(index), code.const(type_.rank), _some(self.words), size]
        return _some(code.call("burn_rt_output", operands, PTR))

    def copy(self, target: Value, source: Value, size: Int) -> None:
        self.code.call("memcpy", [target, source, self.code.value(size)], PTR)

    # ---- values --------------------------------------------------------------------------------------------------------
    def pointer(self, value: ir.Value) -> Value:
        """The address of a value's elements."""
        home = self.live.home(value)
        if home in self.pointers:
            return self.pointers[home]
        op = op_of(home)
        if op is not None and op.OP_NAME in ("weight", "constant"):
            if home not in self.constants:
                self.constants[home] = len(self.constants)
            index = self.code.const(self.constants[home])
            self.pointers[home] = _some(self.code.call("burn_rt_constant", [self.run, index], PTR))
            return self.pointers[home]
        raise CompileError(f"internal: {home} has no memory yet")

    def slot(self, value: ir.Value) -> Value:
        """Eight bytes on the stack for a loop's counter or condition."""
        if value not in self.slots:
            self.slots[value] = len(self.slots)
        return self.code.gep(_some(self.slot_memory), self.slots[value], "i64")

    def define(self, value: ir.Value) -> Value:
        """The memory for an op's result, made now unless it was planned."""
        if value in self.pointers:
            return self.pointers[value]
        index = self.outputs.get(value)
        if index is not None and not self._known(type_of(self.results[index])):
            del self.outputs[value]  # a reshape to sizes that are only read later
            index = None
        if index is not None:
            pointer = self._output(index, type_of(self.results[index]))
        else:
            size = self.code.value(self.sizes.dim(type_of(value).bytes))
            pointer = _some(self.code.call("burn_rt_alloc", [self.run, size], PTR))
        self.pointers[value] = pointer
        return pointer

    def _known(self, type_: TensorType) -> bool:
        """Whether all of a type's sizes are at hand."""
        return all(Symbol(name) in self.sizes.places for dim in type_.shape for name in symbols(dim))

    # ---- ops -----------------------------------------------------------------------------------------------------------
    def block(self, block: ir.Block) -> None:
        for operation in block.operations:
            op = operation.opview
            if not isinstance(op, Op):
                raise CompileError(f"internal: {operation.name} reached the code generator")
            emit = EMITTERS.get(op.OP_NAME)
            if emit is None:
                raise CompileError(
                    "the CPU code generator cannot compile this program",
                    [Problem(f"burn.{op.OP_NAME} has no kernel", op=op.OP_NAME, node=source_name(op))],
                )
            emit(self, op)

    def launch(self, emitted: Emitted, pointers: Sequence[Value], record: KernelRecord) -> None:
        code = self.code
        for i, pointer in enumerate(pointers):
            code.store(pointer, _some(self.words), i)
        for i, size in enumerate(emitted.sizes):
            code.store(code.value(self.sizes.dim(size)), _some(self.words), len(pointers) + i)
        function = code.pure(f"llvm.mlir.addressof @{emitted.name} : {PTR}", PTR)
        self.records.append(record)
        number = code.const(len(self.records) - 1)
        count, grain = (code.value(self.sizes.dim(d)) for d in (emitted.count, emitted.grain))
        code.call("burn_rt_launch", [self.run, number, function, _some(self.words), count, grain])

    def library(self, op: Op, function: str, operands: Sequence[Value], result: str = "") -> Value | None:
        """Calls library code, bracketed for profiles."""
        bytes_ = sum_dims([type_of(v).bytes for v in (*op.operation.operands, *op.operation.results)])
        self.records.append(KernelRecord(function, "library", (source_name(op),), 0, bytes_))
        number = self.code.const(len(self.records) - 1)
        self.code.call("burn_rt_enter", [self.run, number])
        value = self.code.call(function, [self.run, *operands], result)
        self.code.call("burn_rt_leave", [self.run, number])
        return value

    def check_sizes(self, op: Op) -> None:
        """Ends the run where sizes that the op's kernel takes to be equal are not: nothing is read out of bounds."""
        for need in op.must_agree():
            if need.size == need.wanted or need in self.checked:
                continue
            if self.code.at_top:  # what is checked in a region is known only there
                self.checked.add(need)
            code = self.code
            size, wanted = (code.value(self.sizes.dim(d)) for d in (need.size, need.wanted))
            bad = code.cmp("sgt" if need.relation == "at most" else "ne", size, wanted)
            if need.relation == "broadcast":
                bad = code.op("arith.andi", bad, code.cmp("ne", size, 1))
            with code.if_(bad):
                site = code.const(self.sizes.site(source_name(op)))
                code.call("burn_rt_fail", [self.run, code.const(SHAPE_MISMATCH), site, size])

    def bind(self, name: str, value: Value) -> None:
        self.sizes.places[Symbol(name)] = value


def sum_dims(dims: Sequence[Dim]) -> Dim:
    total: Dim = 0
    for d in dims:
        total = total + d
    return total


def _some(value: Value | None) -> Value:
    assert value is not None
    return value


Emit = Callable[[EntryBuilder, Op], None]
EMITTERS: dict[str, Emit] = {}
"""How each op that may stand in a fused program is printed into the entry function."""


def emits(*names: str) -> Callable[[Emit], Emit]:
    def register(function: Emit) -> Emit:
        for name in names:
            EMITTERS[name] = function
        return function

    return register


@emits("weight", "constant", "return", "yield")
def _nothing(entry: EntryBuilder, op: Op) -> None:
    """Constants are placed at their use; terminators are handled by what they end."""


@emits("reshape")
def _reshape(entry: EntryBuilder, op: Op) -> None:
    """A reshape is its operand's memory."""
    entry.check_sizes(op)


@emits("group")
def _group(entry: EntryBuilder, op: Op) -> None:
    assert isinstance(op, Group)
    for inner in op.ops:
        entry.check_sizes(inner)
    results = [entry.define(r) for r in op.operation.results]
    sources = tuple(dict.fromkeys(source_name(inner) for inner in op.ops))
    for call in kernels(op):
        emitted = entry.printer.print(call.kernel)
        pointers = []
        for binding in call.bindings:
            if binding is not None:
                side, number = binding
                pointers.append(entry.pointer(op.operation.operands[number]) if side == "in" else results[number])
        bytes_ = sum_dims([type_of(v).bytes for v in (*op.operation.operands, *op.operation.results)])
        name = "+".join(inner.OP_NAME for inner in op.ops[:4]) + ("+..." if len(op.ops) > 4 else "")
        entry.launch(emitted, pointers, KernelRecord(name, op.kind, sources, flops(op), bytes_))


def flops(group: Group) -> Dim:
    """Floating-point operations of the group's contraction; 0 for other groups, whose cost is memory."""
    total: Dim = 0
    for op in group.ops:
        if op.OP_NAME == "dot_general":
            depth = product([type_of(op.lhs).shape[a] for a in op.lhs_contract])
            total = total + type_of(op.operation.results[0]).elements * depth * 2
        if op.OP_NAME == "conv":
            weight = type_of(op.weight).shape
            if op.columns is not None:  # [groups, panels, k.., channels, width]
                taps = product(weight[2:-1])
            else:
                taps = product(weight[:-1] if op.layout == "last" else weight[1:])
            total = total + type_of(op.operation.results[0]).elements * taps * 2
    return total


@emits("read_dim")
def _read_dim(entry: EntryBuilder, op: Op) -> None:
    code = entry.code
    element = "i64" if type_of(op.x).dtype == "int64" else "i32"
    value = code.load(entry.pointer(op.x), op.position, element)
    value = code.cast("arith.extsi", value, "i64")
    bad = code.cmp("slt", value, op.minimum)
    with code.if_(bad):
        site = code.const(entry.sizes.site(source_name(op)))
        code.call("burn_rt_fail", [entry.run, code.const(NEGATIVE_SIZE), site, value])
    entry.bind(op.symbol, code.select(bad, code.const(op.minimum), value))


from burn.codegen.cpu import checks, control, library  # noqa: E402, F401  they register their emitters
