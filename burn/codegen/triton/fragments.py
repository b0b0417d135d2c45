"""Prints a few rows times weights of few bits in half precision: tensor cores multiply numbers in registers. `Fragments`.

A weight is in fragments (`burn.passes.block_fragments`), so that a thread loads its numbers by one instruction for each chunk. A
program has 16 columns and up to eight rows, or several times as many rows, for which it loads the weight once. Its warps divide
the depth. All of a step's words are loaded before those of the previous step are used: the time is that of reading the weight.

GPUs with bulk copies have kernels of their own (`fragments_staged.py`), unless a program's weights are too large for them. Then
a kernel that starts early prefetches its weights to the L2 cache before it waits for the previous one. If all of its programs run
at once, they load their first words instead. A kernel of one step lets the next one start when it has its rows: their loads would
wait behind the next kernel's loads of weights.

Rows come through shared memory, and a norm before the matmul is computed there (`fragments_rows.py`). Matmuls of the same rows
with several weights of one shape, as in a gated layer, are one kernel.
"""

from __future__ import annotations

from collections.abc import Mapping

from burn.codegen.triton.abilities import Abilities
from burn.codegen.triton.code import NONE, Axis, Code
from burn.codegen.triton.early import DEPENDENTS, WAIT, prefetch
from burn.codegen.triton.few_bits import weight_of
from burn.codegen.triton.fragments_asm import multiplication
from burn.codegen.triton.fragments_rows import Rows
from burn.codegen.triton.heuristics.fragments import ROWS, Block, block_of
from burn.codegen.triton.heuristics.sizes import SizeHints
from burn.codegen.triton.hopper.warp_specialised import function_head, in_gluon, text
from burn.codegen.triton.printed import Printed, given, opened
from burn.codegen.triton.scalars import ScalarPrinter
from burn.dialect.dims import Dim, ceildiv, product
from burn.dialect.packed import FRAGMENT_BYTES, FRAGMENT_COLUMNS
from burn.dialect.types import DTYPES
from burn.kernels.body import ContractionKernel, Load, Scalar, walk

LANES, WORDS, GROUPS, THREADS = 32, 4, 8, 4
"""Threads of a warp, and a thread's words of a chunk. A warp has eight groups of four threads, each with its columns."""

AXES = {"chunk": ("STEP", 0), "g": (GROUPS, 1), "t": (THREADS, 2), "i": (WORDS, 3)}
"""The size and position of each axis of a step's words."""


