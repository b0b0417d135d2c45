"""Prints kernels: `KernelPrinter.print` gives a kernel's WGSL text and its launch."""

from __future__ import annotations

from dataclasses import replace

from burn.codegen.wgsl import attention, attention_gradient, contract, loops
from burn.codegen.wgsl.heuristics import GPU, Shapes
from burn.codegen.wgsl.printed import Printed
from burn.errors import unreachable
from burn.kernels.body import AttentionGradientKernel, AttentionKernel, ContractionKernel, Kernel, LoopKernel
from burn.kernels.parameters import parametrize
from burn.kernels.rewrite import as_loops, collapse


class KernelPrinter:
    """Prints the kernels of one program. Kernels that differ only in their sizes share a text. `sites`: the names of source
    nodes in run-time errors, by number. shapes: those of the adapter's kind."""

    def __init__(self, sites: list[str] | None = None, shapes: Shapes = GPU) -> None:
        self.sites: list[str] = [] if sites is None else sites
        self.shapes = shapes
        self.functions: dict[str, Printed] = {}
        self._known: dict[str, str] = {}

    def print(self, kernel: Kernel) -> Printed:
        """Raises Unprintable (a CompileError) if WGSL cannot express the kernel."""
        match collapse(kernel):
            case ContractionKernel() as contraction:
                shape = self.shapes.tile(contraction) if contraction.dtype in contract.TILED else None
                if shape is None:
                    return self._loops(as_loops(contraction))
                general, values = parametrize(contraction)
                return self.named(contract.emit(general, values, contraction, shape, self.sites))
            case AttentionKernel() as attending:
                kept = {v.extent for v in (attending.depth, attending.column) if isinstance(v.extent, int)}
                general, values = parametrize(attending, kept=kept)
                return self.named(attention.emit(general, values, attending, self.sites))
            case AttentionGradientKernel() as gradient:
                kept = {v.extent for v in (gradient.depth, gradient.column) if isinstance(v.extent, int)}
                general, values = parametrize(gradient, kept=kept)
                return self.named(attention_gradient.emit(general, values, gradient, self.sites))
            case LoopKernel() as loop:
                return self._loops(loop)
            case other:
                raise unreachable(other)

    def _loops(self, kernel: LoopKernel) -> Printed:
        general, values = parametrize(kernel)
        return self.named(loops.emit(general, values, kernel, self.sites, self.shapes.is_shared(kernel)))

    def named(self, printed: Printed) -> Printed:
        """Gives kernels with the same text the same name."""
        name = self._known.setdefault(printed.key, f"kernel{len(self._known)}")
        printed = replace(printed, name=name)
        self.functions.setdefault(name, printed)
        return printed
