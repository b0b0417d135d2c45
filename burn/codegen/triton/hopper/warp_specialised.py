"""Shared parts of warp-specialised kernels (Hopper), printed in Gluon.

A program has two or three consumer groups of four warps, each with 64 elements of the program's own axis. One producer
warp copies blocks of the other axis to shared memory for all of them. While one group computes exponentials, another
one multiplies (arXiv 2407.08608). `attention_library.py` has the text that all such kernels share; it calls functions
printed here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from burn.codegen.triton.attention_base import Attended
from burn.codegen.triton.code import NONE, Axis
from burn.codegen.triton.heuristics.attention import WarpSpecialised
from burn.codegen.triton.printed import Printed, given, opened
from burn.codegen.triton.scalars import ScalarPrinter
from burn.codegen.triton.tensor_maps import BYTES, Matrix
from burn.dialect.dims import Dim, Expr, LoopVar, ceildiv, substitute
from burn.dialect.types import HALF_DTYPES
from burn.kernels.body import (
    Accumulator,
    Apply,
    AttentionGradientKernel,
    AttentionKernel,
    Const,
    Convert,
    Load,
    Scalar,
    Where,
    children,
    loop_atoms,
    walk,
)

GROUP = 64
"""Elements of a group's axis: the rows that four warps multiply at once."""

FUNCTIONS = ("add", "sub", "mul", "neg", "fma", "exp", "exp2", "log", "log2", "erf", "sigmoid", "eq", "select")
"""Element types that Gluon supports."""

FLOATS = ("float32", *HALF_DTYPES)
"""Types of operands, accumulators and results."""

SIZES = ("WALKED", "DEPTH", "COLUMNS", "STAGES", "GROUPS", "REGISTERS")
"""Constants of every warp-specialised kernel."""


class WarpSpecialisedPrinter(Attended):
    """batch: loops with one index per program; mine: the loop that is divided among groups."""

    def __init__(
        self,
        kernel: AttentionKernel | AttentionGradientKernel,
        values: Mapping[str, Dim],
        sites: list[str],
        operands: Sequence[Scalar],
        batch: Sequence[LoopVar],
        mine: LoopVar,
    ) -> None:
        super().__init__(kernel.dtype, operands, values)
        self.sites, self.buffers, self.batch, self.mine = sites, kernel.buffers, batch, mine
        self.given, self.arguments = given(kernel, values)
        self.own = [*self.given, "batch"]
        self.score, self.factor = self.factored(kernel.score)

    def masks_by_index(self) -> bool:
        """True if a score is a plain dot product, or masked by position only."""
        match self.score:
            case Accumulator():
                return True
            case Where(then=Accumulator(), otherwise=Const(value=value)):
                return value == float("-inf")
        return False

    # ---- functions ---------------------------------------------------------------------------------------------------------
    def launched(
        self, parts: Sequence[str], shape: WarpSpecialised, constants: Mapping[str, int], count: Dim, batch: Dim
    ) -> Printed:
        """The printed kernel, from the texts of its functions, the kernel first. count: the extent of the own axis; batch: of
        the others."""
        text = in_gluon(parts)
        programs = batch * ceildiv(count, shape.groups * GROUP)
        sizes = {"WALKED": shape.walked, "STAGES": shape.stages, "GROUPS": shape.groups, "REGISTERS": shape.registers}
        return Printed(
            "KERNEL", text, tuple(self.arguments), {**sizes, **constants}, programs, 4, 1,
            scratch=2 * BYTES, registers=shape.entering,
        )  # fmt: skip

    def main(self, constants: Sequence[str], about: str, late: bool) -> tuple[ScalarPrinter, str]:
        """A printer of the kernel, and its head. late: the last elements have the most work, and start first."""
        printer = opened(self.buffers, self.sites)
        code = printer.code
        code.line("program = tl.program_id(0).to(INT)")
        code.line(f"down = tl.cdiv({printer.dim(self.mine.extent)}, GROUPS * {GROUP})")
        code.line(f"x = ({'down - 1 - program % down' if late else 'program % down'}) * (GROUPS * {GROUP})")
        code.line("batch = program // down")
        printer.walk_flat(self.batch, "batch", NONE)
        code.line(f"own = ({', '.join(self.own)})")
        return printer, function_head(
            "KERNEL", [*self.given, *(f"{name}: gl.constexpr" for name in ("INT", *constants))], about
        )

    def inner(self, name: str, parameters: Sequence[str], about: str) -> tuple[ScalarPrinter, str]:
        """A printer of a function whose argument `own` has all arguments of the kernel and the program's batch, and its head."""
        printer = opened(self.buffers, self.sites)
        printer.code.line(f"{', '.join(self.own)} = own")
        printer.code.line("INT: tl.constexpr = batch.dtype")
        printer.walk_flat(self.batch, "batch", NONE)
        return printer, function_head(f"KERNEL_{name}", [*parameters, "own"], about)

    def along(self, printer: ScalarPrinter, across: str = "[:, None]", whole: bool = False) -> None:
        """The axis of a group's elements, which start at `x`. whole: elements outside do not matter."""
        index = printer.code.let(f"(x + tl.arange(0, {GROUP}){across}).to(INT)", "x")
        self.put(printer, "x", self.mine, index, whole)

    def across(self, printer: ScalarPrinter, name: str, loop: LoopVar, size: int, begin: str = "") -> None:
        """Adds another loop as the second axis."""
        index = printer.code.let(f"({begin}tl.arange(0, {size})[None, :]).to(INT)", name)
        self.put(printer, name, loop, index)

    def seen(self, loop: LoopVar, size: int, about: str) -> str:
        """The function for the mask of a block of another loop. about: its docstring."""
        printer, head = self.inner("seen", ["start", "x"], about)
        self.along(printer, whole=True)
        self.across(printer, "k", loop, size, "start + ")
        tests = [printer.axes["k"].mask, *(printer.tests(self.score.ranges) if isinstance(self.score, Where) else [])]
        printer.code.line(f"return {' & '.join(tests)}")
        return text(head, printer)

    def put(self, printer: ScalarPrinter, name: str, loop: LoopVar, index: str, whole: bool = False) -> None:
        mask = "" if whole else printer.code.let(f"{index} < {printer.dim(loop.extent)}", "inside")
        printer.axes[name] = Axis(index, mask)
        printer.put(loop, index, frozenset(name))

    def bounds(self, printer: ScalarPrinter, bound: Dim, most: LoopVar) -> tuple[str, str]:
        """A bound that grows with the own index, for the program's first and last index; within the axis `most`."""
        own, extent = printer.dim(self.mine.extent), printer.dim(most.extent)
        found = []
        for index in ("x", f"(tl.minimum(x + GROUPS * {GROUP}, {own}) - 1)"):
            printer.put(self.mine, index, NONE)
            text = f"tl.minimum(tl.maximum({printer.dim(bound)}, 0), {extent}).to(tl.int32)"
            found.append(printer.code.let(text, "bound"))
        return found[0], found[1]

    def scale(self) -> str:
        return self.factor.removeprefix(" * ") or "1.0"


