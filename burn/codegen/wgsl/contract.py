"""Prints contractions: a workgroup computes a tile of the result, and stages blocks of both operands in its memory.

An invocation has a block of `high` rows and `wide` columns of the tile. Its sums are vectors of four columns. If the tile is
small, several invocations (`slices`) have the same block and divide the depth among them. `emit` is the entry point.

A vector of an operand in workgroup memory has four rows (or columns) that are a quarter of the tile apart. So neighbouring
invocations load neighbouring elements of the heap, and store whole vectors: stores to components of one vector by several
invocations may collide."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from burn.codegen.wgsl.elements import register
from burn.codegen.wgsl.heuristics import Tile
from burn.codegen.wgsl.printed import Printed, opened
from burn.codegen.wgsl.scalars import is_tested
from burn.dialect.dims import Dim, LoopVar, ceildiv, coefficient, product
from burn.dialect.types import DTYPES
from burn.kernels.body import ContractionKernel, Load, Scalar, walk

TILED = ("float32", "int32", "uint32")
"""Types of accumulators."""

PARTS = range(4)
"""The elements of a vector."""


def emit(
    kernel: ContractionKernel,
    values: Mapping[str, Dim],
    sizes: ContractionKernel,
    tile: Tile,
    sites: list[str],
) -> Printed:
    """values: the values of the kernel's sizes; sizes: the kernel with these values."""
    return _Contract(kernel, values, sizes, tile, sites).print()


@dataclass(frozen=True)
class _Side:
    """One operand of a tile. first: the index of the tile's first row (column); count: the number of all; size: rows of the tile;
    at: the position in memory of its vectors. A step of the depth has `vectors`."""

    name: str
    operand: Scalar
    loops: tuple[LoopVar, ...]
    first: str
    count: str
    size: int
    at: int
    along_depth: bool

    @property
    def vectors(self) -> int:
        return self.size // 4

    def vector(self, step: str, number: str) -> str:
        """The position of a vector. Those of an operand that is loaded along the depth are permuted, so that the stores of
        neighbouring invocations are in different banks."""
        number = f"({number} ^ ({step} & 7))" if self.along_depth and self.vectors >= 8 else number
        return f"{self.at} + {step} * {self.vectors} + {number}" if self.at else f"{step} * {self.vectors} + {number}"


@dataclass(frozen=True)
class _Step:
    """A step of the depth that an invocation loads, by its number in a block. indices: variables of the depth's loops."""

    number: str
    indices: tuple[tuple[LoopVar, str], ...]


@dataclass(frozen=True)
class _Held:
    """A vector that an invocation loads. name: the variable of its elements. exists: the variable with a bit for each element
    that exists, empty if elements are not tested. step, vector: its position in a block."""

    name: str
    exists: str
    step: _Step
    vector: str


@dataclass(frozen=True)
class _Stage:
    """Functions that print an operand's part of a block: the loads from memory into variables, and their stores to workgroup
    memory."""

    load: Callable[[], None]
    store: Callable[[], None]


