"""The language models whose decoding is timed, on CPUs (decoders.py) and on cards (decoding.py)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """rotary: places turn queries and keys, norms are of squares and the hidden layer is gated, as in Llama (arXiv:2302.13971);
    else places are learned, as in GPT-2. shared: heads of keys and values; room: tokens that there is room for; block: of 4-bit
    weights, 0 for those of floats; level: MatMulNBits' `accuracy_level`, at 4 activations may become bytes."""

    layers: int
    width: int
    heads: int
    shared: int
    hidden: int
    words: int
    room: int
    rotary: bool
    block: int = 0
    level: int = 0

    @property
    def depth(self) -> int:
        return self.width // self.heads

    @property
    def weight_bytes(self) -> float:
        """What a step reads of products' weights, in float32 or in blocks."""
        keys = self.width * self.shared * self.depth * 2
        each = 2 * self.width**2 + keys + self.width * self.hidden * (3 if self.rotary else 2)
        numbers = self.layers * each + self.width * self.words
        return numbers * (0.5 + 4 / self.block if self.block else 4.0)


GPT2_SMALL = Shape(12, 768, 12, 12, 3072, 50257, 1024, False)
LLAMA_1B = Shape(16, 2048, 32, 8, 8192, 128256, 2048, True)
