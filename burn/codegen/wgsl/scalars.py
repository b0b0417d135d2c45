"""Prints scalar expressions as WGSL: `ScalarPrinter.value(node)` is the text of a node's value in the current iteration.

An invocation computes one iteration of the loops, so every value is a number. Values that only one branch of a condition reads
are computed in that branch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from burn.codegen.printing.expressions import ExpressionPrinter
from burn.codegen.wgsl.cancelled import hidden
from burn.codegen.wgsl.code import Code
from burn.codegen.wgsl.convert import convert
from burn.codegen.wgsl.elements import LONG, REGISTERS, constant, i32, load, register, store
from burn.codegen.wgsl.functions import apply
from burn.dialect.dims import Atom, Dim, LoopVar, Symbol, atoms
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
    Reduced,
    Reinterpret,
    Scalar,
    Where,
    Write,
)

MOST_SITES = 65535
"""A report has 16 bits for a site."""


@dataclass
class ScalarPrinter(ExpressionPrinter):
    """Buffer number n is `b<n>`, a position in words. `sites` collects the names of source nodes for run-time errors. `sizes`:
    the names of arguments by symbol. `private`: the first element of an iteration's part of a scratch buffer."""

    code: Code
    buffers: Sequence[Buffer]
    sites: list[str]
    sizes: dict[str, str]
    bindings: dict[Atom, str] = field(default_factory=dict)
    reduced: dict[str, str] = field(default_factory=dict)
    accumulator: str = ""
    private: dict[int, str] = field(default_factory=dict)
    fetches: bool = False
    _memo: list[dict[object, str]] = field(default_factory=lambda: [{}])

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Values and indices that are created inside are not used outside."""
        bindings = dict(self.bindings)
        self._memo.append({})
        yield
        self._memo.pop()
        self.bindings = bindings

    # ---- loop variables --------------------------------------------------------------------------------------------------
    def put(self, loop: LoopVar, index: str) -> None:
        self.bindings[loop] = index

    def walk_flat(self, loops: Sequence[LoopVar], flat: str) -> None:
        """Sets the loops' indices from one linear index, the last loop fastest."""
        rest = flat
        for position, loop in enumerate(reversed(loops)):
            if loop.extent == 1:
                self.put(loop, "0")
            elif position == len(loops) - 1:
                self.put(loop, rest)
            else:
                extent = self.dim(loop.extent)
                quotient = self.code.let(f"{rest} / {extent}", "q")
                self.put(loop, self.code.let(f"{rest} - {quotient} * {extent}", "i"))
                rest = quotient

    # ---- index expressions -----------------------------------------------------------------------------------------------
    signed_arguments = True

    def number(self, value: int) -> str:
        return i32(value)

    def bound(self, atom: Atom) -> str | None:
        return self.bindings.get(atom)

    def size(self, symbol: Symbol) -> str:
        return self.sizes[symbol.name]

    def joined(self, function: str, a: str, b: str) -> str:
        return f"{function}({a}, {b})"

    def quotient(self, function: str, a: str, b: str, is_plain: bool) -> str:
        if is_plain:
            return f"({a} {'/' if function == 'floordiv' else '%'} {b})"
        return f"{'floordiv' if function == 'floordiv' else 'floormod'}({a}, {b})"

    def fetched(self, atom: Fetched) -> str:
        key = ("fetch", atom.name)
        if (known := self._known(key)) is not None:
            return known
        self.fetches = True
        index = convert(self.value(atom.source), atom.source.dtype, "int64")
        site = self.site(atom)
        if site > MOST_SITES:
            raise CompileError(f"a program for WebGPU has at most {MOST_SITES} nodes with indices from data")
        return self._hold(key, self.code.let(f"fetched({index}, {self.dim(atom.extent)}, failure, {site}u)", "at"))

    # ---- memory ----------------------------------------------------------------------------------------------------------
    def _element(self, buffer: int, offset: Dim) -> str:
        text = self.dim(offset)
        return f"{self.private[buffer]} + {text}" if buffer in self.private else text

    def stored(self, write: Write) -> str:
        """The statement that stores a value, which is printed."""
        value = self.value(write.value)
        element = self._element(write.buffer, write.offset)
        return store(self.buffers[write.buffer].dtype, f"b{write.buffer}", element, value)

    def store(self, write: Write) -> None:
        self.code.line(self.stored(write))

    # ---- values ----------------------------------------------------------------------------------------------------------
    def value(self, node: Scalar) -> str:
        """The text of a node's value: a name or a number."""
        if isinstance(node, Const):
            return constant(node.dtype, node.value)
        if isinstance(node, Reduced):
            return self.reduced[node.name]
        if isinstance(node, Accumulator):
            return self.accumulator
        known = self._known(id(node))
        return known if known is not None else self._hold(id(node), self._made(node))

    def _made(self, node: Scalar) -> str:
        if isinstance(node, Where):
            return self._where(node)
        return self.code.let(self._text(node))

    def _text(self, node: Scalar) -> str:
        match node:
            case Load(dtype=dtype, buffer=buffer, offset=offset):
                return load(dtype, f"b{buffer}", self._element(buffer, offset))
            case Index(dim=dim):
                return f"long_of_i32({self.dim(dim)})"
            case Apply(function=function, args=args):
                texts = [self.value(arg) for arg in args]
                if (number := hidden(node, self.value)) is not None:
                    texts[number] = f"hidden_f32({texts[number]})"
                return apply(function, args[-1].dtype, *texts)
            case Convert(dtype=dtype, arg=arg, saturate=saturate):
                return convert(self.value(arg), arg.dtype, dtype, saturate)
            case Reinterpret(dtype=dtype, arg=arg):
                return reinterpret(self.value(arg), arg.dtype, dtype)
        raise CompileError(f"internal: no way to print {type(node).__name__}")

    def tests(self, ranges: Sequence[tuple[Dim, Dim]]) -> list[str]:
        """The tests 0 <= e < n for every (e, n): one comparison of unsigned numbers."""
        # WGSL refuses to convert a negative constant to u32.
        if any(isinstance(size, int) and size < 0 for pair in ranges for size in pair):
            return ["false"]
        return [f"u32({at}) < u32({n})" if is_signed else f"{at} < {n}" for at, n, is_signed in self.ranged(ranges)]

    def _where(self, node: Where) -> str:
        # valid everywhere, and computed before the branch: `then` may read the same values, in branches of its own
        otherwise = self.value(node.otherwise)
        condition = " && ".join(self.tests(node.ranges))
        if (load := _single_load(node)) is not None:
            return self._load_if(node, load, self.code.let(condition, "inside"), otherwise)
        result = self.code.variable(register(node.dtype), otherwise)
        with self.code.block(f"if ({condition})"), self.scope():
            self.code.line(f"{result} = {self.value(node.then)};")
        return result

    def loaded(self, node: Scalar) -> tuple[str, str]:
        """A value, and a test if `is_tested(node)`: the value is `untested(node)` where the test does not hold."""
        if not is_tested(node):
            return self.value(node), ""
        assert isinstance(node, Where) and isinstance(node.then, Load)
        test = self.code.let(" && ".join(self.tests(node.ranges)), "inside")
        element = self._element(node.then.buffer, node.then.offset)
        return self.code.let(load(node.dtype, f"b{node.then.buffer}", f"select(0, {element}, {test})")), test

    def untested(self, node: Scalar) -> str:
        assert isinstance(node, Where)
        return self.value(node.otherwise)

    def _load_if(self, node: Where, load_: Load, condition: str, otherwise: str) -> str:
        """Loads element 0 if the condition does not hold, so that no branch delays the loads that follow."""
        element = self._element(load_.buffer, load_.offset)
        value = load(load_.dtype, f"b{load_.buffer}", f"select(0, {element}, {condition})")
        conversions: list[Convert] = []
        then = node.then
        while isinstance(then, Convert):
            conversions.append(then)
            then = then.arg
        for each in reversed(conversions):
            value = convert(self.code.let(value), each.arg.dtype, each.dtype, each.saturate)
        return self.code.let(f"select({otherwise}, {value}, {condition})")


