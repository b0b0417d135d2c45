"""Tiling of a contraction: panels of a few vectors of columns, and operands as loads that advance by constant steps.

An operand that the pass `pack` laid out in panels keeps them; for others the printer chooses the width. `Tiled.of` is the
entry point. It returns None for kernels that are printed as plain loops instead.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from burn.codegen.cpu.matmul.blockwise import Blockwise
from burn.dialect.dims import Atom, Dim, Expr, LoopVar, ceildiv, coefficient, exact_div, product, substitute
from burn.dialect.types import DTYPES
from burn.kernels.body import Buffer, Const, ContractionKernel, Convert, Load, Scalar, Where, Write

Ranges = tuple[tuple[Dim, Dim], ...]


@dataclass(frozen=True, eq=False)
class Tiled:
    """column = panel * width + within. `lhs` outside of `valid` (0 <= e < n for each pair) is `fill`. Operands are
    converted to `dtype` when loaded. An element of `inner` is a run of `run` contiguous depth elements of both
    operands, which one instruction multiplies if that is more than 1 (vnni.py, bf16_pairs.py). `packed` panels are zero-padded;
    otherwise columns past the last are not read. With `blocks` the rhs has weights of a few bits: the depth is one
    loop, and `rhs` stands for the dequantised floats."""

    dtype: str
    batch: tuple[LoopVar, ...]
    rows: tuple[LoopVar, ...]
    column: LoopVar
    panel: LoopVar
    within: LoopVar
    width: int
    outer: tuple[LoopVar, ...]
    inner: LoopVar
    lhs: Load
    rhs: Load
    valid: Ranges
    packed: bool
    epilogue: tuple[Write, ...]
    buffers: tuple[Buffer, ...]
    run: int = 1
    fill: int = 0
    blocks: Blockwise | None = None

    @staticmethod
    def of(kernel: ContractionKernel, width: int) -> Tiled | None:
        """The kernel in panels of `width` columns; None if an operand is more than a load, or has no constant strides."""
        blocks = Blockwise.of(kernel)
        if blocks is not None:
            return _of_blocks(kernel, blocks, width)
        lhs, valid, fill = _padded(kernel.lhs)
        left, right = _load(lhs), _load(kernel.rhs)
        if left is None or right is None or not kernel.depth:
            return None
        panel = LoopVar("panel", ceildiv(kernel.column.extent, width))
        within = LoopVar("within", width)
        start = 0 if panel.extent == 1 else Expr.of(panel) * width
        right = replace(right, offset=substitute(right.offset, {kernel.column: start + Expr.of(within)}))
        loops = (*kernel.batch, *kernel.rows, *kernel.depth)
        if not (_even(left, loops) and _even(right, (*kernel.batch, *kernel.depth, panel, within))):
            return None
        packed = kernel.buffers[right.buffer].panels == width
        run = _run(left, right, kernel.depth, within) if packed else 1
        if fill and left.dtype != "uint8":
            return None  # only bytes can have a padding value
        kept = kernel.depth[:-1] if run > 1 else kernel.depth
        depth = (*(v for v in kept[:-1] if v.extent != 1), kept[-1])
        first: dict[Atom, Dim] = {v: 0 for v in kernel.depth if v not in depth}
        left, right = (replace(operand, offset=substitute(operand.offset, first)) for operand in (left, right))
        valid = tuple((substitute(e, first), n) for e, n in valid)
        return Tiled(
            kernel.dtype, kernel.batch, kernel.rows, kernel.column, panel, within, width, depth[:-1], depth[-1],
            left, right, valid, packed, kernel.epilogue, kernel.buffers, run, fill,
        )  # fmt: skip

    @property
    def depth_elements(self) -> Dim:
        """Elements of the whole depth."""
        return product([v.extent for v in (*self.outer, self.inner)]) * self.run

    @property
    def run_bytes(self) -> Dim:
        """Bytes of the lhs in the innermost contraction loop if its elements are contiguous."""
        return self.inner.extent * (self.run * DTYPES[self.lhs.dtype].size)

    @property
    def has_contiguous_columns(self) -> bool:
        """True if a panel's columns are neighbouring elements, or runs of them."""
        return self.width == 1 or coefficient(self.rhs.offset, self.within) == self.run

    @property
    def has_contiguous_depth(self) -> bool:
        """True if neighbours of a single depth loop are contiguous in both operands, which are multiplied as they are loaded."""
        is_plain = self.lhs.dtype == self.rhs.dtype == self.dtype and self.dtype.startswith("float")
        steps = [coefficient(operand.offset, self.inner) for operand in (self.lhs, self.rhs)]
        return is_plain and not (self.outer or self.packed or self.blocks) and self.run == 1 and steps == [1, 1]

    @property
    def byte_blocks(self) -> Dim | None:
        """Blocks of 64 bytes of the depth, which are contiguous in packed panels; None if the depth has no such blocks."""
        lines = exact_div(self.run_bytes, 64)
        loops = (*self.outer, self.inner)
        steps = [product([self.run * self.width, *(v.extent for v in loops[i + 1 :])]) for i in range(len(loops))]
        if not self.packed or lines is None or [coefficient(self.rhs.offset, v) for v in loops] != steps:
            return None
        return product([*(v.extent for v in self.outer), lines])

    @property
    def rhs_start(self) -> Dim:
        """The offset of the panel's first column."""
        return substitute(self.rhs.offset, {self.within: 0})


