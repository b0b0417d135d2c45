"""Groups as launches on a GPU: `GPUKernels`, used by the entry function.

Ops that Triton cannot express (complex numbers, strings) run on the host, as kernels for its CPU. The entry function
copies their operands, and profiles show it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from burn.codegen.host.calls import Address
from burn.codegen.host.emit import Int
from burn.codegen.host.entry import EntryBuilder
from burn.codegen.host.launches import Kernels, Launches
from burn.codegen.printing.arguments import Argument, words_of
from burn.codegen.printing.code import Unprintable
from burn.codegen.triton import custom
from burn.codegen.triton.abilities import USUAL_ABILITIES, Abilities
from burn.codegen.triton.early import started_early
from burn.codegen.triton.functions import TYPES
from burn.codegen.triton.heuristics.sizes import UNKNOWN, SizeHints
from burn.codegen.triton.images import Source, module
from burn.codegen.triton.kernels import KernelPrinter
from burn.codegen.triton.printed import NARROW, Printed
from burn.codegen.tuning.choices import DEFAULT, Choices
from burn.dialect.control import Group
from burn.dialect.custom import Custom
from burn.dialect.dims import Dim, exact_div
from burn.dialect.mlir import ir
from burn.dialect.op import full_name
from burn.dialect.query import is_named
from burn.dialect.types import type_of
from burn.kernels.body import Buffer
from burn.kernels.builders import kernels
from burn.kernels.builders.builder import Call
from burn.kernels.preferences import Preferences
from burn.runtime.memory import MemorySpace

POINTERS = {
    "tl.float64": "*fp64", "tl.float32": "*fp32", "tl.float16": "*fp16", "tl.bfloat16": "*bf16", "tl.int1": "*i8",
    **{f"tl.int{bits}": f"*i{bits}" for bits in (8, 16, 32, 64)},
    **{f"tl.uint{bits}": f"*u{bits}" for bits in (8, 16, 32, 64)},
}  # fmt: skip
"""Pointer types by element type; a bool is a byte."""

MULTIPLES = (16, 8, 4)
"""Known divisors of addresses and sizes that Triton's compiler uses to vectorise accesses; addresses are multiples of
the first."""

UNUSED = 0
"""The null address of profiling memory, an argument that Triton adds after the scratch memory."""


CUDA = MemorySpace("cuda")


@dataclass(frozen=True)
class GPULaunch:
    """A kernel of the artefact's table, with its arguments. See `burn.codegen.host.launches.Launch`.

    limits: sizes that select between two kernels at each launch: `wide` uses 64-bit indices. choice: see `Printed`;
    `chosen` records it for each launch. scratch: bytes of memory for each block.
    """

    number: int
    wide: int
    limits: tuple[Dim, ...]
    arguments: tuple[Argument, ...]
    buffers: tuple[Buffer, ...]
    blocks: Dim
    choice: str
    chosen: dict[int, str]
    scratch: int = 0

    def print(self, entry: EntryBuilder, buffers: Sequence[Address | None], record: int, made: Int) -> None:
        if self.choice:
            self.chosen[record] = self.choice
        words, own = words_of(entry, self.arguments, self.buffers, buffers)
        scratch: Int = 0
        if self.scratch:
            scratch = entry.call("burn_rt_device_alloc", entry.sizes.dim(self.blocks * self.scratch))
            own.append(scratch)
        words += (scratch, UNUSED)
        entry.set_words(words)
        blocks = entry.unless_none(made, entry.sizes.dim(self.blocks))
        entry.call("burn_rt_device_launch", record, self._chosen(entry), entry.words, len(words), blocks)
        for memory in own:
            entry.call("burn_rt_device_free", memory)

    def _chosen(self, entry: EntryBuilder) -> Int:
        if self.number == self.wide:
            return self.number
        code = entry.code
        most: Int = 0
        for limit in self.limits:
            most = code.max(most, entry.sizes.dim(limit))
        return code.select(code.cmp("slt", most, NARROW), code.const(self.number), code.const(self.wide))


class GPUKernels:
    """The kernels of one program. See `burn.codegen.host.launches.Kernels`.

    `sources` lists the kernels to compile, in the order of the artefact's table. `refused` maps each group that runs on
    the host to the reason. `chosen` and `made_by` map launch records and sources to choices. No call returns when a
    kernel fails, so later kernels do not write to donated memory.
    """

    def __init__(
        self,
        host: Kernels,
        preferences: Preferences,
        in_place: Collection[ir.Value] = (),
        abilities: Abilities = USUAL_ABILITIES,
        choices: Choices = DEFAULT,
        hints: SizeHints = UNKNOWN,
        memory: MemorySpace = CUDA,
        printed: Callable[[Source], None] = lambda source: None,
    ) -> None:
        """host: prints kernels that run on the host. preferences: those that the passes used. in_place: results that
        may share the memory of a program's input, and are written only if no kernel has failed. abilities, choices,
        hints: see `KernelPrinter`. memory: the space of the program's tensors. printed: called with each new source."""
        self.host, self.sites, self.memory = host, host.sites, memory
        self._in_place = in_place
        self._printed = printed
        self.printer = KernelPrinter(self.sites, abilities, choices, hints)
        self._preferences = preferences
        self.sources: list[Source] = []
        self.chosen: dict[int, str] = {}
        self.made_by: dict[Source, set[str]] = {}
        self.refused: dict[str, str] = {}
        self._numbers: dict[Source, int] = {}

    @property
    def functions(self) -> Sequence[str]:
        return self.host.functions

    def group(self, group: Group) -> Launches:
        nodes = tuple(dict.fromkeys(name for op in group.ops if (name := full_name(op))))
        calls = kernels(group, self._preferences)
        variant = self.variant(group)
        if group.kind == "foreach":
            return self._foreach(group, calls, nodes, variant)
        try:
            printed = [self.printer.print(call.kernel, _constants(group, call), not variant) for call in calls]
        except Unprintable as error:
            self.refused["+".join(op.OP_NAME for op in group.ops)] = str(error)
            return self.host.group(group)
        printed = [self._started(p, variant) for p in printed]
        elements = [type_of(v).elements for v in (*group.operation.operands, *group.operation.results)]
        limits = _limits(elements, printed)
        launches = [self._launch(p, call.kernel.buffers, nodes, limits) for p, call in zip(printed, calls, strict=True)]
        return Launches.of(calls, launches, self.memory)

    def _foreach(self, group: Group, calls: Sequence[Call], nodes: tuple[str, ...], variant: bool) -> Launches:
        """The launches of independent loops. Each launch computes several."""
        try:
            made = self.printer.together(calls)
        except Unprintable as error:
            self.refused["+".join(op.OP_NAME for op in group.ops)] = str(error)
            return self.host.group(group)
        printed = [self._started(each.printed, variant) for each in made]
        values = {"in": list(group.operation.operands), "out": list(group.operation.results)}
        launches = []
        for p, each in zip(printed, made, strict=True):
            elements = [type_of(values[b[0]][b[1]]).elements for b in each.bindings if b is not None]
            launches.append(self._launch(p, each.buffers, nodes, _limits(elements, [p])))
        bound = tuple((launch, each.bindings) for launch, each in zip(launches, made, strict=True))
        return Launches(bound, (), self.memory, (None,) * len(bound), (len(bound),) * len(bound))

    def _started(self, printed: Printed, variant: bool) -> Printed:
        """The kernel as it starts: not if one before it has failed, and early if the GPU can do that."""
        printed = printed.guarded() if variant else printed
        return started_early(printed) if self.printer.abilities.early else printed

    def custom(self, entry: EntryBuilder, op: Custom) -> None:
        """Prints the user's Triton kernels. Raises CompileError."""
        custom.print_launches(entry, op, custom.prepared(op, POINTERS, MULTIPLES), self._numbered, UNUSED)

    def variant(self, group: Group) -> bool:
        """True if it may write to an input's memory."""
        return any(result in self._in_place for result in group.operation.results)

    def _launch(
        self, printed: Printed, buffers: Sequence[Buffer], nodes: tuple[str, ...], limits: tuple[Dim, ...]
    ) -> GPULaunch:
        given = tuple(a for a in printed.arguments if a.kind != "size" or a.size != 1)
        large = any(isinstance(size, int) and size >= NARROW for size in limits)
        unknown = () if large else tuple(size for size in limits if not isinstance(size, int))
        number = self._number(printed, buffers, nodes, large)
        wide = self._number(printed, buffers, nodes, True) if unknown else number
        if printed.choice:
            for made in (number, wide):
                self.made_by.setdefault(self.sources[made], set()).add(printed.choice)
        named = (printed.choice, self.chosen, printed.scratch)
        return GPULaunch(number, wide, unknown, given, tuple(buffers), printed.programs, *named)

    def _number(self, printed: Printed, buffers: Sequence[Buffer], nodes: tuple[str, ...], wide: bool) -> int:
        """The kernel in the table, for 64-bit or 32-bit indices."""
        types: list[str] = []
        constants, multiples = [], []
        for number, argument in enumerate(printed.arguments):
            if argument.kind != "size":
                pointer = argument.kind == "failure"
                types.append("*i64" if pointer else POINTERS[TYPES[buffers[argument.number].dtype]])
                multiples.append((number, MULTIPLES[0]))
            elif argument.size == 1:
                types.append("constexpr")
                constants.append((number, 1))
            else:
                types.append("i64" if wide else "i32")
                if of := next((m for m in MULTIPLES if exact_div(argument.size, m) is not None), 0):
                    multiples.append((number, of))
        named = tuple(printed.constants.items())
        name, function = _named_by_text(printed)
        text = module(name, function)
        shape = (printed.warps, printed.stages)
        source = Source(name, text, tuple(types), tuple(constants), named, tuple(multiples), wide, *shape)
        source = replace(
            source, scratch=printed.scratch, registers=printed.registers, early=printed.early, shared=printed.shared
        )
        return self._numbered(source, nodes)

    def _numbered(self, source: Source, nodes: tuple[str, ...] = ()) -> int:
        """The number of a kernel in the table."""
        if source not in self._numbers:
            self._numbers[source] = len(self.sources)
            self.sources.append(replace(source, nodes=nodes or source.nodes))
            self._printed(self.sources[-1])
        return self._numbers[source]


def _named_by_text(printed: Printed) -> tuple[str, str]:
    """A kernel's name and text, with a name that depends on its text alone. A number would depend on the kernels before it: a
    program that differs in one layer would find none of the later ones in the cache."""
    digest = hashlib.sha256(re.sub(rf"\b{printed.name}\b", "KERNEL", printed.text).encode()).hexdigest()
    name = f"kernel_{digest[:10]}"
    return name, re.sub(rf"\b{printed.name}\b", name, printed.text)


def _constants(group: Group, call: Call) -> frozenset[int]:
    """The buffers of a kernel that hold constants of the program, by number."""
    operands = group.operation.operands
    return frozenset(
        number
        for number, binding in enumerate(call.bindings)
        if binding is not None and binding[0] == "in" and is_named(operands[binding[1]], "weight") is not None
    )


def _limits(elements: Sequence[Dim], printed: Sequence[Printed]) -> tuple[Dim, ...]:
    """An upper bound of all indices of kernels. elements: of each tensor that they read or write."""
    sizes = [*elements]
    sizes += [a.size for p in printed for a in p.arguments if a.kind in ("size", "workspace")]
    return tuple(dict.fromkeys(sizes))
