"""Fine-tuning an imported ONNX model: one that reads digits learns to read them lying on their side.

python examples/training/finetune.py            # some seconds

`burn.load(path, train=True)` makes the file a module. Its convolutions are frozen and the rest is trained. The result is an
ONNX file again.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

import burn
from burn import data, nn, optim
from burn.train import metrics

DIGITS = Path(__file__).parents[1] / "digits"


def main(epochs: int = 30, device: str = "cpu") -> tuple[float, float]:
    """Fine-tunes, and returns the shares of turned digits that were read right before and after."""
    digits = np.load(DIGITS / "holdout.npz")  # what the model was not trained on
    turned = np.rot90(digits["images"].astype(np.float32), axes=(-2, -1)).copy()
    train, valid = data.Memory((turned, digits["labels"].astype(np.int64))).split(260, 100, seed=0)
    burn.manual_seed(0)
    model = burn.load(DIGITS / "digits.onnx", train=True).freeze("conv")
    rate = optim.one_cycle(3e-3, total=epochs * 9)
    learner = burn.train.Learner(
        model,
        nn.CrossEntropyLoss(),
        optim.AdamW(model, lr=rate),
        metrics=[metrics.Accuracy()],
        progress=False,
        device=device,
    )
    checked = data.Loader(valid, 100)
    before = learner.evaluate(checked)["accuracy"]
    summary = learner.fit(data.Loader(train, 32, shuffle=True), checked, epochs=epochs)

    with tempfile.TemporaryDirectory() as folder:
        burn.export(model.eval(), f"{folder}/turned.onnx", ("float32[batch, 1, 8, 8]",))
        images, labels = data.collate(list(valid))
        after = float((burn.load(f"{folder}/turned.onnx")(images).argmax(-1) == labels).mean())
    for row in summary.history[:: max(1, epochs // 6)]:
        print(f"epoch {row['epoch']}: loss {row['valid']['loss']:.4f}, {row['valid']['accuracy']:.0%} right")
    print(f"turned digits read right: {before:.0%} before, {after:.0%} after")
    return before, after


if __name__ == "__main__":
    main()
