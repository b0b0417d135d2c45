"""Prints contraction kernels: a program computes a tile of rows and columns with block matmuls.

Operands are computed elementwise and multiplied by `tl.dot`, in half precision with float32 accumulators. Types that
`tl.dot` does not support (integers other than int8 by int8, float64, tiny sizes) are printed as reductions instead. `emit` is
the entry point.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from burn.codegen.triton import candidates
from burn.codegen.triton.abilities import USUAL_ABILITIES, Abilities
from burn.codegen.triton.code import NONE, Axis
from burn.codegen.triton.functions import EIGHTS, dot, narrowed, narrowed_bytes, triton_type
from burn.codegen.triton.heuristics.matmul import GROUP, SHALLOW, matmul_tile
from burn.codegen.triton.heuristics.sizes import UNKNOWN, SizeHints, likely
from burn.codegen.triton.printed import Printed, closed, opened
from burn.codegen.tuning.choices import NO_CHOICE, Choice
from burn.dialect.dims import Dim, LoopVar, ceildiv, coefficient, product
from burn.dialect.types import DTYPES, HALF_DTYPES
from burn.kernels.body import EXPENSIVE, Apply, Const, ContractionKernel, Convert, Load, Scalar, Where, walk

EXACT = (1 << 31) // (128 * 128) - 1
"""The largest depth at which no sum of int8 by int8 overflows int32. Tensor cores saturate where burn's sums wrap."""


def is_dot(kernel: ContractionKernel) -> bool:
    """True if `tl.dot` multiplies a kernel's operands."""
    if kernel.dtype == "float32":
        return True
    depth = product([v.extent for v in kernel.depth])
    exact = isinstance(depth, int) and depth <= EXACT
    return exact and narrowed_bytes((kernel.lhs, kernel.rhs), kernel.dtype) is not None


def emit(
    kernel: ContractionKernel,
    values: Mapping[str, Dim],
    sizes: ContractionKernel,
    sites: list[str],
    abilities: Abilities = USUAL_ABILITIES,
    choice: Choice = NO_CHOICE,
    hints: SizeHints = UNKNOWN,
) -> Printed:
    """values: the values of the kernel's sizes; sizes: the kernel with these values, for choosing tiles; abilities: those of
    the GPU; hints: size hints."""
    return _Contraction(kernel, values, sizes, sites, abilities, choice, hints).print()


def divisors(kernel: ContractionKernel) -> list[int]:
    """The sizes that each index into the depth is divided by in every step: constants, which take a fifth of the instructions.
    None if whole blocks have one index of the outer loops (`_depth`)."""
    loops = [v for v in kernel.depth if v.extent != 1]
    inner = loops[-1].extent if loops else 0
    if (isinstance(inner, int) and inner % SHALLOW == 0) or all(
        _is_flat(operand, loops) for operand in (kernel.lhs, kernel.rhs)
    ):
        return []
    return [v.extent for v in loops[1:] if isinstance(v.extent, int)]


