"""The limits of WebGPU that every device has. Kernels stay within them and use no optional feature, so one text
runs on all."""

from __future__ import annotations

ARCHITECTURE = "webgpu"
"""The name of that one text among GPU targets."""

SOFTWARE = "software"
"""The name of the text for adapters that run on the CPU: the same limits, other shapes (software.py). Packages for pages contain
both texts, so it is no target of its own."""

WORKGROUP_MEMORY = 16 << 10
"""Bytes of a workgroup."""


def architectures() -> dict[str, int]:
    """The GPU targets of binaries, with the bytes of memory of a workgroup."""
    return {ARCHITECTURE: WORKGROUP_MEMORY}
