"""Prints scalar expressions: `ScalarEmitter.value(node)` is the MLIR value of a node, for one iteration or for a vector
of lanes.

One loop variable may be the lane: the expression is then evaluated at lane..lane+VL-1 together. A node that does not
depend on the lane stays a scalar until it meets one that does. Loads are contiguous, uniform, shuffled from a short span
(spans.py) or gathered, depending on the index map.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from burn.codegen.cpu import convert as conversions
from burn.codegen.cpu import math
from burn.codegen.cpu.elementary.exponential import exp_of_negative, sigmoid_for_bfloat16
from burn.codegen.cpu.elementary.gelu import gelu_for_bfloat16
from burn.codegen.cpu.elementary.tables import LANES, NUMBERS, has_tables, looks_up, on_whole_vectors, taken
from burn.codegen.cpu.lanes import Lanes
from burn.codegen.cpu.spans import Span, load_span, mask_of, span_of
from burn.codegen.host.emit import PTR, Function, Int, Value, bits, element_of, lanes_of, vector
from burn.dialect.dims import Atom, Call, Dim, Expr, LoopVar, Symbol, coefficient, non_negative, substitute
from burn.dialect.indexing import FROM_START
from burn.dialect.types import FLOATS
from burn.errors import CompileError
from burn.kernels.body import (
    Accumulator,
    Apply,
    Buffer,
    Const,
    Convert,
    Fetched,
    Index,
    Load,
    LoopKernel,
    Reduced,
    Reinterpret,
    Scalar,
    Where,
    children,
    loop_atoms,
    own_dims,
    walk,
)
from burn.kernels.gelu import gelu_of
from burn.runtime.abi import Status


def short_rows(kernel: LoopKernel) -> set[int]:
    """The sizes of rows that registers hold and a kernel reads by fetched indices: `ScalarEmitter` must know them as numbers."""
    loads = [node for stage in kernel.stages for node in walk(*stage.scalars) if isinstance(node, Load)]
    offsets = [node.offset for node in loads if node.dtype == "float32"]
    found = [a.extent for o in offsets for a in loop_atoms(o) if isinstance(a, Fetched) and coefficient(o, a) == 1]
    return {extent for extent in found if isinstance(extent, int) and 0 < extent <= NUMBERS}


def index_from_start(source: Scalar) -> Scalar | None:
    """The index before `burn.from_start`, which makes a negative one too small for any axis. None for other sources."""
    match source:
        case Apply(
            function="select",
            args=(
                Apply(function="lt", args=(index, Const(value=0))),
                Apply(function="add", args=(shifted, Const(value=lowest))),
                same,
            ),
        ) if shifted is index is same and lowest == -FROM_START:
            return index
    return None


class ScalarEmitter:
    """Prints into `code`. `pointers[i]` is buffer i's address; `sizes` the program's symbols; `sites` collects the names of
    source nodes for run-time errors. Vectors start at multiples of `step` iterations of the lane; 0 if that is not known.
    `active`: the number of lanes that are on, if `mask` is constant."""

    def __init__(
        self,
        code: Function,
        buffers: Sequence[Buffer],
        pointers: Sequence[Value],
        sizes: dict[str, Value],
        worker: Value,
        sites: list[str],
    ) -> None:
        self.code, self.buffers, self.pointers, self.worker, self.sites = code, buffers, pointers, worker, sites
        self.bindings: dict[Atom, Int] = {Symbol(name): value for name, value in sizes.items()}
        self.lane: LoopVar | None = None
        self.lanes = 1
        self.step = 0
        self.mask: Value | None = None
        self.active: int | None = None
        self.reduced: dict[str, Value] = {}
        self.accumulator: Value | None = None
        self._memo: list[dict[object, Value]] = [{}]
        self._varies: dict[int, tuple[Scalar, bool]] = {}
        self.rows: dict[Int, Sequence[Int]] = {}  # the row loops' indices in a contraction, by row

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Values created inside are not used outside: one scope per region of the printed code, and per change of the
        loops' indices."""
        self._memo.append({})
        bindings = dict(self.bindings)
        yield
        self.bindings = bindings
        self._memo.pop()

    @contextmanager
    def under(self, mask: Value | None, active: int | None = None) -> Iterator[None]:
        before = self.mask, self.active
        self.mask, self.active = mask, active
        with self.scope():
            yield
        self.mask, self.active = before

    # ---- index expressions -------------------------------------------------------------------------------------------
    def varies(self, dim: Dim) -> bool:
        return self.lane is not None and not isinstance(dim, int) and self.lane in loop_atoms(dim)

    def dim(self, dim: Dim) -> Int:
        """An index expression that does not depend on the lane."""
        if isinstance(dim, int):
            return dim
        total: Int = 0
        for monomial, count in dim.terms:
            term: Int = count
            for atom in monomial:
                term = self.code.mul(term, self._atom(atom))
            total = self.code.add(total, term)
        return total

    def _atom(self, atom: Atom) -> Int:
        if isinstance(atom, Fetched) and atom not in self.bindings:
            return self._fetch(atom)
        if not isinstance(atom, Call):
            if atom not in self.bindings:
                raise CompileError(f"internal: {atom} is used outside its loop")
            return self.bindings[atom]
        args = [self.dim(a) for a in atom.args]
        if atom.op in ("min", "max", "broadcast"):
            result = args[0]
            for a in args[1:]:
                result = getattr(self.code, atom.op)(result, a)
            return result
        positive = non_negative(atom.args[0])
        args[1] = self.code.max(args[1], 1)  # a size of 0 is a divisor only in loops that do not run
        if atom.op == "floordiv":
            return (self.code.udiv if positive else self.code.floordiv)(*args)
        return (self.code.urem if positive else self.code.mod)(*args)

    def lane_dim(self, dim: Dim) -> Value:
        """An index expression as one i64 per lane."""
        if not self.varies(dim) or isinstance(dim, int):
            return self.code.splat(self.code.value(self.dim(dim)), self.lanes)
        assert self.lane is not None
        total: Value | None = None
        rest: Dim = 0
        for monomial, count in dim.terms:
            part = Expr({monomial: count})
            if not self.varies(part):
                rest = rest + part
                continue
            term: Value | None = None
            uniform: Dim = count
            for atom in monomial:
                if not self.varies(Expr.of(atom)):
                    uniform = uniform * Expr.of(atom)
                    continue
                factor = self._lane_atom(atom)
                term = factor if term is None else self.code.op("arith.muli", term, factor)
            assert term is not None
            if uniform != 1:
                term = self.code.op("arith.muli", term, self.lane_dim(uniform))
            total = term if total is None else self.code.op("arith.addi", total, term)
        assert total is not None
        return total if rest == 0 else self.code.op("arith.addi", total, self.lane_dim(rest))

    def _lane_atom(self, atom: Atom) -> Value:
        if atom == self.lane:
            base = self.code.splat(self.code.value(self.bindings[atom]), self.lanes)
            return self.code.op("arith.addi", base, self.code.lane_ids(self.lanes))
        if isinstance(atom, Fetched):
            return self.code.splat(self._fetch(atom), self.lanes)
        assert isinstance(atom, Call)
        args = [self.lane_dim(a) for a in atom.args]
        if atom.op in ("min", "max"):
            result = args[0]
            for a in args[1:]:
                result = self.code.op(f"arith.{atom.op}si", result, a)
            return result
        assert atom.op != "broadcast", "sizes that broadcast do not depend on loop variables"
        positive = non_negative(atom.args[0])
        if not isinstance(atom.args[1], int):
            args[1] = self.code.op("arith.maxsi", args[1], self.code.const(1, args[1].type))
        quotient = self.code.op("arith.divui" if positive else "arith.floordivsi", *args)
        if atom.op == "floordiv":
            return quotient
        return self.code.op("arith.subi", args[0], self.code.op("arith.muli", quotient, args[1]))

    def _fetch(self, atom: Fetched) -> Value:
        """An index read from data. A negative one counts from the end. One out of range is reported, and 0 is used instead."""
        key = ("fetch", atom.name, self.lanes if self.varies_scalar(atom.source) else 1)
        for memo in self._memo:
            if key in memo:
                return memo[key]
        code, index = self.code, index_from_start(atom.source)
        raw = self.value(atom.source if index is None else index)
        if atom.certain:
            self._memo[-1][key] = raw
            return raw
        extent = code.splat(code.value(self.dim(atom.extent)), lanes_of(raw.type))
        zero, wrapped = code.const(0, raw.type), raw
        if index is None:
            wrapped = code.select(code.cmp("slt", raw, zero), code.op("arith.addi", raw, extent), raw)
        bad = code.cmp("uge", wrapped, extent)
        lanes = lanes_of(raw.type)
        if lanes > 1 and self.mask is not None:
            bad = code.op("arith.andi", bad, self.mask)
        result = code.select(bad, zero, wrapped)
        any_bad = bad if lanes == 1 else code.raw(f"vector.reduction <or>, {bad} : {bad.type} into i1", "i1")
        if lanes == 1 and self.mask is not None:
            some = code.raw(f"vector.reduction <or>, {self.mask} : {self.mask.type} into i1", "i1")
            any_bad = code.op("arith.andi", any_bad, some)
        with code.if_(any_bad), self.scope():
            worst = self.value(atom.source)
            if lanes > 1:
                shown = code.select(bad, worst, zero)
                low = code.raw(f"vector.reduction <minsi>, {shown} : {raw.type} into i64", "i64")
                high = code.raw(f"vector.reduction <maxsi>, {shown} : {raw.type} into i64", "i64")
                worst = code.select(code.cmp("slt", low, 0), low, high)
            site = code.const(self.site(atom.site))
            code.call("burn_rt_kernel_fail", [self.worker, code.const(Status.INDEX_OUT_OF_RANGE), site, worst])
        self._memo[-1][key] = result
        return result

    def site(self, name: str) -> int:
        if name not in self.sites:
            self.sites.append(name)
        return self.sites.index(name)

    # ---- values --------------------------------------------------------------------------------------------------------
    def lanes_changed(self) -> None:
        """Forgets which nodes vary along the lanes, whose loop or number is another one now."""
        self._varies.clear()

    def varies_scalar(self, node: Scalar) -> bool:
        """True if a node's value depends on the lane."""
        if self.lane is None:
            return False
        if id(node) not in self._varies:
            for part in walk(node):
                if id(part) in self._varies:
                    continue
                answer = any(self.varies(d) for d in own_dims(part))
                answer = answer or any(self._varies[id(c)][1] for c in children(part))
                if isinstance(part, Reduced):
                    answer = part.name not in self.reduced or lanes_of(self.reduced[part.name].type) > 1
                if isinstance(part, Accumulator):
                    answer = True
                self._varies[id(part)] = (part, answer)
        return self._varies[id(node)][1]

    def value(self, node: Scalar) -> Value:
        """The node's value: a scalar when it does not depend on the lane, else a vector."""
        for memo in self._memo:
            if id(node) in memo:
                return memo[id(node)]
        result = self._emit(node)
        self._memo[-1][id(node)] = result
        return result

    def remember(self, values: Iterable[tuple[Scalar, Value]]) -> None:
        """Registers values of nodes that are available in the current scope."""
        self._memo[-1].update((id(node), value) for node, value in values)

    def wide(self, node: Scalar) -> Value:
        """The node's value in every lane."""
        return self.code.splat(self.value(node), self.lanes)

    def _emit(self, node: Scalar) -> Value:
        code = self.code
        match node:
            case Const(dtype=dtype, value=value):
                return self._constant(dtype, value)
            case Load():
                return self._load(node)
            case Index(dim=dim):
                return self.lane_dim(dim) if self.varies(dim) else code.value(self.dim(dim))
            case Apply(coarse=True) if (coarse := self._coarse(node)) is not None:
                return coarse
            case Apply(function=function, args=args):
                values = [self.value(a) for a in args]
                width = max(lanes_of(v.type) for v in values)
                values = [code.splat(v, width) for v in values]
                if function == "exp" and _is_never_above_zero(args[0]):
                    return exp_of_negative(Lanes(code, values[0])).value
                if (
                    function == "pow"
                    and isinstance(args[0], Const)
                    and args[0].value == 2.0
                    and args[0].dtype in FLOATS
                ):
                    return math.apply(code, "exp2", args[0].dtype, values[1])
                return math.apply(code, function, args[-1].dtype, *values)
            case Convert(dtype=dtype, arg=Apply(dtype="float32", function="round", args=(arg,))) if (
                whole := conversions.rounded(code, self.value(arg), dtype)
            ) is not None:
                return whole
            case Convert(dtype=dtype, arg=arg, saturate=saturate):
                return conversions.convert(code, self.value(arg), arg.dtype, dtype, saturate=saturate)
            case Reinterpret(dtype=dtype, arg=arg):
                value = self.value(arg)
                target = vector(lanes_of(value.type), conversions.element_type(dtype))
                if value.type == target:
                    return value
                return code.pure(f"arith.bitcast {value} : {value.type} to {target}", target)
            case Where():
                return self._where(node)
            case Reduced(name=name):
                return self.reduced[name]
            case Accumulator():
                assert self.accumulator is not None
                return self.accumulator
        raise CompileError(f"internal: no way to print {type(node).__name__}")

    def _coarse(self, node: Apply) -> Value | None:
        """The value of a function that bfloat16 rounds; None if these lanes have no shorter code for it."""
        if node.function == "sigmoid":
            return sigmoid_for_bfloat16(Lanes(self.code, self.value(node.args[0]))).value
        gelu = gelu_of(node)
        assert gelu is not None
        x = Lanes(self.code, self.value(gelu[0]))
        return gelu_for_bfloat16(x, by_tanh=gelu[1] == "tanh").value if looks_up(x) else None

    def _constant(self, dtype: str, value: float | int | bool) -> Value:
        element = conversions.element_type(dtype)
        if dtype.startswith(("float8", "float4")):
            single = self.code.const(float(value), "f32")
            return conversions.convert(self.code, single, "float32", dtype)
        if isinstance(value, int) and not isinstance(value, bool):
            width = bits(element)
            value = (value + (1 << (width - 1))) % (1 << width) - (1 << (width - 1))
        return self.code.const(value, element)

    def _load(self, node: Load) -> Value:
        code, pointer = self.code, self.pointers[node.buffer]
        element = conversions.element_type(node.dtype)
        if not self.varies(node.offset):
            return code.load(pointer, self.dim(node.offset), element)
        assert self.lane is not None
        if self.lanes == 1:
            return code.load(pointer, self._scalar_dim(node.offset), element, self.mask)
        if self.stride(node.offset) == 1:
            return code.load(pointer, self.base(node.offset), vector(self.lanes, element), self.mask)
        if (span := self.span(node.offset)) is not None:
            memory = "i8" if element == "i1" else element
            return load_span(code, code.gep(pointer, self.first(node.offset, span), memory), element, span, self.lanes)
        if element == "f32" and (row := self._row(node.offset)) is not None:
            return self._from_registers(pointer, *row)
        memory = "i8" if element == "i1" else element
        type_ = vector(self.lanes, memory)
        addresses = self._addresses(pointer, node.offset, memory)
        mask = self.mask or code.const(True, vector(self.lanes, "i1"))
        loaded = code.raw(
            f"llvm.intr.masked.gather {addresses}, {mask}, {code.const(0, type_)} "
            f"{{alignment = {max(1, bits(memory) // 8)} : i32}} : "
            f"({addresses.type}, {mask.type}, {type_}) -> {type_}",
            type_,
        )
        return code.cmp("ne", loaded, code.const(0, type_)) if element == "i1" else loaded

    def _row(self, offset: Dim) -> tuple[Fetched, Dim] | None:
        """The fetched index of an element and the offset of its row, if all lanes have the same row and it fits in registers.
        None under a condition: for indices in padding, a row can start before its buffer or end behind it."""
        if isinstance(offset, int) or self.lanes < 4 or LANES % self.lanes or not has_tables(self.code):
            return None
        if self.mask is not None and self.active is None:
            return None
        varying = [(monomial, count) for monomial, count in offset.terms if self.varies(Expr({monomial: count}))]
        match varying:
            case [((Fetched(extent=int(extent)) as index,), 1)] if 0 < extent <= NUMBERS:
                return index, offset - Expr.of(index)
        return None

    def _from_registers(self, pointer: Value, index: Fetched, row: Dim) -> Value:
        """Elements of a short row, which is loaded whole. A gather takes a load for each lane."""
        code, start, extent = self.code, self.dim(row), index.extent
        assert isinstance(extent, int)
        registers: list[Value] = []
        for first in range(0, extent, LANES):
            count = min(LANES, extent - first)
            mask = None if count == LANES else mask_of(code, count, LANES)
            registers.append(code.load(pointer, code.add(start, first), vector(LANES, "f32"), mask))
        wide, type_ = self.lane_dim(Expr.of(index)), vector(self.lanes, "i32")
        number = Lanes(code, code.pure(f"arith.trunci {wide} : {wide.type} to {type_}", type_))
        return on_whole_vectors(number, lambda number: Lanes(code, taken(code, number.value, registers))).value

    def _addresses(self, pointer: Value, offset: Dim, element: str) -> Value:
        indices = self.lane_dim(offset)
        type_ = f"vector<{self.lanes}x{PTR}>"
        return self.code.raw(
            f"llvm.getelementptr {pointer}[{indices}] : ({PTR}, {indices.type}) -> {type_}, {element}", type_
        )

    def _scalar_dim(self, offset: Dim) -> Int:
        """The offset when a "vector" has one lane."""
        return self.dim(offset)

    def stride(self, offset: Dim) -> Dim | None:
        """The stride between neighbouring lanes; None if it is not constant."""
        assert self.lane is not None
        if any(isinstance(a, Fetched) and self.varies_scalar(a.source) for a in loop_atoms(offset)):
            return None
        return coefficient(offset, self.lane)

    def span(self, offset: Dim) -> Span | None:
        """The span of the lanes that are on; None if it depends on the vector, or if some lanes may be off."""
        if self.lane is None or not self.step or (self.mask is not None and self.active is None):
            return None
        return span_of(offset, self.lane, self.step, self.lanes if self.active is None else self.active, self.lanes)

    def first(self, offset: Dim, span: Span) -> Int:
        """The lowest offset of a span's elements."""
        assert self.lane is not None
        return self.dim(substitute(offset, {self.lane: Expr.of(self.lane) + span.first}))

    def base(self, offset: Dim) -> Int:
        """The offset of the first lane."""
        assert self.lane is not None
        return self.code.add(self.dim(substitute(offset, {self.lane: 0})), self.code.value(self.bindings[self.lane]))

    def _where(self, node: Where) -> Value:
        if self.lanes == 1 or not any(self.varies(d) for pair in node.ranges for d in pair):
            varies = self.varies_scalar(node.then) or self.varies_scalar(node.otherwise)
            inside = self._all([self._is_inside(self.dim(index), extent) for index, extent in node.ranges])
            branches = [lambda: self.value(node.then), lambda: self.value(node.otherwise)]
            return self._either(inside, branches, self.lanes if varies else 1, node.dtype)
        whole = self._whole(node)
        if whole is None:
            return self._lane_by_lane(node)
        branches = [lambda: self.wide(node.then), lambda: self._lane_by_lane(node)]
        return self._either(whole, branches, self.lanes, node.dtype)

    def _is_inside(self, index: Int, extent: Dim) -> Value:
        return self.code.cmp("ult", self.code.value(index), self.code.value(self.dim(extent)))

    def _all(self, conditions: Sequence[Value]) -> Value:
        condition, *others = conditions
        for other in others:
            condition = self.code.op("arith.andi", condition, other)
        return condition

    def _either(self, condition: Value, branches: Sequence[Callable[[], Value]], lanes: int, dtype: str) -> Value:
        """Selects between two branches by a condition, for `lanes` lanes."""
        code, type_ = self.code, vector(lanes, conversions.element_type(dtype))
        result = code.fresh(type_)
        code.line(f"{result} = scf.if {condition} -> ({type_}) {{")
        for branch, end in zip(branches, ("} else {", "}"), strict=True):
            with code._scope(), self.scope():
                value = code.splat(branch(), lanes)
                code.line(f"scf.yield {value} : {type_}")
            code.line(end)
        return result

    def _lane_by_lane(self, node: Where) -> Value:
        """Evaluates each lane under its own condition."""
        code = self.code
        condition = self._all([code.cmp("ult", self.lane_dim(p), self.lane_dim(extent)) for p, extent in node.ranges])
        mask = condition if self.mask is None else code.op("arith.andi", condition, self.mask)
        with self.under(mask):
            then = self.wide(node.then)
        return code.select(condition, then, self.wide(node.otherwise))

    def _whole(self, node: Where) -> Value | None:
        """A condition that all lanes are inside, checked for the first and the last lane only, if neighbouring lanes
        load neighbouring elements. Most vectors of a padded row are inside, and per-lane checks take longer than the
        copy. None if that is not possible."""
        if not isinstance(node.then, Load) or self.stride(node.then.offset) != 1 or node.dtype == "bool":
            return None
        tests: list[Value] = []
        for index, extent in node.ranges:
            if self.varies(extent) or (self.varies(index) and self.stride(index) != 1):
                return None
            first = self.base(index) if self.varies(index) else self.dim(index)
            tests.append(self._is_inside(first, extent))
            if self.varies(index):
                tests.append(self._is_inside(self.code.add(first, self.lanes - 1), extent))
        return self._all(tests)

    def prepare(self, offset: Dim, node: Scalar) -> None:
        """Computes the value that `store` will write at an offset."""
        if self.lanes > 1 and self.varies(offset):
            self.wide(node)
        else:
            self.value(node)

    def store(self, buffer: int, offset: Dim, node: Scalar) -> None:
        """Writes a node at an offset: one element, or the lanes."""
        code, pointer = self.code, self.pointers[buffer]
        if not self.varies(offset):  # a loop of one iteration: the first lane's element
            value = self.value(node)
            if lanes_of(value.type) > 1:
                element = element_of(value.type)
                value = code.pure(f"vector.extract {value}[0] : {element} from {value.type}", element)
            code.store(value, pointer, self.dim(offset))
            return
        if self.lanes == 1:
            code.store(self.value(node), pointer, self.dim(offset), self.mask)
            return
        value = self.wide(node)
        if self.stride(offset) == 1:
            code.store(value, pointer, self.base(offset), self.mask)
            return
        if value.type.endswith("xi1>"):
            value = code.cast("arith.extui", value, "i8")
        element = value.type[value.type.index("x") + 1 : -1]
        addresses = self._addresses(pointer, offset, element)
        mask = self.mask or code.const(True, vector(self.lanes, "i1"))
        code.line(
            f"llvm.intr.masked.scatter {value}, {addresses}, {mask} {{alignment = {max(1, bits(element) // 8)} : i32}} : "
            f"{value.type}, {mask.type} into {addresses.type}"
        )


def _is_never_above_zero(node: Scalar) -> bool:
    """True if a float node is -(x * x) or -|x|, so that its exponential cannot overflow."""
    match node:
        case Apply(dtype="float32" | "float64", function="neg", args=(Apply(function="mul", args=(a, b)),)):
            return a is b
        case Apply(dtype="float32" | "float64", function="neg", args=(Apply(function="abs"),)):
            return True
    return False
