"""Writes one function of MLIR text: SSA names, constants, address arithmetic, loops.

It writes text because parsing text in C++ is ten times cheaper than building ops one by one from Python. `Function` is the
entry point. Kernels use `llvm` pointers, `scf` loops over i64, and `arith`/`math`/`vector` values. Integers known in Python
stay Python ints as long as possible (`Int = int | Value`), so that arithmetic on sizes is folded.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

PTR = "!llvm.ptr"
LEAVE = "^leave"
AS_WRITTEN = "loop_annotation = #llvm.loop_annotation<vectorize = <disable = true>>"
SHORT = 32
"""Only innermost loops of up to this many lines without vectors are left to LLVM's vectoriser. It finds nothing in
others, and its search is exponential in the length of chains of values used twice (a minimum with its NaN check), which
unrolling creates."""
LINE = 64
"""Bytes of a cache line."""


@dataclass(frozen=True)
class Value:
    """An SSA value: its name with the percent sign, and its MLIR type."""

    name: str
    type: str

    def __str__(self) -> str:
        return self.name


Int = int | Value


def vector(lanes: int, element: str) -> str:
    """The type of `lanes` elements; a plain scalar when `lanes` is 1."""
    return element if lanes == 1 else f"vector<{lanes}x{element}>"


def element_of(type_: str) -> str:
    return type_[type_.index("x") + 1 : -1] if type_.startswith("vector<") else type_


def lanes_of(type_: str) -> int:
    return int(type_[7 : type_.index("x")]) if type_.startswith("vector<") else 1


def is_float(type_: str) -> bool:
    return element_of(type_) in ("f16", "bf16", "f32", "f64")


def bits(type_: str) -> int:
    """Bits of an element; an address has 64."""
    element = element_of(type_)
    return 64 if element == PTR else 16 if element == "bf16" else int(element[1:])


@dataclass
class Loop:
    """A loop being written: its induction variable, carried values, and (after the body) its results."""

    iv: Value
    carried: list[Value]
    results: list[Value] = field(default_factory=list)
    yielded: list[Value] | None = None

    def yield_(self, *values: Value) -> None:
        self.yielded = list(values)


class Function:
    """One `llvm.func` under construction. Constants are hoisted to its top, once each.

    `lines` are its text after a `head`. `constants` are found by literal and type, and `types` maps value names to
    types. `cuts` are positions at which another function may start (parts.py). An `internal` function has no symbol.
    `soft_float16`: float16 is converted by integer arithmetic. `native_bfloat16`: float32 is rounded to bfloat16 by the
    instruction of AVX512-BF16, which takes denormals as zero. `x86_bits`: the width of x86's vectors, 0 for other CPUs.
    """

    def __init__(
        self,
        name: str,
        arguments: Sequence[tuple[str, str]],
        result: str = "",
        attributes: str = "",
        internal: bool = False,
        soft_float16: bool = False,
        native_bfloat16: bool = False,
        x86_bits: int = 0,
    ) -> None:
        self.name = name
        self.internal = internal
        self.soft_float16, self.native_bfloat16, self.x86_bits = soft_float16, native_bfloat16, x86_bits
        self.arguments = [Value(f"%{argument}", type_) for argument, type_ in arguments]
        self.result = result
        self.attributes = attributes
        self.lines: list[str] = []
        self.head: list[str] = []
        self.constants: dict[tuple[str, str], Value] = {}
        self.types: dict[str, str] = {}
        self.cuts: list[int] = []
        self._labels = 0
        self._leaves = False
        self._count = 0
        self._indent = 1
        self._scopes: list[dict[object, Value]] = [{}]

    # ---- text ------------------------------------------------------------------------------------------------------
    def line(self, text: str) -> None:
        self.lines.append("  " * self._indent + text)

    def fresh(self, type_: str) -> Value:
        self._count += 1
        value = Value(f"%v{self._count}", type_)
        self.types[value.name] = type_
        return value

    @contextmanager
    def aside(self) -> Iterator[list[str]]:
        """Captures the text printed inside as pieces (lines or blocks), which the caller may insert into `lines`
        between others."""
        first, pieces = len(self.lines), list[str]()
        with self.scope():
            yield pieces
        depth = 0
        for line in self.lines[first:]:
            if depth:
                pieces[-1] += "\n" + line
            else:
                pieces.append(line)
            depth += line.count("{") - line.count("}")
        del self.lines[first:]

    def text(self) -> str:
        arguments = ", ".join(f"{a.name}: {a.type}" for a in self.arguments)
        result = f" -> {self.result}" if self.result else ""
        constants = [  # `true` and `false` take no type
            f"  {v} = arith.constant {text}{'' if v.type == 'i1' else f' : {v.type}'}"
            for (text, _), v in self.constants.items()
        ]
        attributes = f" attributes {{{self.attributes}}}" if self.attributes else ""
        linkage = "internal " if self.internal else ""
        head = f"llvm.func {linkage}@{self.name}({arguments}){result}{attributes} {{"
        leave = [f"{LEAVE}:", "  llvm.return"] if self._leaves else []
        return "\n".join([head, *constants, *self.head, *self.lines, *leave, "}"])

    def first(self, text: str) -> None:
        """Inserts a line at the function's start."""
        self.head.append(f"  {text}")

    @property
    def position(self) -> int:
        """The number of lines; unchanged if nothing has been printed since."""
        return len(self.lines)

    def cut(self) -> None:
        """Marks a position at which a new function may start; no block may be open here."""
        self.cuts.append(len(self.lines))

    def part(self, name: str, arguments: Sequence[tuple[str, str]], names: Collection[str]) -> Function:
        """A function of the same kind for some lines of this one, which use these names."""
        part = Function(name, arguments, self.result, self.attributes)
        part.types, part._count, part._labels = self.types, self._count, self._labels
        part.constants = {key: value for key, value in self.constants.items() if value.name in names}
        return part

    @property
    def at_top(self) -> bool:
        """True if values printed now dominate all of the rest of the function."""
        return len(self._scopes) == 1

    # ---- values ----------------------------------------------------------------------------------------------------
    def op(self, name: str, *operands: Value, type_: str | None = None, attr: str = "") -> Value:
        """A pure op printed as `name operands attr : type`, whose result has that type. Equal ops in scope are shared."""
        type_ = type_ or operands[0].type
        key = (name, operands, type_, attr)
        for scope in self._scopes:
            if key in scope:
                return scope[key]
        result = self.fresh(type_)
        self.line(f"{result} = {name} {', '.join(o.name for o in operands)}{attr and ' ' + attr} : {type_}")
        self._scopes[-1][key] = result
        return result

    def raw(self, text: str, type_: str) -> Value:
        """`%n = text`, for ops whose printed form `op` does not fit."""
        result = self.fresh(type_)
        self.line(f"{result} = {text}")
        return result

    def mad(self, a: Value, b: Value, c: Value) -> Value:
        """a * b + c, fused if the target can."""
        types = ", ".join(v.type for v in (a, b, c))
        return self.pure(f"llvm.intr.fmuladd({a}, {b}, {c}) : ({types}) -> {a.type}", a.type)

    def pure(self, text: str, type_: str) -> Value:
        """`raw` for a pure op: equal texts in scope are shared."""
        for scope in self._scopes:
            if text in scope:
                return scope[text]
        result = self._scopes[-1][text] = self.raw(text, type_)
        return result

    def const(self, value: int | float | bool | str, type_: str = "i64") -> Value:
        """A constant, splat over the lanes of a vector type. A str is the literal's text (e.g. a float's bit pattern)."""
        element = element_of(type_)
        if isinstance(value, str):
            literal = value
        elif element == "i1":
            literal = "true" if value else "false"
        elif is_float(type_):
            literal = float_literal(float(value), element)
        else:
            literal = str(int(value))
        text = literal if type_ == element else f"dense<{literal}>"
        key = (text, type_)
        if key not in self.constants:
            self._count += 1
            self.constants[key] = Value(f"%c{self._count}", type_)
        return self.constants[key]

    def value(self, x: Int, type_: str = "i64") -> Value:
        return x if isinstance(x, Value) else self.const(x, type_)

    # ---- i64 arithmetic with constant folding ----------------------------------------------------------------------
    def add(self, a: Int, b: Int) -> Int:
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if isinstance(a, int):
            a, b = b, a
        return a if b == 0 else self.op("arith.addi", self.value(a), self.value(b))

    def sub(self, a: Int, b: Int) -> Int:
        if isinstance(a, int) and isinstance(b, int):
            return a - b
        return a if b == 0 else self.op("arith.subi", self.value(a), self.value(b))

    def mul(self, a: Int, b: Int) -> Int:
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        if isinstance(a, int):
            a, b = b, a
        if b == 0 or b == 1:
            return 0 if b == 0 else a
        return self.op("arith.muli", self.value(a), self.value(b))

    def floordiv(self, a: Int, b: Int) -> Int:
        if isinstance(a, int) and isinstance(b, int) and b:
            return a // b
        return a if b == 1 else self.op("arith.floordivsi", self.value(a), self.value(b))

    def mod(self, a: Int, b: Int) -> Int:
        """The remainder with the divisor's sign (Python's `%`)."""
        if isinstance(a, int) and isinstance(b, int) and b:
            return a % b
        return 0 if b == 1 else self.sub(a, self.mul(self.floordiv(a, b), b))

    def udiv(self, a: Int, b: Int) -> Int:
        """Division of two values known to be non-negative: cheaper than `floordiv`."""
        if isinstance(a, int) and isinstance(b, int) and b:
            return a // b
        return a if b == 1 else self.op("arith.divui", self.value(a), self.value(b))

    def urem(self, a: Int, b: Int) -> Int:
        if isinstance(a, int) and isinstance(b, int) and b:
            return a % b
        return 0 if b == 1 else self.op("arith.remui", self.value(a), self.value(b))

    def min(self, a: Int, b: Int) -> Int:
        if isinstance(a, int) and isinstance(b, int):
            return min(a, b)
        return self.op("arith.minsi", self.value(a), self.value(b))

    def max(self, a: Int, b: Int) -> Int:
        if isinstance(a, int) and isinstance(b, int):
            return max(a, b)
        return self.op("arith.maxsi", self.value(a), self.value(b))

    def broadcast(self, a: Int, b: Int) -> Int:
        """The broadcast size of two sizes, which are equal unless one is 1."""
        if isinstance(a, int) and isinstance(b, int):
            return b if a == 1 else a
        return self.select(self.cmp("eq", a, 1), self.value(b), self.value(a))

    def cmp(self, predicate: str, a: Int, b: Int) -> Value:
        """An integer comparison (`slt`, `sle`, `eq`, `ult` ...) of i64 scalars or of vectors."""
        type_ = a.type if isinstance(a, Value) else b.type if isinstance(b, Value) else "i64"
        a, b = self.value(a, type_), self.value(b, type_)
        return self.pure(f"arith.cmpi {predicate}, {a}, {b} : {type_}", vector(lanes_of(type_), "i1"))

    def cmpf(self, predicate: str, a: Value, b: Value) -> Value:
        return self.pure(f"arith.cmpf {predicate}, {a}, {b} : {a.type}", vector(lanes_of(a.type), "i1"))

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        if condition.type == "i1" or a.type == b.type == element_of(a.type):
            return self.pure(f"arith.select {condition}, {a}, {b} : {a.type}", a.type)
        return self.pure(f"arith.select {condition}, {a}, {b} : {condition.type}, {a.type}", a.type)

    def cast(self, op: str, value: Value, element: str) -> Value:
        """A lane-wise conversion such as `arith.extf`, `arith.sitofp`, `arith.trunci`."""
        type_ = vector(lanes_of(value.type), element)
        return value if type_ == value.type else self.pure(f"{op} {value} : {value.type} to {type_}", type_)

    def splat(self, value: Value, lanes: int) -> Value:
        if lanes == 1 or value.type.startswith("vector<"):
            return value
        type_ = vector(lanes, value.type)
        return self.pure(f"vector.broadcast {value} : {value.type} to {type_}", type_)

    def lane_ids(self, lanes: int) -> Value:
        """<0, 1, 2, ...> as i64 lanes."""
        if lanes == 1:
            return self.const(0)
        return self.const(str(list(range(lanes))), f"vector<{lanes}xi64>")

    # ---- memory ----------------------------------------------------------------------------------------------------
    def gep(self, base: Value, offset: Int, element: str) -> Value:
        """The address `offset` elements behind `base`."""
        element = "i8" if element == "i1" else element
        if isinstance(offset, int):
            return (
                base
                if offset == 0
                else self.pure(f"llvm.getelementptr {base}[{offset}] : ({PTR}) -> {PTR}, {element}", PTR)
            )
        return self.pure(f"llvm.getelementptr {base}[{offset}] : ({PTR}, i64) -> {PTR}, {element}", PTR)

    def load(self, base: Value, offset: Int, type_: str, mask: Value | None = None) -> Value:
        """Loads lanes that lie side by side. Booleans are bytes in memory. Lanes off in `mask` read as 0, untouched."""
        element, lanes = element_of(type_), lanes_of(type_)
        if element == "i1":
            byte = self.load(base, offset, vector(lanes, "i8"), mask)
            return self.cmp("ne", byte, self.const(0, byte.type))
        if element == "bf16":  # LLVM takes masked ones apart, and rounds them again, where the CPU has no bfloat16
            return self.cast("arith.bitcast", self.load(base, offset, vector(lanes, "i16"), mask), "bf16")
        address, align = self.gep(base, offset, element), max(1, bits(element) // 8)
        if mask is None:
            return self.raw(f"llvm.load {address} {{alignment = {align} : i64}} : {PTR} -> {type_}", type_)
        zero = self.const(0, type_)
        if mask.type == "i1":  # the one lane of a CPU without vectors
            result = self.fresh(type_)
            self.line(f"{result} = scf.if {mask} -> ({type_}) {{")
            with self._scope():
                self.line(f"scf.yield {self.load(base, offset, type_)} : {type_}")
            self.line("} else {")
            self.line(f"  scf.yield {zero} : {type_}")
            self.line("}")
            return result
        return self.raw(
            f"llvm.intr.masked.load {address}, {mask}, {zero} {{alignment = {align} : i32}} : "
            f"({PTR}, {mask.type}, {type_}) -> {type_}",
            type_,
        )

    def store(self, value: Value, base: Value, offset: Int, mask: Value | None = None) -> None:
        if element_of(value.type) == "i1":
            value = self.cast("arith.extui", value, "i8")
        if element_of(value.type) == "bf16":
            value = self.cast("arith.bitcast", value, "i16")
        element = element_of(value.type)
        address, align = self.gep(base, offset, element), max(1, bits(element) // 8)
        if mask is not None and mask.type == "i1":
            with self.if_(mask):
                self.store(value, base, offset)
        elif mask is None:
            self.line(f"llvm.store {value}, {address} {{alignment = {align} : i64}} : {value.type}, {PTR}")
        else:
            self.line(
                f"llvm.intr.masked.store {value}, {address}, {mask} {{alignment = {align} : i32}} : "
                f"{value.type}, {mask.type} into {PTR}"
            )

    def prefetch_range(self, base: Value, first: int, size: int) -> None:
        """Prefetches `size` bytes, from byte `first` on. The memory need not exist."""
        for byte in range(first, first + size, LINE):
            self.prefetch(base, byte, "i8", False)

    def prefetch(self, base: Value, offset: Int, element: str, write: bool) -> None:
        """Prefetches a cache line for reading or writing."""
        address = self.gep(base, offset, element)
        kind = f"cache = 1 : i32, hint = 3 : i32, rw = {int(write)} : i32"
        self.line(f'"llvm.intr.prefetch"({address}) {{{kind}}} : ({PTR}) -> ()')

    def alloca(self, count: int, element: str, result: Value | None = None, align: int = 64) -> Value:
        """Stack memory of the function."""
        result = result or self.fresh(PTR)
        attribute = f"{{alignment = {align} : i64}}"
        self.first(f"{result} = llvm.alloca {self.const(count)} x {element} {attribute} : (i64) -> {PTR}")
        return result

    def argument(self, base: Value, index: int, type_: str = "i64") -> Value:
        """Word `index` of a kernel's `args`: an i64, or an address."""
        address = self.gep(base, index, "i64")
        return self.pure(f"llvm.load {address} {{alignment = 8 : i64}} : {PTR} -> {type_}", type_)

    def is_null(self, pointer: Value) -> Value:
        null = self.pure(f"llvm.mlir.zero : {PTR}", PTR)
        return self.pure(f'llvm.icmp "eq" {pointer}, {null} : {PTR}', "i1")

    def word(self, x: Int) -> Value:
        """An address, or an integer, as 64 bits."""
        if isinstance(x, Value) and x.type == PTR:
            return self.pure(f"llvm.ptrtoint {x} : {PTR} to i64", "i64")
        return self.value(x)

    def call(self, callee: str, operands: Sequence[Value], result: str = "") -> Value | None:
        types = ", ".join(o.type for o in operands)
        text = f"llvm.call @{callee}({', '.join(o.name for o in operands)}) : ({types}) -> {result or '()'}"
        if result:
            return self.raw(text, result)
        self.line(text)
        return None

    # ---- control ---------------------------------------------------------------------------------------------------
    @contextmanager
    def for_(self, start: Int, stop: Int, step: Int = 1, carried: Sequence[Value] = ()) -> Iterator[Loop]:
        """`for iv in range(start, stop, step)` with loop-carried values; the body calls `loop.yield_(...)`."""
        start, stop, step = self.value(start), self.value(stop), self.value(step)
        loop = Loop(self.fresh("i64"), [self.fresh(v.type) for v in carried])
        results = [self.fresh(v.type) for v in carried]
        head = f"scf.for {loop.iv} = {start} to {stop} step {step}"
        if carried:
            name = f"%r{self._count}"
            loop.results = [Value(f"{name}#{i}" if len(results) > 1 else name, v.type) for i, v in enumerate(results)]
            pairs = ", ".join(f"{a} = {b}" for a, b in zip(loop.carried, carried, strict=True))
            types = ", ".join(v.type for v in carried)
            count = f":{len(carried)}" if len(carried) > 1 else ""
            head = f"{name}{count} = {head} iter_args({pairs}) -> ({types})"
        self.line(f"{head} : i64 {{")
        first = len(self.lines)
        with self._scope():
            yield loop
            if carried:
                assert loop.yielded is not None and len(loop.yielded) == len(carried)
                types = ", ".join(v.type for v in carried)
                self.line(f"scf.yield {', '.join(v.name for v in loop.yielded)} : {types}")
        body = self.lines[first:]
        simple = len(body) <= SHORT and not any("vector<" in line or "scf.for" in line for line in body)
        self.line("}" if simple else f"}} {{{AS_WRITTEN}}}")

    @contextmanager
    def if_(self, condition: Value) -> Iterator[None]:
        self.line(f"scf.if {condition} {{")
        with self._scope():
            yield
        self.line("}")

    @contextmanager
    def else_(self) -> Iterator[None]:
        """Directly after an `if_` block."""
        assert self.lines[-1].strip() == "}"
        self.lines[-1] = "  " * self._indent + "} else {"
        with self._scope():
            yield
        self.line("}")

    # ---- blocks: only in a function's own region, not inside of `for_` and `if_` -------------------------------------
    def label(self) -> str:
        """A name for a block that is printed later."""
        self._labels += 1
        return f"^bb{self._labels}"

    def start(self, label: str, arguments: Sequence[Value] = ()) -> None:
        """Starts a block. The previous one must have ended, with a branch or a return."""
        typed = ", ".join(f"{a}: {a.type}" for a in arguments)
        self.lines.append(f"{label}({typed}):" if arguments else f"{label}:")

    def branch(self, label: str, values: Sequence[Value] = ()) -> None:
        self.line(f"cf.br {_target(label, values)}")

    def branch_if(self, condition: Value, then: str, otherwise: str) -> None:
        self.line(f"cf.cond_br {condition}, {then}, {otherwise}")

    def leave_if(self, condition: Value, label: str, values: Sequence[Value] = ()) -> None:
        """Branches to another block if the condition holds; otherwise continues in a new one."""
        following = self.label()
        self.line(f"cf.cond_br {condition}, {_target(label, values)}, {following}")
        self.start(following)

    def return_if(self, condition: Value) -> None:
        """Returns if the condition holds; for functions without a result."""
        self._leaves = True
        self.leave_if(condition, LEAVE)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Values created inside are not available outside: for a block that does not dominate the following code."""
        self._scopes.append({})
        yield
        self._scopes.pop()

    @contextmanager
    def _scope(self) -> Iterator[None]:
        self._indent += 1
        self._scopes.append({})
        yield
        self._scopes.pop()
        self._indent -= 1

    def return_(self, value: Value | None = None) -> None:
        self.line(f"llvm.return {value} : {value.type}" if value else "llvm.return")


def _target(label: str, values: Sequence[Value]) -> str:
    types = ", ".join(v.type for v in values)
    return f"{label}({', '.join(map(str, values))} : {types})" if values else label


def float_literal(value: float, element: str) -> str:
    """A float constant's text; infinities and NaN (and anything `repr` would round) as bit patterns."""
    import struct

    if value == value and abs(value) != float("inf") and element in ("f32", "f64"):
        text = repr(value)
        return text if "." in text or "e" not in text else text.replace("e", ".0e")
    double = struct.unpack("<Q", struct.pack("<d", value))[0]
    if element == "f64":
        return f"0x{double:016X}"
    if element == "f32":
        return f"0x{struct.unpack('<I', struct.pack('<f', value))[0]:08X}"
    if element == "f16":
        return f"0x{struct.unpack('<H', struct.pack('<e', value))[0]:04X}"
    single = struct.unpack("<I", struct.pack("<f", value))[0]
    if value != value:
        return "0x7FC0"
    return f"0x{(single + 0x7FFF + ((single >> 16) & 1)) >> 16 & 0xFFFF:04X}"
