"""Prints a program's entry function: sizes, the memory plan, and one launch after another.

`EntryBuilder(program, kernels).build()` returns the parts of an artefact. Before printing, `Liveness` numbers the ops and
finds the live range of each buffer. Buffers whose sizes follow from the inputs are planned in the arena. The runtime's
allocator provides the others: sizes read from data, and values in loops with sizes of their own.

The function is one region of basic blocks. After each call that may fail it continues in the next block, or branches to
the function's end with the status; `call` prints both. Each launch requests its buffers' addresses again. Otherwise they
would be live across all launches, and with ten thousand launches LLVM's register allocation would dominate its time. A
long function is divided (parts.py). Only the runtime accesses elements of tensors, because they may be in GPU memory.
Library ops, and kernels without a GPU version, then get copies of their operands in host memory, and their results are
copied back. Strings and lists stay in host memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from burn.codegen.backend import Built
from burn.codegen.host import (  # noqa: F401  they register their emitters
    checks,
    collective,
    control,
    custom,
    inputs,
    library,
    memory,
)
from burn.codegen.host.calls import END, Address, Calls
from burn.codegen.host.early_outputs import early_outputs
from burn.codegen.host.emit import PTR, Function, Int, Value
from burn.codegen.host.emitters import EMITTERS, emits
from burn.codegen.host.groups import Groups
from burn.codegen.host.launches import THREADS, Kernels
from burn.codegen.host.memory import space_of
from burn.codegen.host.parts import divide
from burn.codegen.host.records import ON_HOST, KernelRecord, Records, moved
from burn.codegen.host.sizes import Sizes
from burn.codegen.host.steps import Steps
from burn.dialect.control import Group
from burn.dialect.dims import Dim, Symbol, symbols
from burn.dialect.mlir import ir
from burn.dialect.op import Agreement, Op, full_name
from burn.dialect.program import Program
from burn.dialect.query import op_of
from burn.dialect.traits import Trait
from burn.dialect.types import TensorType, type_of
from burn.errors import CompileError, Problem
from burn.kernels.liveness import Liveness
from burn.runtime.abi import FUNCTIONS, MAX_RANK, Status
from burn.runtime.artefact import KernelImage
from burn.runtime.memory import HOST, MemorySpace
from burn.runtime.origins import resolved

T = TypeVar("T")
FAIL = "^fail"
ANY_TIME = ("burn_rt_input", "burn_rt_input_dim", "burn_rt_constant")
"""Host calls that may be pending before launches printed earlier have run."""

_WRONG = {"at most": "sgt", "indexed": "slt"}
"""The predicate of arith.cmpi with which an agreement fails; "ne" for others."""


@dataclass
class Entry:
    """A printed program."""

    functions: list[str]
    constants: list[ir.Value]  # burn.weight and burn.constant values, in the order of their indices
    live_ranges: list[tuple[int, int]]
    buffers: list[Dim]  # bytes of the buffer of each live range
    records: list[KernelRecord]
    operations: list[ir.Operation]  # the op of each record
    sites: list[str]
    functions_of_user: Mapping[str, str]  # symbols of custom ops in C -> their names

    def built(self, code: bytes, images: Sequence[KernelImage] = ()) -> Built:
        """Includes the machine code of its functions, and that of GPU kernels."""
        return Built(
            code,
            self.constants,
            self.live_ranges,
            self.buffers,
            self.records,
            self.operations,
            self.sites,
            images,
            customs=self.functions_of_user,
        )


class EntryBuilder:
    def __init__(self, program: Program, kernels: Kernels, attributes: str, as_table: bool = False) -> None:
        """attributes: LLVM's attributes of the function. as_table: launches are a table (steps.py) instead of code."""
        self.program, self.kernels, self.memory = program, kernels, kernels.memory
        self.results = program.outputs
        self.code = Function("burn_entry", [("run", PTR)], "i32", attributes=attributes)
        self.run = self.code.arguments[0]
        self.sites = kernels.sites
        self.sizes = Sizes(self.code)
        self.live = Liveness(program.block)
        self.pointers: dict[ir.Value, Address] = {}
        self.counters: dict[ir.Value, Value] = {}  # of loops: their iterations, which are in registers
        self.inputs = {value: i for i, value in enumerate(program.inputs)}
        self.constants: dict[ir.Value, int] = {}  # and their indices
        self.planned: dict[ir.Value, int] = {}
        self.shared: dict[tuple[ir.Value, int], int] = {}  # shared buffers: a group's first result, and a number
        self._buffers: list[Dim] = []
        self.groups = Groups(kernels)
        self.records = Records(self.live)
        self.outputs: dict[ir.Value, int] = {}
        self.early: dict[ir.Operation, list[int]] = {}
        self.checked: set[Agreement] = set()
        self.words = self.code.fresh(PTR)
        self._words = 1
        self._fails = False
        self._texts: list[str] = []
        self.functions_of_user: dict[str, str] = {}  # symbols of custom ops -> their names
        self._op: Op | None = None
        self.calls = (Steps if as_table else Calls)(self)

    # ---- the function --------------------------------------------------------------------------------------------------
    def build(self) -> Entry:
        code = self.code
        inputs.bind(self)
        checks.of_inputs(self)
        self._choose_outputs()
        self._plan()
        self.block(self.program.block)
        self._return()
        self.calls.finish()
        tables = self.calls.close()
        code.alloca(self._words, "i64", self.words)
        parts = divide(code, self._close, END)
        ranges = [self.live.range(v) for v in self.planned]
        ranges += [(step, step) for step in (self.live.range(v)[0] for v, _ in self.shared)]
        functions = [*self.kernels.functions, *tables, *self._texts, *(part.text() for part in parts)]
        functions += [f"llvm.func @{name}(!llvm.ptr) -> i32" for name in self.functions_of_user]
        records = self.records
        return Entry(
            functions,
            list(self.constants),
            ranges,
            self._buffers,
            records.all,
            records.operations,
            self.sites,
            self.functions_of_user,
        )

    def pass_threads(self) -> None:
        """Binds the number of threads, so that later sizes may depend on it."""
        if not self.sizes.known(THREADS):
            (name,) = symbols(THREADS)
            threads = self.call("burn_rt_threads")
            assert threads is not None
            self.sizes.bindings[Symbol(name)] = threads

    def _close(self, part: Function) -> None:
        """The end of the function, or of a part of it."""
        run = part.arguments[0]
        part.branch(END)
        if self._fails:
            arguments = [part.fresh("i64") for _ in range(3)]
            part.start(FAIL, arguments)
            part.call("burn_rt_fail", [run, *arguments])
            part.branch(END)
        part.start(END)
        part.return_(part.call("burn_rt_status", [run], "i32"))

    def _choose_outputs(self) -> None:
        for name, value in zip(self.program.output_names, self.results, strict=True):
            if type_of(value).rank > MAX_RANK:
                problem = Problem(f"output '{name}' has {type_of(value).rank} axes")
                raise CompileError(f"outputs may have {MAX_RANK} axes at most", [problem])
        self.outputs = self.live.written_directly(self.results)
        if not self.memory.is_host:  # their runs end after the call
            self.early = early_outputs(self.program, self.outputs)

    def _plan(self) -> None:
        """Computes the sizes of all arena buffers, and plans them with one call."""
        for value in self.live.buffers:
            if (
                self.space(value) == self.memory
                and value not in self.outputs
                and self.sizes.known(type_of(value).elements)
            ):
                self.planned[value] = len(self.planned)
        shared_sizes: list[Dim] = []
        for operation in self.live.operations:
            group = operation.opview
            if isinstance(group, Group) and group.kind == "reduce":
                launches = self.groups.printed(group).launches
                for number, size in enumerate(launches.shared):
                    if self.sizes.known(size) and launches.memory == self.memory:
                        self.shared[operation.results[0], number] = len(self.planned) + len(shared_sizes)
                        shared_sizes.append(size)
        self._buffers = [*(type_of(value).bytes for value in self.planned), *shared_sizes]
        if self._buffers:
            self.calls.plan(len(self._buffers), self._buffer_sizes(shared_sizes))

    def _buffer_sizes(self, shared_sizes: Sequence[Dim]) -> Iterator[Int]:
        for value in self.planned:
            self.code.cut()
            size = self.sizes.dim(type_of(value).bytes)
            # in a branch that does not run it may be negative
            yield size if self.live.top_level(value) else self.code.max(size, 0)
        for size in shared_sizes:
            yield self.code.max(self.sizes.dim(size), 0)

    def _return(self) -> None:
        """Copies outputs that no kernel has written in place: inputs, constants, and values that are several outputs."""
        for i, value in enumerate(self.results):
            if self.live.roots(value) and self.outputs.get(self.live.roots(value)[0]) == i:
                continue
            type_ = type_of(value)
            target = self.calls.reached(self._output(i, type_, type_))
            self.copy(value, target, self.pointer(value), type_.bytes)

    def _output(self, index: int, type_: TensorType, written: TensorType) -> Address:
        """The memory of an output for a value of type `written`."""
        dims = [self.sizes.dim(dim) for dim in type_.shape]
        return self.calls.output(index, dims, self.sizes.dim(written.bytes))

    # ---- calls ---------------------------------------------------------------------------------------------------------
    def call(self, name: str, *operands: Int) -> Value:
        """Calls the runtime, and branches to the function's end if the run has failed."""
        code, function = self.code, FUNCTIONS[name]
        if name not in ANY_TIME:
            self.calls.finish()
        self.settle()
        types = {"ptr": PTR}
        result = types.get(function.result, function.result)
        value = code.call(name, [self.run, *(code.value(o) for o in operands)], result)
        match function.fails:
            case "null":
                code.leave_if(code.is_null(some(value)), END)
            case "negative":
                code.leave_if(code.cmp("slt", some(value), 0), END)
            case "status":
                code.leave_if(code.cmp("ne", some(value), code.const(0, "i32")), END)
        return value if value is not None else self.run

    def fail_if(self, condition: Value, status: Status, site: str, value: Int) -> None:
        """Ends the run if the condition holds."""
        code = self.code
        self._fails = True
        number = code.const(self.site(site)) if site else code.const(-1)
        code.leave_if(condition, FAIL, [code.const(status), number, code.value(value)])

    def settle(self) -> None:
        """Ends the run if a size computed so far does not fit 64 bits."""
        bad, *rest = self.sizes.overflowed or (None,)
        if bad is None:
            return
        for flag in rest:
            bad = self.code.op("arith.ori", bad, flag)
        self.sizes.overflowed = []
        self.fail_if(bad, Status.SIZE_OVERFLOW, full_name(self._op) if self._op else "", 0)

    def text(self, data: bytes, alignment: int = 1) -> Value:
        """The address of constant bytes."""
        name = f"text{len(self._texts)}"
        written = "".join(f"\\{byte:02X}" for byte in data or b"\0")
        self._texts.append(f'llvm.mlir.global internal constant @{name}("{written}") {{alignment = {alignment} : i64}}')
        return self.code.raw(f"llvm.mlir.addressof @{name} : {PTR}", PTR)

    def site(self, name: str) -> int:
        if name not in self.sites:
            self.sites.append(name)
        return self.sites.index(name)

    def copy(self, like: ir.Value, target: Value, source: Value, size: Dim) -> None:
        """Copies `size` bytes within the memory space of `like`."""
        self.call_in(self.space(like), "copy", target, source, self.sizes.dim(size))

    def read(self, value: ir.Value, position: int = 0) -> Value:
        """An element of a tensor of integers or bools, as an i64."""
        size = type_of(value).element_bytes
        return self.call_in(self.space(value), "read", self.code.gep(self.pointer(value), position * size, "i8"), size)

    def flag(self, value: ir.Value) -> Value:
        """The element of a bool[] as an i1."""
        return self.code.cmp("ne", self.read(value), 0)

    def set_word(self, index: int, value: Int) -> None:
        """Writes one of the argument words of launches and library functions."""
        self.reserve_words(index + 1)
        self.code.store(self.code.word(value), self.words, index)

    def set_words(self, values: Sequence[Int]) -> None:
        """Writes all argument words of a launch."""
        for i, value in enumerate(values):
            self.set_word(i, value)
        self.reserve_words(len(values))

    def unless_none(self, made: Int, count: Int) -> Int:
        """A count, or 0 if the launch computes no elements."""
        if isinstance(made, int):
            return count
        return self.code.select(self.code.cmp("eq", made, 0), self.code.const(0), self.code.value(count))

    def reserve_words(self, count: int) -> None:
        self._words = max(self._words, count)

    # ---- memory spaces -------------------------------------------------------------------------------------------------
    def space(self, value: ir.Value) -> MemorySpace:
        """The memory space of a value's elements."""
        return space_of(value, self.memory)

    def call_in(self, space: MemorySpace, what: str, *operands: Int) -> Value:
        """Calls the runtime's function for a memory space: "alloc", "grow", "copy", "read", "write"."""
        return self.call(memory.function(space, what), *operands)

    def operand(self, value: ir.Value) -> Value:
        """The address of a value's elements for an op that runs on the host: that of a copy if they are in GPU memory."""
        pointer = self.pointer(value)
        return pointer if self.space(value).is_host else self.call(memory.FETCH, pointer, self.size(value))

    def draft(self, value: ir.Value) -> Value:
        """Host memory for a result that the host computes; `deliver` copies it to the value's own memory space."""
        if self.space(value).is_host:
            return self.define(value)
        return self.call_in(HOST, "alloc", self.size(value))

    def deliver(self, value: ir.Value, draft: Value) -> None:
        """Copies a result from `draft` to its own memory, if they differ."""
        if not self.space(value).is_host:
            self.call(memory.SEND, self.define(value), draft, self.size(value))

    def adopt(self, value: ir.Value, made: Value) -> None:
        """Takes over a result in host memory that the library has allocated."""
        if self.space(value).is_host:
            self.pointers[value] = made
        else:
            self.deliver(value, made)

    def size(self, value: ir.Value) -> Int:
        """The bytes of a value."""
        return self.sizes.dim(type_of(value).bytes)

    # ---- values --------------------------------------------------------------------------------------------------------
    def pointer(self, value: ir.Value) -> Value:
        """The address of a value's elements."""
        return self.calls.reached(self.address(value))

    def address(self, value: ir.Value) -> Address:
        """The same, for a launch."""
        home = self.live.home(value)
        if home in self.pointers:
            return self.pointers[home]
        if home in self.planned:
            return self.calls.in_arena(self.planned[home])
        if home in self.inputs:
            return self.calls.input(self.inputs[home])
        op = op_of(home)
        if op is not None and op.has(Trait.STORED):
            return self.calls.constant(self.constants.setdefault(home, len(self.constants)))
        raise CompileError(f"internal: {home} has no memory yet")

    def shared_buffer(self, group: Group, number: int, size: Dim) -> Address:
        """The address of a buffer that the kernels of one group share."""
        planned = self.shared.get((group.operation.results[0], number))
        if planned is not None:
            return self.calls.in_arena(planned)
        return self.call_in(self.groups.printed(group).launches.memory, "alloc", self.sizes.dim(size))

    def define(self, value: ir.Value) -> Value:
        """The memory for an op's result, allocated now unless it was planned."""
        return self.calls.reached(self.made(value))

    def made(self, value: ir.Value) -> Address:
        """The same, for a launch."""
        if value in self.pointers or value in self.planned:
            return self.address(value)
        index = self.outputs.get(value)
        if index is not None and not self.sizes.known(*type_of(self.results[index]).shape):
            del self.outputs[value]  # a reshape to sizes that are only read later
            index = None
        if index is not None:
            type_ = type_of(self.results[index])
            if (maker := op_of(self.results[index])) is not None:  # the value must fill the reshaped results
                written = type_of(value)
                alike = written.element_bytes == type_.element_bytes  # a complex element is two real ones
                sizes = (written.elements, type_.elements) if alike else (written.bytes, type_.bytes)
                self.require(Agreement(*sizes), full_name(maker))
            self.pointers[value] = self._output(index, type_, type_of(value))
        else:
            self.pointers[value] = self.call_in(self.space(value), "alloc", self.size(value))
        return self.pointers[value]

    def bind(self, name: str, value: Value) -> None:
        self.sizes.bindings[Symbol(name)] = value

    # ---- ops -----------------------------------------------------------------------------------------------------------
    def block(self, block: ir.Block) -> None:
        for operation in block.operations:
            op = operation.opview
            if not isinstance(op, Op):
                raise CompileError(f"internal: {operation.name} reached the code generator")
            emit = EMITTERS.get(op.OP_NAME)
            if emit is None:
                raise CompileError(
                    "the code generator cannot compile this program",
                    [Problem(f"burn.{op.OP_NAME} has no kernel", op=op.OP_NAME, node=resolved(full_name(op)))],
                )
            if self.code.at_top:
                self.code.cut()
            self._op = op
            if len(operation.regions) and not isinstance(op, Group):
                self.calls.finish()
            emit(self, op)
            for number in self.early.get(operation, ()):
                self.call("burn_rt_device_ready", number)
        self.calls.finish()

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Values printed inside a region are not available outside."""
        pointers = dict(self.pointers)
        with self.code.scope(), self.sizes.scope(), self.calls.inside():
            yield
            self.settle()
        self.pointers = pointers

    def library(self, op: Op, function: str, operands: Sequence[Int]) -> Value:
        """Calls a library function and records it for profiles. Returns the function's result."""
        kind = "library" if self.memory.is_host else ON_HOST
        record = KernelRecord(function, kind, (full_name(op),), 0, moved(op.operation))
        number = self.records.add(record, op.operation)
        self.call("burn_rt_enter", number)
        value = self.call(function, *operands)
        self.call("burn_rt_leave", number)
        return value

    def check_sizes(self, op: Op) -> None:
        """Ends the run if sizes differ that the op's kernel assumes to be equal, so that nothing is read out of bounds."""
        for need in op.must_agree():
            self.require(need, full_name(op))

    def require(self, need: Agreement, site: str) -> None:
        if need.size == need.wanted or need in self.checked:
            return
        code = self.code
        if code.at_top:  # a check in a region holds only there
            self.checked.add(need)
        size, wanted = (self.sizes.value(d) for d in (need.size, need.wanted))
        self.settle()
        bad = code.cmp(_WRONG.get(need.relation, "ne"), size, 1 if need.relation == "indexed" else wanted)
        if need.relation == "broadcast":
            bad = code.op("arith.andi", bad, code.cmp("ne", size, 1))
        if need.relation == "indexed":
            bad = code.op("arith.andi", bad, code.cmp("sgt", wanted, 0))
        status = Status.INDEX_OUT_OF_RANGE if need.relation == "indexed" else Status.SHAPE_MISMATCH
        self.fail_if(bad, status, site, size)


def some(value: T | None) -> T:
    assert value is not None
    return value


@emits("weight", "constant", "return", "yield")
def _nothing(entry: EntryBuilder, op: Op) -> None:
    """Prints nothing: constants are printed at their uses, and terminators by the ops with regions."""


@emits("reshape", "view_as_real", "view_as_complex")
def _reshape(entry: EntryBuilder, op: Op) -> None:
    """The result is the operand's memory."""
    entry.check_sizes(op)


@emits("read_dim")
def _read_dim(entry: EntryBuilder, op: Op) -> None:
    counter = entry.counters.get(op.x)
    value = entry.read(op.x, op.position) if counter is None else counter
    if counter is None or op.minimum > 0:
        entry.fail_if(entry.code.cmp("slt", value, op.minimum), Status.NEGATIVE_SIZE, full_name(op), value)
    entry.bind(op.symbol, value)
