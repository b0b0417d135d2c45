"""From kernel descriptions to functions, each distinct one printed once."""

from __future__ import annotations

from dataclasses import dataclass

from burn.codegen.cpu import contract, heuristics, loops
from burn.codegen.cpu.loops import argument_names
from burn.codegen.cpu.target import Target
from burn.dialect.dims import Dim, symbol
from burn.kernels.body import ContractionKernel, Kernel
from burn.kernels.parameters import fingerprint, parametrize
from burn.kernels.rewrite import collapse


@dataclass(frozen=True)
class Emitted:
    """A function to launch: its name, the sizes it takes after its buffers, the iterations of a launch, and the fewest worth
    handing to another thread."""

    name: str
    sizes: tuple[Dim, ...]
    count: Dim
    grain: Dim


class KernelPrinter:
    """The functions of one program."""

    def __init__(self, target: Target, sites: list[str]) -> None:
        self.target, self.sites = target, sites
        self.functions: list[str] = []
        self._known: dict[str, tuple[str, tuple[str, ...]]] = {}

    def print(self, kernel: Kernel) -> Emitted:
        kernel = collapse(kernel)
        if isinstance(kernel, ContractionKernel):
            if not kernel.packed:
                kernel = kernel.widened(heuristics.panel_width(kernel, self.target))
            schedule = contract.Schedule.of(kernel, self.target)
            count = schedule.count(kernel)
            grain = heuristics.grain(schedule.work(kernel), heuristics.COPIED_TILES if schedule.copies else 1)
        else:
            schedule = loops.Schedule.of(kernel, self.target)
            count = schedule.count(kernel)
            grain = heuristics.grain(heuristics.work(kernel, schedule.lane, schedule.chunk))
        general, values = parametrize(kernel)
        key = fingerprint(general, schedule)
        if key not in self._known:
            name = f"kernel{len(self._known)}"
            if isinstance(general, ContractionKernel):
                assert isinstance(schedule, contract.Schedule)
                text = contract.emit(general, schedule, self.target, self.sites)
            else:
                assert isinstance(schedule, loops.Schedule)
                text = loops.emit(general, schedule, self.target, self.sites)
            self.functions.append(text.replace("@KERNEL", f"@{name}"))
            self._known[key] = (name, argument_names(general))
        name, arguments = self._known[key]
        sizes = tuple(values[a] if a in values else symbol(a) for a in arguments)
        return Emitted(name, sizes, count, grain)
