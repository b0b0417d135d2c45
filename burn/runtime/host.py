"""The machine that this process runs on: which compiled code it can run, and what a compiler should know of it."""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path

from burn.errors import Problem
from burn.runtime import _native
from burn.runtime.artefact import Target

_ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64"}  # as the platform calls it -> as LLVM's triples do


@cache
def features() -> frozenset[str]:
    """Instruction-set extensions by LLVM's names."""
    return frozenset(_native.cpu_features())


def architecture() -> str:
    machine = platform.machine().lower()
    return _ARCHITECTURES.get(machine, machine)


@cache
def processor() -> str:
    """This machine's CPU, as the system calls it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or architecture()


def missing_features(target: Target) -> list[Problem]:
    """Why this machine cannot run code for `target`; nothing when it can."""
    wanted = target.triple.split("-")[0]
    wanted = _ARCHITECTURES.get(wanted, wanted)
    if wanted != architecture():
        return [Problem(f"it was compiled for {wanted} and this machine is {architecture()}")]
    missing = sorted(set(target.features) - features())
    if not missing:
        return []
    return [Problem(f"this CPU lacks {', '.join(missing)}", hint="compile the model on this machine, or for its CPU")]
