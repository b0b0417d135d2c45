"""Prints gradients of depthwise convolutions' weights by tensor cores (`depthwise_gradient.py`), in Gluon. `emit` is the entry
point.

Images are channels-last. Copies to shared memory run some steps ahead. They keep 8 adjacent channels together, and a warp loads
the channels that it multiplies from there. A step has one barrier, because each step in flight has buffers of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm

from burn.codegen.triton.bands import taps_of
from burn.codegen.triton.code import NONE, Axis, Code
from burn.codegen.triton.depthwise_gradient import DepthwiseGradient, Operand, operand, scalar
from burn.codegen.triton.functions import triton_type
from burn.codegen.triton.heuristics.banded import DEPTH, RESULTS
from burn.codegen.triton.heuristics.depthwise_gradient import TILES, GradientBlock
from burn.codegen.triton.heuristics.sizes import power_of_two
from burn.codegen.triton.hopper.warp_specialised import function_head, in_gluon
from burn.codegen.triton.instances import InstancePrinter, Instances
from burn.codegen.triton.printed import Printed, given, opened
from burn.codegen.triton.windows import is_whole
from burn.dialect.dims import Atom, Dim, Expr, LoopVar, atoms, ceildiv, product, substitute, terms
from burn.kernels.body import Apply, Const, Load, Scalar, Where, Write
from burn.kernels.parameters import parametrize
from burn.kernels.sliding import Slide

BANKS = 6
"""Bits of an element's address in all banks of shared memory: 128 bytes."""

BLOCK = frozenset("xpc")
"""The axes of a block: tiles, positions or results of a step, and channels."""


def emit(gradient: DepthwiseGradient, sites: list[str]) -> Printed:
    """The function of such a kernel."""
    return _Printer(gradient, sites).print()


OUTSIDE = -(1 << 30)
"""An index that stays outside of any range, whatever step is added."""


CONSTANT = 1 << 40
"""Sizes up to this are numbers in the text. Steps between elements are then parts of instructions, and take no registers."""


class _CopyPrinter(InstancePrinter):
    def copy(self, buffer: str, node: Scalar, step: Atom | None) -> None:
        """Starts the copy of a block to shared memory, with zeros where the node is zero. Steps share the parts of addresses and
        conditions that do not depend on them: where the shared conditions do not hold, a row outside of the image stands for
        them."""
        if isinstance(node, Const):
            return  # nothing reads the block
        ranges = node.ranges if isinstance(node, Where) else ()
        load = node.then if isinstance(node, Where) else node
        assert isinstance(load, Load)
        moving = [pair for pair in ranges if step in atoms(pair[0])]
        fixed = [pair for pair in ranges if pair not in moving]
        within, along = self._apart(load.offset, step)
        base, mask = self._address(load.buffer, within, BLOCK)
        base = self._part(("pointer", load.buffer, within), lambda: base, "pointer")
        tests = [*self.tests(fixed), *([mask] if mask else [])]
        varying = next((pair for pair in moving if self.span(pair[0])), None)
        if varying is not None and tests:
            index, further = self._apart(varying[0], step)
            key = ("row", index, tuple(fixed), mask)
            text = f"tl.where({' & '.join(tests)}, {self.dim(index)}, {OUTSIDE})"
            row = self._part(key, lambda: text, "row")
            at = f"{row} + {self.dim(further)}"
            moving.remove(varying)
            tests = [f"({at} >= 0)", f"({at} < {self.dim(varying[1])})"]
        tests += self.tests(moving)
        mask = f", mask={self.code.let(' & '.join(tests), 'here')}" if tests else ""
        pointer = base if along == 0 else f"{base} + {self.dim(along)}"
        self.code.line(f"async_copy.async_copy_global_to_shared({buffer}, {pointer}{mask})")

    def _apart(self, dim: Dim, step: Atom | None) -> tuple[Dim, Dim]:
        """The terms without a step, and those with it."""
        along: Dim = 0
        for monomial, count in terms(dim):
            if step in monomial:
                along = along + product([count, *(Expr.of(atom) for atom in monomial)])
        return dim - along, along


