"""A small training that can be killed and goes on: `python -m tests.train.resuming FOLDER KIND` writes a line a step, and at the
end a digest of everything that it came to. KIND is where its batches come from. It reads a line of its input after each step, so
that it is never many steps ahead of the process that kills it."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import burn
from burn import nn, optim
from burn.data import Loader
from burn.train import EarlyStopping, Feed, Keep, Learner
from burn.train.events import Control, Event, Stepped
from burn.train.metrics import AUROC, Accuracy

BATCHES, EPOCHS = 30, 8
STEPS = BATCHES * EPOCHS


class Net(nn.Module):
    def __init__(self) -> None:
        self.first, self.norm, self.drop = nn.Linear(6, 16), nn.BatchNorm1d(16), nn.Dropout(0.3)
        self.head = nn.Linear(16, 2)

    def forward(self, x: burn.Tensor) -> burn.Tensor:
        return self.head(self.drop(burn.relu(self.norm(self.first(x)))))


def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 16 * BATCHES - 5)  # the last batch is smaller
    return (rng.standard_normal((len(y), 6)) + 0.5 * y[:, None]).astype(np.float32), y


def shuffled() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """An epoch in an order that numpy's own generator gives."""
    x, y = data()
    order = np.random.permutation(len(y))  # noqa: NPY002  # as people's data is shuffled
    for start in range(0, len(y), 16):
        yield x[order[start : start + 16]], y[order[start : start + 16]]


def batches(kind: str) -> Any:
    """A function that shuffles with numpy's generator; or a loader, which saves its position, with worker processes or
    without."""
    return (
        shuffled if kind == "numpy" else Loader(data(), 16, shuffle=True, seed=5, workers=2 if kind == "workers" else 0)
    )


is_led = False
"""True if another process says when the training goes on."""


def tell(event: Event, control: Control) -> None:
    if isinstance(event, Stepped):
        print("step", event.step, flush=True)
        if is_led:
            sys.stdin.readline()


def learner(folder: Path | None, every: int | None = 4) -> Learner:
    burn.manual_seed(7)
    np.random.seed(3)  # noqa: NPY002
    model = Net()
    optimizer = optim.AdamW(model, lr=0.02)
    return Learner(
        model,
        nn.CrossEntropyLoss(),
        optimizer,
        metrics=[Accuracy(), AUROC()],
        folder=folder,
        keep=Keep(last=2, best="accuracy", every=every),
        observers=[EarlyStopping(patience=EPOCHS), Feed(optim.Plateau(optimizer, factor=0.5, patience=0)), tell],
        progress=False,
    )


def train(folder: Path | None, kind: str) -> str:
    """The digest of a training, gone on with where it stopped."""
    made = learner(folder)
    x, y = data()
    summary = made.fit(
        batches(kind), Loader((x[:100], y[:100]), 32, shuffle=True), epochs=EPOCHS, resume=folder is not None
    )
    digest = hashlib.sha256(json.dumps(summary.history, sort_keys=True).encode())
    for state in (made.model.state_dict(), made.optimizers[""].state_dict()):
        for name, array in sorted(state.items()):
            digest.update(name.encode() + array.tobytes())
    return f"{summary.reason} {summary.steps} {digest.hexdigest()}"


if __name__ == "__main__":
    is_led = True
    print(train(Path(sys.argv[1]), sys.argv[2]), flush=True)
