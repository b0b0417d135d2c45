"""Prints a row times a weight of few bits, whose time is that of reading the weight: `emit`.

The depth's last loops are over a word of 32 bits: its bytes, and the numbers of a byte. They are unrolled. A word is loaded once
for all its numbers, and neighbouring threads load neighbouring words.

A conversion of an integer takes as long as four other instructions. So a number becomes bits of the float 2^23, from which 2^23
is subtracted: both are exact. Numbers that are not the lowest of a word stay where they are, and are too large by a power of two,
which the row's element is divided by. The sum over a word is scaled once, since a word lies within a block.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product as combinations

from burn.codegen.triton.code import NONE, Axis
from burn.codegen.triton.convert import convert
from burn.codegen.triton.heuristics.few_bits import block_of, inner_loops
from burn.codegen.triton.instances import InstancePrinter, Instances
from burn.codegen.triton.printed import Printed, closed, opened
from burn.codegen.triton.scalars import ScalarPrinter
from burn.dialect.blocks import FLOAT_NUMBERS
from burn.dialect.dims import Atom, Dim, ceildiv, coefficient, product
from burn.errors import CompileError
from burn.kernels.body import Apply, Const, ContractionKernel, Convert, Load, Scalar, walk

MANTISSA = 23
MAGIC = 0x4B000000
"""The bits of the float 2^23, whose last bit is worth 1."""


@dataclass(frozen=True)
class Weight:
    """The parts of a weight's element, as `burn.kernels.builders.blocks` makes it: (number - zero) * scale. floats: the type of
    numbers that are floats."""

    load: Load
    bits: int
    zero: Scalar | None
    scale: Scalar
    floats: str = ""


def weight_of(node: Scalar) -> Weight:
    """Raises CompileError for another form."""
    while isinstance(node, Convert):  # to half precision and back: the kernel does not round
        node = node.arg
    match node:
        case Apply(function="mul", args=(Convert(arg=Load(dtype=dtype) as load), scale)) if dtype in FLOAT_NUMBERS:
            return Weight(load, 8, None, scale, dtype)
        case Apply(function="mul", args=(Apply(function="sub", args=(value, second)), scale)):
            zero = None if isinstance(second, Const) else second
            loads = [n for n in walk(value) if isinstance(n, Load) and n.dtype == "uint8"]
            masks = [n.args[1] for n in walk(value) if isinstance(n, Apply) and n.function == "xor"]
            if len(loads) == len(masks) == 1 and isinstance(masks[0], Const):
                return Weight(loads[0], int(masks[0].value).bit_length(), zero, scale)
    raise CompileError("internal: a weight of few bits has an unknown form")


def emit(
    kernel: ContractionKernel,
    values: Mapping[str, Dim],
    sizes: ContractionKernel,
    sites: list[str],
    eights: bool = False,
) -> Printed:
    """values: the values of the kernel's sizes; sizes: the kernel with these values, for choosing blocks; eights: the GPU has an
    instruction that widens 8-bit floats."""
    block, inner = block_of(sizes), kernel.depth[-len(inner_loops(sizes)) :]
    printer = opened(kernel.buffers, sites, InstancePrinter)
    weight = weight_of(kernel.rhs)
    code, instances = printer.code, Instances()
    words, columns = product([v.extent for v in kernel.depth[:2]]), kernel.column.extent
    known_words, known_columns = product([v.extent for v in sizes.depth[:2]]), sizes.column.extent
    code.line("y = tl.program_id(0).to(INT) * COLUMNS + tl.arange(0, COLUMNS)[:, None]")
    inside = "" if _is_whole(known_columns, block.columns) else code.let(f"y < {printer.dim(columns)}", "inside")
    printer.axes["y"] = Axis("y", inside)
    for single in (*kernel.batch, *kernel.rows):
        printer.put(single, "0", NONE)
    printer.put(kernel.column, "y", frozenset("y"))
    code.line("total = tl.full([COLUMNS, WORDS], 0.0, tl.float32)")
    with code.block(f"for start in range(0, {printer.dim(words)}, WORDS):"), printer.scope():
        code.line("k = (start + tl.arange(0, WORDS)[None, :]).to(INT)")
        within = "" if _is_whole(known_words, block.words) else code.let(f"k < {printer.dim(words)}", "within")
        printer.axes["k"] = Axis("k", within)
        printer.walk_flat(kernel.depth[:2], "k", frozenset("k"))
        word = _word(printer, weight, sizes, printer.dim(words))
        first: dict[Atom, Dim] = dict.fromkeys(inner, 0)
        zero = "" if weight.zero is None else printer.value(instances.at(weight.zero, first))
        half, mask = 1 << (weight.bits - 1), (1 << weight.bits) - 1
        words_shifted: dict[int, str] = {}
        code.line("part = tl.full([COLUMNS, WORDS], 0.0, tl.float32)")
        for number, index in enumerate(combinations(*(range(count) for count in _counts(sizes)))):
            at: dict[Atom, Dim] = dict(zip(inner, index, strict=True))
            x = _row(printer, instances.at(kernel.lhs, at), kernel, sizes)
            low = weight.bits * number
            if weight.floats:
                byte = f"({word} >> {low}).to(tl.uint8)"
                number = (
                    convert(byte, weight.floats, "float32", eights=True) if eights else _float(word, low, weight.floats)
                )
                code.line(f"part += {x} * {number}")
                continue
            shift = max(0, low - (MANTISSA - weight.bits) // weight.bits * weight.bits)
            shifted = words_shifted.setdefault(shift, code.let(f"{word} >> {shift}", "word") if shift else word)
            low -= shift
            bits = code.let(f"({shifted} & {mask << low}) | {MAGIC}", "bits")
            value = f"{bits}.to(tl.float32, bitcast=True) - {float((1 << MANTISSA) + (half << low))}"
            value += f" - {zero} * {float(1 << low)}" if zero else ""
            code.line(f"part += ({x} * {2.0**-low}) * ({value})")
        if weight.floats == "float8_e4m3fn" and not eights:  # a byte of ones but for its sign is NaN, here 480
            code.line(
                f"part = tl.where((({word} & 0x7F7F7F7F) + 0x01010101) & {0x80808080 - (1 << 32)} != 0, float('nan'), part)"
            )
        code.line(f"total += part * {printer.value(instances.at(weight.scale, first))}")
    printer.axes.pop("k", None)
    printer.accumulator = (code.let("tl.sum(total, 1)[:, None]", "sum"), frozenset("y"))
    for write in kernel.epilogue:
        printer.value(write.value)
    for write in kernel.epilogue:
        printer.store(write)
    constants = {"COLUMNS": block.columns, "WORDS": block.words}
    about = "A few columns each; words of packed numbers are multiplied with the row and summed."
    programs = ceildiv(known_columns, block.columns)
    return closed(printer, kernel, about, constants, programs, values, known_columns, block.warps)


def _word(printer: ScalarPrinter, weight: Weight, sizes: ContractionKernel, words: str) -> str:
    """Loads the words of a step, with the highest bit of each number as it was before packing.

    Triton's compiler would give a thread four words, if it knew that addresses are aligned, and then move sums between threads
    for each element of the row. It does not look into a program's second number, which is 0."""
    row = 4 * product([v.extent for v in sizes.depth[:2]])
    if coefficient(weight_of(sizes.rhs).load.offset, sizes.column) != row:
        raise CompileError("internal: the words of a column are not contiguous")
    pointer = (
        f"b{weight.load.buffer}.to(tl.pointer_type(tl.int32), bitcast=True) + (y * {words} + k + tl.program_id(1))"
    )
    mask = " & ".join(axis.mask for axis in printer.axes.values() if axis.mask)
    text = f"tl.load({pointer}, mask={mask}, other=0)" if mask else f"tl.load({pointer})"
    if weight.floats:
        return printer.code.let(text, "word")
    flipped = sum(1 << at for at in range(weight.bits - 1, 32, weight.bits))
    return printer.code.let(f"{text} ^ {flipped - (1 << 32)}", "word")


