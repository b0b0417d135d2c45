"""Shared by the kernels of attention and of its backward pass: one axis of scores is the program's own block, the other
is processed block by block."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from burn.codegen.printing.code import Unprintable
from burn.codegen.triton.abilities import USUAL_ABILITIES, Abilities
from burn.codegen.triton.code import NONE, Axis, Code
from burn.codegen.triton.functions import dot, narrowed, triton_type
from burn.codegen.triton.heuristics.device import LEAST
from burn.codegen.triton.heuristics.sizes import power_of_two
from burn.codegen.triton.scalars import ScalarPrinter
from burn.codegen.triton.tensor_maps import matrix
from burn.dialect.dims import Dim, LoopVar, coefficient
from burn.kernels.body import Accumulator, Apply, Const, Convert, Load, Scalar, Where, loop_atoms, walk

LOG2E = 1.4426950408889634

ROOM = 16
"""Elements of a load of several elements, at most."""

Body = Callable[[Scalar, bool], None]
"""Prints the work on a block of the walked axis that starts at `start`, given the score. The second argument: parts of
the block may be masked or outside."""


def padded(loop: LoopVar, what: str) -> int:
    if not isinstance(loop.extent, int):
        raise Unprintable(f"Triton kernels of attention take {what} of a known size, not {loop.extent}")
    return max(LEAST, power_of_two(loop.extent))


@dataclass(frozen=True)
class Known:
    """Facts about a walked axis: its size, and if the visible range starts and ends with it."""

    size: Dim
    from_first: bool
    to_last: bool


class Attended:
    """`narrow`: the half-precision type in which `tl.dot` reads operands, with float32 accumulators ("" for none). Scores are
    then scaled by log2(e), so that exponentials are powers of two. `blocks`: block sizes by name; `maps`: the number of
    tensor maps of each program. The axis "x" is the program's own."""

    def __init__(
        self, dtype: str, operands: Sequence[Scalar], values: Mapping[str, Dim], abilities: Abilities = USUAL_ABILITIES
    ) -> None:
        """values: the values of the kernel's sizes."""
        self.dtype, self.values, self.float32 = dtype, values, abilities.float32
        narrow = narrowed(operands, dtype)
        self.operands = list(narrow or operands)
        self.narrow = triton_type(self.operands[0].dtype) if narrow else ""
        self.type = triton_type(dtype)
        self.sum = "tl.float64" if dtype == "float64" else "tl.float32"
        self.power = "tl.exp2" if self.narrow else "tl.exp"
        self.blocks: dict[str, int] = {}
        self.maps = 0
        self.printer: ScalarPrinter
        self.code: Code

    # ---- the walked axis ---------------------------------------------------------------------------------------------------
    def over(self, loop: LoopVar, known: Known, bounds: tuple[Dim, Dim], score: Scalar, block: str, body: Body) -> None:
        """Prints loops over blocks, from the first element that any of the program's rows sees to the last. Blocks in the
        middle, visible to all rows, need no mask. bounds: the visible range of a row."""
        code = self.printer.code
        (first, full_from), (stop, full_to) = self.visible(loop, bounds, "ROWS" if block == "KEYS" else "KEYS")
        free = isinstance(score, Where) or (known.from_first and known.to_last)

        def some(start: str, end: str, score: Scalar, hidden: bool) -> None:
            with code.block(f"for start in range({start}, {end}, {block}):"), self.printer.scope():
                body(score, hidden)

        if not free:  # masks depend on data
            some(first, stop, score, True)
            return
        plain = score.then if isinstance(score, Where) else score
        begin = first
        if not known.from_first:  # blocks start at multiples of their size: no unmasked block extends past the axis
            first = code.let(f"{first} // {block} * {block}", "first")
            begin = code.let(f"{first} + tl.cdiv(tl.maximum({full_from} - {first}, 0), {block}) * {block}", "begin")
            begin = code.let(f"tl.minimum({begin}, {stop})", "begin")
            some(first, begin, score, True)
        if known.to_last and isinstance(known.size, int) and known.size % self.blocks[block] == 0:
            some(begin, stop, plain, False)
            return
        end = code.let(f"{begin} + tl.maximum(tl.minimum({full_to}, {stop}) - {begin}, 0) // {block} * {block}", "end")
        some(begin, end, plain, False)
        some(end, stop, score, True)

    def visible(self, loop: LoopVar, bounds: tuple[Dim, Dim], own: str) -> tuple[tuple[str, str], tuple[str, str]]:
        """The start and the end of the visible range, each for the row that sees the most elements and for the one that sees
        the fewest. own: the name of the block of rows."""
        lower, upper = bounds
        first = self._bound(lower, loop, own, "first", "min", "max")
        return first, self._bound(upper, loop, own, "stop", "max", "min")

    def _bound(self, dim: Dim, loop: LoopVar, own: str, name: str, outer: str, inner: str) -> tuple[str, str]:
        """A bound of the visible range, for the row that sees the most elements and for the row that sees the fewest."""
        printer, code, extent = self.printer, self.printer.code, self.printer.dim(loop.extent)
        text = printer.dim(dim)
        if not printer.span(dim):
            bound = code.let(f"tl.minimum(tl.maximum({text}, 0), {extent})", name) if text != "0" else "0"
            return bound, bound
        bounds = []
        for reduce in (outer, inner):
            inside, beyond = printer.axes["x"].mask, "0" if reduce == "max" else extent
            indices = f"tl.where({inside}, {text}, {beyond})" if inside else text
            least = code.let(f"tl.{reduce}(tl.broadcast_to({indices}, [{own}, 1]))", name)
            bounds.append(code.let(f"tl.minimum(tl.maximum({least}, 0), {extent})", name))
        return bounds[0], bounds[1]

    # ---- blocks ------------------------------------------------------------------------------------------------------------
    def axis(self, name: str, loop: LoopVar, indices: str, block: str = "", whole: bool = False) -> Axis:
        """An axis along one loop; binds the loop's index. block: its length; whole: no mask is needed."""
        printer, code = self.printer, self.printer.code
        text = code.let(f"({indices}).to(INT)", name)
        printer.put(loop, text, frozenset(name))
        inside = whole or (block and loop.extent == self.blocks[block])
        return Axis(text, "" if inside else code.let(f"{text} < {printer.dim(loop.extent)}", "within"))

    def operand(
        self, node: Scalar, name: str, axes: Mapping[str, tuple[LoopVar, str]], shape: str, own: bool, whole: bool
    ) -> str:
        """The block of a matmul operand, zero outside. own: it is along the program's own axis; whole: the walked block
        needs no mask."""
        printer, code = self.printer, self.printer.code
        with printer.scope():
            printer.axes = {"x": printer.axes["x"]} if own else {}
            for axis, (loop, indices) in axes.items():
                block = {"d": "DEPTH", "y": "COLUMNS"}.get(axis, "")
                printer.axes[axis] = self.axis(axis, loop, indices, block, whole and axis == "k")
            value = printer.value(node)
            load = node.arg if isinstance(node, Convert) else node
            # a masked load gives 0 along the axes of its address
            zero = printer.span(load.offset) if isinstance(load, Load) else NONE
            mask = " & ".join(a.mask for name, a in printer.axes.items() if a.mask and name not in zero)
            if mask:
                value = f"tl.where({mask}, {value}, 0.0)"
            return code.let(f"tl.broadcast_to({value}, {shape}).to({self.narrow or self.type})", name)

    def mapped(self, node: Scalar, rows: LoopVar, columns: LoopVar, block: str) -> str:
        """The tensor map of an operand's matrix, for blocks of that shape; "" if it cannot be read through a map."""
        found = matrix(node, rows, columns, self.values) if self.narrow else None
        if found is None:
            return ""
        self.maps += 1
        dim = self.printer.dim
        text = f"b{found.buffer} + {dim(found.begin)}, [{dim(rows.extent)}, {dim(columns.extent)}], [{dim(found.stride)}, 1]"
        return self.code.let(f"tl.make_tensor_descriptor({text}, {block})", "map")

    def factored(self, score: Scalar) -> tuple[Scalar, str]:
        """A score without its scale, and the text of the factor to apply before the exponential ("" for none): one instruction
        then multiplies and subtracts the maximum."""
        inner, scale = _scale_of(score)
        scale *= LOG2E if self.narrow else 1.0
        return inner, "" if scale == 1.0 else f" * {scale!r}"

    def score_of(self, inner: Scalar, key: LoopVar, axis: str, has_room: bool) -> str:
        """A score. has_room: blocks of tensors are read several elements at a time, also behind the last key; see `has_room`.
        key: the loop of the keys, along that axis."""
        printer = self.printer
        if not printer.axes[axis].mask or not has_room:
            return printer.value(inner)
        with printer.scope():
            kept = printer.axes[axis]
            end = f"tl.cdiv({printer.dim(key.extent)}, {ROOM}) * {ROOM}"
            printer.axes[axis] = replace(kept, mask=self.code.let(f"{kept.indices} < {end}", "readable"))
            return printer.value(inner)

    def load_key(self, factor: Scalar) -> None:
        """Loads the key of dropout before the loops."""
        for node in walk(factor):
            if isinstance(node, Load):
                self.printer.value(node)

    def dot(self, left: str, right: str, total: str) -> str:
        if self.dtype == "float64":
            return f"wide_dot({left}, {right}, {total})"
        return dot(left, right, total, "" if self.narrow else self.dtype, self.float32)


