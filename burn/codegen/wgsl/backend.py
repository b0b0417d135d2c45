"""WebGPU as a back end: kernels in WGSL, and the entry function, which runs on the host."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from burn.codegen.backend import Backend
from burn.codegen.cpu.backend import CPU
from burn.codegen.cpu.backend import for_options as cpu_for_options
from burn.codegen.cpu.target import TARGETS
from burn.codegen.pipeline import Pipeline, pipeline
from burn.codegen.wgsl import software
from burn.codegen.wgsl.heuristics import FIRST, GPU, PREFERENCES
from burn.codegen.wgsl.limits import ARCHITECTURE, SOFTWARE
from burn.codegen.wgsl.printer import WGSLPrinter
from burn.dialect.attention import DEEP
from burn.kernels.preferences import Preferences

if TYPE_CHECKING:
    from burn.options import Options

PIPELINE = pipeline(composites=("attention_forward", "attention_backward", DEEP), first=FIRST)
"""Nothing is packed: matmul kernels read both operands in place."""


@dataclass(frozen=True)
class WebGPU(Backend):
    """See `Backend`. host: the CPU beside the GPU. architecture: a name of limits.py."""

    host: CPU = field(default_factory=lambda: CPU(TARGETS["generic"]))
    kind: str = "wgpu"
    architecture: str = ARCHITECTURE

    @property
    def name(self) -> str:
        return self.architecture

    @property
    def pipeline(self) -> Pipeline:
        return software.PIPELINE if self.architecture == SOFTWARE else PIPELINE

    @property
    def preferences(self) -> Preferences:
        return software.PREFERENCES if self.architecture == SOFTWARE else PREFERENCES

    @property
    def custom_bodies(self) -> tuple[str, ...]:
        """A body for the host gets copies of its operands, which profiles show."""
        return ("functions", "c", "python")

    @property
    def printer(self) -> WGSLPrinter:
        shapes = software.SHAPES if self.architecture == SOFTWARE else GPU
        return WGSLPrinter(self.host, self.kind, self.architecture, self.preferences, shapes)


def for_options(options: Options) -> WebGPU:
    architecture = SOFTWARE if options.architecture == SOFTWARE else ARCHITECTURE
    return WebGPU(cpu_for_options(options), options.device.kind, architecture)
