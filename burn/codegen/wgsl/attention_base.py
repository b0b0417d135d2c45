"""The common part of attention and its gradients: a workgroup has a block of rows (or keys) and walks over blocks of the others.

256 invocations compute a block of 32 x 32 scores: four of a workgroup's own rows and one other each. Operands are staged 16
features at a time, so workgroup memory does not depend on the size of heads. The block's weights then lie in workgroup memory,
and an invocation accumulates some rows of a few columns: `Attended.accumulate`.

Vectors have four rows that are a quarter of the block apart, as those of contractions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from burn.codegen.wgsl.elements import f32
from burn.codegen.wgsl.printed import Opened
from burn.dialect.dims import Dim, LoopVar
from burn.kernels.body import Scalar, Write

BLOCK, LANES, FEATURES = 32, 256, 16
"""Rows of a block, invocations, and features that are staged at once."""

VECTORS = BLOCK // 4
PARTS = range(4)
STRIDE = FEATURES + 1
"""Of the others' features in memory: another number than a power of two spreads them over banks."""

DEEPEST = 256
"""The longest head: its accumulators are in registers."""

MINUS_INFINITY = f32(float("-inf"))
STAGED = (
    f"var<workgroup> staged: array<vec4<f32>, {FEATURES * VECTORS}>;",
    f"var<workgroup> others: array<f32, {BLOCK * STRIDE}>;",
    f"var<workgroup> weights: array<vec4<f32>, {BLOCK * VECTORS}>;",
)
"""Workgroup memory: the staged features of the own rows and of the others, and the weights."""

Bindings = list[tuple[LoopVar, str]]


