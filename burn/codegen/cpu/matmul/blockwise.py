"""Weights of a few bits in blocks with a scale each, and their conversion to floats.

A lane of a vector is a column. Its 32-bit word holds neighbours along the depth, in two's complement. On CPUs with vpermps,
which ignores the high bits of an index, four bits at a time index a table of sixteen floats. On others a number is shifted
to the upper end of the word and back, which extends its sign, and then converted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from burn.codegen.cpu import convert as conversions
from burn.codegen.cpu import math
from burn.codegen.cpu.scalars import ScalarEmitter
from burn.codegen.host.emit import Int, Value, bits, vector
from burn.dialect.blocks import FLOAT_NUMBERS
from burn.dialect.dims import Atom, Dim, Expr, LoopVar, coefficient, substitute
from burn.kernels.body import Apply, Const, ContractionKernel, Convert, Load, Scalar

WORD = 4
"""Bytes of a word."""

BLOCK_WORDS = 4
"""Words of most blocks."""


@dataclass(frozen=True, eq=False)
class Blockwise:
    """(number - zero) * scale, in float32. loops: those of the depth, over blocks, words of a block, bytes of a word, and
    numbers of a byte. dtype: that of numbers that are floats, or else uint8."""

    bits: int
    weight: Load
    scale: Load
    zero: Load | None
    loops: tuple[LoopVar, LoopVar, LoopVar, LoopVar]
    dtype: str = "uint8"

    @staticmethod
    def of(kernel: ContractionKernel) -> Blockwise | None:
        """The blocks of a contraction, if its rhs has weights of a few bits (kernels/builders/blocks.py)."""
        match kernel.rhs, kernel.depth:
            case Apply("float32", "mul", (value, scale)), (block, word, byte, part):
                loops = (block, word, byte, part)
            case _:
                return None
        match value:
            case Convert(arg=Load(dtype=dtype) as weight) if dtype in FLOAT_NUMBERS:
                scales = _load(scale)
                return None if scales is None else Blockwise(8, weight, scales, None, loops, dtype)
        zero: Scalar | None = None
        match value:
            case Apply(function="sub", args=(Apply(function="sub") as plain, zero)):
                value = plain
        match value:
            case Apply(function="sub", args=(Convert(arg=Apply("uint8", "xor", (held, Const(value=half)))), Const())):
                bits = int(half).bit_length()
            case _:
                return None
        match held:
            case Apply(function="and", args=(Apply(function="shift_right", args=(Load() as weight, _)), Const())):
                pass
            case Load() as weight:
                pass
            case _:
                return None
        scales, zeros = _load(scale), None if zero is None else _load(zero)
        if scales is None or (zero is not None and zeros is None):
            return None
        return Blockwise(bits, weight, scales, zeros, loops)

    @property
    def each(self) -> int:
        """Numbers of a word."""
        return 8 * WORD // self.bits

    @property
    def words(self) -> Dim:
        """Words of a block."""
        return self.loops[1].extent

    def is_even(self, kernel: ContractionKernel) -> bool:
        """True if the lhs advances evenly through the depth, across its loops."""
        operand = kernel.lhs.arg if isinstance(kernel.lhs, Convert) else kernel.lhs
        if not isinstance(operand, Load):
            return False
        wanted: Dim | None = None
        for loop in reversed(self.loops):
            if loop.extent == 1:
                continue
            step = coefficient(operand.offset, loop)
            if step is None or (wanted is not None and step != wanted):
                return False
            wanted = step * loop.extent
        return all(coefficient(operand.offset, row) is not None for row in kernel.rows)

    def in_panels(self, column: LoopVar, panel: LoopVar, width: int) -> Blockwise:
        """The same at a panel's first column, and a word's first byte."""
        _, _, byte, part = self.loops
        there: dict[Atom, Dim] = {column: Expr.of(panel) * width if panel.extent != 1 else 0, byte: 0, part: 0}

        def first(load: Load) -> Load:
            return replace(load, offset=substitute(load.offset, there))

        zero = None if self.zero is None else first(self.zero)
        return replace(self, weight=first(self.weight), scale=first(self.scale), zero=zero)


def _load(operand: Scalar) -> Load | None:
    operand = operand.arg if isinstance(operand, Convert) else operand
    return operand if isinstance(operand, Load) and operand.dtype in conversions.FLOATS else None


@dataclass(frozen=True)
class Parameters:
    """A block's scales and zero points, for each vector of columns."""

    scales: Sequence[Value]
    zeros: Sequence[Value] | None


