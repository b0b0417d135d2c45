"""StableHLO modules from programs. Enter at `stablehlo_of` (text)."""

from __future__ import annotations

from burn.exporters.stablehlo.export import stablehlo_of

__all__ = ["stablehlo_of"]
