"""The network that the page train.html trains in the browser, and its digits.

    python examples/web/train.py
    burn-compile examples/web/train.py:step --input 'image=float32[batch,1,8,8]' --input 'label=int64[batch]' \\
        --target wasm32 --emit wasm -o examples/web/trainer

The script writes digits.json: UCI's digits of examples/digits/holdout.npz, 360 images of 8 x 8 pixels from 0 to 16. The page
trains on 260 of them and measures the network on the others."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

import burn
from burn import nn, optim

HERE = Path(__file__).parent


class Network(nn.Module):
    """Image float32[batch, 1, 8, 8], of 0 to 16 -> float32[batch, 10]."""

    def __init__(self) -> None:
        self.first = nn.Conv2d(1, 16, 3, padding=1)
        self.second = nn.Conv2d(16, 32, 3, stride=2, padding=1)
        self.drop = nn.Dropout(0.3)
        self.head = nn.Linear(32 * 16, 10)

    def forward(self, image: burn.Tensor) -> burn.Tensor:
        x = burn.relu(self.second(burn.relu(self.first(image / 16.0))))
        return self.head(self.drop(x.reshape(x.shape[0], 32 * 16)))


def loss(network: Network, image: burn.Tensor, label: burn.Tensor) -> burn.Tensor:
    return nn.CrossEntropyLoss()(network(image), label)


burn.manual_seed(0)
network = Network()
step = burn.train.step(network, loss, optim.AdamW(network, lr=optim.cosine(5e-3, 600, last=5e-4)))


def main() -> None:
    with np.load(HERE.parent / "digits" / "holdout.npz") as digits:
        found = {"images": digits["images"].reshape(-1, 64).tolist(), "labels": digits["labels"].tolist()}
    (HERE / "digits.json").write_text(json.dumps(found, separators=(",", ":")))


if __name__ == "__main__":
    main()
