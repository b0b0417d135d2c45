"""A decoder-only transformer learns to write like a text, letter by letter, and then writes.

python examples/training/shakespeare.py            # a sonnet that is in this file, some seconds
python examples/training/shakespeare.py FILE       # any text, such as "tiny Shakespeare"
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import burn
from burn import data, nn, optim

SONNET = """Shall I compare thee to a summer's day?
Thou art more lovely and more temperate:
Rough winds do shake the darling buds of May,
And summer's lease hath all too short a date:
Sometime too hot the eye of heaven shines,
And often is his gold complexion dimm'd;
And every fair from fair sometime declines,
By chance or nature's changing course untrimm'd;
But thy eternal summer shall not fade,
Nor lose possession of that fair thou ow'st;
Nor shall Death brag thou wander'st in his shade,
When in eternal lines to time thou grow'st:
So long as men can breathe or eyes can see,
So long lives this, and this gives life to thee.
"""


class Gpt(nn.Module):
    def __init__(self, symbols: int, width: int = 96, heads: int = 4, layers: int = 3, context: int = 64) -> None:
        self.context = context
        self.embed, self.position = nn.Embedding(symbols, width), nn.LearnedPositions(context, width)
        self.body = nn.TransformerEncoder(
            width, heads, 4 * width, layers, dropout=0.0, activation="gelu", norm_first=True
        )
        self.head = nn.Linear(width, symbols, bias=False)

    def forward(self, tokens: burn.Tensor) -> burn.Tensor:
        return self.head(self.body(self.position(self.embed(tokens)), causal=True))


def loss(model: nn.Module, text: burn.Tensor) -> burn.Tensor:
    """How surprised the model is by every letter but the first."""
    scores = model(text[:, :-1])
    return nn.CrossEntropyLoss()(scores.reshape(-1, scores.shape[-1]), text[:, 1:].reshape(-1))


@dataclass(frozen=True)
class Letters:
    """A text's letters and their numbers."""

    known: str

    def encode(self, text: str) -> np.ndarray:
        return np.array([self.known.index(letter) for letter in text], np.int32)

    def decode(self, tokens: list[int]) -> str:
        return "".join(self.known[token] for token in tokens)


def write(model: Gpt, letters: Letters, start: str, count: int, warmth: float = 0.8, seed: int = 0) -> str:
    """`count` letters after a start, each drawn from the model's distribution after the last `context` ones. warmth: a value
    below 1 prefers likely letters."""
    beginning = letters.encode(start)
    text = burn.generate(model, beginning, count, temperature=warmth, seed=seed, cache=False, context=model.context)
    return letters.decode(text.tolist())


def main(
    path: str | None = None,
    epochs: int = 3,
    batch: int = 16,
    context: int = 64,
    written: int = 300,
    device: str = "cpu",
    **size: int,
) -> float:
    """Trains, writes something, and returns the loss of the part of the text that was not trained on."""
    text = Path(path).read_text() if path else SONNET * 20
    letters = Letters("".join(sorted(set(text))))
    held_out = len(text) // 10
    rows = data.Memory(letters.encode(text))
    train, valid = rows[:-held_out].window(context + 1, context), rows[-held_out:].window(context + 1, context)

    burn.manual_seed(0)
    model = Gpt(len(letters.known), context=context, **size)
    loader = data.Loader(train, batch, shuffle=True)
    rate = optim.cosine(2e-3, total=epochs * len(loader), warmup=20)
    optimizer = optim.AdamW(model, lr=rate, weight_decay=0.1)
    learner = burn.train.Learner(model, loss, optimizer, clip_norm=1.0, device=device)
    summary = learner.fit(loader, data.Loader(valid, batch), epochs=epochs)
    model.eval()
    print(write(model, letters, text[:1], written))
    return summary.valid["loss"]


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