class BlockReader:
    """Prints loads from the emitter's current panel: `vectors` of `lanes` columns. Prefetches `ahead` bytes after each
    word."""

    def __init__(self, blocks: Blockwise, lanes: int, vectors: int, emitter: ScalarEmitter, ahead: int = 0) -> None:
        self.blocks, self.lanes, self.vectors, self.ahead = blocks, lanes, vectors, ahead
        self.emitter, self.code = emitter, emitter.code
        self.words, self.floats = vector(lanes, "i32"), vector(lanes, "f32")

    def parameters(self, block: Int) -> Parameters:
        blocks = self.blocks
        return Parameters(
            self._parameter(blocks.scale, block), None if blocks.zero is None else self._parameter(blocks.zero, block)
        )

    def _parameter(self, operand: Load, block: Int) -> list[Value]:
        code, emitter = self.code, self.emitter
        emitter.bindings[self.blocks.loops[0]] = block
        element = conversions.element_type(operand.dtype)
        base = code.gep(emitter.pointers[operand.buffer], emitter.dim(operand.offset), element)
        if self.ahead:
            code.prefetch_range(base, self.ahead // BLOCK_WORDS, self.vectors * self.lanes * bits(element) // 8)
        loaded = [code.load(base, c * self.lanes, vector(self.lanes, element)) for c in range(self.vectors)]
        return [conversions.convert(code, value, operand.dtype, "float32") for value in loaded]

    def word(self, block: Int, word: Int, columns: range | None = None) -> list[Value]:
        """A word of each column. columns: the vectors to read, by default all."""
        code, emitter, operand = self.code, self.emitter, self.blocks.weight
        columns, size = columns or range(self.vectors), self.lanes * WORD
        emitter.bindings[self.blocks.loops[0]], emitter.bindings[self.blocks.loops[1]] = block, word
        base = code.gep(emitter.pointers[operand.buffer], emitter.dim(operand.offset), "i8")
        if self.ahead:
            code.prefetch_range(base, self.ahead + columns.start * size, len(columns) * size)
        found: list[Value] = []
        for c in columns:
            loaded = code.load(base, c * size, vector(size, "i8"))
            found.append(code.pure(f"vector.bitcast {loaded} : {loaded.type} to {self.words}", self.words))
        return found

    def plain(self, held: Sequence[Value], index: int) -> list[Value]:
        """The number at an index of each word, as floats."""
        return [self._number(word, index) for word in held]

    def scaled(self, held: Sequence[Value], index: int, parameters: Parameters) -> list[Value]:
        """The dequantised numbers."""
        values = self.plain(held, index)
        if parameters.zeros is not None:
            values = [self._apply("sub", v, z) for v, z in zip(values, parameters.zeros, strict=True)]
        return [self._apply("mul", v, s) for v, s in zip(values, parameters.scales, strict=True)]

    def _number(self, word: Value, index: int) -> Value:
        code, bits = self.code, self.blocks.bits
        if self.blocks.dtype != "uint8":
            if index:
                word = code.op("arith.shrui", word, code.const(index * bits, self.words))
            return conversions.convert(code, code.cast("arith.trunci", word, "i8"), self.blocks.dtype, "float32")
        if bits == 4 and self.lanes == 16:
            shifted = word
            if index:
                shifted = code.op("arith.shrui", word, code.const(index * bits, self.words))
            table = code.const(str([float(n if n < 8 else n - 16) for n in range(16)]), self.floats)
            types = f"({self.floats}, {self.words}) -> {self.floats}"
            return code.pure(
                f'llvm.call_intrinsic "llvm.x86.avx512.permvar.sf.512"({table}, {shifted}) : {types}', self.floats
            )
        left, right = 8 * WORD - bits * (index + 1), 8 * WORD - bits
        if left:
            word = code.op("arith.shli", word, code.const(left, self.words))
        return code.cast("arith.sitofp", code.op("arith.shrsi", word, code.const(right, self.words)), "f32")

    def _apply(self, function: str, a: Value, b: Value) -> Value:
        return math.apply(self.code, function, "float32", a, b)
