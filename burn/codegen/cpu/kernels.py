"""From kernel descriptions to functions, each distinct one printed once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, TypeAlias

from burn.codegen.cpu import attention, attention_gradient, candidates, loops
from burn.codegen.cpu.candidates import ALWAYS, BY_TIME, NEVER, Implementation
from burn.codegen.cpu.heuristics.amx import (
    FEWEST_SIZES,
    across_panels,
    amx_conditions,
    amx_pays,
    bytes_pay,
    few_bits_sizes,
    tile_groups,
)
from burn.codegen.cpu.heuristics.lanes import as_read, choose_lane, lanes_for
from burn.codegen.cpu.heuristics.launches import grain_for, work
from burn.codegen.cpu.heuristics.panels import panel_width
from burn.codegen.cpu.heuristics.preferences import preferences_of
from burn.codegen.cpu.heuristics.registers import few_rows, more_rows
from burn.codegen.cpu.matmul import amx, dot_products, gemm, gemv
from burn.codegen.cpu.matmul.blockwise import WORD, Blockwise
from burn.codegen.cpu.matmul.schedule import Schedule
from burn.codegen.cpu.matmul.tiling import Tiled, panels_of
from burn.codegen.cpu.scalars import short_rows
from burn.codegen.cpu.sliding import as_windows
from burn.codegen.cpu.target import Target
from burn.codegen.host.calls import Address
from burn.codegen.host.emit import Int, Value
from burn.codegen.host.entry import EntryBuilder, some
from burn.codegen.host.launches import THREADS, Launch, Launches
from burn.codegen.tuning.choices import DEFAULT, NO_CHOICE, Choice, Choices, digest
from burn.dialect.control import Group
from burn.dialect.custom import Custom
from burn.dialect.dims import Dim, factor, product, symbol, symbols
from burn.errors import CompileError, unreachable
from burn.kernels.body import (
    AttentionGradientKernel,
    AttentionKernel,
    ContractionKernel,
    Kernel,
    LoopKernel,
    has_dropout,
)
from burn.kernels.builders import kernels
from burn.kernels.excess import coarsened, without_rounding
from burn.kernels.parameters import SMALL, argument_names, fingerprint, parametrize
from burn.kernels.requantize import in_registers
from burn.kernels.rewrite import as_loops, collapse, copied, divided, lengthen
from burn.kernels.text import kernel_text
from burn.runtime.memory import HOST


@dataclass(frozen=True)
class Emitted:
    """A function to launch: its name, its size arguments (after the buffers), and the iterations of a launch.
    `grain` is the fewest iterations worth another thread, negative if a thread takes all its iterations at once
    (`burn_rt_launch`). copied: the source and destination of a kernel that only copies."""

    name: str
    sizes: tuple[Dim, ...]
    count: Dim
    grain: Dim
    copied: tuple[int, int] | None = None

    def print(self, entry: EntryBuilder, buffers: Sequence[Address | None], record: int, made: Int) -> None:
        """See `burn.codegen.host.launches.Launch`."""
        if self.is_by_threads:
            entry.pass_threads()
        if self.copied is not None:
            source, target = (some(buffers[i]) for i in self.copied)
            if not entry.calls.differ(source, target):
                # nothing to copy if an output shares the memory of a donated input
                addresses = [entry.code.word(entry.calls.reached(address)) for address in (source, target)]
                there = entry.code.cmp("eq", *addresses)
                made = entry.code.select(there, entry.code.value(0), entry.code.value(made))
        sizes, count, grain = entry.calls.once((id(self), made), lambda: self._sizes(entry, made))
        words = [*(b for b in buffers if b is not None), *sizes]
        entry.calls.launch(record, self.name, words, count, grain)

    def _sizes(self, entry: EntryBuilder, made: Int) -> tuple[list[Int], Int, Int]:
        """The arguments after the buffers, the number of iterations and the fewest for a thread."""
        sizes = [entry.sizes.dim(s) for s in self.sizes]
        count, grain = entry.sizes.dim(self.count), entry.sizes.dim(self.grain)
        return sizes, entry.unless_none(made, count), grain

    @cached_property
    def is_by_threads(self) -> bool:
        """True if a size of the launch depends on the number of threads."""
        return any(symbols(size) & symbols(THREADS) for size in (*self.sizes, self.count))


Condition = tuple[tuple[Dim, int], ...]
"""Sizes, known at run time, each with its required minimum."""


@dataclass(frozen=True)
class Either:
    """Functions for one kernel, selected at run time: the first option whose condition holds, or the last."""

    options: tuple[tuple[Condition, Emitted], ...]
    last: Emitted

    @staticmethod
    def of(*options: tuple[Condition, Emitted | Either]) -> Emitted | Either:
        """The first function whose condition holds; the last has none."""
        found: list[tuple[Condition, Emitted]] = []
        for conditions, option in options:
            if isinstance(option, Either):
                found += [((*conditions, *more), function) for more, function in (*option.options, ((), option.last))]
            else:
                found.append((conditions, option))
        whole = next(i for i, (conditions, _) in enumerate(found) if not conditions)
        return Either(tuple(found[:whole]), found[whole][1]) if whole else found[0][1]

    def print(self, entry: EntryBuilder, buffers: Sequence[Address | None], record: int, made: Int) -> None:
        function, sizes, count, grain = entry.calls.once((id(self), made), lambda: self._chosen(entry, made))
        entry.calls.launch(record, function, [*(b for b in buffers if b is not None), *sizes], count, grain)

    def _chosen(self, entry: EntryBuilder, made: Int) -> tuple[Value, list[Int], Int, Int]:
        """The selected function, its arguments after the buffers, the number of iterations and the fewest for a thread."""
        code = entry.code
        functions = [*(function for _, function in self.options), self.last]
        conditions = [size for conditions, _ in self.options for size, _ in conditions]
        if any(symbols(size) & symbols(THREADS) for size in conditions) or any(f.is_by_threads for f in functions):
            entry.pass_threads()
        tests = [self._fits(entry, conditions) for conditions, _ in self.options]

        def chosen(values: Sequence[Int]) -> Int:
            value = values[-1]
            for test, other in zip(reversed(tests), reversed(values[:-1]), strict=True):
                value = value if value == other else code.select(test, code.value(other), code.value(value))
            return value

        length = max(len(f.sizes) for f in functions)  # arguments that a function does not read are arbitrary
        longest = next(f for f in functions if len(f.sizes) == length)
        sizes = [[entry.sizes.dim(s) for s in (*f.sizes, *longest.sizes[len(f.sizes) :])] for f in functions]
        addresses = [entry.calls.kernel(f.name) for f in functions]
        function = chosen(addresses)
        assert isinstance(function, Value)
        count = chosen([entry.sizes.dim(f.count) for f in functions])
        grain = chosen([entry.sizes.dim(f.grain) for f in functions])
        return function, [chosen(each) for each in zip(*sizes, strict=True)], entry.unless_none(made, count), grain

    @staticmethod
    def _fits(entry: EntryBuilder, conditions: Condition) -> Value:
        code = entry.code
        first, *rest = (code.cmp("sge", code.value(entry.sizes.dim(size)), least) for size, least in conditions)
        for test in rest:
            first = code.op("arith.andi", first, test)
        return first


@dataclass(frozen=True)
class Noted:
    """A launch that records which choice it depends on."""

    launch: Launch
    key: str
    chosen: dict[int, str]

    def print(self, entry: EntryBuilder, buffers: Sequence[Address | None], record: int, made: Int) -> None:
        self.chosen[record] = self.key
        self.launch.print(entry, buffers, record, made)


Emit: TypeAlias = Callable[[list[str]], str]
"""Prints a kernel's function, adding the names of source nodes that it refers to by number."""

