"""XLA as a back end: see the package."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from burn.codegen.backend import Backend
from burn.codegen.pipeline import Pipeline, Point
from burn.codegen.xla import client
from burn.codegen.xla.printer import XlaPrinter
from burn.errors import CompileError

if TYPE_CHECKING:
    from burn.options import Options

SIMPLIFY = "simplify{absorb=false}"
PIPELINE = Pipeline.of(
    "lower_complex", SIMPLIFY, "recognise", Point.PRECISION, f"decompose,{SIMPLIFY}", Point.LAYOUT, Point.MEMORY
)
"""No composite stays whole, and nothing is packed, folded or fused: XLA does that for its own device."""


@dataclass(frozen=True)
class Xla(Backend):
    """See `Backend`."""

    @property
    def name(self) -> str:
        return "xla"

    @property
    def pipeline(self) -> Pipeline:
        return PIPELINE

    @property
    def folding(self) -> Pipeline:
        return PIPELINE

    @property
    def printer(self) -> XlaPrinter:
        return XlaPrinter()


def for_options(options: Options) -> Xla:
    """Raises CompileError for options that only other devices have, and without jax."""
    given = [name for name in ("target", "architecture", "as_text") if getattr(options, name)]
    if given:
        raise CompileError('device="xla" has no such option', [f"leave out {name}" for name in given])
    client.check_installed()
    return Xla()
