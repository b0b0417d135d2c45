"""One training step of the digit network's last layer, for a microcontroller; and rows for it to train on.

    python adapt.py                  # writes rows.h
    burn-compile adapt.py:Adapt --target thumbv7em-none-eabihf --emit static -o adapt

The step is a function of the last layer, which returns the next one: the caller owns the state.
The other layers stay as they are, in flash. The rows are digits as a camera behind a mirror sees them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import numpy as np

import burn
from burn import nn

HERE = Path(__file__).parent
DIGITS = HERE.parent / "digits"
RATE = 0.02
TRAINED = 260


class Adapt(nn.Module):
    """A step of gradient descent on one image."""

    inputs: ClassVar = {
        "image": "float32[1, 1, 8, 8]",
        "label": "int64[1]",
        "weight": "float32[10, 64]",
        "bias": "float32[10]",
    }
    outputs = ("logits", "next_weight", "next_bias")

    def __init__(self) -> None:
        self.conv1, self.norm1 = nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16)
        self.conv2, self.norm2 = nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32)
        self.conv3, self.norm3 = nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32)
        self.hidden = nn.Linear(128, 64)
        self.load(trained(), exclude="output")
        self.eval()

    def features(self, image: burn.Tensor) -> burn.Tensor:
        x = burn.relu(self.norm1(self.conv1(image / 16.0)))
        x = nn.MaxPool2d(2, 2)(burn.relu(self.norm2(self.conv2(x))))
        x = nn.AvgPool2d(2, 2)(burn.relu(self.norm3(self.conv3(x))))
        return burn.relu(self.hidden(x.reshape(1, 128)))

    def forward(
        self, image: burn.Tensor, label: burn.Tensor, weight: burn.Tensor, bias: burn.Tensor
    ) -> dict[str, burn.Tensor]:
        features = self.features(image)

        def loss(weight: burn.Tensor, bias: burn.Tensor) -> burn.Tensor:
            return nn.CrossEntropyLoss()(features @ weight.T + bias, label)

        _, (of_weight, of_bias) = burn.value_and_grad(loss, argnums=(0, 1))(weight, bias)
        logits = features @ weight.T + bias
        return {"logits": logits, "next_weight": weight - RATE * of_weight, "next_bias": bias - RATE * of_bias}


def trained() -> dict[str, np.ndarray]:
    """The parameters of digits.onnx."""
    return burn.load(DIGITS / "digits.onnx", train=True).state_dict()


def header() -> Iterator[str]:
    """rows.h: mirrored digits with labels, and the last layer to begin with."""
    with np.load(DIGITS / "holdout.npz") as found:
        images, labels = found["images"][..., ::-1].reshape(-1, 64), found["labels"]
    state = trained()
    yield f"enum {{ ROWS = {len(labels)}, TRAINED = {TRAINED} }};"
    yield f"static const unsigned char images[ROWS][64] = {{{', '.join(map(str, images.ravel()))}}};"
    yield f"static const unsigned char labels[ROWS] = {{{', '.join(map(str, labels))}}};"
    for name in ("weight", "bias"):
        values = state[f"output.{name}"].ravel()
        yield f"static const float first_{name}[{len(values)}] = {{{', '.join(f'{v!r}f' for v in values.tolist())}}};"


if __name__ == "__main__":
    (HERE / "rows.h").write_text("\n".join(header()) + "\n")
