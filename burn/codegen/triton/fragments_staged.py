"""The kernels of `fragments.py` on GPUs with bulk copies: a program copies its weights to shared memory before it waits. `emit`.

All words, scales and zero points of a program are copied at once and take no registers. So more programs run on a processor, with
those of the next kernels. The program stores its rows there as well, and each warp loads what it multiplies. Warps add
their sums through that memory, because a reduction of Triton's for each weight takes two barriers and eight moves more.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from burn.codegen.triton import staging
from burn.codegen.triton.abilities import Abilities
from burn.codegen.triton.code import Code
from burn.codegen.triton.early import DEPENDENTS, WAIT
from burn.codegen.triton.few_bits import Weight, weight_of
from burn.codegen.triton.fragments import GROUPS, LANES, THREADS, WORDS, Fragments
from burn.codegen.triton.fragments_rows import VECTOR, narrow
from burn.codegen.triton.heuristics import fragments as heuristics
from burn.codegen.triton.heuristics.fragments import ROWS, Block, staged_block_of
from burn.codegen.triton.heuristics.sizes import UNKNOWN, SizeHints, power_of_two
from burn.codegen.triton.hopper.warp_specialised import function_head, text
from burn.codegen.triton.printed import Printed, opened
from burn.codegen.triton.scalars import ScalarPrinter
from burn.dialect.dims import Dim, product
from burn.dialect.packed import FRAGMENT_BYTES, FRAGMENT_COLUMNS
from burn.dialect.types import DTYPES
from burn.kernels.body import ContractionKernel, Load, walk

UNROLLED = 8
"""Chunks of a warp that are unrolled. More are a loop."""

UNROLLED_OF_MORE = 4
"""Chunks of an iteration of that loop."""

MOST_SPAN = 16
"""Elements of a row that a thread computes at once."""

CHUNK_BYTES = FRAGMENT_BYTES * FRAGMENT_COLUMNS

Sums = list[list[list[str]]]
"""Names of sums, by group of rows, weight and parity of rows."""


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
    """Weights that shared memory has no room for are in registers. values: the values of the kernel's sizes; sizes: the kernel
    with these values, for choosing blocks; abilities: of the GPU; hints: size hints. constants, early: see `KernelPrinter.print`.
    """
    kind = Fragments if _block_of(sizes, abilities, hints) is None else Staged
    return kind(kernel, values, sizes, sites, abilities, hints, set(constants), early and abilities.early).print()


class Staged(Fragments):
    """A program's memory has words, scales and zero points of each weight, then rows, the sums of each warp, and a barrier.
    Offsets are in bytes."""

    def _block(self, abilities: Abilities, hints: SizeHints) -> Block:
        block = _block_of(self.sizes, abilities, hints)
        assert block is not None
        return block

    def _span(self) -> int:
        return min(power_of_two(self.chunks * self.chunk), self.block.warps * LANES * MOST_SPAN)

    def print(self) -> Printed:
        self._plan()
        return replace(super().print(), shared=self.bytes)

    def _plan(self) -> None:
        at = 0
        self.copies: list[list[tuple[int, Load, int]]] = []  # of each weight: (offset, load of the buffer, bytes)
        for weight in self.weights:
            self.copies.append([])
            for load in (weight.load, *_parameters(weight)):
                bytes_ = self.chunks * CHUNK_BYTES if load is weight.load else _parameter_bytes(load, self.sizes)
                self.copies[-1].append((at, load, bytes_))
                at += bytes_
        self.copied, self.rows_at = at, at
        self.lines = 1 if self.lhs.is_single else ROWS
        self.row = _row_bytes(self.chunks * self.chunk, self.lhs.is_single)
        self.sums_at = at + self.row * self.lines * self.block.groups
        self.sums_bytes = self.lines * FRAGMENT_COLUMNS * 4  # of a warp's sums, for a weight and a group of rows
        self.warp_bytes = self.sums_bytes * len(self.weights) * self.block.groups
        self.barrier_at = self.sums_at + self.warp_bytes * self.block.warps
        self.bytes = -(-(self.barrier_at + staging.BARRIER) // staging.ALIGNMENT) * staging.ALIGNMENT

    # ---- the kernel --------------------------------------------------------------------------------------------------------
    def _main(self) -> str:
        printer = opened(self.kernel.buffers, self.sites)
        code = printer.code
        if self.early:
            code.line(DEPENDENTS)
        self._program(printer)
        for line in staging.memory(self.bytes):
            code.line(line)
        code.line(f"barrier = memory + {self.barrier_at}")
        code.line(staging.barrier("barrier", self.copied))
        for to, load, bytes_ in (each for copies in self.copies for each in copies):
            pointer = f"b{load.buffer} + tile * {bytes_ // DTYPES[load.dtype].size}"
            code.line(staging.copy(f"memory + {to}", pointer, bytes_, "barrier"))
        self._addresses(code)
        self.lhs.indices(code)
        if self.early:
            code.line(WAIT)
        self.lhs.reduce(printer, "first")
        self._store_rows(printer)
        code.line(staging.meet())
        code.line(staging.wait("barrier"))
        sums = self._multiply_chunks(printer)
        self._store_sums(code, sums)
        code.line(staging.meet())
        self._add_warps(code)
        names = [*self.given, *(f"{name}: gl.constexpr" for name in ("INT", "STEP", "WARPS"))]
        about = "16 columns each, by tensor cores: fragments of a weight of few bits, in shared memory, times rows."
        return text(function_head("KERNEL", names, about), printer)

    def _addresses(self, code: Code) -> None:
        """The addresses of a thread's words and elements of a warp's first chunk."""
        self._layout(code, "tl.int32")
        code.line(f"shape: tl.constexpr = [WARPS, {GROUPS}, {THREADS}, {WORDS}]")
        code.line(f"words = memory + chunk * {CHUNK_BYTES} + (g * {THREADS} + t) * {4 * WORDS} + 0 * i")
        row = "0 * g" if self.lhs.is_single else f"g * {self.row}"
        code.line(f"rows = memory + {self.rows_at} + {row} + chunk * {2 * self.chunk} + t * {2 * VECTOR} + 0 * i")

    def _store_rows(self, printer: ScalarPrinter) -> None:
        """Computes rows, and stores them."""
        code, span, single = printer.code, self.lhs.span, self.lhs.is_single
        ones = "" if single else "1, "
        parts = f"[{ones}1, {VECTOR}], [{ones}{LANES}, 1], [{ones}WARPS, 1], {'[1, 0]' if single else '[2, 1, 0]'}"
        code.line(f"VECTORS: tl.constexpr = tl.BlockedLayout({parts})")
        shape = [*([] if single else [ROWS]), span // VECTOR, VECTOR]
        inner = "tl.SliceLayout(1, VECTORS)" if single else "tl.SliceLayout(0, tl.SliceLayout(2, VECTORS))"
        code.line(f"vector = tl.expand_dims(tl.arange(0, {span // VECTOR}, {inner}), {1 if single else 0})")
        if not single:
            code.line("vector = tl.expand_dims(vector, 2)")
            code.line(f"line = tl.arange(0, {ROWS}, tl.SliceLayout(1, tl.SliceLayout(2, VECTORS)))")
            code.line("line = tl.expand_dims(tl.expand_dims(line, 1), 2)")
        whole = self.chunks * self.chunk
        for group in range(self.block.groups):
            row = "" if single else f" + ({ROWS * group} + line) * {self.row}"
            for begin in range(0, whole, span):
                value = self.lhs.value(printer, "first", f"{begin} + along", group)
                value = f"tl.convert_layout(tl.reshape({value}, {shape}), VECTORS)"
                number = code.let(f"{begin // VECTOR} + vector", "number")
                address = f"memory + {self.rows_at} + {number} * {2 * VECTOR}{row}"
                partial = begin + span > whole
                code.line(staging.store(address, value, number if partial else "", whole // VECTOR))

    # ---- multiplication --------------------------------------------------------------------------------------------------
    def _multiply_chunks(self, printer: ScalarPrinter) -> Sums:
        code, weights = printer.code, range(len(self.weights))
        sums = [[[f"{p}{w}_{g}" for p in self.parities] for w in weights] for g in range(self.block.groups)]
        for name in (name for group in sums for each in group for name in each):
            code.line(f"{name} = tl.full(shape, 0.0, tl.float32, LAYOUT)")
        if self.steps <= UNROLLED:
            with code.block(f"for step in tl.static_range(0, {self.steps}):"), printer.scope():
                self._add_chunk(printer, sums, self.steps)
        else:
            with (
                code.block(f"for start in range(0, {self.steps}, {UNROLLED_OF_MORE}):"),
                code.block(f"for further in tl.static_range(0, {UNROLLED_OF_MORE}):"),
                printer.scope(),
            ):
                code.line("step = start + further")
                self._add_chunk(printer, sums, -(-self.steps // UNROLLED_OF_MORE) * UNROLLED_OF_MORE)
        return sums

    def _add_chunk(self, printer: ScalarPrinter, sums: Sums, steps: int) -> None:
        """Adds a chunk of each warp. One that does not exist counts as the last one, times zero. steps: with those."""
        code = printer.code
        moved, inside = code.let("step * WARPS", "moved"), ""
        if steps * self.block.warps > self.chunks:
            inside = code.let(f"{moved} + chunk < {self.chunks}", "inside")
            moved = code.let(f"tl.minimum({moved} + chunk, {self.chunks - 1}) - chunk", "moved")
        elements = [self._elements_of(code, moved, group) for group in range(self.block.groups)]
        names: list[str] = []
        for (words, _, _), *parameters in self.copies:
            address = f"words + {words} + {moved} * {CHUNK_BYTES}"
            names.append(code.let(staging.load(address, ["tl.int32"], 32, [0]), "word"))
            for at, load, _ in parameters:
                found = self._parameter_of(code, moved, load, at)
                names.append(code.let(f"tl.where({inside}, {found}, 0.0)", "scale") if inside else found)
        self._multiply(printer, names, elements, sums)

    def _elements_of(self, code: Code, moved: str, group: int) -> list[str]:
        """A thread's elements of a chunk: four adjacent ones in each tensor."""
        address = f"rows + {ROWS * group * self.row} + {moved} * {2 * self.chunk}"
        offsets = [0, 64] if self.bits == 4 else [0]  # bytes of half of a chunk
        names = [f"x{group}_{i}" for i in range(2 * len(offsets))]
        kinds = [f"tl.{self.lhs.dtype}"] * len(names)
        code.line(f"{', '.join(names)} = {staging.load(address, kinds, 16, offsets)}")
        return names

    def _parameter_of(self, code: Code, moved: str, load: Load, at: int) -> str:
        """The scales or zero points of a thread's sums."""
        half, upper = ("i // 2", "i % 2") if self.bits == 4 else ("0", "i // 2")
        block = f"(({moved} + chunk) * {self.chunk} + {half} * 32) // {self._elements_of_block()}"
        if self.depth % self.chunk:  # those of the part of a chunk that does not exist are any
            block = f"tl.minimum({block}, {self.sizes.depth[0].extent} - 1)"
        bits, kind = DTYPES[load.dtype].bits, f"tl.{load.dtype}"
        address = f"memory + {at} + (({block} * {GROUPS} + g) * 2 + {upper}) * {bits // 8} + 0 * t"
        address = code.let(address, "address")
        pairs = staging.load_pairs(address, kind, repeated=self.bits == 8)
        return code.let(pairs if bits == 16 else staging.load_each(address, kind, bits), "scale")

    # ---- results -----------------------------------------------------------------------------------------------------------
    def _store_sums(self, code: Code, sums: Sums) -> None:
        """Stores the sums of each warp, with those of a column's words added. They are in the order of warps, groups of rows,
        weights, rows, columns."""
        code.line(f"sums = memory + {self.sums_at} + chunk * {self.warp_bytes} + g * 4 + 0 * i + 0 * t")
        for g, group in enumerate(sums):
            for w, each in enumerate(group):
                at = (g * len(group) + w) * self.sums_bytes
                for odd, name in enumerate(each):
                    row = "" if self.lhs.is_single else f" + (2 * t + {odd}) * {4 * FRAGMENT_COLUMNS}"
                    only = "t + 0 * (chunk + g + i)" if self.lhs.is_single else ""  # all have the sums of one row
                    code.line(staging.store_sums(f"sums + {at}{row}", name, self.bits == 8, only))

    def _add_warps(self, code: Code) -> None:
        """Adds the sums of warps, and stores results."""
        size = self.lines * FRAGMENT_COLUMNS
        code.line("OUT: tl.constexpr = tl.BlockedLayout([1], [32], [WARPS], [0])")
        code.line(f"found = memory + {self.sums_at} + tl.arange(0, {size}, OUT) * 4")
        for g in range(self.block.groups):
            totals = []
            for w in range(len(self.weights)):
                at = (g * len(self.weights) + w) * self.sums_bytes
                load = staging.load_sum(f"found + {at}", self.block.warps, self.warp_bytes, size)
                totals.append(code.let(load, "total"))
            arguments = f"first + {ROWS * g}, tile * {FRAGMENT_COLUMNS}, {', '.join(totals)}"
            code.line(f"KERNEL_write({arguments}, OUT, own)")

    def _at(self, code: Code) -> tuple[str, str]:
        code.line(f"e = tl.arange(0, {self.lines * FRAGMENT_COLUMNS}, OUT)")
        x = code.let(f"(row + e // {FRAGMENT_COLUMNS}).to(INT)", "x")
        return x, code.let(f"(column + e % {FRAGMENT_COLUMNS}).to(INT)", "y")