def _float(word: str, low: int, dtype: str) -> str:
    """The float whose lowest bit in a word is `low`. Its bits become those of a wider float, which is multiplied because its
    exponent has another bias. NaN of float8_e4m3fn is 480."""
    if dtype == "float8_e5m2":
        return f"(({word} >> {low}) << 8).to(tl.int16).to(tl.float16, bitcast=True).to(tl.float32)"
    top = f"({word} << {24 - low})" if low < 24 else word
    bits = f"(({top} >> 4) & {0x87F00000 - (1 << 32)})"
    return f"({bits}.to(tl.float32, bitcast=True) * {2.0**120})"


def _row(printer: ScalarPrinter, node: Scalar, kernel: ContractionKernel, sizes: ContractionKernel) -> str:
    """The row's element of each word: blocks are contiguous, so that the word's number alone gives its index."""
    with printer.scope():
        moving, other = kernel.depth[:2] if sizes.depth[1].extent == 1 else kernel.depth[1::-1]
        printer.put(other, "0", NONE)
        printer.put(moving, "k", frozenset("k"))
        return printer.value(node)


def _counts(sizes: ContractionKernel) -> list[int]:
    return [v.extent for v in sizes.depth[2:] if isinstance(v.extent, int)]


def _is_whole(size: Dim, block: int) -> bool:
    return isinstance(size, int) and size % block == 0
