"""Groups as launches on a WebGPU device: `WGSLKernels`, used by the entry function.

Ops that WGSL cannot express (float64, strings) run on the host, as kernels for its CPU. The entry function copies their
operands, and profiles show it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from burn.codegen.host.calls import Address
from burn.codegen.host.emit import Int
from burn.codegen.host.entry import EntryBuilder
from burn.codegen.host.launches import Kernels, Launches
from burn.codegen.printing.arguments import Argument, words_of
from burn.codegen.printing.code import Unprintable
from burn.codegen.wgsl.heuristics import GPU, Shapes
from burn.codegen.wgsl.kernels import KernelPrinter
from burn.codegen.wgsl.printed import Printed
from burn.dialect.control import Group
from burn.dialect.custom import Custom
from burn.dialect.dims import Dim
from burn.dialect.mlir import ir
from burn.dialect.op import full_name
from burn.errors import CompileError
from burn.kernels.body import Buffer
from burn.kernels.builders import kernels
from burn.kernels.preferences import Preferences
from burn.runtime.artefact import KernelImage
from burn.runtime.memory import MemorySpace


@dataclass(frozen=True)
class WGSLLaunch:
    """A kernel of the artefact's table, with its arguments. See `burn.codegen.host.launches.Launch`."""

    number: int
    arguments: tuple[Argument, ...]
    buffers: tuple[Buffer, ...]
    groups: Dim

    def print(self, entry: EntryBuilder, buffers: Sequence[Address | None], record: int, made: Int) -> None:
        words, own = words_of(entry, self.arguments, self.buffers, buffers)
        entry.set_words(words)
        groups = entry.unless_none(made, entry.sizes.dim(self.groups))
        entry.call("burn_rt_device_launch", record, self.number, entry.words, len(words), groups)
        for memory in own:
            entry.call("burn_rt_device_free", memory)


class WGSLKernels:
    """The kernels of one program. See `burn.codegen.host.launches.Kernels`.

    `images` lists the kernels in the order of the artefact's table. `refused` maps each group that runs on the host to the
    reason. No call returns when a kernel fails, so later kernels do not write to donated memory.
    """

    def __init__(
        self,
        host: Kernels,
        preferences: Preferences,
        in_place: Collection[ir.Value],
        memory: MemorySpace,
        shapes: Shapes = GPU,
    ) -> None:
        """host: prints kernels that run on the host. preferences: those that the passes used. in_place: results that may share
        the memory of a program's input, and are written only if no kernel has failed. memory: the space of the program's
        tensors. shapes: those of the adapter's kind."""
        self.host, self.sites, self.memory = host, host.sites, memory
        self._in_place = in_place
        self._preferences = preferences
        self.printer = KernelPrinter(self.sites, shapes)
        self.images: list[KernelImage] = []
        self.refused: dict[str, str] = {}
        self._numbers: dict[str, int] = {}

    @property
    def functions(self) -> Sequence[str]:
        return self.host.functions

    def group(self, group: Group) -> Launches:
        calls = kernels(group, self._preferences)
        try:
            printed = [self.printer.print(call.kernel) for call in calls]
        except Unprintable as error:
            self.refused["+".join(op.OP_NAME for op in group.ops)] = str(error)
            return self.host.group(group)
        if self.variant(group):
            printed = [self.printer.named(p.guarded()) for p in printed]
        launches = [
            WGSLLaunch(self._number(p), p.arguments, call.kernel.buffers, p.groups)
            for p, call in zip(printed, calls, strict=True)
        ]
        return Launches.of(calls, launches, self.memory)

    def custom(self, entry: EntryBuilder, op: Custom) -> None:
        """Raises CompileError: a custom op has no body in WGSL."""
        raise CompileError(f"the custom op {full_name(op)} has no body for WebGPU")

    def variant(self, group: Group) -> bool:
        """True if it may write to an input's memory."""
        return any(result in self._in_place for result in group.operation.results)

    def _number(self, printed: Printed) -> int:
        """The number of a kernel in the table."""
        if printed.name not in self._numbers:
            self._numbers[printed.name] = len(self.images)
            self.images.append(KernelImage(printed.name, printed.text.encode(), 0, printed.lanes))
        return self._numbers[printed.name]
