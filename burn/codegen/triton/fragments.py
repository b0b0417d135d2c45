"""Prints a few rows times a weight of few bits in half precision: tensor cores multiply numbers in registers. `emit`.

The weight is in fragments (`burn.passes.block_fragments`), so that a thread loads its numbers by one instruction for each chunk.
A program has 16 columns and up to eight rows, or several times as many rows, for which it loads the weight once. Its warps divide
the depth. All of a step's words are loaded before the first is used: the time is that of reading the weight.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from burn.codegen.triton.abilities import Abilities
from burn.codegen.triton.code import NONE, Axis, Code
from burn.codegen.triton.early import DEPENDENTS, WAIT
from burn.codegen.triton.few_bits import weight_of
from burn.codegen.triton.fragments_asm import multiplication
from burn.codegen.triton.heuristics.fragments import ROWS, block_of
from burn.codegen.triton.heuristics.sizes import UNKNOWN, SizeHints
from burn.codegen.triton.hopper.warp_specialised import function_head, in_gluon, text
from burn.codegen.triton.printed import Printed, given, opened
from burn.codegen.triton.scalars import ScalarPrinter
from burn.dialect.dims import Dim, ceildiv, coefficient, product
from burn.dialect.packed import FRAGMENT_BYTES, FRAGMENT_COLUMNS
from burn.kernels.body import ContractionKernel, Convert, Load, Scalar, walk

LANES, WORDS = 32, 4
"""Threads of a warp, and a thread's words of a chunk."""

HEAD = f"""
LAYOUT: tl.constexpr = tl.BlockedLayout([1, 1, {WORDS}], [1, {LANES}, 1], [WARPS, 1, 1], [2, 1, 0])
chunks = tl.arange(0, STEP, tl.SliceLayout(1, tl.SliceLayout(2, LAYOUT)))
chunks = tl.expand_dims(tl.expand_dims(chunks, 1), 2).to(INT)
lane = tl.arange(0, {LANES}, tl.SliceLayout(0, tl.SliceLayout(2, LAYOUT)))
lane = tl.expand_dims(tl.expand_dims(lane, 0), 2).to(INT)
i = tl.arange(0, {WORDS}, tl.SliceLayout(0, tl.SliceLayout(1, LAYOUT)))
i = tl.expand_dims(tl.expand_dims(i, 0), 1).to(INT)
program = tl.program_id(0).to(INT)
""".strip()
"""Indices of a chunk in the step, of a thread, and of its word."""


def emit(
    kernel: ContractionKernel,
    values: Mapping[str, Dim],
    sizes: ContractionKernel,
    sites: list[str],
    abilities: Abilities,
    hints: SizeHints = UNKNOWN,
    constants: Collection[int] = (),
    early: bool = False,
) -> Printed:
    """values: the values of the kernel's sizes; sizes: the kernel with these values, for choosing blocks; abilities: of the GPU;
    hints: size hints. constants, early: see `KernelPrinter.print`."""
    made = _Fragments(kernel, values, sizes, sites, abilities, hints, set(constants), early and abilities.early)
    return made.print()


