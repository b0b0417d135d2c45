"""Packs the rhs of contractions into the panels that matrix kernels read.

Packing consists of ordinary ops (transpose, pad, reshape). `fold` evaluates it for constants. An rhs that a loop reads
in every iteration is packed before the loop. Others, such as weights in training, are packed before their first matmul,
unless their columns are contiguous and few rows read them. Convolutions must be channels-last already (`layout`).
Images of few channels get zero borders.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar

from burn.dialect import ops
from burn.dialect.compose import transpose
from burn.dialect.contraction import DotGeneral
from burn.dialect.dims import Dim, ceildiv, product
from burn.dialect.locations import source_name
from burn.dialect.mentions import attribute_symbols
from burn.dialect.mlir import context, ir
from burn.dialect.op import Op
from burn.dialect.pointwise import Cast
from burn.dialect.program import Program
from burn.dialect.query import blocks, erase_dead, is_named, op_of, settled
from burn.dialect.traits import Trait
from burn.dialect.types import DTYPES, type_of
from burn.kernels.builders.lanes_of_groups import is_grouped_gradient, windows_of
from burn.kernels.builders.matrix import is_matmul, matrix_type
from burn.kernels.layouts import PackedMatmul
from burn.kernels.preferences import Preferences
from burn.passes import block_panels
from burn.passes.constants import Constants
from burn.passes.environment import ANYWHERE, Environment
from burn.passes.pipeline import register
from burn.passes.stored import stored

LONG_RUN = 512
"""Depth elements from which splitting a matmul pays for storing partial sums."""

CACHED = 512 * 1024
"""Bytes of an rhs that stay in a cache while successive tiles of rows read them."""

MANY_ROWS, MANY_COLUMNS = 64, 64
"""Rows and columns from which an rhs with contiguous columns is packed."""


FEW_CHANNELS = 4
"""Up to this many bytes per pixel, bounds checks take longer than copying the image once."""


@register
@dataclass(frozen=True)
class Pack:
    """A panel is as wide as the target prefers, or two vectors of `vector-bytes` without a target. Neighbours of the depth
    are interleaved for targets with instructions that multiply several bytes, or two bfloat16, at once. Without `borders`
    images are read without a copy, which takes less memory.
    """

    name: ClassVar[str] = "pack"
    vector_bytes: int = 64
    byte_run: int = 1
    bfloat16_run: int = 1
    borders: bool = True

    def run(self, program: Program, env: Environment = ANYWHERE) -> None:
        with context():
            layouts = None if env.backend is None else env.backend.layouts
            width = self.width if layouts is None else layouts.panel_width
            run = self.depth_run if layouts is None else layouts.depth_run
            packing = _Packing(width, run, self.borders, env.preferences)
            with settled():
                for block in blocks(program.block):
                    for operation in list(block.operations):
                        op = operation.opview
                        if isinstance(op, Op) and op.OP_NAME in PACKERS:
                            grouped = is_grouped_gradient(op, env.preferences)
                            packing.lay_out_groups(op) if grouped else packing.pack(_split_depth(op))
            erase_dead(program.block)

    def depth_run(self, lhs: str, rhs: str) -> int:
        """See `Layouts`."""
        return {("uint8", "int8"): self.byte_run, ("bfloat16", "bfloat16"): self.bfloat16_run}.get((lhs, rhs), 1)

    def width(self, matmul: PackedMatmul) -> int:
        """Two vectors of accumulators, or one if that holds every column (or wastes far less)."""
        columns, lanes = matmul.columns, self.vector_bytes // DTYPES[matmul.dtype].size
        one, two = -(-columns // lanes) * lanes, -(-columns // (2 * lanes)) * 2 * lanes
        return lanes if columns <= lanes or two > 1.5 * one else 2 * lanes


def _split_depth(op: Op) -> Op:
    """Splits a matmul over a leading contraction axis with long runs inside it (a batch of images) into one matmul for
    each index and their sum. The operands of a tile then stay in a cache."""
    if not isinstance(op, DotGeneral) or op.dtype is not None:
        return op
    pairs = list(zip(op.lhs_contract, op.rhs_contract, strict=True))
    lhs, rhs = type_of(op.lhs), type_of(op.rhs)
    rest = product([lhs.shape[a] for a, b in pairs if (a, b) != (0, 0)])
    if (0, 0) not in pairs or lhs.shape[0] == 1 or not isinstance(rest, int) or rest < LONG_RUN:
        return op
    if lhs.dtype not in ("float32", "float64") or lhs.shape[0] != rhs.shape[0]:
        return op
    kept = [pair for pair in pairs if pair != (0, 0)]
    attrs = op.attrs | {
        "lhs_batch": (0, *op.lhs_batch),
        "rhs_batch": (0, *op.rhs_batch),
        "lhs_contract": tuple(a for a, _ in kept),
        "rhs_contract": tuple(b for _, b in kept),
    }
    with op.operation.location, ir.InsertionPoint(op.operation):
        parts = ops.dot_general(op.lhs, op.rhs, **attrs)
        op.operation.results[0].replace_all_uses_with(ops.reduce(parts, kind="sum", axes=(0,)))
    made = op_of(parts)
    assert made is not None
    return _split_run(made)


def _split_run(op: Op) -> Op:
    """Splits a batched matmul whose rhs is too large for a cache and has several contraction axes (those of an image).
    The first axis is split into runs, with a matmul for each run and their sum."""
    pairs, lhs, rhs = list(zip(op.lhs_contract, op.rhs_contract, strict=True)), type_of(op.lhs), type_of(op.rhs)
    size = product([n for a, n in enumerate(rhs.shape) if a not in op.rhs_batch]) * rhs.element_bytes
    length, rows = rhs.shape[pairs[0][1]], product([n for a, n in enumerate(lhs.shape) if _is_free(op, a)])
    if len(pairs) < 2 or not isinstance(size, int) or not isinstance(length, int) or not isinstance(rows, int):
        return op
    depth = product([rhs.shape[b] for _, b in pairs])
    runs = next((n for n in range(2, length) if length % n == 0 and size // n <= CACHED), None)
    if size <= 2 * CACHED or runs is None or not isinstance(depth, int) or rows * runs > depth:
        return op
    with op.operation.location, ir.InsertionPoint(op.operation):
        (left, lefts), (right, rights) = (
            _in_runs(x, axis, runs) for x, axis in zip((op.lhs, op.rhs), pairs[0], strict=True)
        )
        attrs = {
            "lhs_batch": (*map(lefts, op.lhs_batch), pairs[0][0]),
            "rhs_batch": (*map(rights, op.rhs_batch), pairs[0][1]),
            "lhs_contract": tuple(map(lefts, op.lhs_contract)),
            "rhs_contract": tuple(map(rights, op.rhs_contract)),
        }
        parts = ops.dot_general(left, right, **(op.attrs | attrs))
        total = ops.reduce(parts, kind="sum", axes=(len(op.lhs_batch),))
        op.operation.results[0].replace_all_uses_with(total)
    made = op_of(parts)
    assert made is not None
    return made


def _is_free(op: Op, axis: int) -> bool:
    return axis not in op.lhs_batch and axis not in op.lhs_contract


def _in_runs(x: ir.Value, axis: int, runs: int) -> tuple[ir.Value, Callable[[int], int]]:
    """A value with an axis split into runs, and the map from its axes to the new ones."""
    shape = type_of(x).shape
    length = shape[axis]
    assert isinstance(length, int)
    split = ops.reshape(x, shape=(*shape[:axis], runs, length // runs, *shape[axis + 1 :]))
    return split, lambda a: a if a < axis else a + 1


class _Packing:
    """The state of packing one program: known constants, and operands already packed.

    Replaced ops stay without uses, so that the cached facts remain valid.
    """

    def __init__(
        self,
        width: Callable[[PackedMatmul], int],
        depth_run: Callable[[str, str], int],
        borders: bool,
        preferences: Preferences,
    ) -> None:
        self.width, self.depth_run, self.borders, self.preferences = width, depth_run, borders, preferences
        self.constant = Constants()
        self.transposed: dict[tuple[ir.Value, tuple[int, ...], int], ir.Value] = {}

    def pack(self, op: Op) -> None:
        """Packs one contraction. A constant one stays unpacked: `fold` evaluates it on the compiling machine, whose
        kernels read other panels than the target's."""
        if self.constant(op.operation.results[0]):
            return
        with op.operation.location, ir.InsertionPoint(op.operation):
            packed = PACKERS[op.OP_NAME](self, op)
        if packed is not None:
            op.operation.results[0].replace_all_uses_with(packed)

    def lay_out_groups(self, op: Op) -> None:
        """Stores the operands of a grouped convolution's weight gradient with the channels of all groups last: vectors hold
        several groups."""
        with op.operation.location, ir.InsertionPoint(op.operation):
            windows = windows_of(op.lhs)
            assert windows is not None
            x = stored(windows.x)
            lhs = ops.reshape(type(windows).build(x, **windows.attrs), shape=type_of(op.lhs).shape)
            free = [a for a in range(type_of(op.rhs).rank) if a not in (*op.rhs_batch, *op.rhs_contract)]
            order = (*op.rhs_contract, *op.rhs_batch, *free)
            depth = len(op.rhs_contract)
            transposed = transpose(op.rhs, order)
            shape = type_of(transposed).shape
            rhs = ops.reshape(
                stored(ops.reshape(transposed, shape=(*shape[:depth], product(shape[depth:])))), shape=shape
            )
            attrs = op.attrs | {"rhs_contract": tuple(range(depth)), "rhs_batch": (depth,)}
            op.operation.results[0].replace_all_uses_with(ops.dot_general(lhs, rhs, **attrs))

    def run(self, op: Op, depth: Dim) -> int:
        """The number of interleaved neighbours of an rhs's last depth axis; both operands have `depth` elements of
        depth."""
        lhs, rhs = (type_of(v).dtype for v in op.operation.operands)
        return self.depth_run(lhs, rhs) if isinstance(depth, int) and depth > 0 else 1

    def columns_last(self, op: Op, order: tuple[int, ...]) -> ir.Value:
        """A computed rhs, transposed. Fusion decides if that moves data."""
        return self.computed(op, order, 0, lambda transposed: transposed)

    def computed(self, op: Op, order: tuple[int, ...], key: int, lay: Callable[[ir.Value], ir.Value]) -> ir.Value:
        """A computed rhs, transposed and packed before its first matmul: once for all of them. `key` distinguishes
        layouts."""
        value, block = op.rhs, op.operation.block
        home = value.owner if isinstance(value.owner, ir.Block) else value.owner.operation.block
        if (value, order, key) not in self.transposed:
            with ir.InsertionPoint(op.operation) if home == block else _behind(value):
                self.transposed[value, order, key] = lay(ops.transpose(value, permutation=order))
        return self.transposed[value, order, key]