class Attended:
    """own: the loops of the rows that a workgroup has; other: the loop of those that it walks over. `here` has the bindings of
    the own rows that an invocation has scores of, `loaded` of those that it stages."""

    def __init__(self, opened: Opened, own: Sequence[LoopVar], sizes: Sequence[LoopVar], other: LoopVar) -> None:
        """sizes: the loops of `own` with the values of their sizes."""
        self.opened, self.own, self.other = opened, tuple(own), other
        self.printer, self.code = opened.printer, opened.printer.code
        self.own_sizes = tuple(sizes)
        self.here: list[Bindings] = []
        self.loaded: list[Bindings] = []

    def begin(self, batch: Sequence[LoopVar], last_first: bool) -> None:
        """Prints the position of a workgroup and of its invocations. last_first: the last rows have the most work."""
        printer, code = self.printer, self.code
        code.line(f"let own = {self.opened.count(self.own, self.own_sizes)};")
        code.line(f"let down = (own + {BLOCK - 1}) / {BLOCK};")
        code.line(f"let first = ({'down - 1 - program % down' if last_first else 'program % down'}) * {BLOCK};")
        printer.walk_flat(batch, code.let("program / down", "batch"))
        code.line(f"let vector = lane % {VECTORS};")
        code.line(f"let other = lane / {VECTORS};")
        code.line(f"let feature = lane % {FEATURES};")
        code.line(f"let row = (lane / {FEATURES}) % {VECTORS};")
        self.here = [self._bound(f"first + vector + {part * VECTORS}") for part in PARTS]
        self.loaded = [self._bound(f"first + row + {part * VECTORS}") for part in PARTS]

    def _bound(self, index: str) -> Bindings:
        """The loops' indices of an own row; of the last one if there is no such row."""
        printer = self.printer
        with printer.scope():
            printer.walk_flat(self.own, self.code.let(f"min({index}, own - 1)", "i"))
            return [(loop, printer.bindings[loop]) for loop in self.own]

    def bind(self, bindings: Bindings) -> None:
        for loop, index in bindings:
            self.printer.put(loop, index)

    # ---- the walk ----------------------------------------------------------------------------------------------------------
    def walk(self, bounds: tuple[Dim, Dim], block: Callable[[], None]) -> None:
        """A loop over blocks of the others between bounds, which may depend on the own row. Inside, `start` is the block's first
        index and `count` its length."""
        printer, code = self.printer, self.code
        extent = printer.dim(self.other.extent)
        with code.block(""):
            low, high = self._bounds(bounds, extent)
            code.line(f"let beyond = min({high}, {extent});")
            with (
                code.block(f"for (var start = max({low}, 0); start < beyond; start = start + {BLOCK})"),
                printer.scope(),
            ):
                code.line(f"let count = min({BLOCK}, {extent} - start);")
                code.line(f"let index = min(start + other, {extent} - 1);")
                block()

    def _bounds(self, bounds: tuple[Dim, Dim], extent: str) -> tuple[str, str]:
        """The least lower and the largest upper bound of the own rows. They decide how often barriers are passed, so all
        invocations load them from workgroup memory."""
        printer, code = self.printer, self.code
        if bounds[0] == 0 and bounds[1] == self.other.extent:
            return "0", extent
        code.line("if (lane == 0) { atomicStore(&lowest, 2147483647); atomicStore(&highest, 0); }")
        code.line("workgroupBarrier();")
        with code.block(f"if (lane < {VECTORS})"):
            for bindings in self.here:
                with printer.scope():
                    self.bind(bindings)
                    code.line(f"atomicMin(&lowest, {printer.dim(bounds[0])});")
                    code.line(f"atomicMax(&highest, {printer.dim(bounds[1])});")
        code.line("workgroupBarrier();")
        code.line("if (lane == 0) { low = atomicLoad(&lowest); high = atomicLoad(&highest); }")
        return code.let("workgroupUniformLoad(&low)", "low"), code.let("workgroupUniformLoad(&high)", "high")

    def bounds_memory(self, bounds: tuple[Dim, Dim]) -> tuple[str, ...]:
        if bounds[0] == 0 and bounds[1] == self.other.extent:
            return ()
        return tuple(
            f"var<workgroup> {name};"
            for name in ("lowest: atomic<i32>", "highest: atomic<i32>", "low: i32", "high: i32")
        )

    # ---- scores ------------------------------------------------------------------------------------------------------------
    def dots(self, name: str, own: Scalar, other: Scalar, loop: LoopVar) -> None:
        """Declares a vector: the dot products of four own rows and one other, over the features of a loop."""
        printer, code = self.printer, self.code
        extent = int(loop.extent)  # type: ignore[arg-type]
        even = extent % FEATURES == 0
        code.line(
            f"var {name} = vec4<f32>();"
        )  # wgpu-native sets a variable without a value once, not in each iteration
        with code.block(f"for (var begin = 0; begin < {extent}; begin = begin + {FEATURES})"), printer.scope():
            code.line("let column = begin + feature;" if even else f"let column = min(begin + feature, {extent - 1});")
            code.line(f"let exists = {'true' if even else f'begin + feature < {extent}'};")
            printer.put(loop, "column")
            with code.block(f"if (lane < {LANES // 2})"):
                values = []
                for bindings in self.loaded:
                    with printer.scope():
                        self.bind(bindings)
                        values.append(printer.value(own))
                loaded = f"vec4<f32>({', '.join(values)})"
                at = f"feature * {VECTORS} + (row ^ (feature & {VECTORS - 1}))"
                code.line(f"staged[{at}] = {loaded if even else f'select(vec4<f32>(), {loaded}, exists)'};")
            with code.block("else"):
                for part in PARTS:
                    with printer.scope():
                        position = f"row + {part * VECTORS}" if part else "row"
                        printer.put(
                            self.other, code.let(f"min(start + {position}, {printer.dim(self.other.extent)} - 1)", "j")
                        )
                        value = printer.value(other)
                        value = value if even else f"select(0.0, {value}, exists)"
                        code.line(f"others[({position}) * {STRIDE} + feature] = {value};")
            code.line("workgroupBarrier();")
            with code.block(f"for (var k = 0; k < {FEATURES}; k = k + 1)"):
                code.line(f"let theirs = vec4<f32>(others[other * {STRIDE} + k]);")
                at = f"k * {VECTORS} + (vector ^ (k & {VECTORS - 1}))"
                code.line(f"{name} = fma(staged[{at}], theirs, {name});")
            code.line("workgroupBarrier();")

    def each(self, name: str, dots: str, value: Callable[[], str], otherwise: str) -> None:
        """Declares a vector of a value of four own rows and one other, which reads the dot products as accumulator."""
        printer, code = self.printer, self.code
        code.line(f"var {name} = vec4<f32>({otherwise});")
        with code.block("if (other < count)"), printer.scope():
            printer.put(self.other, "index")
            for part, bindings in zip("xyzw", self.here, strict=True):
                with printer.scope():
                    self.bind(bindings)
                    printer.accumulator = f"{dots}.{part}"
                    code.line(f"{name}.{part} = {value()};")

    # ---- sums --------------------------------------------------------------------------------------------------------------
    def sums(self, name: str, columns: int) -> Sums:
        return Sums(self, name, columns)

    def accumulate(self, *steps: tuple[Sums, str, Scalar, LoopVar]) -> None:
        """Adds weights * values of the block's others: (sums, the weights' memory, values, the loop of their columns)."""
        printer, code = self.printer, self.code
        with code.block("for (var j = 0; j < count; j = j + 1)"), printer.scope():
            printer.put(self.other, code.let("start + j", "j"))
            for sums, memory, values, loop in steps:
                weights = [
                    code.let(f"{memory}[j * {VECTORS} + {sums.vector(r)}]", "weight") for r in range(sums.vectors)
                ]
                for i in range(sums.passes):
                    with printer.scope():
                        printer.put(loop, sums.column(i))
                        value = code.let(f"vec4<f32>({printer.value(values)})", "value")
                    for r, weight in enumerate(weights):
                        code.line(f"{sums.total(r, i)} = fma({weight}, {value}, {sums.total(r, i)});")


