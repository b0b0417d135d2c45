"""A back end: the passes, preferences, layouts and printed code of one kind of device.

`compiler.py` reads the same for every device. It gives passes the back end in their environment, and they query it; no pass
names a device. A back end has four parts:

- `Preferences` (data): how kernels are described;
- `Layouts`: how operands are laid out in memory for its kernels;
- `Printer`: code for a program that the passes have been through;
- `Loader` (`burn.runtime.loader`): runs that code. Its registry entry names it, because running needs no compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from burn.codegen.pipeline import FOLDING, Pipeline
from burn.dialect.dims import Dim
from burn.dialect.mlir import ir
from burn.dialect.program import Program
from burn.kernels.layouts import Layouts
from burn.kernels.preferences import Preferences
from burn.runtime.artefact import KernelImage, Target

if TYPE_CHECKING:
    from burn.codegen.tuning.search import Measure
    from burn.runtime.device import Device


class Record(Protocol):
    """A launch, as profiles show it."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def sources(self) -> tuple[str, ...]: ...
    @property
    def flops(self) -> Dim: ...
    @property
    def bytes(self) -> Dim: ...
    @property
    def reads(self) -> tuple[int, ...]: ...
    @property
    def step(self) -> int: ...


@dataclass(frozen=True)
class Built:
    """Code of a program for a device. constants: the values of its constants, by index. live_ranges, buffers: the lifetime and
    the bytes of each planned buffer. records, operations: its launches and the op of each. sites: the source nodes that run-time
    errors name. chosen: by a launch's number, the keys of the choices behind its kernel's variant.
    customs: the functions of custom ops that it calls: symbols, and the ops' names. entry: the entry function's name."""

    code: bytes
    constants: Sequence[ir.Value]
    live_ranges: Sequence[tuple[int, int]]
    buffers: Sequence[Dim]
    records: Sequence[Record]
    operations: Sequence[ir.Operation]
    sites: Sequence[str]
    images: Sequence[KernelImage] = ()
    chosen: Mapping[int, str] = field(default_factory=dict)
    customs: Mapping[str, str] = field(default_factory=dict)
    entry: str = "burn_entry"


class Printer(Protocol):
    """Code generation for programs that the passes have been through."""

    @property
    def runs_on(self) -> Target:
        """The machine that the code needs."""
        ...

    def build(self, program: Program) -> Built:
        """Code that the back end's loader runs. Raises CompileError."""
        ...

    def listing(self, program: Program) -> str:
        """The code as text for people, in the language that the registry entry names. Raises CompileError."""
        ...


class Backend(Protocol):
    """One kind of device, as a compilation sees it. A class that names it as its base inherits defaults: no preferences, operands
    read as they are, and one variant of each kernel."""

    @property
    def name(self) -> str: ...

    @property
    def pipeline(self) -> Pipeline:
        """The passes of a compilation: composites that stay whole, layouts, packing."""
        ...

    @property
    def folding(self) -> Pipeline:
        """The passes for programs that run while another is compiled."""
        return FOLDING

    @property
    def preferences(self) -> Preferences:
        """Preferences for the description of kernels."""
        return Preferences()

    @property
    def layouts(self) -> Layouts:
        return Layouts(self.name)

    @property
    def custom_bodies(self) -> tuple[str, ...]:
        """The kinds of bodies of custom ops that run there, best first (`burn.dialect.custom.BODIES`)."""
        return ("functions", "python")

    @property
    def printer(self) -> Printer: ...

    def session(self, program: Program) -> Backend:
        """The back end for the compilation of one program, with that program's size hints. Passes, printers and reports take
        their preferences from this one object, so that all of them describe the same kernels."""
        return self

    def begin(self, program: Program) -> None:
        """Starts what the compilation of a program needs after its passes, to be ready by then."""
        return

    # ---- variants, for autotuning and tests ------------------------------------------------------------------------------
    def drawn(self, seed: int) -> Backend:
        """The back end with variants of kernels drawn by a seed, for tests; itself if it has none."""
        return self

    def with_fastest_layouts(
        self, program: Program, run: Callable[[Program, Backend], None], mode: str, measure: Measure
    ) -> Backend:
        """The back end with the fastest variants of decisions that passes make.

        run: takes a copy of the program through the passes. mode: the extent of the search, a name in `search.TRIED`."""
        return self

    def with_fastest_kernels(self, program: Program, mode: str, device: Device, measure: Measure) -> Backend:
        """The back end with the fastest variants of a fused program's kernels, timed on a device."""
        return self
