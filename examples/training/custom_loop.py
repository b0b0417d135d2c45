"""A loop of one's own: what a step does is written out, and is one compiled program all the same.

python examples/training/custom_loop.py            # some seconds

Here it does what `burn.train.step` does not: it follows the parameters with a moving average, and the averaged model is the one
that is asked in the end.
"""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np

import burn
from burn import data, nn, optim

DIGITS = Path(__file__).parents[1] / "digits" / "holdout.npz"


def network(width: int = 64) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, width), nn.GELU(), nn.Dropout(0.2), nn.Linear(width, 10))


def main(epochs: int = 40, keep: float = 0.95, device: str = "cpu") -> tuple[float, float]:
    """Trains, and returns the shares that the model and its average read right."""
    digits = np.load(DIGITS)
    rows = data.Memory((digits["images"].astype(np.float32) / 8 - 1, digits["labels"].astype(np.int64)))
    train, valid = rows.split(300, 60)
    images, labels = next(iter(data.Loader(valid, len(valid))))
    images = burn.tensor(images, device=device)  # where the models are

    burn.manual_seed(0)
    model = network().to(device).train()
    average = copy.deepcopy(model).eval()
    optimizer = optim.AdamW(model, lr=optim.cosine(3e-3, total=epochs * 10))

    @burn.jit(dynamic={"x": {0: "batch"}, "y": {0: "batch"}})
    def step(x: burn.Tensor, y: burn.Tensor) -> burn.Tensor:
        value, gradients = burn.value_and_grad(lambda m: nn.CrossEntropyLoss(label_smoothing=0.1)(m(x), y))(model)
        optimizer.update(optim.clip_by_norm(gradients, 1.0))
        for mean, now in zip(average.parameters(), model.parameters(), strict=True):
            mean.assign(keep * mean + (1 - keep) * now)
        return value

    loader = data.Loader(train, 32, shuffle=True)
    for epoch in range(epochs):
        values = [float(step(x, y)) for x, y in loader]
        if (epoch + 1) % max(1, epochs // 8) == 0:
            print(f"epoch {epoch + 1}: loss {np.mean(values):.4f}, average reads {right(average, images, labels):.1%}")
    return right(model.eval(), images, labels), right(average, images, labels)


def right(model: nn.Module, images: burn.Tensor, labels: np.ndarray) -> float:
    return float((model(images).argmax(-1).numpy() == labels).mean())


if __name__ == "__main__":
    main()