class _Contraction:
    def __init__(
        self,
        kernel: ContractionKernel,
        values: Mapping[str, Dim],
        sizes: ContractionKernel,
        sites: list[str],
        abilities: Abilities,
        choice: Choice,
        hints: SizeHints,
    ) -> None:
        self.kernel, self.values, self.sizes = kernel, values, sizes
        self.float32 = abilities.float32
        self.rows = product([v.extent for v in sizes.rows])
        self.depth = product([v.extent for v in sizes.depth])
        batch = product([v.extent for v in sizes.batch])
        operands = (kernel.lhs, kernel.rhs)
        narrow = narrowed_bytes(operands, kernel.dtype) or narrowed(
            operands, kernel.dtype, (*HALF_DTYPES, *EIGHTS) if abilities.eights else HALF_DTYPES
        )
        self.left, self.right = narrow or (kernel.lhs, kernel.rhs)
        bits = DTYPES[self.left.dtype].bits
        costly = any(
            isinstance(node, Apply) and node.function in EXPENSIVE
            for node in walk(*(write.value for write in kernel.epilogue))
        )
        rows, columns, times = (likely(size, hints) for size in (self.rows, sizes.column.extent, batch))
        queried = (rows, columns, sizes.depth, times, bits, costly, abilities.processors)
        self.tile = choice.pick(matmul_tile(*queried), lambda: candidates.tiles(*queried))
        self.masks: dict[str, str] = {}
        self.printer = opened(kernel.buffers, sites)
        self.printer.eights = abilities.eights
        self.code = self.printer.code

    def print(self) -> Printed:
        kernel, printer, code = self.kernel, self.printer, self.code
        rows, columns = (printer.dim(d) for d in (product([v.extent for v in kernel.rows]), kernel.column.extent))
        code.line("program = tl.program_id(0).to(INT)")
        code.line(f"across = tl.cdiv({columns}, COLUMNS)")
        code.line(f"down = tl.cdiv({rows}, ROWS)")
        code.line("tile = program % (across * down)")
        code.line("first = tile // (GROUP * across) * GROUP")
        code.line("height = tl.minimum(down - first, GROUP)")
        code.line("within_group = tile % (GROUP * across)")
        code.line("x = (first + within_group % height) * ROWS + tl.arange(0, ROWS)[:, None]")
        code.line("y = (within_group // height) * COLUMNS + tl.arange(0, COLUMNS)[None, :]")
        self._inside("x", self.rows, self.tile.rows, rows)
        self._inside("y", self.sizes.column.extent, self.tile.columns, columns)
        printer.walk_flat(kernel.batch, code.let("program // (across * down)", "batch"), NONE)
        self._sum()
        printer.axes |= {axis: Axis(axis, mask) for axis, mask in self.masks.items()}
        printer.walk_flat(kernel.rows, "x", frozenset("x"))
        printer.put(kernel.column, "y", frozenset("y"))
        printer.accumulator = ("total", frozenset("xy"))
        for write in kernel.epilogue:
            printer.value(write.value)
        for write in kernel.epilogue:
            printer.store(write)
        tile = self.tile
        constants = {"ROWS": tile.rows, "COLUMNS": tile.columns, "DEPTH": tile.depth, "GROUP": GROUP}
        batch = product([v.extent for v in self.sizes.batch])
        programs = batch * ceildiv(self.rows, tile.rows) * ceildiv(self.sizes.column.extent, tile.columns)
        iterations = batch * self.rows * self.sizes.column.extent
        about = "A tile of rows and columns each, summed along the depth."
        return closed(printer, kernel, about, constants, programs, self.values, iterations, tile.warps, tile.stages)

    def _inside(self, axis: str, size: Dim, block: int, text: str) -> None:
        """Sets the mask of an axis, unless all blocks are whole."""
        even = isinstance(size, int) and size % block == 0
        self.masks[axis] = "" if even else self.code.let(f"{axis} < {text}", f"inside_{axis}")

    def _sum(self) -> None:
        kernel, printer, code = self.kernel, self.printer, self.code
        depth = printer.dim(product([v.extent for v in kernel.depth]))
        zero = "0" if kernel.dtype == "int32" else "0.0"
        code.line(f"total = tl.full([ROWS, COLUMNS], {zero}, {triton_type(kernel.dtype)})")
        with code.block(f"for start in range(0, {depth}, DEPTH):"), printer.scope():
            code.line("k = (start + tl.arange(0, DEPTH)).to(INT)")
            left, right = self._operand(self.left, "x"), self._operand(self.right, "y")
            if self.left.dtype in EIGHTS and kernel.fast:
                code.line(f"total = tl.dot({left}, {right}, total)")
            elif kernel.dtype == "int32":
                code.line(f"total = tl.dot({left}, {right}, total, out_dtype=tl.int32)")
            elif self.left.dtype in EIGHTS:  # tensor cores accumulate a block in fewer bits than float32
                code.line(f"total = tl.dot({left}, {right}, total, max_num_imprecise_acc=DEPTH)")
            else:
                code.line(f"total = {dot(left, right, 'total', self.left.dtype, self.float32)}")

    def _depth(self, indices: str, axis: str) -> None:
        """The indices of the depth's loops for an operand. An operand that is contiguous over several loops gets one index for
        all of them, so that Triton's compiler loads whole words.

        If blocks divide the innermost loop (the channels of a convolution), the others have one index for a whole block. Values
        that depend on them, such as a window row's bounds check, are then computed once."""
        kernel, printer, code = self.kernel, self.printer, self.code
        for single in (v for v in kernel.depth if v.extent == 1):
            printer.put(single, "0", NONE)
        loops = [v for v in kernel.depth if v.extent != 1]
        known = self.sizes.lhs if axis == "x" else self.sizes.rhs
        if _is_flat(known, [v for v in self.sizes.depth if v.extent != 1]):
            for loop in loops[:-1]:
                printer.put(loop, "0", NONE)
            printer.put(loops[-1], indices, frozenset("k"))
            return
        extent = next((v.extent for v in reversed(self.sizes.depth) if v.extent != 1), 1)
        if len(loops) < 2 or not isinstance(extent, int) or extent % self.tile.depth:
            printer.walk_flat(loops, indices, frozenset("k"))
            return
        *outer, inner = loops
        length, across = printer.dim(inner.extent), "[None, :]" if axis == "x" else "[:, None]"
        first = code.let(f"tl.multiple_of(start % {length}, DEPTH)", "first")  # Triton does not derive this itself
        here = code.let(f"({first} + tl.arange(0, DEPTH)).to(INT){across}", "k")
        printer.put(inner, here, frozenset("k"))
        printer.walk_flat(outer, code.let(f"start // {length}", "tap"), NONE)

    def _operand(self, node: Scalar, axis: str) -> str:
        """A block of one operand, zero outside: [ROWS, DEPTH] or [DEPTH, COLUMNS]."""
        kernel, printer, code = self.kernel, self.printer, self.code
        depth = code.let("k[None, :]" if axis == "x" else "k[:, None]", "k")
        even = isinstance(self.depth, int) and self.depth % self.tile.depth == 0
        limit = printer.dim(product([v.extent for v in kernel.depth]))
        within = "" if even else code.let(f"{depth} < {limit}", "within")
        with printer.scope():
            printer.axes = {axis: Axis(axis, self.masks[axis]), "k": Axis(depth, within)}
            self._depth(depth, axis)
            if axis == "x":
                printer.walk_flat(kernel.rows, "x", frozenset("x"))
            else:
                printer.put(kernel.column, "y", frozenset("y"))
            kind = EIGHTS.get(node.dtype, triton_type(node.dtype))
            if node.dtype in EIGHTS and isinstance(
                node, Load
            ):  # values loaded in this type go to tensor cores directly
                printer.bases = {
                    node.buffer: code.let(f"b{node.buffer}.to(tl.pointer_type({kind}), bitcast=True)", "base")
                }
            value = printer.value(node)
            if node.dtype in EIGHTS and not printer.bases:
                value = code.let(f"{value}.to({kind}, bitcast=True)")
            printer.bases = {}
            if within and not self._is_zero_behind(node):
                zero = "0" if node.dtype == "int8" else "0.0"
                value = f"tl.where({within}, {value}, {zero}).to({kind})"
            shape = "[ROWS, DEPTH]" if axis == "x" else "[DEPTH, COLUMNS]"
            return code.let(f"tl.broadcast_to({value}, {shape})", "left" if axis == "x" else "right")

    def _is_zero_behind(self, node: Scalar) -> bool:
        """True if the printed operand is already zero past the depth's end, like a masked load. Other operands go
        through registers, and their next blocks are not prefetched."""
        match node:
            case Load(offset=offset):
                return "k" in self.printer.span(offset)
            case Where(then=Load(offset=offset), otherwise=Const(value=value)):
                return value == 0 and "k" in self.printer.span(offset)
        return False


def _is_flat(node: Scalar, loops: Sequence[LoopVar]) -> bool:
    """True if an operand is one load whose index is linear in the flat index of several loops, the last one fastest."""
    while isinstance(node, Convert):
        node = node.arg
    if len(loops) < 2 or not isinstance(node, Load):
        return False
    step = coefficient(node.offset, loops[-1])
    for loop, inner in zip(reversed(loops[:-1]), reversed(loops), strict=False):
        step = None if step is None else step * inner.extent
        if step is None or coefficient(node.offset, loop) != step:
            return False
    return True
