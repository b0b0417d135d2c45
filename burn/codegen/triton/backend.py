"""A graphics card as passes see it: what it wants of a program whose kernels Triton compiles."""

from __future__ import annotations

from dataclasses import dataclass

from burn.codegen.backend import pipeline
from burn.codegen.triton.heuristics import WANTS
from burn.errors import CompileError
from burn.kernels.wants import Wants

PIPELINE = pipeline()
"""Nothing is packed: block products read both sides as they lie."""


@dataclass(frozen=True)
class GPU:
    """See `burn.passes.environment.Device`."""

    @property
    def passes(self) -> str:
        return PIPELINE

    @property
    def wants(self) -> Wants:
        return WANTS

    def panel(self, columns: int, dtype: str) -> int:
        raise CompileError("Triton kernels read no panels: leave out the pass 'pack'")
