"""Regression from a CSV file: what a house costs, by columns of numbers and words.

python examples/training/houses.py            # houses.csv, which is made up, some seconds
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import burn
from burn import data, nn, optim
from burn.train import metrics

FILE = Path(__file__).parent / "houses.csv"
NUMBERS = ("rooms", "area", "age", "distance")
KINDS = ("flat", "terraced", "detached")


class Price(nn.Module):
    def __init__(self, mean: np.ndarray, spread: np.ndarray, width: int = 32) -> None:
        self.mean, self.spread = burn.constant(mean), burn.constant(spread)
        self.kind = nn.Embedding(len(KINDS), 4)
        self.body = nn.Sequential(nn.Linear(len(NUMBERS) + 4, width), nn.GELU(), nn.Linear(width, 1))

    def forward(self, numbers: burn.Tensor, kind: burn.Tensor) -> burn.Tensor:
        scaled = (numbers - self.mean) / self.spread
        return self.body(burn.concat([scaled, self.kind(kind)], axis=-1)).squeeze(-1)


def loss(model: nn.Module, numbers: burn.Tensor, kind: burn.Tensor, price: burn.Tensor) -> Any:
    """The loss, and what metrics compare."""
    estimate = model(numbers, kind)
    return nn.HuberLoss()(estimate, price), estimate, price


def arrays(row: dict[str, Any]) -> dict[str, Any]:
    """A row of the file as the loss takes it; prices in hundreds of thousands."""
    numbers = np.array([row[name] for name in NUMBERS], np.float32)
    return {"numbers": numbers, "kind": KINDS.index(row["kind"]), "price": row["price"] / 1e5}


def main(epochs: int = 30, device: str = "cpu") -> float:
    """Trains, and returns R2 of the houses that were not trained on."""
    rows = data.Csv(FILE, types={**dict.fromkeys(NUMBERS, float), "price": float})
    train, valid = rows.map(arrays).cached().split(0.8, 0.2, seed=0)
    every = data.collate(list(train))["numbers"]
    burn.manual_seed(0)
    model = Price(every.mean(0), every.std(0))
    rate = optim.one_cycle(0.02, total=epochs * -(-len(train) // 32))
    measured = [metrics.MAE(), metrics.R2()]
    learner = burn.train.Learner(model, loss, optim.AdamW(model, lr=rate), metrics=measured, device=device)
    summary = learner.fit(data.Loader(train, 32, shuffle=True), data.Loader(valid, 64), epochs=epochs)
    return summary.valid["r2"]


if __name__ == "__main__":
    main()
