"""Memory layouts of CPU kernels: the widths of panels, and convolutions in the Winograd domain."""

from __future__ import annotations

from dataclasses import dataclass

from burn.codegen.cpu import candidates
from burn.codegen.cpu.candidates import Panel, Winograd
from burn.codegen.cpu.heuristics.panels import interleaved_width, packed_width
from burn.codegen.cpu.target import Target
from burn.codegen.tuning.choices import Choices, digest
from burn.kernels.layouts import Convolution, Layouts, PackedMatmul


@dataclass(frozen=True)
class CPULayouts(Layouts):
    """See `Layouts`. choices: variants from autotuning or a seed, instead of the heuristics' defaults."""

    target: Target
    choices: Choices

    def depth_run(self, lhs: str, rhs: str) -> int:
        return self.target.depth_run(lhs, rhs)

    def panel_width(self, matmul: PackedMatmul) -> int:
        of = interleaved_width(matmul, self.target) if matmul.interleaved > 1 else None
        default = Panel(packed_width(matmul, self.target) if of is None else of)
        if self._has_one_variant:
            return default.width
        choice = self.choices.of(lambda: digest("panel", repr(matmul)), matmul.node)
        return choice.pick(default, lambda: candidates.panels(matmul, self.target)).width

    def winograd(self, convolution: Convolution, pays: bool) -> bool:
        if self._has_one_variant:
            return pays
        choice = self.choices.of(lambda: digest("winograd", repr(convolution)), convolution.node)
        return choice.pick(Winograd(pays), lambda: candidates.winograd(convolution, pays)).used

    @property
    def _has_one_variant(self) -> bool:
        """True if the heuristics' layouts are final: for size-optimised code, and for exact sums, because the number of
        vectors in a panel is the number of partial sums."""
        return self.target.compact or self.target.exact