class Fragments:
    """values, sizes, abilities, hints, constants, early: see `fragments_staged.emit`."""

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
        self.weights = [weight_of(rhs) for rhs in sizes.weights]
        self.bits, self.has_zero = self.weights[0].bits, self.weights[0].zero is not None
        self.rows, self.depth = (product([v.extent for v in loops]) for loops in (sizes.rows, sizes.depth))
        assert isinstance(self.depth, int)
        self.chunk = FRAGMENT_BYTES * 8 // self.bits  # elements of the depth
        self.chunks = -(-self.depth // self.chunk)
        self.block = self._block(abilities, hints)
        self.steps = -(-self.chunks // self.block.step)
        self.parities = ("even",) if self.rows == 1 else ("even", "odd")
        self.lhs = Rows(kernel, sizes, self.bits, self.block, self._span())
        self.given, self.arguments = given(kernel, values)
        parameters = {n.buffer for n in walk(*sizes.weights) if isinstance(n, Load)}
        self.early = early and parameters <= constants
        self.lets_late = self.block.at_once and self.steps == 1

    def _block(self, abilities: Abilities, hints: SizeHints) -> Block:
        return block_of(self.sizes, self.chunks, abilities.processors, hints)

    def _span(self) -> int:
        """Elements of the depth that are computed at once."""
        return self.block.step * self.chunk

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
        if self.early and not self.lets_late:
            code.line(DEPENDENTS)
        self._layout(code, "INT")
        self.lhs.indices(code)
        self._program(printer)
        words = self._load(code, "0", "") if self.block.at_once else []
        if self.early:
            if not words or self.steps > 1:
                self._prefetch(code)
            code.line(WAIT)
        words = words or self._load(code, "0", "")
        self.lhs.reduce(printer, "first")
        self._sum(printer, words)
        names = [*self.given, *(f"{name}: gl.constexpr" for name in ("INT", "STEP", "WARPS"))]
        about = "16 columns each, by tensor cores: fragments of a weight of few bits times rows."
        return text(function_head("KERNEL", names, about), printer)

    def _layout(self, code: Code, kind: str) -> None:
        """Indices of a thread's words, each along one axis of a step's. kind: their type."""
        parts = f"[1, 1, 1, {WORDS}], [1, {GROUPS}, {THREADS}, 1], [WARPS, 1, 1, 1], [3, 2, 1, 0]"
        code.line(f"LAYOUT: tl.constexpr = tl.BlockedLayout({parts})")
        for name, (size, axis) in AXES.items():
            others = [other for other in range(len(AXES)) if other != axis]
            layout = "LAYOUT"
            for other in reversed(others):
                layout = f"tl.SliceLayout({other}, {layout})"
            code.line(f"{name} = tl.arange(0, {size}, {layout}).to({kind})")
            for other in others:
                code.line(f"{name} = tl.expand_dims({name}, {other})")

    def _program(self, printer: ScalarPrinter) -> None:
        """The program's tile of columns and first row."""
        code = printer.code
        code.line("program = tl.program_id(0).to(INT)")
        tiles = f"tl.cdiv({printer.dim(self.kernel.column.extent)}, {FRAGMENT_COLUMNS})"
        height = ROWS * self.block.groups
        single = isinstance(self.rows, int) and self.rows <= height
        code.line("tile = program" if single else f"tile = program % {tiles}")
        code.line("first = 0" if single else f"first = program // {tiles} * {height}")
        code.line(f"own = ({', '.join([*self.given, 'program'])})")

    def _sum(self, printer: ScalarPrinter, words: list[str]) -> None:
        """words: the names of those of the first step. They get the values of the next step's."""
        code, weights = printer.code, range(len(self.weights))
        sums = [[[f"{p}{w}_{g}" for p in self.parities] for w in weights] for g in range(self.block.groups)]
        for name in (name for group in sums for each in group for name in each):
            code.line(f"{name} = tl.full([STEP, {GROUPS}, {THREADS}, {WORDS}], 0.0, tl.float32, LAYOUT)")
        if self.steps == 1:
            elements = self._elements(printer, "0")
            if self.early and self.lets_late:
                code.line(DEPENDENTS)
            self._multiply(printer, words, elements, sums)
        else:
            with code.block(f"for start in range(0, {self.chunks}, STEP):"), printer.scope():
                code.line("following = start + STEP")
                later = self._load(code, "following", f"following < {self.chunks}")
                self._multiply(printer, words, self._elements(printer, "start"), sums)
                for name, value in zip(words, later, strict=True):
                    code.line(f"{name} = {value}")
        self._finish(code, sums)

    def _load(self, code: Code, start: str, inside: str) -> list[str]:
        """Loads words, scales and zero points of a step's chunks. inside: the condition under which they exist."""
        at = code.let(f"{start} + chunk", "at")
        conditions = [f"({inside})"] if inside else []
        if self.chunks % self.block.step:
            conditions.append(f"({at} < {self.chunks})")
        mask = code.let(" & ".join(conditions), "inside") if conditions else ""
        names = []
        for weight in self.weights:
            base = f"b{weight.load.buffer}.to(tl.pointer_type(tl.int32), bitcast=True)"
            index = f"((tile * {self.chunks} + {at}) * {LANES} + g * {THREADS} + t) * {WORDS} + i"
            names.append(code.let(f"tl.load({base} + {index}{f', mask={mask}, other=0' if mask else ''})", "words"))
            parameters = [v for v in (weight.scale, weight.zero) if v is not None]
            names += [self._parameter(code, at, node, mask) for node in parameters]
        return names

    def _parameter(self, code: Code, at: str, node: Scalar, mask: str) -> str:
        """The scales or zero points of a thread's sums."""
        load, blocks = self._loaded(node)
        half, upper = ("i // 2", "i % 2") if self.bits == 4 else ("0", "i // 2")
        block = f"({at} * {self.chunk} + {half} * 32) // {self._elements_of_block()}"
        if self.chunks % self.block.step or self.depth % self.chunk:  # those of chunks that do not exist are any
            block = f"tl.minimum({block}, {blocks - 1})"
        index = f"((tile * {blocks} + {block}) * {GROUPS} + g) * 2 + {upper}"
        return code.let(f"tl.load(b{load.buffer} + {index}{f', mask={mask}, other=0.0' if mask else ''})", "scale")

    def _loaded(self, node: Scalar) -> tuple[Load, int]:
        """The load of a parameter, and the number of blocks of a column."""
        (load,) = (n for n in walk(node) if isinstance(n, Load))
        blocks = self.sizes.depth[0].extent
        assert isinstance(blocks, int)
        return load, blocks

    def _elements_of_block(self) -> int:
        found = product([v.extent for v in self.sizes.depth[1:]])
        assert isinstance(found, int)
        return found

    def _elements(self, printer: ScalarPrinter, start: str) -> list[list[str]]:
        return [self.lhs.elements(printer, "first", start, group) for group in range(self.block.groups)]

    def _multiply(
        self, printer: ScalarPrinter, words: list[str], elements: list[list[str]], sums: list[list[list[str]]]
    ) -> None:
        """Adds a step. elements: of each group of eight rows. sums: by group, weight and parity of rows."""
        code, each = printer.code, len(words) // len(self.weights)
        inline = multiplication(self.bits, self.lhs.dtype, len(self.parities) > 1, self.has_zero)
        outputs = len(self.parities) * (1 + self.has_zero)
        kinds = f"({', '.join(['tl.float32'] * outputs)})" if outputs > 1 else "tl.float32"
        for weight in range(len(self.weights)):
            word, scale, *points = words[weight * each : (weight + 1) * each]
            for row, names in zip(elements, (group[weight] for group in sums), strict=True):
                found = code.let(
                    f'tl.inline_asm_elementwise("{inline.text}", "{inline.constraints}", [{word}, {", ".join(row)}], '
                    f"dtype={kinds}, is_pure=True, pack={WORDS})",
                    "sums",
                )
                for number, name in enumerate(names):
                    at = number * (1 + self.has_zero)
                    value = f"{found}[{at}]" if outputs > 1 else found
                    for point in points:
                        value = f"({value} - {point}.to(tl.float32) * {found}[{at + 1}])"
                    code.line(f"{name} += {value} * {scale}.to(tl.float32)")

    def _prefetch(self, code: Code) -> None:
        """Prefetches all weights of the tile."""
        for weight in self.weights:
            size = self.chunks * FRAGMENT_BYTES * FRAGMENT_COLUMNS
            code.line(prefetch(f"b{weight.load.buffer} + tile * {size}", size))
            for node in (v for v in (weight.scale, weight.zero) if v is not None):
                load, blocks = self._loaded(node)
                count = blocks * FRAGMENT_COLUMNS
                size = count * DTYPES[load.dtype].bits // 8
                code.line(prefetch(f"b{load.buffer} + tile * {count}", size))

    # ---- results -----------------------------------------------------------------------------------------------------------
    def _finish(self, code: Code, sums: list[list[list[str]]]) -> None:
        """Adds the sums of warps, and of the words of a column."""
        axis = 1 if self.bits == 4 else 2
        code.line(f"OUT: tl.constexpr = tl.BlockedLayout([1, 2], [{LANES}, 1], [1, WARPS], [1, 0])")
        for name in (name for group in sums for each in group for name in each):
            code.line(f"{name}_all = tl.sum(tl.reshape(tl.sum({name}, 0), [{LANES}, 2, 2]), {axis})")
            code.line(f"{name}_all = tl.convert_layout({name}_all, OUT)")
        for number, group in enumerate(sums):
            for odd in range(len(self.parities)):
                totals = ", ".join(f"{each[odd]}_all" for each in group)
                row = f"first + {ROWS * number + odd}"
                code.line(f"KERNEL_write({row}, tile * {FRAGMENT_COLUMNS}, {totals}, OUT, own)")

    def _write(self) -> str:
        kernel, printer = self.kernel, opened(self.kernel.buffers, self.sites)
        code = printer.code
        code.line(f"{', '.join([*self.given, 'program'])} = own")
        code.line("INT: tl.constexpr = program.dtype")
        x, y = self._at(code)
        rows, columns = printer.dim(product([v.extent for v in kernel.rows])), printer.dim(kernel.column.extent)
        known = self.sizes.column.extent
        even = isinstance(known, int) and known % FRAGMENT_COLUMNS == 0
        printer.axes["x"] = Axis(x, code.let(f"{x} < {rows}", "inside"))
        printer.axes["y"] = Axis(y, "" if even else code.let(f"{y} < {columns}", "inside"))
        for single in kernel.batch:
            printer.put(single, "0", NONE)
        printer.walk_flat(kernel.rows, x, frozenset("x"))
        printer.put(kernel.column, y, frozenset("y"))
        totals = [f"total{number}" for number in range(len(self.weights))]
        printer.accumulator, printer.further = (totals[0], frozenset("xy")), totals[1:]
        for write in kernel.epilogue:
            printer.value(write.value)
        for write in kernel.epilogue:
            printer.store(write)
        head = function_head("KERNEL_write", ["row", "column", *totals, "OUT: tl.constexpr", "own"], "Stores sums.")
        return text(head, printer)

    def _at(self, code: Code) -> tuple[str, str]:
        """The indices of a thread's results."""
        code.line(f"lane = tl.expand_dims(tl.arange(0, {LANES}, tl.SliceLayout(1, OUT)), 1)")
        code.line("upper = tl.expand_dims(tl.arange(0, 2, tl.SliceLayout(0, OUT)), 0)")
        x = code.let("(row + lane % 4 * 2 + upper * 0).to(INT)", "x")
        return x, code.let("(column + upper * 8 + lane // 4).to(INT)", "y")