def in_gluon(functions: Sequence[str]) -> str:
    """Translates Triton text of a scalar printer to Gluon."""
    return "\n\n\n".join(re.sub(r"\btl\.", "gl.", function) for function in functions)


def function_head(name: str, parameters: Sequence[str], about: str) -> str:
    return f'@gluon.jit\ndef {name}({", ".join(parameters)}):\n    """{about}"""'


def text(head: str, printer: ScalarPrinter) -> str:
    return "\n".join([head, *printer.code.lines])


def matrix_text(printer: ScalarPrinter, found: Matrix) -> str:
    rows, columns, stride = (printer.dim(d) for d in (found.rows.extent, found.columns.extent, found.stride))
    return f"(b{found.buffer} + {printer.dim(found.begin)}, {rows}, {columns}, {stride})"


def rises(bound: Dim, loop: LoopVar) -> bool:
    """True if a bound is constant or grows with the index, so that the first and last index of a block determine the
    bounds of all."""
    step = substitute(bound, {loop: Expr.of(loop) + 1}) + bound * -1
    return isinstance(step, int) and step >= 0


def printable(value: Scalar) -> bool:
    """True if Gluon can express a value."""
    for node in walk(value):
        match node:
            case Convert(dtype=dtype, arg=arg):
                fine = dtype in FLOATS and arg.dtype in FLOATS
            case Apply(function=function):
                fine = function in FUNCTIONS
            case Accumulator() | Load():
                fine = node.dtype in FLOATS
            case Const(dtype=dtype):
                fine = dtype == "float32"  # constants of other types are not plain numbers
            case _:
                fine = False
        if not fine:
            return False
    return True


def is_block(value: Scalar, *loops: LoopVar) -> bool:
    """True if a value is a load whose address depends on each of these loops. The loaded block then has the multiplication's
    shape, and zeros past the loops' ends."""
    return isinstance(value, Load) and set(loops) <= loop_atoms(value.offset)


def rounds(value: Scalar, dtype: str) -> bool:
    """True if accumulators are rounded to that type first."""
    readers = [node for node in walk(value) if any(isinstance(child, Accumulator) for child in children(node))]
    return not isinstance(value, Accumulator) and all(isinstance(n, Convert) and n.dtype == dtype for n in readers)


def is_rounding(value: Scalar, dtype: str) -> bool:
    """True if a value is only an accumulator rounded to that type."""
    only = all(isinstance(node, Convert | Accumulator) for node in walk(value))
    return only and printable(value) and rounds(value, dtype)