def _single_load(node: Where) -> Load | None:
    """The load that `then` consists of, with conversions, if its index does not come from data."""
    then = node.then
    while isinstance(then, Convert):
        then = then.arg
    if isinstance(then, Load) and not any(isinstance(atom, Fetched) for atom in atoms(then.offset)):
        return then
    return None


def is_tested(node: Scalar) -> bool:
    """True if a value is an element of memory in some ranges and a number beyond them."""
    return (
        isinstance(node, Where)
        and isinstance(node.then, Load)
        and _single_load(node) is not None
        and isinstance(node.otherwise, Const)
    )


def reinterpret(x: str, source: str, target: str) -> str:
    """The bits of a number read as another type of the same width."""
    held, wanted = REGISTERS[source], register(target)
    if held == wanted == LONG or source == target:
        return x
    code = {
        "float16": f"half_of_float({x})",
        "bfloat16": f"brain_of_float({x})",
        "bool": f"select(0u, 1u, {x})",
    }.get(source, x if held == "u32" else f"bitcast<u32>({x})")
    match target:
        case "float16":
            return f"float_of_half({code} & 65535u)"
        case "bfloat16":
            return f"bitcast<f32>({code} << 16u)"
        case "bool":
            return f"({code} != 0u)"
        case "float32":
            return f"bitcast<f32>({code})"
    from burn.codegen.wgsl.functions import rounded

    return rounded(code if wanted == "u32" else f"bitcast<i32>({code})", target)