def _behind(value: ir.Value) -> ir.InsertionPoint:
    """The insertion point after a value's definition."""
    owner = value.owner
    return ir.InsertionPoint.at_block_begin(owner) if isinstance(owner, ir.Block) else ir.InsertionPoint.after(owner)


def _outermost_loop(op: Op, source: ir.Value) -> ir.Operation | None:
    """The outermost of the loops around `op` that all leave `source` unchanged; branches end the search."""
    home = source.owner if isinstance(source.owner, ir.Block) else source.owner.operation.block
    found: ir.Operation | None = None
    inner = op.operation
    while inner.block != home:
        inner = inner.block.owner.operation
        if inner.name != "burn.loop":
            break
        found = inner
    return found


def _views(value: ir.Value) -> tuple[ir.Value, list[Op]]:
    """The value behind a chain of views and conversions with static sizes, and these, the outer one first. Conversions outside of
    loops are computed once where they are."""
    chain: list[Op] = []
    while (
        (op := op_of(value)) is not None
        and (op.has(Trait.VIEW) or (isinstance(op, Cast) and op.operation.block.owner.operation.name == "burn.loop"))
        and type_of(value).is_static
        and not attribute_symbols(op)
    ):
        chain.append(op)
        value = op.x
    return value, chain


def _panels(matrix: ir.Value, batch: int, width: int) -> ir.Value:
    """[batch.., k.., n] -> [batch.., panels, k.., width]."""
    type_ = type_of(matrix)
    *head, columns = type_.shape
    assert isinstance(columns, int)
    panels = ceildiv(columns, width)
    if columns % width:
        matrix = _padded(matrix, (0,) * type_.rank, (*(0,) * (type_.rank - 1), panels * width - columns))
    split = ops.reshape(matrix, shape=(*head, panels, width))
    rank = type_.rank + 1
    order = (*range(batch), rank - 2, *range(batch, rank - 2), rank - 1)
    return ops.transpose(split, permutation=order)