def has_room(score: Scalar, key: LoopVar) -> bool:
    """True if a score of known sizes reads tensors along the keys, and all of them have rows of a multiple of `ROOM` elements.
    Blocks of so many elements that start within a row then end within it."""
    read = [node for node in walk(score) if isinstance(node, Load) and key in loop_atoms(node.offset)]
    if not isinstance(key.extent, int):
        return False
    least = -(-key.extent // ROOM) * ROOM
    for node in read:
        steps = [coefficient(node.offset, loop) for loop in loop_atoms(node.offset) if loop != key]
        aligned = all(isinstance(step, int) and step % ROOM == 0 and step >= least for step in steps)
        if coefficient(node.offset, key) != 1 or not steps or not aligned:
            return False
    return bool(read)


def _scale_of(score: Scalar) -> tuple[Scalar, float]:
    """Splits a score into a value and a positive scale, which commutes with the maximum."""
    match score:
        case Where(dtype=dtype, ranges=ranges, then=then, otherwise=Const(value=value) as hidden) if value == float(
            "-inf"
        ):
            inner, scale = _scale_of(then)
            return Where(dtype, ranges, inner, hidden), scale
        case Apply(function="mul", args=(Accumulator() as total, Const(value=factor))) if factor > 0:
            return total, float(factor)
    return score, 1.0
