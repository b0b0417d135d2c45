"""The reference device as a back end: see the package."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from burn.codegen.backend import Backend
from burn.codegen.pipeline import Pipeline, Point
from burn.codegen.reference.printer import ReferencePrinter
from burn.errors import CompileError

if TYPE_CHECKING:
    from burn.options import Options

PIPELINE = Pipeline.of("lower_complex", Point.PRECISION, "decompose", Point.LAYOUT, Point.MEMORY, "fuse,release")
"""No composite stays whole, and nothing is simplified, packed or folded. Ops are fused as for other devices, which checks fusion
and its kernels."""


@dataclass(frozen=True)
class Reference(Backend):
    """See `Backend`."""

    @property
    def name(self) -> str:
        return "reference"

    @property
    def pipeline(self) -> Pipeline:
        return PIPELINE

    @property
    def printer(self) -> ReferencePrinter:
        return ReferencePrinter(self.preferences)


def for_options(options: Options) -> Reference:
    """Raises CompileError for options that only other devices have."""
    given = [name for name in ("target", "architecture", "as_text") if getattr(options, name)]
    if given:
        raise CompileError("the reference device has no such option", [f"leave out {name}" for name in given])
    return Reference()
