"""A convolutional network learns to read digits: model, loss, optimizer, and one compiled step.

python examples/training/digits.py            # 8 x 8 digits that are in the repository, some seconds
python examples/training/digits.py FOLDER     # MNIST's files t10k-*.gz in a folder: 9,000 images, about a minute
"""

from __future__ import annotations

import gzip
import sys
import time
from pathlib import Path

import numpy as np

import burn
from burn import nn, optim

HERE = Path(__file__).parent
BATCH = 64


class Network(nn.Module):
    def __init__(self, size: int) -> None:
        self.first, self.first_norm = nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16)
        self.second, self.second_norm = nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32)
        self.pool, self.drop = nn.MaxPool2d(2), nn.Dropout(0.3)
        self.hidden, self.head = nn.Linear(32 * (size // 4) ** 2, 128), nn.Linear(128, 10)

    def forward(self, x: burn.Tensor) -> burn.Tensor:
        x = self.pool(burn.relu(self.first_norm(self.first(x))))
        x = self.pool(burn.relu(self.second_norm(self.second(x))))
        return self.head(self.drop(burn.relu(self.hidden(x.reshape(x.shape[0], -1)))))


def loss(model: nn.Module, images: burn.Tensor, labels: burn.Tensor) -> burn.Tensor:
    return nn.CrossEntropyLoss()(model(images), labels)


def main(folder: str | None = None, epochs: int = 8) -> float:
    """Trains, and returns the share of images read right that were not trained on."""
    images, labels, held_out = mnist(Path(folder)) if folder else small()
    count = len(images) - held_out
    burn.manual_seed(0)
    order = np.random.default_rng(0)
    model = Network(images.shape[-1])
    rate = optim.one_cycle(4e-3, total=epochs * -(-count // BATCH))
    step = burn.train.step(model, loss, optim.AdamW(model, lr=rate))
    read = burn.jit(lambda x: model(x).argmax(-1), dynamic={"x": {0: "n"}})
    right = 0.0
    start = time.perf_counter()
    for epoch in range(epochs):
        places = order.permutation(count)
        total = 0.0
        for first in range(0, count, BATCH):
            batch = places[first : first + BATCH]
            total += float(step(images[batch], labels[batch])) * len(batch)
        model.eval()
        right = float((read(images[count:]) == labels[count:]).mean())
        model.train()
        print(f"epoch {epoch + 1}: loss {total / count:.4f}, {right:.1%} right, {time.perf_counter() - start:.1f} s")
    return right


def small() -> tuple[np.ndarray, np.ndarray, int]:
    """360 digits, of which 60 are held out."""
    data = np.load(HERE.parent / "digits" / "holdout.npz")
    return data["images"].astype(np.float32) / 8 - 1, data["labels"].astype(np.int64), 60


def mnist(folder: Path) -> tuple[np.ndarray, np.ndarray, int]:
    """10,000 images (Y. LeCun et al. 1998), of which the last 1,000 are held out."""
    images = np.frombuffer(gzip.decompress((folder / "t10k-images-idx3-ubyte.gz").read_bytes()), np.uint8)[16:]
    labels = np.frombuffer(gzip.decompress((folder / "t10k-labels-idx1-ubyte.gz").read_bytes()), np.uint8)[8:]
    pixels = (images.reshape(-1, 1, 28, 28).astype(np.float32) / 255 - 0.13) / 0.31
    return pixels, labels.astype(np.int64), 1000


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
