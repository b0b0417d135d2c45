"""Prints scalar expressions as Triton's block expressions: `ScalarPrinter.value(node)` is the text of a node's value.

Every loop variable that a block spans belongs to an axis of the block ("x", "r", ..). Its index is an array along that
axis, of size 1 along the others, and Triton broadcasts. A node varies along the axes of the loops that it depends on.
Memory accesses are masked by the loops' extents and by enclosing conditions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from burn.codegen.printing.expressions import ExpressionPrinter
from burn.codegen.triton.code import NONE, Axes, Axis, Code, Guard
from burn.codegen.triton.convert import convert
from burn.codegen.triton.functions import QUOTIENTS, apply, needs_tensors, triton_type
from burn.dialect.dims import Atom, Dim, Expr, LoopVar, product
from burn.dialect.dropout import Draws
from burn.dialect.types import DTYPES, HALF_DTYPES
from burn.errors import CompileError
from burn.kernels.body import (
    Accumulator,
    Apply,
    Buffer,
    Const,
    Convert,
    Fetched,
    Index,
    Kept,
    Load,
    Reduced,
    Reinterpret,
    Scalar,
    Where,
    Write,
    loop_atoms,
    own_dims,
    walk,
)


@dataclass
class ScalarPrinter(ExpressionPrinter):
    """`buffers[i]` is the argument `b<i>`; a buffer that is private to an iteration is in workspace at `private[i]`. `sites`
    collects the names of source nodes for run-time errors. `further`: the results of a kernel's further contractions. `bases`:
    pointers of another type than the buffer's, by its number. `blocks`: loops whose index is the sum of a block's first index, a
    multiple of 16, and indices from 0 on; their texts. `steps`: axes of loops. Addresses add the terms along these axes
    last, so that the other terms are computed before the loops. `eights`: an instruction widens 8-bit floats."""

    code: Code
    buffers: Sequence[Buffer]
    sites: list[str]
    axes: dict[str, Axis] = field(default_factory=dict)
    bindings: dict[Atom, tuple[str, Axes]] = field(default_factory=dict)
    reduced: dict[str, tuple[str, Axes]] = field(default_factory=dict)
    accumulator: tuple[str, Axes] = ("", NONE)
    further: Sequence[str] = ()
    private: dict[int, str] = field(default_factory=dict)
    bases: dict[int, str] = field(default_factory=dict)
    blocks: dict[Atom, tuple[str, str]] = field(default_factory=dict)
    steps: str | None = None
    fetches: bool = False
    eights: bool = False
    _guards: list[Guard] = field(default_factory=list)
    _memo: list[dict[object, str]] = field(default_factory=lambda: [{}])
    _spans: dict[int, tuple[Scalar, Axes]] = field(default_factory=dict)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Values, indices and axes that are created inside are not used outside."""
        bindings, axes = dict(self.bindings), dict(self.axes)
        self._memo.append({})
        yield
        self._memo.pop()
        self.bindings, self.axes = bindings, axes
        self._spans.clear()

    @contextmanager
    def under(self, guard: Guard) -> Iterator[None]:
        self._guards.append(guard)
        self._memo.append({})
        yield
        self._memo.pop()
        self._guards.pop()

    # ---- loop variables ----------------------------------------------------------------------------------------------------
    def put(self, loop: LoopVar, indices: str, axes: Axes) -> None:
        """Binds a loop variable to the text of its indices, which vary along `axes`."""
        self.bindings[loop] = (indices, axes)
        self._spans.clear()

    def walk_flat(self, loops: Sequence[LoopVar], flat: str, axes: Axes) -> None:
        """Sets the loops' indices from one linear index, the last loop fastest."""
        rest = flat
        for position, loop in enumerate(reversed(loops)):
            if loop.extent == 1:
                self.put(loop, "0", NONE)
            elif position == len(loops) - 1:
                self.put(loop, rest, axes)
            else:
                extent = self.dim(loop.extent)
                self.put(loop, self.code.let(f"{rest} % {extent}", "i"), axes)
                rest = self.code.let(f"{rest} // {extent}", "q")

    def span(self, dim: Dim) -> Axes:
        """The axes along which an index expression varies."""
        found: set[str] = set()
        for atom in loop_atoms(dim):
            found |= self.bindings[atom][1] if atom in self.bindings else NONE
            if isinstance(atom, Fetched):
                found |= self.span_of(atom.source)
        return frozenset(found)

    def span_of(self, node: Scalar) -> Axes:
        """The axes along which a value varies."""
        if id(node) not in self._spans:
            found: set[str] = set()
            for part in walk(node):
                if isinstance(part, Reduced):
                    found |= self.reduced[part.name][1] if part.name in self.reduced else frozenset(self.axes)
                elif isinstance(part, Accumulator):
                    found |= self.accumulator[1]
                else:
                    for dim in own_dims(part):
                        for atom in loop_atoms(dim):
                            found |= self.bindings[atom][1] if atom in self.bindings else NONE
            self._spans[id(node)] = (node, frozenset(found))
        return self._spans[id(node)][1]

    # ---- index expressions -------------------------------------------------------------------------------------------------
    def bound(self, atom: Atom) -> str | None:
        return self.bindings[atom][0] if atom in self.bindings else None

    def joined(self, function: str, a: str, b: str) -> str:
        if function == "broadcast":
            return f"tl.where({a} != 1, {a}, {b})"
        return f"tl.{'minimum' if function == 'min' else 'maximum'}({a}, {b})"

    def quotient(self, function: str, a: str, b: str, is_plain: bool) -> str:
        if is_plain:
            return f"({a} {'//' if function == 'floordiv' else '%'} {b})"
        return f"{'floordiv' if function == 'floordiv' else 'floormod'}({a}, {b})"

    def fetched(self, atom: Fetched) -> str:
        """An index read from data. A negative one counts from the end. One out of range is reported, and 0 is used instead."""
        key = ("fetch", atom.name)
        if (known := self._known(key)) is not None:
            return known
        if atom.certain:
            return self._hold(key, self.value(atom.source))
        self.fetches = True
        raw, extent = self.value(atom.source), self.dim(atom.extent)
        wrapped = self.code.let(f"tl.where({raw} < 0, {raw} + {extent}, {raw})", "at")
        bad = self.code.let(f"({wrapped} < 0) | ({wrapped} >= {extent})", "bad")
        site, inside = self.site(atom) << 48, self._mask(frozenset(self.axes))
        self.code.line(f"report(failure, {site}, {raw}, {bad}{f' & {inside}' if inside else ''})")
        return self._hold(key, self.code.let(f"tl.where({bad}, 0, {wrapped})", "at"))

    # ---- memory ------------------------------------------------------------------------------------------------------------
    def _mask(self, axes: Axes) -> str:
        """The mask along some axes, combined with all enclosing conditions."""
        parts = [axis.mask for name, axis in self.axes.items() if name in axes and axis.mask]
        return " & ".join(dict.fromkeys([*parts, *(g.text for g in self._guards)]))

    def _address(self, buffer: int, offset: Dim, wanted: Axes) -> tuple[str, str]:
        """(pointers along at least the axes `wanted` and those of enclosing conditions; their mask)."""
        have = self.span(offset) | (frozenset({"x"}) & frozenset(self.axes) if buffer in self.private else NONE)
        need = (have | wanted).union(*(g.axes for g in self._guards))
        text = self.dim(offset) if self.steps is None else self._stepped(offset, self.steps)
        for name in sorted(need - have):
            text = f"{text} + {self.axes[name].indices} * 0"
        base = self.private.get(buffer) or self.bases.get(buffer, f"b{buffer}")
        return f"{base} + {text}", self._mask(need)

    def _stepped(self, offset: Dim, last: str) -> str:
        """An offset as a sum of terms, each along different axes."""
        parts: dict[Axes, Dim] = {}
        for monomial, count in () if isinstance(offset, int) else offset.terms:
            term = product([count, *(Expr.of(atom) for atom in monomial)])
            span = self.span(term)
            parts[span] = parts.get(span, 0) + term
        order = sorted(parts, key=lambda span: (bool(span & set(last)), len(span), sorted(span)))
        return " + ".join(self.dim(parts[span]) for span in order) or self.dim(offset)

    def _load(self, node: Load) -> str:
        pointer, mask = self._address(node.buffer, node.offset, NONE)
        zero = "0.0" if DTYPES[node.dtype].kind == "float" or node.buffer in self.bases else "0"
        text = f"tl.load({pointer}, mask={mask}, other={zero})" if mask else f"tl.load({pointer})"
        return f"{text} != 0" if node.dtype == "bool" else text

    def store_all(self, writes: Iterable[Write]) -> None:
        """Stores several values, all computed before the first store. A load between stores would wait for the values that these
        store: it may have their address."""
        writes = tuple(writes)
        for write in writes:
            self.value(write.value)
        for write in writes:
            self.store(write)

    def store(self, write: Write) -> None:
        value = self.value(write.value)
        pointer, mask = self._address(write.buffer, write.offset, frozenset(self.axes))
        if write.value.dtype == "bool":
            value = f"({value}).to(tl.int8)"
        self.code.line(f"tl.store({pointer}, {value}{f', mask={mask}' if mask else ''})")

    def prefetch(self, roots: Iterable[Scalar]) -> None:
        """Loads what these values read, except if a condition or data decide the address."""
        todo, seen = list(roots), set[int]()
        while todo:
            node = todo.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            match node:
                case Load(offset=offset) if not any(isinstance(a, Fetched) for a in loop_atoms(offset)):
                    self.value(node)
                case Apply(args=args):
                    todo += args
                case Convert(arg=arg) | Reinterpret(arg=arg):
                    todo.append(arg)

    # ---- values ------------------------------------------------------------------------------------------------------------
    def value(self, node: Scalar) -> str:
        """The text of a node's value: a name or a number."""
        if isinstance(node, Const):
            return constant(node.dtype, node.value)
        if isinstance(node, Reduced):
            return self.reduced[node.name][0]
        if isinstance(node, Accumulator):
            return self.further[node.number - 1] if node.number else self.accumulator[0]
        known = self._known(id(node))
        return known if known is not None else self._hold(id(node), self.code.let(self._text(node)))

    def hoist(self, roots: Iterable[Scalar], inner: str) -> None:
        """Computes values that do not vary along an axis before the loop along it, except values that only one branch of a
        condition reads."""
        todo = list(roots)
        while todo:
            node = todo.pop()
            if inner not in self.span_of(node):
                if not isinstance(node, (Const, Reduced, Accumulator)):
                    self.value(node)
                continue
            match node:
                case Apply(args=args):
                    todo += args
                case Convert(arg=arg) | Reinterpret(arg=arg):
                    todo.append(arg)

    def _text(self, node: Scalar) -> str:
        match node:
            case Load():
                return self._load(node)
            case Index(dim=dim):
                text = self.dim(dim)
                return f"{text}.to(tl.int64)" if self.span(dim) else f"tl.full((), {text}, tl.int64)"
            case Apply(
                function="add", dtype="float32", args=(Apply(function="erf", args=(arg,)) as erf, Const(value=1))
            ):
                known = self._known(id(erf))
                return f"one_plus_erf({self.value(arg)})" if known is None else f"{known} + 1.0"
            case Apply(function=function, args=args):
                return apply(function, args[-1].dtype, *self._operands(function, args))
            case Convert(dtype=dtype, arg=arg, saturate=saturate):
                return convert(self._before(dtype, arg), arg.dtype, dtype, saturate, self.eights)
            case Reinterpret(dtype=dtype, arg=arg):
                return f"{self.value(arg)}.to({triton_type(dtype)}, bitcast=True)"
            case Where():
                return self._where(node)
            case Kept():
                return self._kept(node)
        raise CompileError(f"internal: no way to print {type(node).__name__}")

    def _kept(self, node: Kept) -> str:
        """The terms of a column are apart: a compiler then sees which elements share a call of the cipher."""
        draws = Draws.of(node.rate)
        key = ", ".join(map(self.value, node.words))
        parts = (text for loop, text in self.blocks.items() if node.column == Expr.of(loop))
        start, along = next(parts, ("0", self.dim(node.column)))
        at = f"{self.dim(node.row)}, {self.dim(node.calls)}, {start}, {along}"
        return f"kept({key}, {at}, {draws.bits}, {draws.threshold(node.rate)})"

    def _before(self, dtype: str, arg: Scalar) -> str:
        """Converts to `dtype`. A quotient that is only converted to half precision need not be rounded exactly."""
        once = dtype in HALF_DTYPES and arg.dtype == "float32" and self._known(id(arg)) is None
        if once and isinstance(arg, Apply) and arg.function in QUOTIENTS:
            return self.code.let(apply(arg.function, arg.dtype, *self._operands(arg.function, arg.args), rough=True))
        return self.value(arg)

    def _operands(self, function: str, args: Sequence[Scalar]) -> list[str]:
        """The texts of operands; a constant is a plain number if another operand has its type."""
        plain = not needs_tensors(function, args[-1].dtype) and any(
            not isinstance(a, Const) and a.dtype == args[-1].dtype for a in args
        )
        return [
            literal(a.value) if plain and isinstance(a, Const) and a.dtype in PLAIN else self.value(a) for a in args
        ]

    def tests(self, ranges: Sequence[tuple[Dim, Dim]]) -> list[str]:
        """The tests 0 <= e < n for every (e, n), except those that always hold."""
        found: list[str] = []
        for at, extent, is_signed in self.ranged(ranges):
            found += [f"({at} >= 0)"] if is_signed else []
            found.append(f"({at} < {extent})")
        return found

    def _where(self, node: Where) -> str:
        axes: Axes = NONE
        for index, extent in node.ranges:
            axes |= self.span(index) | self.span(extent)
        condition = self.code.let(" & ".join(self.tests(node.ranges)), "here")
        # computed everywhere, so before the branch, which may use the same values
        otherwise = "" if _is_zero(node.otherwise) else self.value(node.otherwise)
        is_read_here = isinstance(node.then, Load) and self._known(id(node.then)) is None
        with self.under(Guard(axes, condition)):
            then = self.value(node.then)
        if is_read_here and _is_zero(node.otherwise):
            return then  # a masked load gives 0
        return f"tl.where({condition}, {then}, {otherwise or self.value(node.otherwise)})"


def _is_zero(node: Scalar) -> bool:
    return isinstance(node, Const) and str(node.value) in ("0", "0.0", "False")


PLAIN = ("float32", "int32", "int64")
"""Types that a plain number takes exactly from the other operand."""


def literal(value: float | int | bool) -> str:
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return f'float("{value}")'
    return f"({value!r})" if value < 0 else repr(value)


def constant(dtype: str, value: float | int | bool) -> str:
    """A number of that type."""
    kind = DTYPES[dtype].kind
    if kind == "bool":
        return f"tl.full((), {bool(value)}, tl.int1)"
    if kind in ("int", "uint"):
        bits = DTYPES[dtype].bits
        value = int(value) % (1 << bits)
        value -= (1 << bits) if kind == "int" and bits >= 8 and value >> (bits - 1) else 0
    else:
        value = float(value)
    if kind == "small":
        return convert(f"tl.full((), {literal(value)}, tl.float32)", "float32", dtype)
    if dtype in HALF_DTYPES:
        return f"tl.full((), {literal(value)}, tl.float32).to({triton_type(dtype)})"
    return f"tl.full((), {literal(value)}, {triton_type(dtype)})"
