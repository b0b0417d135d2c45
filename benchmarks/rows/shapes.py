"""The language models of the decoding benchmarks, on CPUs (decoders.py) and on GPUs (decoding.py)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """The shape of a decoder.

    `rotary`: rotary embeddings, RMS norms and a gated hidden layer, as in Llama (arXiv:2302.13971); else learned positions, as in
    GPT-2. `shared`: heads of keys and values. `room`: capacity of the cache in tokens. `block`: of 4-bit weights, 0 for float
    weights. `level`: MatMulNBits' `accuracy_level`; at 4 activations may become bytes."""

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
        """Bytes of matmul weights that a step reads, in float32 or in blocks."""
        keys = self.width * self.shared * self.depth * 2
        each = 2 * self.width**2 + keys + self.width * self.hidden * (3 if self.rotary else 2)
        numbers = self.layers * each + self.width * self.words
        return numbers * (0.5 + 4 / self.block if self.block else 4.0)


GPT2_SMALL = Shape(12, 768, 12, 12, 3072, 50257, 1024, False)
LLAMA_1B = Shape(16, 2048, 32, 8, 8192, 128256, 2048, True)
