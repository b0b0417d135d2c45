"""GPUs as a back end: Triton compiles the kernels, LLVM the entry function, which runs on the host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING

from burn.codegen.backend import Backend
from burn.codegen.cpu.backend import CPU
from burn.codegen.cpu.backend import for_options as cpu_for_options
from burn.codegen.cpu.target import TARGETS
from burn.codegen.pipeline import Pipeline, pipeline
from burn.codegen.triton import workers
from burn.codegen.triton.abilities import USUAL_ABILITIES, Abilities, warp_of
from burn.codegen.triton.heuristics.preferences import preferences
from burn.codegen.triton.heuristics.sizes import UNKNOWN, SizeHints, hinted_sizes
from burn.codegen.triton.images import Source
from burn.codegen.triton.printer import GPUPrinter
from burn.codegen.tuning.choices import DEFAULT, Choices
from burn.dialect.attention import DROPOUT
from burn.dialect.attention_gradient import MASK_GRADIENT
from burn.dialect.dropout import RandomKept
from burn.dialect.program import Program
from burn.errors import CompileError, Problem
from burn.kernels.layouts import Layouts
from burn.kernels.preferences import Preferences
from burn.runtime.artefact import KernelImage
from burn.runtime.registry import PORTABLE

if TYPE_CHECKING:
    from burn.codegen.tuning.search import Measure
    from burn.options import Options
    from burn.runtime.device import Device

PIPELINE = pipeline(
    "loop_slices,align,contiguous_depth,merge_block_dots,block_words",
    ("attention_forward", "attention_backward", DROPOUT, MASK_GRADIENT, RandomKept.OP_NAME),
    narrow_weights=True,
    first="dilate,merge_groups,space_to_depth",
    folded="order_scatters,align_masks",
)
"""Matmul kernels read both operands in place. Bytes need a contiguous depth, and weights of few bits are packed in words."""


OPS_OF_A_WORKER = 64
"""Ops of a program for each process that is started beside its passes. Not all of them have kernels, and many share one."""


@dataclass(frozen=True)
class GPULayouts(Layouts):
    """Operands are read as they are. Tensor cores multiply int8 by int8."""

    def depth_run(self, lhs: str, rhs: str) -> int:
        return 4 if lhs == rhs == "int8" else 1


@dataclass(frozen=True)
class GPU(Backend):
    """See `Backend`. kind: "cuda" or "hip"; architecture: "sm_90", "gfx942"; warp: threads of a warp. host: the CPU beside the
    GPU. choices: the variants of kernels. images: machine code that exists already. hints: typical sizes of symbols, which
    `session` takes from a program. portable: kernels use only features that Triton has on every GPU. float32, banded:
    see `Abilities`."""

    host: CPU = field(default_factory=lambda: CPU(TARGETS["generic"]))
    kind: str = "cuda"
    architecture: str = "sm_90"
    warp: int = 32
    choices: Choices = DEFAULT
    images: Mapping[Source, KernelImage] = field(default_factory=dict)
    hints: SizeHints = field(default_factory=lambda: UNKNOWN)
    portable: bool = False
    float32: str = USUAL_ABILITIES.float32
    banded: bool = True

    @property
    def name(self) -> str:
        return f"{self.kind} {self.architecture}"

    @property
    def pipeline(self) -> Pipeline:
        return PIPELINE

    def session(self, program: Program) -> GPU:
        return replace(self, hints=hinted_sizes(program.size_hints))

    @property
    def abilities(self) -> Abilities:
        found = USUAL_ABILITIES if self.portable else Abilities.of(self.kind, self.architecture)
        return replace(found, float32=self.float32, banded=self.banded)

    @property
    def preferences(self) -> Preferences:
        return replace(preferences(self.hints, self.abilities), finite_masks=self.banded)

    @property
    def layouts(self) -> GPULayouts:
        return GPULayouts(self.name, fragments=self.abilities.fragments)

    @property
    def custom_bodies(self) -> tuple[str, ...]:
        """A body for the host gets copies of its operands, which profiles show."""
        return ("triton", "functions", "c", "python")

    @property
    def printer(self) -> GPUPrinter:
        return GPUPrinter(
            self.host,
            self.kind,
            self.architecture,
            self.warp,
            self.preferences,
            self.abilities,
            self.choices,
            self.hints,
            self.images,
        )

    def begin(self, program: Program) -> None:
        if not self.portable and find_spec("triton") is not None:
            workers.start(1 + len(program.block.operations) // OPS_OF_A_WORKER)

    def with_fastest_kernels(self, program: Program, mode: str, device: Device, measure: Measure) -> GPU:
        from burn.codegen.triton.tuning import tuned

        return tuned(program, self, mode, device.hardware, measure)


def for_options(options: Options) -> GPU:
    """The architecture is the device's unless the options name one. Raises DeviceError for a GPU that does not exist, and
    CompileError for a precision that its tensor cores lack."""
    host, kind = cpu_for_options(options), options.device.kind
    if options.architecture == PORTABLE:
        return GPU(host, kind, portable=True, float32=options.tf32 or USUAL_ABILITIES.float32)
    architecture = options.architecture
    warp = warp_of(kind, architecture) if architecture else 0
    if not architecture:
        facts = options.device.preview()
        architecture, warp = facts["architecture"], facts["warp"]
    splits = Abilities.of(kind, architecture).tf32
    if options.tf32 and not splits:
        problem = Problem(f"its tensor cores are older: {architecture}", hint="sm_80 is the first that has it")
        raise CompileError(f"there is no precision {options.tf32} for {options.device}", [problem])
    usual = "tf32x3" if splits and not options.exact else USUAL_ABILITIES.float32
    return GPU(host, kind, architecture, warp, float32=options.tf32 or usual, banded=not options.exact)
