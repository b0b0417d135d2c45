"""Kernels as text: loops, buffers, and scalar bodies with a name for every value.

    kernel {
      b0: read float32 (in 0)
      b1: write float32 (out 0)
      parallel i0 < n {
        for i1 < 10 {
          %0 = b0[10*i0 + i1] : float32
          r0 = max %0 : float32
        }
        for i1 < 10 {
          %1 = b0[10*i0 + i1] : float32
          %2 = sub %1, r0 : float32
          b1[10*i0 + i1] = %2
        }
      }
    }

A line defines a value, but not when it is computed: a value that only the `then` of an `if` reads is computed only if the
condition holds. The text is complete: kernels with the same text are equal, which code generators rely on. The entry points
are `kernel_text` for one kernel and `program_text` for those of a fused program.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from burn.dialect.control import Group
from burn.dialect.dims import Dim, LoopVar, atoms
from burn.dialect.mlir import context, ir
from burn.dialect.op import full_name
from burn.dialect.program import Program
from burn.dialect.types import type_of
from burn.errors import unreachable
from burn.kernels.body import (
    Accumulator,
    Apply,
    AttentionGradientKernel,
    AttentionKernel,
    Buffer,
    ColumnReduction,
    Const,
    ContractionKernel,
    Convert,
    Fetched,
    Index,
    Kept,
    Kernel,
    Load,
    LoopKernel,
    Reduced,
    Reduction,
    Reinterpret,
    Scalar,
    Stage,
    Where,
    Write,
    has_dropout,
    own_dims,
    walk,
)
from burn.kernels.builders import kernels
from burn.kernels.builders.builder import Call
from burn.kernels.preferences import Preferences


def program_text(program: Program, preferences: Preferences) -> str:
    """The kernels of every group of a fused program in order, each under the names of its source nodes."""
    with context():
        return "\n\n".join(group_text(group, preferences, number) for number, group in enumerate(groups(program.block)))


def group_text(group: Group, preferences: Preferences, number: int = 0) -> str:
    """The kernels of a group in execution order."""
    nodes = ", ".join(dict.fromkeys(filter(None, (full_name(op) for op in group.ops))))
    lines = [f"// group {number}, {group.kind}: {' '.join(op.SHOWN_AS for op in group.ops)}"]
    lines += [f"// from {nodes}"] if nodes else []
    lines += [f"// in {i}: {type_of(v)}" for i, v in enumerate(group.operation.operands)]
    lines += [f"// out {i}: {type_of(v)}" for i, v in enumerate(group.operation.results)]
    return "\n".join([*lines, *(call_text(call) for call in kernels(group, preferences))])


def call_text(call: Call) -> str:
    """A kernel with the bindings of its buffers."""
    return kernel_text(call.kernel, ["" if b is None else f" ({b[0]} {b[1]})" for b in call.bindings])


def kernel_text(kernel: Kernel, notes: Sequence[str] = ()) -> str:
    """One kernel; `notes` annotate its buffers."""
    return "\n".join(_Writer(kernel, notes).lines())


def groups(block: ir.Block) -> Iterator[Group]:
    """Every group of a fused program, including those inside branches and loops."""
    for operation in block.operations:
        if isinstance(operation.opview, Group):
            yield operation.opview
            continue
        for region in operation.operation.regions:
            for inner in region.blocks:
                yield from groups(inner)


class _Writer:
    def __init__(self, kernel: Kernel, notes: Sequence[str]) -> None:
        self.kernel, self.notes = kernel, notes
        self.names: dict[int, str] = {}
        self.fetched: set[Fetched] = set()
        self.count = 0

    def lines(self) -> Iterator[str]:
        yield "kernel {"
        for number, buffer in enumerate(self.kernel.buffers):
            yield f"  b{number}: {_buffer(buffer)}{self.notes[number] if self.notes else ''}"
        match self.kernel:
            case LoopKernel(parallel=parallel, stages=stages, column_reductions=column_reductions, block=block):
                body = [line for stage in stages for line in self.stage(stage)]
                body += [line for reduced in column_reductions for line in self.column_reduction(reduced, block)]
                yield from _indented(_nest("parallel", parallel, body))
            case ContractionKernel():
                yield from _indented(self.contraction(self.kernel))
            case AttentionKernel():
                yield from _indented(self.attention(self.kernel))
            case AttentionGradientKernel():
                yield from _indented(self.gradient(self.kernel))
            case _:
                raise unreachable(self.kernel)
        yield "}"

    def stage(self, stage: Stage) -> Iterator[str]:
        body = []
        self.forget()
        for reduction in stage.reductions:
            body += self.bound(reduction.body, dims=(reduction.index,))
            body.append(f"{reduction.name} = {self.reduction(reduction)}")
        for write in stage.writes:
            body += self.write(write)
        yield from _nest("for" if stage.order == "parallel" else f"{stage.order} for", stage.loops, body)

    def column_reduction(self, reduced: ColumnReduction, block: Dim) -> Iterator[str]:
        self.forget()
        body = [*self.bound(reduced.reduction.body), f"b{reduced.buffer} = {self.reduction(reduced.reduction)}"]
        yield from (
            _nest(f"fold by {block}", reduced.loops, body)
            if reduced.loops
            else (f"fold by {block} {{", *_indented(body), "}")
        )

    def reduction(self, reduction: Reduction) -> str:
        position = f" at {reduction.index}" if reduction.kind.startswith("arg") else ""
        last = " last" if reduction.last else ""
        return f"{reduction.kind}{last} {self.name(reduction.body)}{position} : {reduction.dtype}"

    def write(self, write: Write) -> Iterator[str]:
        yield from self.bound(write.value, dims=(write.offset,))
        yield f"b{write.buffer}[{write.offset}] = {self.name(write.value)}"

    def contraction(self, kernel: ContractionKernel) -> Iterator[str]:
        head = [
            ("shares", kernel.shares), ("batch", kernel.batch), ("rows", kernel.rows), ("column", (kernel.column,))
        ]  # fmt: skip
        yield f"contract {', '.join(f'{name} {_loops(each)}' for name, each in head if each)} {{"
        for stage in kernel.stages:
            yield from _indented(self.stage(stage))
        self.forget()
        body = list(self.bound(kernel.lhs, *kernel.weights))
        fast = " fast" if kernel.fast else ""
        body += [
            f"acc{number or ''} += {self.name(kernel.lhs)} * {self.name(rhs)} : {kernel.dtype}{fast}"
            for number, rhs in enumerate(kernel.weights)
        ]
        yield from _indented(_nest("for", kernel.depth, body))
        self.forget()
        for write in kernel.epilogue:
            yield from _indented(self.write(write))
        yield "}"

    def forget(self) -> None:
        """Forgets names: values differ in other loops."""
        self.names.clear()
        self.fetched.clear()

    def attention(self, kernel: AttentionKernel) -> Iterator[str]:
        head = [("batch", kernel.batch), ("rows", kernel.rows), ("column", (kernel.column,))]
        yield f"attention {', '.join(f'{name} {_loops(each)}' for name, each in head if each)} {{"
        dot = list(self.bound(kernel.query, kernel.keys))
        dot.append(f"acc += {self.name(kernel.query)} * {self.name(kernel.keys)} : {kernel.dtype}")
        self.forget()
        body = [*_nest("for", (kernel.depth,), dot), *self.fetches(kernel.first), *self.fetches(kernel.stop)]
        body += self.bound(kernel.score)
        body.append(f"p = softmax {self.name(kernel.score)} : {kernel.dtype}")
        span = f"{_loops((kernel.key,))} in {kernel.first} .. {kernel.stop}"
        yield from _indented([f"for {span} {{", *_indented(body), "}"])
        self.forget()
        mixed = list(self.bound(kernel.values))
        factor = ""
        if has_dropout(kernel):
            mixed += self.bound(kernel.factor)
            factor = f" * {self.name(kernel.factor)}"
        mixed.append(f"acc += p{factor} * {self.name(kernel.values)} : {kernel.dtype}")
        yield from _indented(_nest("for", (kernel.key,), mixed))
        self.forget()
        for write in kernel.epilogue:
            yield from _indented(self.write(write))
        self.forget()
        for write in kernel.norms:
            yield from _indented(("norm:", *self.write(write)))
        yield "}"

    def gradient(self, kernel: AttentionGradientKernel) -> Iterator[str]:
        rows = (*kernel.heads, kernel.row)
        over = {"rows": rows, "keys": (kernel.key,)}
        mine = [name for name, included in (("rows", kernel.of_rows), ("keys", kernel.of_keys)) if included]
        others = [name for name in over if name not in mine]
        head = ", ".join(f"{name} {_loops(over[name])}" for name in mine)
        span = (
            f"{kernel.first} <= {kernel.key.name} < {kernel.stop}, {kernel.begin} <= {kernel.row.name} < {kernel.end}"
        )
        operands = f"depth {_loops((kernel.depth,))}, column {_loops((kernel.column,))}"
        yield f"attention gradient batch {_loops(kernel.batch)}, {head}, {operands} {{"
        body: list[str] = []
        for dim in (kernel.first, kernel.stop, kernel.begin, kernel.end):
            body += self.fetches(dim)
        names = ("query", "keys", "values", "output_gradient", "norm", "dot", "score", "score_derivative")
        for name in (*names, *(["factor"] if has_dropout(kernel) else [])):
            node = getattr(kernel, name)
            body += self.bound(node)
            body.append(f"{name} = {self.name(node)} : {kernel.dtype}")
        inner = f"for {_loops(over[others[0]])} where {span}" if others else f"where {span}"
        yield from _indented([f"{inner} {{", *_indented(body), "}"])
        written = {
            "rows": kernel.row_writes,
            "keys": kernel.key_writes,
            "values": kernel.value_writes,
            "scores": kernel.score_writes,
        }
        for name, writes in written.items():
            self.forget()
            for write in writes:
                yield from _indented((f"{name}:", *self.write(write)))
        yield "}"

    # ---- scalars -------------------------------------------------------------------------------------------------------
    def bound(self, *roots: Scalar, dims: Sequence[Dim] = ()) -> Iterator[str]:
        """One line for each value without a name yet, and for fetched indices."""
        for dim in dims:
            yield from self.fetches(dim)
        for node in walk(*roots):
            if id(node) in self.names or isinstance(node, (Reduced, Accumulator)):
                continue
            for dim in own_dims(node):
                yield from self.fetches(dim)
            name = f"%{self.count}"
            self.count += 1
            yield f"{name} = {self.describe(node)} : {node.dtype}"
            self.names[id(node)] = name

    def fetches(self, dim: Dim) -> Iterator[str]:
        for atom in sorted((a for a in atoms(dim) if isinstance(a, Fetched)), key=str):
            if atom in self.fetched:
                continue
            self.fetched.add(atom)
            yield from self.bound(atom.source)
            yield f'{atom.name} = fetch {self.name(atom.source)} < {atom.extent} "{atom.site}"'

    def name(self, node: Scalar) -> str:
        match node:
            case Reduced(name=name):
                return name
            case Accumulator(number=number):
                return f"acc{number or ''}"
        return self.names[id(node)]

    def describe(self, node: Scalar) -> str:
        match node:
            case Const(value=value):
                return repr(value)
            case Load(buffer=buffer, offset=offset):
                return f"b{buffer}[{offset}]"
            case Index(dim=dim):
                return f"index {dim}"
            case Apply(function=function, args=args, coarse=coarse):
                return f"{'coarse ' if coarse else ''}{function} {', '.join(map(self.name, args))}"
            case Convert(arg=arg, saturate=saturate):
                return f"convert {self.name(arg)} from {arg.dtype}{'' if saturate else ' unsaturated'}"
            case Reinterpret(arg=arg):
                return f"reinterpret {self.name(arg)} from {arg.dtype}"
            case Where(ranges=ranges, then=then, otherwise=otherwise):
                return f"if {_ranges(ranges)} then {self.name(then)} else {self.name(otherwise)}"
            case Kept(words=(high, low), row=row, column=column, calls=calls, rate=rate):
                key = f"{self.name(high)}, {self.name(low)}"
                return f"kept {key} row {row} of {calls} calls, column {column}, rate {rate!r}"
        raise TypeError(node)


def _buffer(buffer: Buffer) -> str:
    size = "" if buffer.elements == 0 else f"[{buffer.elements}]"
    return f"{buffer.access} {buffer.dtype}{size}{f' in panels of {buffer.panels}' if buffer.panels else ''}"


def _loops(loops: Sequence[LoopVar]) -> str:
    return ", ".join(f"{v.name} < {v.extent}" for v in loops)


def _ranges(ranges: Sequence[tuple[Dim, Dim]]) -> str:
    return " and ".join(f"0 <= {position} < {extent}" for position, extent in ranges)


def _nest(word: str, loops: Sequence[LoopVar], body: Sequence[str]) -> Iterator[str]:
    """The body inside loops, or the body alone without loops."""
    if not loops:
        yield from body
        return
    yield f"{word} {_loops(loops)} {{"
    yield from _indented(body)
    yield "}"


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)
