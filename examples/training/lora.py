"""LoRA (arXiv:2106.09685) on an imported transformer: a model that writes like one text learns the manner of another, by thin
matrices beside its large ones.

python examples/training/lora.py            # some seconds

The transformer comes from an ONNX file, as the source that `burn import` writes: its layers are layers, which can be replaced.
"""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import burn
from burn import data, nn, optim
from burn.cli.import_ import main as burn_import

sys.path.insert(0, str(Path(__file__).parent))
from shakespeare import SONNET, Gpt, Letters, loss

CONTEXT = 32
OTHER = SONNET.upper()
LETTERS = Letters("".join(sorted(set(SONNET + OTHER))))


class Lora(nn.Module):
    """A frozen linear layer, plus the matmul of two thin matrices, zero at first."""

    def __init__(self, base: nn.Linear, rank: int, scale: float = 2.0) -> None:
        self.base, self.scale = base.freeze(), scale
        self.down, self.up = (
            nn.Linear(base.in_features, rank, bias=False),
            nn.Linear(rank, base.out_features, bias=False),
        )
        self.up.weight.reset(nn.init.zeros)

    def forward(self, x: burn.Tensor) -> burn.Tensor:
        return self.base(x) + self.up(self.down(x)) * self.scale

    def merged(self) -> nn.Linear:
        """One linear layer that does the same."""
        beside = self.up.weight @ self.down.weight * self.scale
        self.base.weight.assign(self.base.weight + (beside.T if self.base.transposed else beside))
        return self.base


def replace(model: nn.Module, kind: type[nn.Module], new: Callable[[Any], nn.Module]) -> None:
    """Puts new(layer) in the place of every layer of a kind."""
    for _, parent in list(model.named_modules()):
        for name, layer in list(vars(parent).items()):
            if isinstance(layer, kind):
                setattr(parent, name, new(layer))


def rows(text: str) -> data.Dataset:
    return data.Memory(LETTERS.encode(text * 10)).window(CONTEXT + 1, 7)


def train(model: nn.Module, text: str, epochs: int, device: str) -> list[float]:
    """The loss of each epoch."""
    optimizer = optim.AdamW(model, lr=3e-3)
    learner = burn.train.Learner(model, loss, optimizer, clip_norm=1.0, progress=False, device=device)
    summary = learner.fit(data.Loader(rows(text), 32, shuffle=True), epochs=epochs)
    return [row["train"]["loss"] for row in summary.history]


def imported(folder: Path, epochs: int, device: str) -> nn.Module:
    """A transformer that has learned the sonnet, through an ONNX file."""
    model = Gpt(len(LETTERS.known), 64, 4, 2, CONTEXT)
    if epochs:
        train(model, SONNET, epochs, device)
    burn.export(model.eval(), folder / "gpt.onnx", ("int32[batch, n]",))
    burn_import([str(folder / "gpt.onnx"), "-o", str(folder / "out")], standalone_mode=False)
    spec = importlib.util.spec_from_file_location("model", folder / "out" / "model.py")
    assert spec is not None and spec.loader is not None
    source = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(source)
    return source.Model.from_file(folder / "out" / "model.safetensors")


def main(epochs: int = 6, before: int = 6, rank: int = 8, device: str = "cpu") -> tuple[list[float], float]:
    """Trains; returns the losses of the epochs, and how far apart the model with small matrices and the merged one are."""
    burn.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        model = imported(Path(folder), before, device)
    model.freeze()
    replace(model, nn.Linear, lambda layer: Lora(layer, rank))
    print(f"{model.num_params(trainable=True):,} of {model.num_params():,} parameters are trained")
    losses = train(model, OTHER, epochs, device)
    print("loss", "  ".join(f"{value:.3f}" for value in losses))

    some = burn.tensor(np.stack([rows(OTHER)[i][:-1] for i in range(4)]), device=device)
    wanted = model.eval()(some).numpy()
    replace(model, Lora, Lora.merged)
    return losses, float(np.abs(model(some).numpy() - wanted).max())


if __name__ == "__main__":
    main()
