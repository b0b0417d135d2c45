"""StableHLO modules from programs. Enter at `stablehlo_of` (text) and `portable` (the same as an artefact)."""

from __future__ import annotations

from burn.exporters.stablehlo.artefact import portable
from burn.exporters.stablehlo.export import stablehlo_of

__all__ = ["portable", "stablehlo_of"]
