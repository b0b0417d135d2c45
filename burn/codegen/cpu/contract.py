"""Prints contraction kernels. Under construction."""

from __future__ import annotations

from burn.codegen.body import ContractionKernel
from burn.codegen.cpu.loops import Emitted
from burn.codegen.cpu.target import Target


def emit(kernel: ContractionKernel, target: Target, sites: list[str]) -> Emitted:
    raise NotImplementedError
