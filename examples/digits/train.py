"""Train the digit classifier of this example with PyTorch and write `digits.onnx` and `holdout.npz` beside this file.

Both results are in the repository, so that demo.py needs neither PyTorch nor scikit-learn. To make them again:

    pip install torch onnxscript scikit-learn && python examples/digits/train.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.nn import functional as F

HERE = Path(__file__).parent
EPOCHS, BATCH, RATE = 40, 64, 3e-3
REQUIRED = 0.97  # accuracy on the held-out fifth


class Digits(nn.Module):
    """Two convolutions at 8x8, one at 4x4, two linear layers; takes pixels as they are stored, 0 to 16."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.norm1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.norm2 = nn.BatchNorm2d(32)
        self.conv3 = nn.Conv2d(32, 32, 3, padding=1)
        self.norm3 = nn.BatchNorm2d(32)
        self.dropout = nn.Dropout(0.3)
        self.hidden = nn.Linear(32 * 2 * 2, 64)
        self.output = nn.Linear(64, 10)

    def forward(self, image: Tensor) -> Tensor:
        x = F.relu(self.norm1(self.conv1(image / 16)))
        x = F.max_pool2d(F.relu(self.norm2(self.conv2(x))), 2)
        x = F.avg_pool2d(F.relu(self.norm3(self.conv3(x))), 2)
        x = F.relu(self.hidden(self.dropout(x.flatten(1))))
        return self.output(self.dropout(x))


def train(images: Tensor, labels: Tensor) -> Digits:
    torch.manual_seed(0)
    model = Digits()
    optimizer = torch.optim.AdamW(model.parameters(), RATE)
    steps = EPOCHS * -(-len(images) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=steps)
    for epoch in range(EPOCHS):
        total = 0.0
        for rows in torch.randperm(len(images)).split(BATCH):
            loss = F.cross_entropy(model(images[rows]), labels[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item() * len(rows)
        if (epoch + 1) % 10 == 0:
            print(f"epoch {epoch + 1}: loss {total / len(images):.4f}")
    return model.eval()


def main() -> None:
    torch.set_num_threads(1)  # sums in a fixed order: the same weights every time on one kind of machine
    data: Any = load_digits()
    pixels = data.images.astype(np.float32)[:, None]
    parts: Any = train_test_split(pixels, data.target, test_size=0.2, random_state=0, stratify=data.target)
    known, held, known_labels, held_labels = parts
    model = train(torch.from_numpy(known), torch.from_numpy(known_labels))
    with torch.no_grad():
        logits = model(torch.from_numpy(held))
    accuracy = float((logits.argmax(1).numpy() == held_labels).mean())
    print(f"accuracy on {len(held)} held-out digits: {accuracy:.2%}")
    if accuracy < REQUIRED:
        raise SystemExit(f"below {REQUIRED:.0%}: nothing written")
    # The TorchScript exporter in its "preserve" mode keeps the network's own layers: the default exporter folds
    # normalisations into convolutions, and writes stack traces with this machine's paths into the file.
    torch.onnx.export(
        model,
        (torch.from_numpy(known[:2]),),
        str(HERE / "digits.onnx"),
        dynamo=False,
        training=torch.onnx.TrainingMode.PRESERVE,
        opset_version=17,
        input_names=["image"],
        output_names=["logits"],
        dynamic_axes={"image": {0: "batch"}, "logits": {0: "batch"}},
    )
    np.savez_compressed(
        HERE / "holdout.npz",
        images=held.astype(np.uint8),
        labels=held_labels.astype(np.uint8),
        logits=logits.numpy(),
    )


if __name__ == "__main__":
    main()