def _of_blocks(kernel: ContractionKernel, blocks: Blockwise, width: int) -> Tiled | None:
    """The same for weights of a few bits, which `blocks` reads."""
    left = _load(kernel.lhs)
    if left is None:
        return None
    panel, within = LoopVar("panel", ceildiv(kernel.column.extent, width)), LoopVar("within", width)
    inner = LoopVar("k", product([v.extent for v in kernel.depth]))
    steps: dict[Atom, Dim] = dict.fromkeys(kernel.depth, 0)
    last = next((v for v in reversed(kernel.depth) if v.extent != 1), kernel.depth[-1])
    left = replace(left, offset=substitute(left.offset, steps | {last: Expr.of(inner)}))
    right = Load(
        "float32", blocks.weight.buffer, (Expr.of(panel) * inner.extent + Expr.of(inner)) * width + Expr.of(within)
    )
    return Tiled(
        kernel.dtype, kernel.batch, kernel.rows, kernel.column, panel, within, width, (), inner,
        left, right, (), False, kernel.epilogue, kernel.buffers, 1, 0, blocks.in_panels(kernel.column, panel, width),
    )  # fmt: skip


RUNS = {("uint8", "int8"): (2, 4), ("bfloat16", "bfloat16"): (2,)}
"""The lengths of interleaved runs, by the element types of both operands."""


def _run(left: Load, right: Load, depth: tuple[LoopVar, ...], within: LoopVar) -> int:
    """The extent of the last depth loop, if `pack` interleaved its elements."""
    lengths = RUNS.get((left.dtype, right.dtype), ())
    if not lengths or len(depth) < 2:
        return 1
    outer, last = depth[-2:]
    run = last.extent
    if not isinstance(run, int) or run not in lengths or coefficient(right.offset, within) != run:
        return 1
    if coefficient(left.offset, last) != 1 or coefficient(right.offset, last) != 1:
        return 1
    return run if outer.extent == 1 or coefficient(left.offset, outer) == run else 1


def panels_of(kernel: ContractionKernel) -> int:
    """The panel width of a packed rhs; 0 if it is not packed."""
    operand = _load(kernel.rhs)
    return kernel.buffers[operand.buffer].panels if operand is not None else 0


def _padded(operand: Scalar) -> tuple[Scalar, Ranges, int]:
    """An operand without its padding, the ranges in which it is read, and the padding value."""
    match operand:
        case Where(ranges=ranges, then=then, otherwise=Const(value=value)) if 0 <= value < 256 and value == int(value):
            return then, ranges, int(value)
    return operand, (), 0


READ_AS = {
    **dict.fromkeys(("float32", "float16", "bfloat16"), "float32"),
    "float64": "float64",
    **dict.fromkeys(("int32", "int16", "uint16", "int8", "uint8"), "int32"),
}
"""Element types that are loaded directly, and the type in which each is multiplied."""


def _load(operand: Scalar) -> Load | None:
    """The load of an operand, without a conversion that the printer does itself."""
    if isinstance(operand, Convert) and READ_AS.get(operand.arg.dtype) == operand.dtype:
        operand = operand.arg
    return operand if isinstance(operand, Load) and operand.dtype in READ_AS else None


def _even(operand: Load, loops: tuple[LoopVar, ...]) -> bool:
    """True if the operand advances by a constant for each step of each loop."""
    return all(coefficient(operand.offset, v) is not None for v in loops)
