"""What the kernels of a card may use beside what every card has."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Abilities:
    """eights: tensor cores multiply floats of 8 bits. maps: blocks of tensors are copied to shared memory by one instruction,
    which reads the tensor's place, sizes and strides from memory. roles: warps of one program have code, and numbers of
    registers, of their own, and multiply from shared memory in groups of four (Hopper's `wgmma`)."""

    eights: bool = True
    maps: bool = True
    roles: bool = False

    @staticmethod
    def of(kind: str, architecture: str) -> Abilities:
        """kind: "cuda" or "hip"; architecture: "sm_90", "gfx942"."""
        if kind != "cuda":
            return Abilities(eights=False, maps=False)
        number = int(architecture.removeprefix("sm_"))
        return Abilities(eights=number >= 89, maps=number >= 90, roles=number == 90)


USUAL_ABILITIES = Abilities()
"""What Triton's interpreter has, too."""