def _filled(x: ir.Value, axis: int, run: int) -> ir.Value:
    """A value zero-padded at the end of an axis to a multiple of `run`."""
    if run == 1:
        return x
    type_ = type_of(x)
    size = type_.shape[axis]
    assert isinstance(size, int)
    if size % run == 0:
        return x
    high = tuple(-size % run if a == axis else 0 for a in range(type_.rank))
    return _padded(x, (0,) * type_.rank, high)


def _interleaved(panels: ir.Value, run: int) -> ir.Value:
    """[.., k, width] -> [.., k / run, width, run]."""
    if run == 1:
        return panels
    *head, depth, width = type_of(panels).shape
    assert isinstance(depth, int)
    rank = len(head)
    split = ops.reshape(panels, shape=(*head, depth // run, run, width))
    return ops.transpose(split, permutation=(*range(rank + 1), rank + 2, rank + 1))


def _pack_dot(packing: _Packing, op: Op) -> ir.Value | None:
    rhs, summed = type_of(op.rhs), matrix_type(op)
    free = [a for a in range(rhs.rank) if a not in (*op.rhs_batch, *op.rhs_contract)]
    if summed is None or len(free) != 1:
        return None
    if not op.rhs_contract:
        return None
    order = (*op.rhs_batch, *op.rhs_contract, free[0])
    columns, batch, depth = rhs.shape[free[0]], len(op.rhs_batch), len(op.rhs_contract)
    source, views = _views(op.rhs)
    loop = _outermost_loop(op, source)
    once = packing.constant(op.rhs) or loop is not None
    if not once and order == tuple(range(len(order))) and not _read_often(op, columns):
        return None
    if not once and _reads_transposed(op, free[0], packing.preferences):
        return None
    if not (rhs.is_static if once else isinstance(columns, int)) or columns == 0:
        attrs = op.attrs | {"rhs_batch": tuple(range(batch)), "rhs_contract": tuple(range(batch, batch + depth))}
        return ops.dot_general(op.lhs, packing.columns_last(op, order), **attrs)
    assert isinstance(columns, int)
    lhs, axes = op.lhs, {name: op.attrs[name] for name in ("lhs_batch", "lhs_contract")}
    run = packing.run(op, type_of(lhs).shape[op.lhs_contract[-1]]) if once else 1
    if run > 1 and columns >= MANY_COLUMNS:
        lhs, axes = _depth_last(op)
    inner = axes["lhs_contract"][-1]
    run = run if inner == type_of(lhs).rank - 1 else 1
    rows = product([n for a, n in enumerate(type_of(op.lhs).shape) if _is_free(op, a)])
    line = type_of(lhs).shape[inner]
    width = packing.width(PackedMatmul(rows, columns, line, summed, run, line, once, source_name(op)))
    if once:
        with ir.InsertionPoint(loop) if loop is not None else nullcontext():
            for view in reversed(views):
                source = type(view).build(source, **view.attrs)
            transposed = _filled(ops.transpose(source, permutation=order), len(order) - 2, run)
            packed = _interleaved(_panels(transposed, batch, width), run)
        lhs = _filled(lhs, inner, run)
    else:
        packed = packing.computed(op, order, batch + 1, lambda transposed: _panels(transposed, batch, width))
    return ops.packed_dot(lhs, packed, columns=columns, interleaved=run, dtype=op.dtype, sums=op.sums, **axes)


def _depth_last(op: Op) -> tuple[ir.Value, dict[str, Any]]:
    """The lhs with the elements of the last contraction axis next to each other in memory, as instructions for runs of them read
    it; and its batch and contraction axes. For many columns the copy takes less time than it saves."""
    inner = op.lhs_contract[-1]
    order = (*(axis for axis in range(type_of(op.lhs).rank) if axis != inner), inner)
    axes = {name: tuple(map(order.index, op.attrs[name])) for name in ("lhs_batch", "lhs_contract")}
    return stored(transpose(op.lhs, order)), axes


def _reads_transposed(op: Op, column: int, preferences: Preferences) -> bool:
    """True if few rows read an rhs in place whose depth is contiguous: moving its elements takes longer than multiplying them."""
    lhs, rhs = type_of(op.lhs), type_of(op.rhs)
    rows = product([d for a, d in enumerate(lhs.shape) if a not in (*op.lhs_batch, *op.lhs_contract)])
    last = rhs.rank - 1
    is_last = tuple(op.rhs_contract) == (last,) and tuple(op.lhs_contract) == (lhs.rank - 1,) and column == last - 1
    is_plain = lhs.dtype == rhs.dtype and lhs.dtype in ("float32", "float64")
    return is_last and is_plain and isinstance(rows, int) and rows <= preferences.transposed_rows


def _read_often(op: Op, columns: Dim) -> bool:
    """True if packing pays for an rhs with contiguous columns: it has several panels, and many rows read them."""
    lhs = type_of(op.lhs)
    rows = product([d for a, d in enumerate(lhs.shape) if a not in (*op.lhs_batch, *op.lhs_contract)])
    many = not isinstance(rows, int) or rows >= MANY_ROWS
    return many and not op.rhs_batch and isinstance(columns, int) and columns >= MANY_COLUMNS


def _pack_conv(packing: _Packing, op: Op) -> ir.Value | None:
    weight, summed = type_of(op.weight), matrix_type(op)
    if op.layout != "last" or summed is None:
        return None
    if not weight.is_static or 0 in weight.shape:
        return None
    channels, outputs = weight.shape[-2:]
    assert isinstance(channels, int) and isinstance(outputs, int)
    if not is_matmul(op, packing.preferences):
        return None
    spatial = weight.shape[:-2]
    each, is_pixel = outputs // op.groups, all(n == 1 for n in spatial)
    rank = len(spatial) + 3
    known = isinstance(type_of(op.x).shape[-1], int)
    run = packing.run(op, channels) if known and packing.constant(op.weight) else 1
    if op.groups > 1 and channels % run:
        run = 1
    split = ops.reshape(op.weight, shape=(*spatial, channels, op.groups, each))
    ordered = ops.transpose(split, permutation=(rank - 2, *range(rank - 2), rank - 1))
    ordered = _filled(ordered, rank - 2, run)
    images, *pixels, _ = type_of(op.operation.results[0]).shape
    depth = channels if is_pixel else 0
    once = packing.constant(op.weight)
    read = PackedMatmul(product([images, *pixels]), each, depth, summed, run, channels, once, source_name(op))
    packed = _interleaved(_panels(ordered, 1, packing.width(read)), run)
    x = _filled(op.x, type_of(op.x).rank - 1, run)
    x, attrs = _bordered(x, op) if packing.borders else (x, op.attrs)
    kept = {name: value for name, value in attrs.items() if name != "layout"}
    return ops.packed_conv(x, packed, columns=outputs, interleaved=run, **kept)


def _bordered(x: ir.Value, op: Op) -> tuple[ir.Value, dict[str, Any]]:
    """The images of a convolution with zero borders if pixels have few channels, and its adapted attributes. A row of
    the window is then one contiguous run of the depth, without bounds checks for each pixel."""
    channels, pads = type_of(x).shape[-1], (*op.low, *op.high)
    few = isinstance(channels, int) and channels <= FEW_CHANNELS
    if not few or op.fill or not any(pads) or not all(isinstance(p, int) and p >= 0 for p in pads):
        return x, op.attrs
    low, high = (0, *op.low, 0), (0, *op.high, 0)
    attrs = op.attrs | {"low": (0,) * len(op.low), "high": (0,) * len(op.high)}
    transposed = is_named(x, "transpose")
    if transposed is None:
        return _padded(x, low, high), attrs
    axes = [transposed.permutation.index(axis) for axis in range(len(low))]  # rows are copied faster than pixels
    padded = _padded(transposed.x, tuple(low[a] for a in axes), tuple(high[a] for a in axes))
    return ops.transpose(ops.barrier(padded, padded), permutation=transposed.permutation), attrs


def _padded(x: ir.Value, low: tuple[Dim, ...], high: tuple[Dim, ...]) -> ir.Value:
    """Padded with zeros. A transposed value is padded before: then the pad copies rows, and the next view moves the elements."""
    if (transposed := is_named(x, "transpose")) is not None:
        order = transposed.permutation
        before = _padded(
            transposed.x, *(tuple(sizes[order.index(a)] for a in range(len(order))) for sizes in (low, high))
        )
        return ops.transpose(before, permutation=order)
    return ops.pad(x, ops.full(shape=(), dtype=type_of(x).dtype), low=low, high=high)


PACKERS: dict[str, Callable[[_Packing, Op], ir.Value | None]] = {
    "dot_general": _pack_dot,
    "conv": _pack_conv,
    "block_dot": lambda packing, op: block_panels.packed(op, packing.width),
}
