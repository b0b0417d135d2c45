"""A target that divides convolutions by the taps that read padding (`Preferences.split_taps`)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from burn.codegen.cpu.backend import CPU
from burn.codegen.cpu.target import TARGETS
from burn.kernels.layouts import Layouts
from burn.kernels.preferences import Preferences, SplitTaps
from burn.passes.environment import Environment


@dataclass(frozen=True)
class _Splitting:
    preferences: Preferences
    layouts: Layouts
    name: str = "splitting"
    custom_bodies: tuple[str, ...] = ()


def splitting(part: float = 0.01, multiplications: int = 0) -> Environment:
    """An environment with this least gain; any gain by default."""
    cpu = CPU(TARGETS["avx2"])
    return Environment(_Splitting(replace(cpu.preferences, split_taps=SplitTaps(part, multiplications)), cpu.layouts))