class _Printer:
    def __init__(self, gradient: DepthwiseGradient, sites: list[str]) -> None:
        self.gradient, self.windows, self.block = gradient, gradient.windows, gradient.block
        self.kernel, self.values = parametrize(gradient.kernel, largest_constant=CONSTANT)
        opened(self.kernel.buffers, sites)
        self.code, self.sites = Code(), sites
        known = (*gradient.kernel.parallel, *gradient.kernel.stages[0].loops)
        general = (*self.kernel.parallel, *self.kernel.stages[0].loops)
        self.loops = dict(zip(known, general, strict=True))
        (self.reduction,) = self.kernel.stages[0].reductions
        assert isinstance(self.reduction.body, Apply)
        image, cotangent = (operand(node) for node in self.reduction.body.args)
        assert image is not None and cotangent is not None
        self.image, self.cotangent, self.kind = image, cotangent, triton_type(image.load.dtype)
        self.instances = Instances()
        self.steps = self.block.walked + self.windows.held - 1
        self.position = LoopVar("p", DEPTH)
        self.numbers: dict[LoopVar, str] = {}
        self.walk = self._number(self.windows.walked)
        self.across = self.walk if self.windows.is_flat else self._number(self.windows.band)
        self.phase = LoopVar("phase", self.windows.phases)
        self.period = lcm(self.block.stages, self.windows.held)

    def _number(self, slide: Slide) -> LoopVar:
        """The loop that numbers tiles along the moving loop of a slide."""
        size = self.block.walked if slide == self.windows.walked else 1
        size *= self.windows.results if slide == self.windows.band else self.windows.phases
        return LoopVar(f"{slide.moving.name}q", ceildiv(self.loops[slide.moving].extent, size))

    # ---- the kernel --------------------------------------------------------------------------------------------------------
    def print(self) -> Printed:
        code, gradient, block = self.code, self.gradient, self.block
        self._layouts()
        self._program()
        self._buffers()
        zero = f"tl.full([{block.channels}, {DEPTH}, {self.windows.columns}], 0.0, tl.float32, SUMS)"
        self.totals = [code.let(zero, "total") for _ in self.windows.reached]
        tiled = [*(self.loops[v] for v in gradient.tiled), *dict.fromkeys((self.walk, self.phase, self.across))]
        first = self._printer()
        tiles, shares = product([v.extent for v in tiled]), product([self.loops[v].extent for v in gradient.shares])
        share: Dim = 0
        for loop in gradient.shares:
            share = share * self.loops[loop].extent + Expr.of(self.loops[loop])
        limits = f"{first.dim(share * TILES)}, {first.dim(tiles)}, {first.dim(shares * TILES)}"
        with code.block(f"for tile in range({limits}):"):
            self._tiles(tiled, tiles)
        self._store()
        return self._printed()

    def _printed(self) -> Printed:
        kernel, gradient, block = self.kernel, self.gradient, self.block
        names, arguments = given(kernel, self.values)
        about = (
            f"{TILES} tiles of {block.walked} steps, {block.channels} channels; positions times results of a cotangent."
        )
        head = function_head("KERNEL", [*names, "INT: tl.constexpr"], about)
        text = in_gluon(["\n".join([head, *self.code.lines])])
        loops = (*gradient.single, *gradient.shares)
        programs = ceildiv(gradient.channel.extent, block.channels) * product([v.extent for v in loops])
        return Printed("KERNEL", text, tuple(arguments), {}, programs, block.warps, 1)

    def _program(self) -> None:
        """The channels of a program, and its index along loops that have one index."""
        code, gradient, printer = self.code, self.gradient, _CopyPrinter(self.code, self.kernel.buffers, self.sites)
        extent = self.loops[gradient.channel].extent
        blocks = code.let(f"tl.cdiv({printer.dim(extent)}, {self.block.channels})", "blocks")
        program = code.let("tl.program_id(0).to(INT)", "program")
        self.channels = code.let(f"{program} % {blocks} * {self.block.channels}", "channels")
        loops = [self.loops[v] for v in (*gradient.single, *gradient.shares)]
        printer.walk_flat(loops, code.let(f"{program} // {blocks}", "program"), NONE)
        self.bound = printer.bindings

    def _printer(self) -> _CopyPrinter:
        printer = _CopyPrinter(self.code, self.kernel.buffers, self.sites)
        printer.bindings |= self.bound
        return printer

    def _layouts(self) -> None:
        """Layouts of copied blocks, [tile, position or result, channel], and of matrices, [channel, row, column], with whole
        channels in each warp."""
        block, line = self.block, self.code.line
        for name, length in (("POSITIONS", DEPTH), ("RESULTS", self.windows.columns)):
            results_first = name == "RESULTS" and self.gradient.results_first
            line(
                f"{name}: tl.constexpr = tl.BlockedLayout({_results_copied(block) if results_first else _copied(block, length)})"
            )
            for kind, is_read in (("COPIED", False), ("READ", True)):
                bases = (results_bases if results_first else shared_bases)(block, length, is_read)
                line(f"{name}_{kind}: tl.constexpr = tl.SharedLinearLayout({bases})")
        line(f"SUMS: tl.constexpr = tl.NVMMADistributedLayout([2, 0], [{block.warps}, 1, 1], [1, {DEPTH}, {RESULTS}])")
        line("LEFT: tl.constexpr = tl.DotOperandLayout(0, SUMS, 2)")
        line("RIGHT: tl.constexpr = tl.DotOperandLayout(1, SUMS, 2)")

    def _buffers(self) -> None:
        """Shared memory of each stage: rows of positions, and one of results. Copies write what multiplications read in another
        order of channels: a warp's channels are adjacent in memory."""
        self.copied: list[tuple[str, ...]] = []
        self.read: list[tuple[str, ...]] = []
        rows = [("POSITIONS", DEPTH)] * self.windows.stride + [("RESULTS", self.windows.columns)]
        for _ in range(self.block.stages):
            shapes = [(name, f"[{TILES}, {length}, {self.block.channels}]") for name, length in rows]
            copied = tuple(
                self.code.let(f"tl.allocate_shared_memory({self.kind}, {shape}, {name}_COPIED)", "copied")
                for name, shape in shapes
            )
            self.copied.append(copied)
            self.read.append(
                tuple(
                    self.code.let(f"{buffer}._reinterpret({self.kind}, {shape}, {name}_READ)", "read")
                    for buffer, (name, shape) in zip(copied, shapes, strict=True)
                )
            )

    # ---- tiles -------------------------------------------------------------------------------------------------------------
    def _tiles(self, tiled: Sequence[LoopVar], tiles: Dim) -> None:
        """The steps of a program's tiles. Copies are as many stages ahead as there are, but for one."""
        code, block, columns = self.code, self.block, self.windows.columns
        positions = self._axes("POSITIONS", DEPTH, tiled, tiles, self.windows.needed)
        results = self._axes("RESULTS", columns, tiled, tiles, self.windows.results)
        zero = f"tl.full([{block.channels}, {TILES}, {columns}], 0.0, {self.kind}, RIGHT)"
        self.held = [code.let(zero, "held") for _ in range(self.windows.held)]
        whole = self.steps // self.period * self.period
        begin = code.let("tile * 0", "begin")
        for number in range(block.stages - 1):  # a loop reads blocks of zeros, too, so these are written
            self._copy(positions, results, number if number >= whole else self._numbered(begin, number), number)
        zero = f"tl.full([{block.channels}, {TILES}, {columns}], 0.0, {self.kind}, RIGHT)"
        self.held = [code.let(zero, "held") for _ in range(self.windows.held)]
        if whole:
            with code.block(f"for start in range(0, {whole}, {self.period}):"), positions.scope(), results.scope():
                for number in range(self.period):
                    self._step(positions, results, None, number)
        for number in range(whole, self.steps):
            self._step(positions, results, number, number)
        code.line("async_copy.wait_group(0)")

    def _axes(self, name: str, length: int, tiled: Sequence[LoopVar], tiles: Dim, needed: int) -> _CopyPrinter:
        """A printer of copied blocks."""
        code, printer = self.code, self._printer()
        x = code.let(f"tile + {self._arange(name, TILES, 0)}", "x")
        printer.axes["x"] = Axis(x, code.let(f"{x} < {printer.dim(tiles)}", "inside"))
        printer.walk_flat(tiled, x, frozenset("x"))
        p = self._arange(name, length, 1)
        printer.axes["p"] = Axis(p, code.let(f"{p} < {needed}", "inside") if needed < length else "")
        printer.put(self.position, p, frozenset("p"))
        c = code.let(f"{self.channels} + {self._arange(name, self.block.channels, 2)}", "c")
        self._channel(printer, c)
        return printer

    def _channel(self, printer: _CopyPrinter, c: str) -> None:
        channel = self.loops[self.gradient.channel]
        whole = is_whole(self.gradient.channel.extent, self.block.channels)
        printer.axes["c"] = Axis(c, "" if whole else self.code.let(f"{c} < {printer.dim(channel.extent)}", "inside"))
        printer.put(channel, c, frozenset("c"))

    def _arange(self, name: str, length: int, axis: int) -> str:
        """Indices along one axis of a layout."""
        outer, inner = [i for i in (2, 1, 0) if i != axis]
        layout = f"tl.SliceLayout({inner}, tl.SliceLayout({outer}, {name}))"
        indices = f"tl.expand_dims(tl.expand_dims(tl.arange(0, {length}, {layout}), {inner}), {outer})"
        return self.code.let(f"{indices}.to(INT)", "i")

    def _numbered(self, start: str, number: int) -> LoopVar:
        """A step whose number is computed."""
        step = LoopVar(f"{start}{number}", self.steps)
        self.numbers[step] = self.code.let(f"{start} + {number}", "step")
        return step

    def _step(self, positions: _CopyPrinter, results: _CopyPrinter, step: int | None, number: int) -> None:
        """Multiplies one step's rows of positions, after copies of a later step have started. step: its number, if it is not in
        the loop."""
        code, stages, held = self.code, self.block.stages, self.windows.held
        code.line(f"async_copy.wait_group({stages - 2})")
        *rows, row = self.read[number % stages]
        if step is None or step < self.block.walked:
            self.held[number % held] = self._loaded(row, "(2, 0, 1)", "RIGHT", self.held[number % held])
        stride, multiplied = self.windows.stride, []
        for total, reached in zip(self.totals, self.windows.reached, strict=True):
            if step is None or 0 <= step - reached // stride < self.block.walked:  # else another tile's results
                multiplied.append((total, reached % stride, self.held[(number - reached // stride) % held]))
        lefts = {at: self._loaded(rows[at], "(2, 1, 0)", "LEFT") for at in sorted({at for _, at, _ in multiplied})}
        later = number + stages - 1
        self._copy(positions, results, self._numbered("start", later) if step is None else later, later % stages)
        for total, at, right in multiplied:
            code.line(f"{total} = mma_v2({lefts[at]}, {right}, {total})")

    def _loaded(self, buffer: str, order: str, layout: str, name: str = "") -> str:
        text = f"{buffer}.permute({order}).load({layout})"
        if not name:
            return self.code.let(text, "left")
        self.code.line(f"{name} = {text}")
        return name

    def _copy(self, positions: _CopyPrinter, results: _CopyPrinter, step: int | LoopVar, stage: int) -> None:
        """Starts to copy a step. Rows that only other tiles read are zeros."""
        windows, block = self.windows, self.block
        *rows, row = self.copied[stage]
        last = (block.walked - 1) * windows.stride + windows.reached[-1] + 1
        variable = step if isinstance(step, LoopVar) else None
        if variable is not None:
            for printer in (positions, results):
                printer.put(variable, self.numbers[variable], NONE)
        at: Dim = step if isinstance(step, int) else Expr.of(step)
        for number, buffer in enumerate(rows):
            image = self._factor(
                self.image, self._image_indices(at * windows.stride + number), (at * windows.stride + number, last)
            )
            positions.copy(buffer, image, variable)
        results.copy(row, self._factor(self.cotangent, self._result_indices(at), (at, block.walked)), variable)
        self.code.line("async_copy.commit_group()")

    def _factor(self, factor: Operand, values: dict[Atom, Dim], within: tuple[Dim, Dim]) -> Scalar:
        node = self.instances.at(scalar(factor), values)
        return self.instances.at(Where(node.dtype, (within,), node, Const(node.dtype, 0)), {})

    def _image_indices(self, row: Dim) -> dict[Atom, Dim]:
        windows, block = self.windows, self.block
        first = Expr.of(self.walk) * (block.walked * windows.stride) + row
        values: dict[Atom, Dim] = {
            slide.position: Expr.of(self.loops[slide.moving]) * slide.stride
            + Expr.of(self.loops[slide.tap]) * slide.dilation
            for slide in windows.outer
        }
        if windows.is_flat:
            return {windows.band.position: first * DEPTH + Expr.of(self.position)}
        across = Expr.of(self.across) * (windows.results * windows.band.stride)
        return values | {
            windows.walked.position: self._row(first),
            windows.band.position: across + Expr.of(self.position),
        }

    def _result_indices(self, step: Dim) -> dict[Atom, Dim]:
        windows = self.windows
        moving, walked = (self.loops[slide.moving] for slide in (windows.band, windows.walked))
        first = Expr.of(self.walk) * self.block.walked + step
        if windows.is_flat:
            return {moving: first * DEPTH + Expr.of(self.position)}
        return {walked: self._row(first), moving: Expr.of(self.across) * windows.results + Expr.of(self.position)}

    def _row(self, number: Dim) -> Dim:
        """The row of a phase by number."""
        return number * self.windows.phases + Expr.of(self.phase)

    # ---- sums --------------------------------------------------------------------------------------------------------------
    def _store(self) -> None:
        """Adds up diagonals, and stores them as taps."""
        code, windows, block, printer = self.code, self.windows, self.block, self._printer()
        taps = taps_of(windows.band)
        rows = max(RESULTS, power_of_two(taps))
        tap, column = self._arange("SUMS", rows, 1), self._arange("SUMS", windows.columns, 2)
        distance = code.let(
            f"({tap} * {windows.band.dilation} + {column} * {windows.band.stride}).to(tl.int32)", "position"
        )
        counted = code.let(f"({tap} < {taps}) & ({column} < {windows.results})", "counted")
        shape = f"tl.full([{block.channels}, {rows}, {windows.columns}], 0, tl.int32, SUMS)"
        index = code.let(f"tl.where({counted}, {distance} % {DEPTH}, 0) + {shape}", "index")
        layout = "tl.SliceLayout({}, tl.SliceLayout(2, SUMS))"
        number = code.let(f"tl.arange(0, {block.channels}, {layout.format(1)})", "i")
        own = f"{number} // {block.warps} + {number} % {block.warps} * {block.each}"
        self._channel(printer, code.let(f"{self.channels} + tl.expand_dims({own}, 1).to(INT)", "c"))
        p = code.let(f"tl.expand_dims(tl.arange(0, {rows}, {layout.format(0)}), 0).to(INT)", "p")
        printer.axes["p"] = Axis(p, code.let(f"{p} < {taps}", "inside") if taps < rows else "")
        printer.put(self.loops[windows.band.tap], p, frozenset("p"))
        diagonals: list[str] = []
        for reached, total in zip(windows.reached, self.totals, strict=True):
            here = f"{counted} & ({distance} // {DEPTH} == {reached})" if windows.is_flat else counted
            diagonals.append(f"tl.where({here}, tl.gather({total}, {index}, 1), 0.0)")
        if windows.is_flat:
            diagonals = [" + ".join(diagonals)]
        for at, diagonal in enumerate(diagonals):
            values: dict[Atom, Dim] = {} if windows.is_flat else {self.loops[windows.walked.tap]: at}
            printer.reduced[self.reduction.name] = (code.let(f"tl.sum({diagonal}, 2)", "sum"), frozenset("cp"))
            for write in self.kernel.stages[1].writes:
                value = self.instances.at(write.value, values, at)
                printer.store(Write(write.buffer, substitute(write.offset, values), value))


def _copied(block: GradientBlock, length: int) -> str:
    """The layout of copies of adjacent channels."""
    threads = block.channels // block.vector
    along = min(32 // threads, length)
    tiles = 32 // threads // along
    each = min(block.warps, TILES // tiles)
    return f"[1, 1, {block.vector}], [{tiles}, {along}, {threads}], [{each}, {block.warps // each}, 1], [2, 1, 0]"


def _results_copied(block: GradientBlock) -> str:
    """The layout of copies of adjacent results. Neighbouring tiles are often neighbours in memory."""
    channels = min(block.warps, block.channels // 4)
    return f"[1, {RESULTS}, 1], [8, 1, 4], [{block.warps // channels}, 1, {channels}], [1, 0, 2]"


def _channels(block: GradientBlock, is_read: bool) -> list[list[int]]:
    """The numbers that the bits of a channel's index add to [tile, position, channel]. is_read: channels are in the order of the
    matrices, in which a warp's channels are not adjacent."""
    each, warps = block.each.bit_length() - 1, block.warps.bit_length() - 1
    bits = range(block.channels.bit_length() - 1)
    return [[0, 0, 1 << (bit if not is_read else bit + warps if bit < each else bit - each)] for bit in bits]


def results_bases(block: GradientBlock, length: int, is_read: bool) -> list[list[int]]:
    """The layout in shared memory of a cotangent that is contiguous along results; see `shared_bases`. Results of eight tiles are
    128 bytes: `ldmatrix` loads them at once."""
    results = [[0, 1 << bit, 0] for bit in range(length.bit_length() - 1)]
    tiles = [[1 << bit, 0, 0] for bit in range(TILES.bit_length() - 1)]
    row = RESULTS.bit_length() - 1
    return results[:row] + tiles + results[row:] + _channels(block, is_read)


def shared_bases(block: GradientBlock, length: int, is_read: bool) -> list[list[int]]:
    """The layout of a block in shared memory: numbers that each bit of an address adds to [tile, position, channel].

    Copied channels stay adjacent. Threads that load together have neighbouring positions of four pairs of tiles. Those bits are
    exclusive-ored to the bits of a row's copies, so that the threads read different banks."""
    vector = block.vector.bit_length() - 1
    channels = _channels(block, is_read)
    positions = [[0, 1 << bit, 0] for bit in range(length.bit_length() - 1)]
    tiles = [[1 << bit, 0, 0] for bit in range(TILES.bit_length() - 1)]
    copies = channels[vector:]
    together = [tiles[1], tiles[2], *positions[1::-1]][: BANKS - vector]
    together[-1] = positions[0]
    swizzled, plain = together[: len(copies)], together[len(copies) :]
    rows = [[a ^ b for a, b in zip(row, own, strict=True)] for row, own in zip(swizzled, copies, strict=False)]
    rest = [row for row in (*tiles, *positions) if row not in together]
    return channels[:vector] + copies + plain + rows + rest