def _block_of(sizes: ContractionKernel, abilities: Abilities, hints: SizeHints) -> Block | None:
    """The block of a program with weights in shared memory; None if the GPU cannot copy so, or has no room."""
    if narrow(sizes.lhs).dtype not in heuristics.STAGED_DTYPES:
        return None
    weights = [weight_of(rhs) for rhs in sizes.weights]
    depth = product([v.extent for v in sizes.depth])
    assert isinstance(depth, int)
    chunk = FRAGMENT_BYTES * 8 // weights[0].bits
    chunks = -(-depth // chunk)
    total = len(weights) * chunks * CHUNK_BYTES
    total += sum(_parameter_bytes(load, sizes) for weight in weights for load in _parameters(weight))
    row = _row_bytes(chunks * chunk, product([v.extent for v in sizes.rows]) == 1)
    return staged_block_of(sizes, chunks, total, row, abilities.bulk, hints)


def _parameters(weight: Weight) -> list[Load]:
    """The loads of the scale, and of the zero point if there is one."""
    nodes = [node for node in (weight.scale, weight.zero) if node is not None]
    return [n for node in nodes for n in walk(node) if isinstance(n, Load)]


def _parameter_bytes(load: Load, sizes: ContractionKernel) -> int:
    """Bytes of a tile's scales or zero points."""
    blocks = sizes.depth[0].extent
    assert isinstance(blocks, int)
    return blocks * FRAGMENT_COLUMNS * DTYPES[load.dtype].size


def _row_bytes(elements: int, single: bool) -> int:
    """Bytes from a row to the next one. Threads load from two rows at once, which are then in different banks."""
    row = 2 * elements
    return row if single else row + (64 - row) % 128
