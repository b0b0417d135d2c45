"""A back end: what a kind of device wants of a program, and what makes code of it.

`compiler.py` reads the same for every device. Passes are handed the back end in their environment and ask it what they need; no
pass names a device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from burn.dialect.dims import Dim
from burn.dialect.mlir import ir
from burn.dialect.program import Program
from burn.errors import CompileError
from burn.kernels.wants import Convolution, Product, Wants
from burn.runtime.artefact import KernelImage, Target

if TYPE_CHECKING:
    from burn.codegen.tuning.search import Measure
    from burn.runtime.device import Device


def pipeline(own: str = "", whole: tuple[str, ...] = (), few_bits: bool = False) -> str:
    """The passes of a compilation. Attention and windows stay whole, as printers of kernels take them so; convolutions become
    channels-last. own: a device's passes behind that, such as packing; whole: further composites that it has kernels for;
    few_bits: whether these read weights of a few bits as they are."""
    kept = "+".join(("attention", "windows", *whole, *(["block_dot"] if few_bits else [])))
    early = "integers,blocks" if few_bits else "integers"
    laid_out = f"simplify{{absorb=false}},recognise,{early},decompose{{keep={kept}}},simplify,layout,simplify"
    return ",".join(filter(None, (laid_out, own, "fold,rematerialise,fuse,release,donate")))


def in_halves(passes: str, dtype: str) -> str:
    """A compilation's passes with products computed in a half type: where formulas are composites again, and what a batch
    norm scales by has gone into weights."""
    return passes.replace("recognise", f"recognise,decompose{{only=batch_norm}},simplify,precision{{to={dtype}}}", 1)


def within(passes: str, budget: str) -> str:
    """A compilation's passes for a program that is to need no more memory than a budget, the options of `recompute`, says."""
    return passes.replace("rematerialise", f"rematerialise,recompute{{{budget}}}", 1)


class Record(Protocol):
    """What profiles are told of a launch."""

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
    """A program for a device: object code, the constants it asks for by their place, how long each planned buffer lives and its
    bytes, its launches and the op of each, and the source nodes that run-time errors name. chosen: by the number of a launch,
    what its kernel's shape was chosen by."""

    code: bytes
    constants: Sequence[ir.Value]
    live_ranges: Sequence[tuple[int, int]]
    buffers: Sequence[Dim]
    records: Sequence[Record]
    operations: Sequence[ir.Operation]
    sites: Sequence[str]
    images: Sequence[KernelImage] = ()
    chosen: Mapping[int, str] = field(default_factory=dict)


class Backend(Protocol):
    """One kind of device, as a compilation sees it. A class that names it as its base inherits the defaults of a back end that
    prefers nothing and has one variant of each kernel."""

    @property
    def name(self) -> str: ...

    @property
    def passes(self) -> str:
        """The pipeline of a compilation: its composites that stay whole, its layouts and packing among them."""
        ...

    @property
    def folding(self) -> str:
        """The pipeline for what is run while compiling."""
        ...

    def session(self, program: Program) -> Backend:
        """The back end for the compilation of one program, with that program's size hints. Passes, printers and reports take
        their preferences from this one object, so that all of them describe the same kernels."""
        return self

    @property
    def wants(self) -> Wants:
        """Preferences for the description of kernels."""
        return Wants()

    def panel(self, product: Product) -> int:
        """Columns of a panel in which `pack` lays out the right side. Raises CompileError if kernels read no panels."""
        raise CompileError(f"kernels for {self.name} read no panels: leave out the pass 'pack'")

    def at_points(self, convolution: Convolution, pays: bool) -> bool:
        """Whether a convolution becomes products at points. pays: what `winograd` expects of it."""
        return pays

    @property
    def byte_run(self) -> int:
        """Neighbours along the depth that an instruction multiplies and sums where uint8 meets int8; 1: there is none."""
        return 1

    @property
    def runs_on(self) -> Target:
        """What a machine must be for the code to run there."""
        ...

    def build(self, program: Program) -> Built:
        """Code for a program that the passes have been through."""
        ...

    def listing(self, program: Program) -> str:
        """The code for a program that the passes have been through as text for people, in the back end's language."""
        ...

    def drawn(self, seed: int) -> Backend:
        """The back end with variants of kernels drawn by a seed, for tests; itself if it has none."""
        return self

    def with_fastest_layouts(
        self, program: Program, run: Callable[[Program, Backend], None], mode: str, measure: Measure
    ) -> Backend:
        """The back end with the fastest of what passes decide, if there is anything. run: takes a copy of the program through
        the passes; mode: how long is searched, a name in `search.TRIED`."""
        return self

    def with_fastest_kernels(self, program: Program, mode: str, device: Device, measure: Measure) -> Backend:
        """The back end with the fastest variants of a fused program's kernels, timed on a device."""
        return self