TEXTS = 256
"""Functions whose text is remembered."""

_texts: dict[tuple[str, Target], str] = {}


class KernelPrinter:
    """The functions of one program. See `burn.codegen.host.launches.Kernels`. `chosen` is the key of the choice that each
    launch depends on, by the launch's record."""

    memory = HOST

    def __init__(
        self, target: Target, sites: list[str] | None = None, largest_constant: int = SMALL, choices: Choices = DEFAULT
    ) -> None:
        """largest_constant: greater numbers become arguments. choices: the kernels' variants; size-optimised code uses the
        defaults."""
        self.target, self.sites, self.largest_constant = target, [] if sites is None else sites, largest_constant
        self.choices = DEFAULT if target.small or target.compact else choices
        self.chosen: dict[int, str] = {}
        self.functions: list[str] = []
        self._known: dict[str, tuple[str, tuple[str, ...]]] = {}

    def group(self, group: Group) -> Launches:
        calls = kernels(group, preferences_of(self.target))
        return Launches.of(calls, [self.print(call.kernel) for call in calls])

    def custom(self, entry: EntryBuilder, op: Custom) -> None:
        raise CompileError(f"internal: {op.called} has kernels of another device")

    def variant(self, group: Group) -> None:
        """CPU kernels have no variant for a whole group."""

    def print(self, kernel: Kernel) -> Launch:
        kernel = in_registers(collapse(coarsened(without_rounding(kernel)) if self.target.mixed else kernel))
        choice = self.choices.of(lambda: digest(kernel_text(kernel)))
        launch = self._printed(kernel, choice)
        return Noted(launch, choice.key, self.chosen) if choice.key else launch

    def _printed(self, kernel: Kernel, choice: Choice) -> Emitted | Either:
        match kernel:
            case ContractionKernel():
                return self._contraction(kernel, choice)
            case AttentionKernel():
                return self._attention(kernel, attention, candidates.attention_blocks, choice)
            case AttentionGradientKernel():
                return self._attention(kernel, attention_gradient, candidates.gradient_blocks, choice)
            case LoopKernel():
                return self._loops(kernel, choice)
            case other:
                raise unreachable(other)

    def _loops(self, kernel: LoopKernel, choice: Choice = NO_CHOICE) -> Emitted:
        apart = divided(kernel)
        schedule = loops.Schedule.of(apart, self.target)
        if schedule.interleaves:
            return self._looped(apart, schedule)
        if apart is not kernel:
            schedule = loops.Schedule.of(kernel, self.target)
        if self.target.compact:
            return self._looped(kernel, schedule)
        longer = as_read(lengthen(kernel, lanes_for(kernel, self.target, choose_lane(kernel, self.target))))
        if not schedule.across:
            schedule = loops.Schedule.of(longer, self.target)
            return self._looped(longer, choice.pick(schedule, lambda: candidates.cuts(longer, schedule, self.target)))
        picked = choice.pick(schedule, lambda: [candidates.without_transposes(longer, self.target)])
        # the alternative may also use `across`: it interleaves
        return self._looped(kernel if picked == schedule else longer, picked)

    def _looped(self, kernel: LoopKernel, schedule: loops.Schedule) -> Emitted:
        iterations = schedule.lanes if schedule.across else 1 if schedule.adjacent is None else schedule.adjacent.count
        grain = grain_for(
            work(kernel, schedule.lane, schedule.chunk, self.target.costs) * iterations, self.target.costs
        )
        kept = short_rows(kernel) if "avx512f" in self.target.features else set[int]()
        if schedule.adjacent is not None:
            kept |= schedule.adjacent.strides(kernel)
        general, values = parametrize(kernel, kept=kept, largest_constant=self.largest_constant)
        emit = partial(loops.emit, general, schedule, self.target)
        return replace(
            self._emitted(general, schedule, values, emit, schedule.count(kernel), grain), copied=copied(kernel)
        )

    def _contraction(self, kernel: ContractionKernel, choice: Choice) -> Emitted | Either:
        blocks = Blockwise.of(kernel)
        if blocks is not None:
            return self._blocks(kernel, blocks, choice)
        dots = dot_products.Schedule.of(kernel, self.target)
        if dots is not None:
            return self._dots(kernel, dots)
        fits = panels_of(kernel) in (0, amx.WIDTH)
        conditions = amx_conditions(kernel, self.target) if fits else None
        fewest = conditions
        if fits and conditions is None and choice.key:
            fewest = amx_conditions(kernel, self.target, FEWEST_SIZES)
        order = self._order(kernel)
        default_order = order if as_windows(kernel, order, self.target) is None else None
        default = Implementation(NEVER if conditions is None else BY_TIME, default_order)
        picked = choice.pick(
            default, lambda: candidates.implementations(kernel, default, order, fewest is not None, self.target)
        )
        if picked.tiles == NEVER or fewest is None:
            return self._for_any_rows(kernel, picked.order, choice)
        launches = self._tiles(kernel, fewest, picked.tiles == ALWAYS)
        if not launches[-1][0]:
            return Either.of(*launches)
        return Either.of(*launches, ((), self._for_any_rows(kernel, picked.order, choice)))

    def _order(self, kernel: ContractionKernel, width: int = 0) -> Schedule | None:
        """The default order of a matmul's tiles; None if it has none."""
        tiled = Tiled.of(kernel, width or panels_of(kernel) or panel_width(kernel, self.target))
        return None if tiled is None else Schedule.of(tiled, self.target)

    def _for_any_rows(self, kernel: ContractionKernel, order: Schedule | None, choice: Choice) -> Emitted | Either:
        """If the number of rows is known only at run time, a single row gets code of its own: it is bound by memory
        bandwidth."""
        if order is None:
            windows = as_windows(kernel, self._order(kernel), self.target)
            return self._loops(as_loops(kernel), choice) if windows is None else self._loops(windows)
        rows = product([v.extent for v in kernel.rows])
        may_be_one = not isinstance(rows, int) and factor(rows) == 1 and len(kernel.depth) == 1
        if not may_be_one or not panels_of(kernel) or self.target.is_size_bound or self.target.small:
            return self._vectors(kernel, order)
        tiled = Tiled.of(kernel, order.width)
        assert tiled is not None
        alone = Schedule.of(tiled, self.target, one_by_one=True)
        return Either.of((((rows, 2),), self._vectors(kernel, order)), ((), self._vectors(kernel, alone)))

    def _tiles(
        self, kernel: ContractionKernel, enough: Condition, always: bool = False
    ) -> list[tuple[Condition, Emitted]]:
        """One function, launched over strips of rows or over panels, if there is enough work and the cost model (or
        `always`) chooses it."""
        tiled = Tiled.of(kernel, amx.WIDTH)
        assert tiled is not None
        schedule = amx.Schedule.of(tiled, self.target)
        general, values = parametrize(
            kernel, {kernel.column: amx.WIDTH}, {tiled.run, amx.WIDTH * tiled.run}, self.largest_constant
        )
        emit = partial(amx.emit, general, schedule, self.target)

        def launched(across: bool) -> tuple[Condition, Emitted]:
            units, others = schedule.units(tiled, across)
            groups = tile_groups(units, others)
            emitted = self._emitted(general, schedule, values, emit, units * groups, -1)
            condition = (
                bytes_pay(units, others, groups, tiled.dtype)
                if tiled.run > 1
                else amx_pays(units, others, groups, self.target.costs)
            )
            conditions = () if always else condition
            return conditions, replace(emitted, sizes=(*emitted.sizes, int(across), groups))

        match across_panels(product([v.extent for v in tiled.rows]), tiled.column.extent):
            case bool() as across:
                found = [launched(across)]
            case more:
                (conditions, over_panels), over_strips = launched(True), launched(False)
                found = [((*more, *conditions), over_panels), over_strips]
        return [((*enough, *conditions), launch) for conditions, launch in found]

    def _dots(self, kernel: ContractionKernel, schedule: dot_products.Schedule) -> Emitted:
        tiled = Tiled.of(kernel, schedule.width)
        assert tiled is not None
        grain = grain_for(schedule.work(tiled), self.target.costs)
        tiles = {kernel.column: schedule.width, tiled.inner: schedule.lanes}
        general, values = parametrize(kernel, tiles, largest_constant=self.largest_constant)
        emit = partial(dot_products.emit, general, schedule, self.target)
        return self._emitted(general, schedule, values, emit, schedule.count(tiled), grain)

    def _vectors(self, kernel: ContractionKernel, schedule: Schedule) -> Emitted:
        width = schedule.width
        tiled = Tiled.of(kernel, width)
        assert tiled is not None
        grain = grain_for(schedule.work(tiled), self.target.costs, schedule.least(self.target))
        kept = {width * WORD} if tiled.blocks is not None else {tiled.run, width * tiled.run}
        general, values = parametrize(kernel, {kernel.column: width}, kept, self.largest_constant)
        emit = partial(gemm.emit, general, schedule, self.target)
        return self._emitted(general, schedule, values, emit, schedule.count(tiled), grain)

    def _blocks(self, kernel: ContractionKernel, blocks: Blockwise, choice: Choice) -> Emitted | Either:
        """A matmul with weights of a few bits. For few rows they are read once, in packed form; for many they are
        unpacked to float panels, or on the way to tile registers."""
        width = kernel.buffers[blocks.weight.buffer].panels
        tiled = Tiled.of(kernel, width)
        if tiled is None or not blocks.is_even(kernel) or self.target.lanes(4) == 1:
            return self._loops(as_loops(kernel), choice)
        rows = product([v.extent for v in tiled.rows])
        limbs = gemv.steps_of(tiled, self.target) is not None
        few = few_rows(rows, tiled, self.target, limbs)

        def many() -> Emitted | Either:
            enough = amx_conditions(kernel, self.target, few_bits_sizes(self.target))
            default = Implementation(NEVER if enough is None else BY_TIME, Schedule.of(tiled, self.target))
            picked = choice.pick(
                default,
                lambda: candidates.implementations(kernel, default, default.order, enough is not None, self.target),
            )
            launches = (
                [] if enough is None or picked.tiles == NEVER else self._tiles(kernel, enough, picked.tiles == ALWAYS)
            )
            if launches and not launches[-1][0]:
                return Either.of(*launches)
            assert picked.order is not None
            return Either.of(*launches, ((), self._vectors(kernel, picked.order)))

        if few is None:
            return many()
        few_of_them = self._few_rows(kernel, tiled, few)
        if isinstance(rows, int):
            return few_of_them
        return Either.of((((rows, more_rows(self.target, limbs)),), many()), ((), few_of_them))

    def _few_rows(self, kernel: ContractionKernel, tiled: Tiled, rows: int) -> Emitted:
        schedule = gemv.Schedule.of(tiled, rows, self.target)
        grain = grain_for(schedule.work(tiled), self.target.costs)
        if schedule.steps is not None:
            grain = -1 * grain  # a thread writes the limbs of all rows before its panels
        general, values = parametrize(kernel, {kernel.column: tiled.width}, {tiled.width * WORD})
        emit = partial(gemv.emit, general, schedule, self.target)
        return self._emitted(general, schedule, values, emit, tiled.panel.extent, grain)

    def _attention(
        self,
        kernel: AttentionKernel | AttentionGradientKernel,
        printer: Any,
        others: Callable[[Any, Any, Target], Sequence[Any]],
        choice: Choice,
    ) -> Emitted:
        """Prints with the module `attention` or `attention_gradient`, which have the same functions. Raises CompileError for
        dropout and for the gradient of a mask, which `decompose` leaves to no CPU."""
        if has_dropout(kernel) or (isinstance(kernel, AttentionGradientKernel) and kernel.score_writes):
            raise CompileError("internal: CPU kernels of attention have neither dropout nor the gradient of a mask")
        default = printer.Schedule.of(kernel, self.target)
        schedule = choice.pick(default, lambda: others(kernel, default, self.target))
        grain = grain_for(schedule.work(kernel), self.target.costs)
        kept = {
            v: v.extent for v in (kernel.depth, kernel.column) if isinstance(v.extent, int)
        }  # heads need about the same time
        general, values = parametrize(kernel, kept, largest_constant=self.largest_constant)
        emit = partial(printer.emit, general, schedule, self.target)
        return self._emitted(general, schedule, values, emit, schedule.count(kernel), grain)

    def _emitted(
        self, general: Kernel, schedule: object, values: dict[str, Dim], emit: Emit, count: Dim, grain: Dim
    ) -> Emitted:
        """The function for a kernel over arguments, printed unless an identical one exists."""
        key = fingerprint(general, schedule)
        if key not in self._known:
            name = f"kernel{len(self._known)}"
            self.functions.append(self._text(key, emit).replace("@KERNEL", f"@{name}"))
            self._known[key] = (name, argument_names(general))
        name, arguments = self._known[key]
        sizes = tuple(values[a] if a in values else symbol(a) for a in arguments)
        return Emitted(name, sizes, count, grain)

    def _text(self, key: str, emit: Emit) -> str:
        """A kernel's function. Programs share the text if it refers to no source node, because nodes are numbered per
        program."""
        text = _texts.get((key, self.target))
        if text is None:
            named: list[str] = []
            text = emit(named)
            if named:
                return emit(self.sites)
            if len(_texts) >= TEXTS:
                _texts.clear()
            _texts[key, self.target] = text
        return text
