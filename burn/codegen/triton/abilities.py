"""Facts of a GPU architecture: instructions that not every GPU has, processors, shared memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

PROCESSORS = {
    "sm_75": 72, "sm_80": 108, "sm_86": 84, "sm_89": 142, "sm_90": 132, "sm_100": 148, "sm_103": 160, "sm_120": 188,
    "gfx90a": 110, "gfx942": 304, "gfx950": 256, "gfx1100": 96, "gfx1201": 64,
}  # fmt: skip
"""Processors by architecture; others have the default of `Abilities`. Code is correct for every GPU of the architecture: the
number only decides how work is split."""

SHARED_MEMORY = {
    f"sm_{number}": kibibytes << 10
    for number, kibibytes in (
        (80, 163), (86, 99), (87, 163), (89, 99), (90, 227), (100, 227), (103, 227), (120, 99),
    )
}  # fmt: skip
"""Bytes of shared memory that a block may have, by architecture. Binaries are built for these architectures. Source:
CUDA C++ Programming Guide, "Technical specifications per compute capability"."""


@dataclass(frozen=True)
class Abilities:
    """The facts that choose kernels.

    eights: tensor cores multiply 8-bit floats.
    maps: one instruction copies a block of a tensor to shared memory, by a tensor map with its address, sizes and strides.
    warp_specialised: warps of one program run different code with different register counts, and multiply from shared memory in
    groups of four (Hopper's `wgmma`).
    fragments: a warp multiplies half precision from registers (`mma.m16n8k16`).
    early: a kernel can start before the kernel before it ends (`early.py`).
    bulk: bytes of a program's shared memory, if one instruction copies bytes to it (`staging.py`), else 0.
    memory: bytes of shared memory that a program can have.
    processors: streaming multiprocessors or compute units, of the largest GPU of the architecture.
    tf32: tensor cores multiply TF32.
    float32: how float32 operands are multiplied, as Triton names it: "ieee", or by tensor cores, "tf32" and "tf32x3". The
    options of a compilation choose it.
    banded: tensor cores may compute depthwise convolutions (`banded.py`). The options of a compilation choose it."""

    eights: bool = True
    maps: bool = True
    warp_specialised: bool = False
    fragments: bool = False
    early: bool = False
    bulk: int = 0
    memory: int = 64 << 10
    processors: int = 132
    float32: str = "ieee"
    tf32: bool = True
    banded: bool = True

    @staticmethod
    def of(kind: str, architecture: str) -> Abilities:
        """kind: "cuda" or "hip"; architecture: "sm_90", "gfx942"."""
        if kind != "cuda":
            return Abilities(eights=False, maps=False, processors=_processors(architecture), tf32=False)
        number = int(architecture.removeprefix("sm_"))
        return Abilities(
            eights=number >= 89,
            maps=number >= 90,
            warp_specialised=number == 90,
            fragments=number >= 80,
            early=number >= 90,
            bulk=SHARED_MEMORY.get(architecture, 0) if number >= 90 else 0,
            memory=SHARED_MEMORY.get(architecture, Abilities.memory),
            processors=_processors(architecture),
            tf32=number >= 80,
        )


def warp_of(kind: str, architecture: str) -> int:
    """Threads of a warp, which AMD calls a wavefront: 64 on its data centre GPUs (gfx9), 32 on others."""
    return 64 if kind == "hip" and architecture.startswith("gfx9") else 32


def shared_memory() -> Mapping[str, int]:
    """Bytes of shared memory by architecture."""
    return SHARED_MEMORY


def _processors(architecture: str) -> int:
    return PROCESSORS.get(architecture, Abilities.processors)


USUAL_ABILITIES = Abilities()
"""The abilities of Triton's interpreter."""
