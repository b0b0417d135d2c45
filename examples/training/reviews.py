"""Text classification: is a sentence praise or blame? Single words do not decide it, their context does ("not a bad film").

python examples/training/reviews.py            # sentences that a small grammar makes, some seconds
python examples/training/reviews.py FOLDER     # texts in the folders FOLDER/negative and FOLDER/positive
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import burn
from burn import data, nn, optim
from burn.train import metrics

GOOD, BAD = ("good", "fine", "lovely", "brilliant", "moving"), ("bad", "dull", "awful", "weak", "tiring")
THINGS, OPENINGS = ("film", "book", "play", "song", "meal"), ("it was", "i call it", "we found it", "they say it is")
ENDINGS = ("", "all in all", "if you ask me", "to be honest", "and so did my friends think")
LONGEST = 64


def grammar() -> list[tuple[str, int]]:
    """Every sentence, with 1 for praise."""
    return [
        (f"{opening} {'not ' if turned else ''}a {word} {thing} {ending}".strip(), int((word in GOOD) != turned))
        for opening in OPENINGS
        for turned in (False, True)
        for word in GOOD + BAD
        for thing in THINGS
        for ending in ENDINGS
    ]


@dataclass(frozen=True)
class Words:
    """Numbers of words: 0 fills sentences up, 1 is a word that was not seen."""

    known: tuple[str, ...]

    @classmethod
    def of(cls, texts: Iterable[str], most: int = 10_000) -> Words:
        count: dict[str, int] = {}
        for word in (word for text in texts for word in split(text)):
            count[word] = count.get(word, 0) + 1
        return cls(tuple(sorted(count, key=lambda word: (-count[word], word))[:most]))

    def __call__(self, row: tuple[str, int]) -> tuple[list[int], int]:
        numbers = {word: i + 2 for i, word in enumerate(self.known)}
        return [numbers.get(word, 1) for word in split(row[0])[:LONGEST]], row[1]


def split(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


class Classifier(nn.Module):
    def __init__(self, words: int, width: int = 32) -> None:
        self.embed, self.position = nn.Embedding(words, width), nn.LearnedPositions(LONGEST, width)
        self.body = nn.TransformerEncoder(width, 4, 2 * width, 1, dropout=0.0, norm_first=True)
        self.head = nn.Linear(width, 2)

    def forward(self, tokens: burn.Tensor) -> burn.Tensor:
        own = tokens != 0
        x = self.body(self.position(self.embed(tokens)), key_mask=own)
        weight = own.astype("float32").unsqueeze(-1)
        return self.head((x * weight).sum(1) / weight.sum(1))


def main(folder: str | None = None, epochs: int = 8, device: str = "cpu") -> float:
    """Trains, and returns the share of sentences read right that were not trained on."""
    rows: Any = data.TextFolder(folder) if folder else data.Memory(grammar())
    train, valid = rows.split(0.8, 0.2, seed=0)
    words = Words.of(text for text, _ in train)
    fill = data.Padded(0, multiple=16)  # few lengths: each is a program of its own
    batches = [
        data.Loader(part.map(words).cached(), 64, shuffle=part is train, collate=fill) for part in (train, valid)
    ]
    burn.manual_seed(0)
    model = Classifier(len(words.known) + 2)
    rate = optim.cosine(4e-3, total=epochs * len(batches[0]), warmup=10)
    learner = burn.train.Learner(
        model,
        nn.CrossEntropyLoss(),
        optim.AdamW(model, lr=rate),
        metrics=[metrics.Accuracy()],
        clip_norm=1.0,
        device=device,
    )
    return learner.fit(*batches, epochs=epochs).valid["accuracy"]


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
