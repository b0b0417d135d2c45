"""A convolutional network learns to read digits: an experiment, which can be run as it is or with other settings.

Usage:

    python examples/training/digits.py            # 8 x 8 digits that are in the repository, some seconds
    python examples/training/digits.py FOLDER     # MNIST's files t10k-*.gz in a folder: 9,000 images, about a minute
    burn train examples/training/digits.py:Digits --set folder=FOLDER --set rate=2e-3 --dir runs/1 --device cuda

The third command trains on a GPU and keeps checkpoints in runs/1.
"""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import numpy as np

import burn
from burn import data, nn, optim, train
from burn.train import metrics

HERE = Path(__file__).parent


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


class Digits(train.Experiment):
    epochs: int = 8
    folder: str = ""  # of MNIST's files; the small digits without
    batch: int = 64
    rate: float = 4e-3  # the highest learning rate

    def images(self) -> tuple[np.ndarray, np.ndarray, int]:
        """Images, labels, and how many of the last are held out."""
        return mnist(Path(self.folder)) if self.folder else small()

    def data(self) -> tuple[data.Loader, data.Loader]:
        images, labels, held_out = self.images()
        read = data.Loader((images[:-held_out], labels[:-held_out]), self.batch, shuffle=True, seed=self.seed)
        return read, data.Loader((images[-held_out:], labels[-held_out:]), 250)

    def learner(self) -> train.Learner:
        images, _, held_out = self.images()
        steps = self.epochs * -(-(len(images) - held_out) // self.batch)
        model = Network(images.shape[-1])
        optimizer = optim.AdamW(model, lr=optim.one_cycle(self.rate, total=steps))
        return train.Learner(model, nn.CrossEntropyLoss(), optimizer, metrics=[metrics.Accuracy()])


def main(folder: str = "", epochs: int = 8, device: str = "cpu") -> float:
    """Trains, and returns the share of images read right that were not trained on."""
    return Digits(folder=folder, epochs=epochs).run(device=device).valid["accuracy"]


def small() -> tuple[np.ndarray, np.ndarray, int]:
    """360 digits; 60 of them are held out."""
    data = np.load(HERE.parent / "digits" / "holdout.npz")
    return data["images"].astype(np.float32) / 8 - 1, data["labels"].astype(np.int64), 60


def mnist(folder: Path) -> tuple[np.ndarray, np.ndarray, int]:
    """10,000 images (Y. LeCun et al. 1998); the last 1,000 are held out."""
    images = np.frombuffer(gzip.decompress((folder / "t10k-images-idx3-ubyte.gz").read_bytes()), np.uint8)[16:]
    labels = np.frombuffer(gzip.decompress((folder / "t10k-labels-idx1-ubyte.gz").read_bytes()), np.uint8)[8:]
    pixels = (images.reshape(-1, 1, 28, 28).astype(np.float32) / 255 - 0.13) / 0.31
    return pixels, labels.astype(np.int64), 1000


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
