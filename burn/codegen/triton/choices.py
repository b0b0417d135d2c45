"""Which of the shapes that a kernel's blocks may have it gets: the one that the heuristics name, or one that was found faster on
a card (`tuning.py`). Printers ask a `Choice`, and know no more of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from burn.codegen.triton.heuristics.attention import Block
from burn.codegen.triton.heuristics.products import Tile
from burn.codegen.triton.heuristics.sizes import power_of_two
from burn.dialect.dims import Dim, estimate
from burn.kernels.body import Kernel
from burn.kernels.text import kernel_text
from burn.runtime.artefact import KernelImage

if TYPE_CHECKING:
    from burn.codegen.triton.images import Source

Shape = Tile | Block
S = TypeVar("S", Tile, Block)


@dataclass(frozen=True)
class Choices:
    """picked: shapes by the kernels' keys; the usual ones where there is none. seen: where it is given, all that each kernel may
    have is noted there. images: machine code that is there already."""

    picked: Mapping[str, Shape] = field(default_factory=dict)
    seen: dict[str, list[Shape]] | None = None
    images: Mapping[Source, KernelImage] = field(default_factory=dict)

    def of(self, kernel: Kernel, values: Mapping[str, Dim]) -> Choice:
        """The choice for a kernel of sizes that are arguments, and what these stand for."""
        return Choice(self, key(kernel, values) if self.picked or self.seen is not None else "")


USUAL = Choices()


@dataclass(frozen=True)
class Choice:
    """key: what the kernel is known by where that matters."""

    choices: Choices = USUAL
    key: str = ""

    def pick(self, usual: S, others: Callable[[], Sequence[S]]) -> S:
        """others: what else the kernel may have, in the order in which it is tried."""
        if self.choices.seen is not None:
            self.choices.seen[self.key] = [usual, *(shape for shape in others() if shape != usual)]
        picked = self.choices.picked.get(self.key)
        return picked if isinstance(picked, type(usual)) else usual


NO_CHOICE = Choice()


def key(kernel: Kernel, values: Mapping[str, Dim]) -> str:
    """Kernels alike in text, and in the powers of two that their sizes lie below, have one key."""
    sizes = [f"{name} {power_of_two(estimate(size))}" for name, size in values.items()]
    return hashlib.sha256("\n".join([kernel_text(kernel), *sizes]).encode()).hexdigest()[:32]