class _Fragments:
    def __init__(
        self,
        kernel: ContractionKernel,
        values: Mapping[str, Dim],
        sizes: ContractionKernel,
        sites: list[str],
        abilities: Abilities,
        hints: SizeHints,
        constants: set[int],
        early: bool,
    ) -> None:
        self.kernel, self.values, self.sizes, self.sites = kernel, values, sizes, sites
        self.weight = weight_of(sizes.rhs)
        self.bits = self.weight.bits
        self.rows, self.depth = (product([v.extent for v in loops]) for loops in (sizes.rows, sizes.depth))
        assert isinstance(self.depth, int)
        self.chunk = FRAGMENT_BYTES * 8 // self.bits  # elements of the depth
        self.chunks = -(-self.depth // self.chunk)
        self.block = block_of(sizes, self.chunks, abilities.processors, hints)
        lhs = kernel.lhs
        while isinstance(lhs, Convert) and lhs.dtype == "float32":
            lhs = lhs.arg
        self.lhs: Scalar = lhs
        self.has_zero = self.weight.zero is not None
        self.has_odd = self.rows != 1
        self.given, self.arguments = given(kernel, values)
        parameters = {n.buffer for n in walk(sizes.rhs) if isinstance(n, Load)}
        self.early = early and parameters <= constants

    def print(self) -> Printed:
        constants = {"STEP": self.block.step, "WARPS": self.block.warps}
        tiles = ceildiv(self.sizes.column.extent, FRAGMENT_COLUMNS)
        programs = tiles * ceildiv(self.rows, ROWS * self.block.groups)
        text = in_gluon([self._main(), self._write()])
        return Printed(
            "KERNEL", text, tuple(self.arguments), constants, programs, self.block.warps, 1, early=self.early
        )

    # ---- the kernel --------------------------------------------------------------------------------------------------------
    def _main(self) -> str:
        printer = opened(self.kernel.buffers, self.sites)
        code = printer.code
        for line in [*([DEPENDENTS] if self.early else []), *HEAD.splitlines()]:
            code.line(line)
        columns = printer.dim(self.kernel.column.extent)
        code.line(f"tile = program % tl.cdiv({columns}, {FRAGMENT_COLUMNS})")
        code.line(f"first = program // tl.cdiv({columns}, {FRAGMENT_COLUMNS}) * {ROWS * self.block.groups}")
        code.line(f"own = ({', '.join([*self.given, 'program'])})")
        results = [f"{name}{group}" for group in range(self.block.groups) for name in self._parities()]
        for name in results:
            code.line(f"{name} = tl.full([STEP, {LANES}, {WORDS}], 0.0, tl.float32, LAYOUT)")
        self._sum(printer)
        self._finish(printer, results)
        names = [*self.given, *(f"{name}: gl.constexpr" for name in ("INT", "STEP", "WARPS"))]
        about = "16 columns each, by tensor cores: fragments of a weight of few bits times rows."
        return text(function_head("KERNEL", names, about), printer)

    def _parities(self) -> tuple[str, ...]:
        return ("even", "odd") if self.has_odd else ("even",)

    def _sum(self, printer: ScalarPrinter) -> None:
        """Loads words and scales of a step while those before it are multiplied, and the first before the kernel waits for the
        previous one."""
        code = printer.code
        whole = self.chunks % self.block.step == 0
        names = self._load(code, "chunks", "" if whole else f"chunks < {self.chunks}")
        if self.early:
            code.line(WAIT)
        if self.chunks <= self.block.step:
            code.line("at = chunks")
            self._step(printer, "" if whole else "chunks", names)
            return
        with code.block(f"for start in range(0, {self.chunks}, STEP):"), printer.scope():
            code.line("at = start + chunks")
            code.line("later = at + STEP")
            following = self._load(code, "later", f"later < {self.chunks}")
            self._step(printer, "" if whole else "at", names)
            for name, next_ in zip(names, following, strict=True):
                code.line(f"{name} = {next_}")

    def _load(self, code: Code, at: str, inside: str) -> list[str]:
        """Loads words, scales and zero points of chunks. inside: the mask of those that exist."""
        mask = f", mask={code.let(inside, 'inside')}, other=0" if inside else ""
        base = f"b{self.weight.load.buffer}.to(tl.pointer_type(tl.int32), bitcast=True)"
        index = f"((tile * {self.chunks} + {at}) * {LANES} + lane) * {WORDS} + i"
        parameters = [v for v in (self.weight.scale, self.weight.zero) if v is not None]
        return [
            code.let(f"tl.load({base} + {index}{mask})", "words"),
            *(self._parameter(code, at, node) for node in parameters),
        ]

    def _step(self, printer: ScalarPrinter, partial: str, names: list[str]) -> None:
        """partial: the chunks, if some do not exist."""
        code = printer.code
        word, scale, *points = names
        inline = multiplication(self.bits, self.lhs.dtype, self.has_odd, self.has_zero)
        outputs = len(self._parities()) * (1 + self.has_zero)
        kinds = f"({', '.join(['tl.float32'] * outputs)})" if outputs > 1 else "tl.float32"
        for group in range(self.block.groups):
            rows = ", ".join(self._row(printer, group, part, partial) for part in range(self.chunk // 16))
            found = code.let(
                f'tl.inline_asm_elementwise("{inline.text}", "{inline.constraints}", [{word}, {rows}], dtype={kinds}, '
                f"is_pure=True, pack={WORDS})",
                "sums",
            )
            for number, name in enumerate(self._parities()):
                at = number * (1 + self.has_zero)
                value = f"{found}[{at}]" if outputs > 1 else found
                for point in points:
                    value = f"({value} - {point}.to(tl.float32) * {found}[{at + 1}])"
                code.line(f"{name}{group} += {value} * {scale}.to(tl.float32)")

    def _parameter(self, code: Code, at: str, node: Scalar) -> str:
        """The scales or zero points of a thread's sums. Those of chunks that do not exist are any."""
        (load,) = (n for n in walk(node) if isinstance(n, Load))
        blocks = self.sizes.depth[0].extent
        assert isinstance(blocks, int)
        half, upper = ("i // 2", "i % 2") if self.bits == 4 else ("0", "i // 2")
        block = f"({at} * {self.chunk} + {half} * 32) // {self._elements_of_block()}"
        if self._is_partial() or self.chunks > self.block.step:
            block = f"tl.minimum({block}, {blocks - 1})"
        return code.let(
            f"tl.load(b{load.buffer} + ((tile * {blocks} + {block}) * 8 + lane // 4) * 2 + {upper})", "scale"
        )

    def _elements_of_block(self) -> int:
        extents = [v.extent for v in self.sizes.depth[1:]]
        found = product(extents)
        assert isinstance(found, int)
        return found

    def _row(self, printer: ScalarPrinter, group: int, part: int, partial: str) -> str:
        """Four elements of a thread's row. part: of its elements of a chunk. partial: see `_step`."""
        code, elements = printer.code, self.chunk
        with printer.scope():
            row = code.let(f"first + {ROWS * group} + lane // 4", "row")
            k = code.let(f"at * {elements} + lane % 4 * 8 + {part // 2 * 32 + part % 2 * 4} + i", "k")
            within = code.let(f"{k} < {self.depth}", "within") if partial or self.depth % self.chunk else ""
            printer.axes = {
                "x": Axis(
                    row, code.let(f"{row} < {printer.dim(product([v.extent for v in self.kernel.rows]))}", "here")
                ),
                "k": Axis(k, within),
            }
            printer.walk_flat(self.kernel.rows, row, frozenset("x"))
            for single in self.kernel.batch:
                printer.put(single, "0", NONE)
            self._depth(printer, k)
            value = printer.value(self.lhs)
            mask = " & ".join(axis.mask for axis in printer.axes.values() if axis.mask)
            zeros = f"tl.full([STEP, {LANES}, {WORDS}], 0.0, {value}.dtype, LAYOUT)"
            return code.let(f"tl.where({mask}, {value}, {zeros})", "x")

    def _is_partial(self) -> bool:
        return bool(self.chunks % self.block.step) or self.depth != self.chunks * self.chunk

    def _depth(self, printer: ScalarPrinter, k: str) -> None:
        """One index for all loops of the depth, if all loads are contiguous along them: Triton then loads whole words."""
        loops = [v for v in self.kernel.depth if v.extent != 1]
        known = [v for v in self.sizes.depth if v.extent != 1]
        for single in (v for v in self.kernel.depth if v.extent == 1):
            printer.put(single, "0", NONE)
        flat = all(_is_contiguous(n, known) for n in walk(self.sizes.lhs) if isinstance(n, Load))
        if flat and all(isinstance(n, Load | Convert) for n in walk(self.sizes.lhs)):
            for loop in loops[:-1]:
                printer.put(loop, "0", NONE)
            printer.put(loops[-1], k, frozenset("k"))
        else:
            printer.walk_flat(loops, k, frozenset("k"))

    # ---- results -----------------------------------------------------------------------------------------------------------
    def _finish(self, printer: ScalarPrinter, results: list[str]) -> None:
        """Adds the sums of warps, and of the words of a column."""
        code, axis = printer.code, 1 if self.bits == 4 else 2
        code.line(f"OUT: tl.constexpr = tl.BlockedLayout([1, 2], [{LANES}, 1], [1, WARPS], [1, 0])")
        for number, name in enumerate(results):
            code.line(f"{name} = tl.sum(tl.reshape(tl.sum({name}, 0), [{LANES}, 2, 2]), {axis})")
            code.line(f"{name} = tl.convert_layout({name}, OUT)")
            group, odd = divmod(number, len(self._parities()))
            code.line(f"KERNEL_write(first + {ROWS * group + odd}, tile * {FRAGMENT_COLUMNS}, {name}, OUT, own)")

    def _write(self) -> str:
        kernel, printer = self.kernel, opened(self.kernel.buffers, self.sites)
        code = printer.code
        code.line(f"{', '.join([*self.given, 'program'])} = own")
        code.line("INT: tl.constexpr = program.dtype")
        code.line(f"lane = tl.expand_dims(tl.arange(0, {LANES}, tl.SliceLayout(1, OUT)), 1)")
        code.line("upper = tl.expand_dims(tl.arange(0, 2, tl.SliceLayout(0, OUT)), 0)")
        x = code.let("(row + lane % 4 * 2 + upper * 0).to(INT)", "x")
        y = code.let("(column + upper * 8 + lane // 4).to(INT)", "y")
        rows, columns = printer.dim(product([v.extent for v in kernel.rows])), printer.dim(kernel.column.extent)
        known = self.sizes.column.extent
        even = isinstance(known, int) and known % FRAGMENT_COLUMNS == 0
        printer.axes["x"] = Axis(x, code.let(f"{x} < {rows}", "inside"))
        printer.axes["y"] = Axis(y, "" if even else code.let(f"{y} < {columns}", "inside"))
        for single in kernel.batch:
            printer.put(single, "0", NONE)
        printer.walk_flat(kernel.rows, x, frozenset("x"))
        printer.put(kernel.column, y, frozenset("y"))
        printer.accumulator = ("total", frozenset("xy"))
        for write in kernel.epilogue:
            printer.value(write.value)
        for write in kernel.epilogue:
            printer.store(write)
        head = function_head("KERNEL_write", ["row", "column", "total", "OUT: tl.constexpr", "own"], "Stores sums.")
        return text(head, printer)


def _is_contiguous(load: Load, loops: list) -> bool:
    """True if an index is linear in the flat index of loops, the last one fastest."""
    step = coefficient(load.offset, loops[-1]) if loops else None
    for loop, inner in zip(reversed(loops[:-1]), reversed(loops), strict=False):
        step = None if step is None else step * inner.extent
        if step is None or coefficient(load.offset, loop) != step:
            return False
    return step is not None