class Sums:
    """Accumulators [own rows, columns] of a workgroup: an invocation has `vectors` vectors of rows, of `passes` columns."""

    def __init__(self, attended: Attended, name: str, columns: int) -> None:
        self.attended, self.name, self.columns = attended, name, columns
        self.across = 64 if columns > 32 else 32
        self.vectors = VECTORS * self.across // LANES
        self.passes = -(-columns // self.across)
        code = attended.code
        for i in range(self.passes):
            position = f"lane % {self.across} + {i * self.across}"
            text = position if columns % self.across == 0 else f"min({position}, {columns - 1})"
            code.line(f"let {self.column(i)} = {text};")
            for r in range(self.vectors):
                code.line(f"var {self.total(r, i)} = vec4<f32>();")

    def total(self, vector: int, pass_: int) -> str:
        return f"{self.name}{vector}_{pass_}"

    def column(self, pass_: int) -> str:
        return f"{self.name}_column{pass_}"

    def vector(self, number: int) -> str:
        """The number of a vector of own rows."""
        first = f"(lane / {self.across})"
        return first if self.vectors == 1 else f"({first} * {self.vectors} + {number})"

    def scale(self, factors: Callable[[str], str]) -> None:
        """Multiplies by a vector of factors of the rows, given the number of a vector."""
        for r in range(self.vectors):
            factor = self.attended.code.let(factors(self.vector(r)), "factor")
            for i in range(self.passes):
                self.attended.code.line(f"{self.total(r, i)} = {self.total(r, i)} * {factor};")

    def write(self, loop: LoopVar, writes: Sequence[Write]) -> None:
        """Writes read an element as accumulator."""
        printer, code = self.attended.printer, self.attended.code
        if not writes:
            return
        for i in range(self.passes):
            for r in range(self.vectors):
                for number, part in enumerate("xyzw"):
                    with ExitStack() as stack:
                        row = code.let(f"first + {self.vector(r)} + {number * VECTORS}", "row")
                        test = f"{row} < own"
                        if self.columns % self.across:
                            test += f" && lane % {self.across} + {i * self.across} < {self.columns}"
                        stack.enter_context(code.block(f"if ({test})"))
                        stack.enter_context(printer.scope())
                        printer.walk_flat(self.attended.own, row)
                        printer.put(loop, self.column(i))
                        printer.accumulator = f"{self.total(r, i)}.{part}"
                        for write in writes:
                            printer.store(write)