class _Contract:
    def __init__(
        self,
        kernel: ContractionKernel,
        values: Mapping[str, Dim],
        sizes: ContractionKernel,
        tile: Tile,
        sites: list[str],
    ) -> None:
        self.kernel, self.sizes, self.tile = kernel, sizes, tile
        self.opened = opened(kernel, values, sizes, sites)
        self.printer, self.code = self.opened.printer, self.opened.printer.code
        self.type = register(kernel.dtype)
        self.vector = f"vec4<{self.type}>"

    def print(self) -> Printed:
        kernel, printer, code, tile = self.kernel, self.printer, self.code, self.tile
        rows = code.let(self.opened.count(kernel.rows, self.sizes.rows), "rows")
        columns = code.let(printer.dim(kernel.column.extent), "columns")
        depth = code.let(self.opened.count(kernel.depth, self.sizes.depth), "depth")
        down = code.let(f"({rows} + {tile.rows - 1}) / {tile.rows}", "down")
        across = code.let(f"({columns} + {tile.columns - 1}) / {tile.columns}", "across")
        column = code.let(f"(program % {across}) * {tile.columns}", "column")
        row = code.let(f"((program / {across}) % {down}) * {tile.rows}", "row")
        printer.walk_flat(kernel.batch, code.let(f"program / ({across} * {down})", "batch"))
        inner = kernel.depth[-1] if kernel.depth else None
        left = _Side("lhs", kernel.lhs, kernel.rows, row, rows, tile.rows, 0, _is_contiguous(kernel.lhs, inner))
        right = _Side(
            "rhs",
            kernel.rhs,
            (kernel.column,),
            column,
            columns,
            tile.columns,
            tile.rows // 4 * tile.depth,
            _is_contiguous(kernel.rhs, inner),
        )
        self._lanes()
        for number in range(tile.vectors):
            code.line(f"var sum{number} = {self.vector}();")
        if tile.depth:
            self._staged(left, right, depth)
        else:
            self._direct(left, right)
        if tile.slices > 1:
            self._share()
        self._finish(left, right)
        shared = [f"var<workgroup> block: array<{self.vector}, {tile.memory // 16}>;"] if tile.memory else []
        counts = [product([v.extent for v in loops]) for loops in (self.sizes.batch, self.sizes.rows)]
        groups = counts[0] * ceildiv(counts[1], tile.rows) * ceildiv(self.sizes.column.extent, tile.columns)
        about = f"A tile of {tile.rows} rows and {tile.columns} columns for each workgroup."
        return self.opened.closed(about, groups, tile.lanes, shared)

    def _lanes(self) -> None:
        """`down` and `right`: the position of an invocation's block. Neighbours write neighbouring elements."""
        code, tile = self.code, self.tile
        at = "lane"
        if tile.slices > 1:
            code.line(f"let slice = lane / {tile.blocks};")
            at = code.let(f"lane % {tile.blocks}", "at")
        last = self.kernel.rows[-1] if self.kernel.rows else None
        offsets = [write.offset for write in self.kernel.epilogue]
        if last is not None and any(coefficient(offset, last) == 1 for offset in offsets):
            code.line(f"let block_row = {at} % {tile.down};")
            code.line(f"let block_column = {at} / {tile.down};")
        else:
            code.line(f"let block_row = {at} / {tile.across};")
            code.line(f"let block_column = {at} % {tile.across};")

    def _staged(self, left: _Side, right: _Side, depth: str) -> None:
        code, tile = self.code, self.tile
        stages = [self._stage(side, depth) for side in (left, right)]
        # a block's loads are under way while the block before is multiplied
        with code.block(f"for (var start = {-tile.depth}; start < {depth}; start = start + {tile.depth})"):
            code.line(f"let next = start + {tile.depth};")
            with code.block(f"if (next < {depth})"):
                for stage in stages:
                    stage.load()
            with code.block("if (start >= 0)"):
                self._multiply(left, right)
            code.line("workgroupBarrier();")
            with code.block(f"if (next < {depth})"):
                for stage in stages:
                    stage.store()
            code.line("workgroupBarrier();")

    def _direct(self, left: _Side, right: _Side) -> None:
        """Each invocation loads its rows and columns at each step of the depth. Those that do not exist have the last one's
        elements, and their sums are not stored."""
        printer, code, tile = self.printer, self.code, self.tile
        rows = [self._row(left, _at("block_row", h * tile.down), part) for h in range(tile.high // 4) for part in PARTS]
        columns = [
            self._row(right, _at("block_column", w * tile.across), part)
            for w in range(tile.wide // 4)
            for part in PARTS
        ]

        def value(side: _Side, at: Sequence[tuple[LoopVar, str]]) -> str:
            with printer.scope():
                for loop, index in at:
                    printer.put(loop, index)
                return printer.value(side.operand)

        with ExitStack() as nest:
            for loop in self.kernel.depth:
                index = code.fresh("k")
                nest.enter_context(
                    code.block(f"for (var {index} = 0; {index} < {printer.dim(loop.extent)}; {index} = {index} + 1)")
                )
                nest.enter_context(printer.scope())
                printer.put(loop, index)
            values = [value(right, at) for at in columns]
            rhs = [
                code.let(f"{self.vector}({', '.join(values[4 * w : 4 * w + 4])})", "right")
                for w in range(tile.wide // 4)
            ]
            for number, at in enumerate(rows):
                one = code.let(f"{self.vector}({value(left, at)})", "one")
                for w, vector in enumerate(rhs):
                    total = f"sum{number * len(rhs) + w}"
                    code.line(f"{total} = {self._fma(one, vector, total)};")

    def _stage(self, side: _Side, depth: str) -> _Stage:
        """Prints the indices of the rows (columns) that an invocation loads, and variables for a block's vectors, before the loop
        over the depth. Rows that do not exist have the last one's elements, and their sums are not stored."""
        code, tile = self.code, self.tile
        count = side.vectors * tile.depth
        passes = -(-count // tile.lanes)
        steps: dict[str, _Step] = {}
        own: list[tuple[_Step, str]] = []  # the step of the depth and the vector of each pass
        for number in range(passes):
            linear = f"(lane + {number * tile.lanes})" if number else "lane"
            if side.along_depth:
                step = f"{'lane' if tile.lanes % tile.depth == 0 else linear} % {tile.depth}"
                vector = code.let(f"{linear} / {tile.depth}", side.name)
            else:
                same = number and tile.lanes % side.vectors == 0
                step = f"{linear} / {side.vectors}"
                vector = own[0][1] if same else code.let(f"{linear} % {side.vectors}", side.name)
            if step not in steps:
                steps[step] = self._step(code.let(step, "k"))
            own.append((steps[step], vector))
        rows: dict[str, list[list[tuple[LoopVar, str]]]] = {}
        for _, vector in own:
            if vector not in rows:
                rows[vector] = [self._row(side, vector, part) for part in PARTS]

        held = [
            _Held(
                code.variable(self.vector, prefix=side.name),
                code.variable("u32", prefix="exists") if is_tested(side.operand) else "",
                step,
                vector,
            )
            for step, vector in own
        ]

        def each(print_one: Callable[[_Held], None]) -> None:
            for number, one in enumerate(held):
                if (number + 1) * tile.lanes <= count:
                    print_one(one)
                else:
                    with code.block(f"if (lane < {count - number * tile.lanes})"):
                        print_one(one)

        def load() -> None:
            each(lambda one: self._load(side, one, rows[one.vector], depth))
            for step in steps.values():
                self._advance(step)

        return _Stage(load, lambda: each(lambda one: self._store(side, one, depth)))

    def _step(self, number: str) -> _Step:
        """Prints variables with the indices of the depth's loops at a step of the first block. They advance by additions, as
        divisions by sizes are slow. A single loop needs none."""
        printer, code = self.printer, self.code
        loops = [loop for loop in self.kernel.depth if loop.extent != 1]
        if len(loops) < 2:
            return _Step(number, ())
        with printer.scope():
            printer.walk_flat(loops, number)
            return _Step(number, tuple((v, code.variable("i32", printer.bindings[v], "at")) for v in loops))

    def _advance(self, step: _Step) -> None:
        code = self.code
        for position, (loop, index) in reversed(list(enumerate(step.indices))):
            if position == len(step.indices) - 1:
                code.line(f"{index} = {index} + {self.tile.depth};")
            if position:
                extent, outer = self.printer.dim(loop.extent), step.indices[position - 1][1]
                code.line(f"while ({index} >= {extent}) {{ {index} = {index} - {extent}; {outer} = {outer} + 1; }}")

    def _load(self, side: _Side, one: _Held, rows: Sequence[Sequence[tuple[LoopVar, str]]], depth: str) -> None:
        """Loads a vector of the block at `next`. Tests of elements are noted, so that nothing here waits for the loads."""
        printer, code = self.printer, self.code
        with printer.scope():
            if one.step.indices:
                for loop in self.kernel.depth:
                    printer.put(loop, "0")
                (outer, index), *inner = one.step.indices
                printer.put(outer, code.let(f"min({index}, {printer.dim(outer.extent)} - 1)", "k"))
                for loop, at in inner:
                    printer.put(loop, at)
            else:
                printer.walk_flat(self.kernel.depth, code.let(f"min(next + {one.step.number}, {depth} - 1)", "k"))
            values, tests = [], []
            for row in rows:
                with printer.scope():
                    for loop, index in row:
                        printer.put(loop, index)
                    value, test = printer.loaded(side.operand)
                    values.append(value)
                    tests.append(test)
            code.line(f"{one.name} = {self.vector}({', '.join(values)});")
            if one.exists:
                bits = " | ".join(f"select(0u, {1 << part}u, {test})" for part, test in enumerate(tests))
                code.line(f"{one.exists} = {bits};")

    def _store(self, side: _Side, one: _Held, depth: str) -> None:
        """Stores a vector to workgroup memory: zero beyond the depth."""
        value = one.name
        if one.exists:
            tests = f"(vec4<u32>({one.exists}) & vec4<u32>(1u, 2u, 4u, 8u)) != vec4<u32>()"
            value = f"select({self.vector}({self.printer.untested(side.operand)}), {value}, {tests})"
        at = side.vector(one.step.number, one.vector)
        self.code.line(f"block[{at}] = select({self.vector}(), {value}, next + {one.step.number} < {depth});")

    def _row(self, side: _Side, vector: str, part: int) -> list[tuple[LoopVar, str]]:
        printer, code = self.printer, self.code
        offset = f" + {part * side.vectors}" if part else ""
        with printer.scope():
            printer.walk_flat(side.loops, code.let(f"min({side.first} + {vector}{offset}, {side.count} - 1)", "i"))
            return [(loop, printer.bindings[loop]) for loop in side.loops]

    def _multiply(self, left: _Side, right: _Side) -> None:
        code, tile = self.code, self.tile
        with code.block(f"for (var j = 0; j < {tile.depth // tile.slices}; j = j + 1)"):
            step = "j" if tile.slices == 1 else code.let(f"j * {tile.slices} + slice", "k")
            for h in range(tile.high // 4):
                code.line(f"let left{h} = block[{left.vector(step, _at('block_row', h * tile.down))}];")
            for w in range(tile.wide // 4):
                code.line(f"let right{w} = block[{right.vector(step, _at('block_column', w * tile.across))}];")
            for h in range(tile.high // 4):
                for part in PARTS:
                    code.line(f"let one{h}_{part} = {self.vector}(left{h}.{'xyzw'[part]});")
                    for w in range(tile.wide // 4):
                        total = f"sum{(h * 4 + part) * (tile.wide // 4) + w}"
                        code.line(f"{total} = {self._fma(f'one{h}_{part}', f'right{w}', total)};")

    def _fma(self, a: str, b: str, c: str) -> str:
        return f"fma({a}, {b}, {c})" if DTYPES[self.kernel.dtype].kind == "float" else f"{c} + {a} * {b}"

    def _share(self) -> None:
        """The sums of all slices, in workgroup memory: vector by vector, those of a slice together."""
        tile = self.tile
        for number in range(tile.vectors):
            self.code.line(f"block[(slice * {tile.vectors} + {number}) * {tile.blocks} + at0] = sum{number};")
        self.code.line("workgroupBarrier();")

    def _finish(self, left: _Side, right: _Side) -> None:
        """The epilogue, for a vector of the result at a time: the loop keeps the text short."""
        code, tile = self.code, self.tile
        most = tile.vectors if tile.slices == 1 else -(-tile.vectors // tile.slices)
        with code.block(f"for (var turn = 0; turn < {most}; turn = turn + 1)"):
            code.line(f"var sum = {self.vector}();")
            if tile.slices == 1:
                code.line("let number = turn;")
                with code.block("switch (number)"):
                    for number in range(tile.vectors):
                        head = f"case {number}" if number < tile.vectors - 1 else "default"
                        code.line(f"{head}: {{ sum = sum{number}; }}")
            else:
                code.line(f"let number = turn * {tile.slices} + slice;")
                code.line(f"if (number >= {tile.vectors}) {{ break; }}")
                with code.block(f"for (var s = 0; s < {tile.slices}; s = s + 1)"):
                    code.line(f"sum = sum + block[(s * {tile.vectors} + number) * {tile.blocks} + at0];")
            wide = tile.wide // 4
            row = f"{left.first} + block_row + (number / {4 * wide}) * {tile.down} + ((number / {wide}) % 4) * {left.vectors}"
            column = f"{right.first} + block_column + (number % {wide}) * {tile.across}"
            self._vector(code.let(row, "y"), left.count, code.let(column, "x"), right)

    def _vector(self, row: str, rows: str, column: str, right: _Side) -> None:
        """The epilogue of four elements of a row. All values are computed before the first is stored."""
        kernel, printer, code = self.kernel, self.printer, self.code
        columns = [column, *(code.let(f"{column} + {part * right.vectors}", "x") for part in PARTS[1:])]
        with code.block(f"if ({row} < {rows})"), printer.scope():
            printer.walk_flat(kernel.rows, row)
            stores: list[list[str]] = []
            for part in PARTS:
                with printer.scope():
                    printer.put(kernel.column, code.let(f"min({columns[part]}, {right.count} - 1)", "x"))
                    printer.accumulator = f"sum.{'xyzw'[part]}"
                    stores.append([printer.stored(write) for write in kernel.epilogue])
            for at, lines in zip(columns, stores, strict=True):
                with code.block(f"if ({at} < {right.count})"):
                    for line in lines:
                        code.line(line)


def _at(name: str, offset: int) -> str:
    return f"({name} + {offset})" if offset else name


def _is_contiguous(operand: Scalar, loop: LoopVar | None) -> bool:
    """True if an operand's elements are contiguous along a loop."""
    loads = [node.offset for node in walk(operand) if isinstance(node, Load)]
    return loop is not None and any(coefficient(offset, loop) == 1 for offset in loads)
