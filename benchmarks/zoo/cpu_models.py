"""The models of `benchmarks/cpu_zoo.py`: their names, drawn or generated, torch modules with random weights, and ONNX files."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import torch

SEED = 34
FEATURES, ROWS = 20, 500
"""Of the tables that tabular models learn."""

Entry = dict[str, Any]


# ---- names ---------------------------------------------------------------------------------------------------------------
def drawn_names() -> list[Entry]:
    """Those of the GPU zoo, and kinds that it does not have, in random order: any number of the first ones is a sample."""
    from zoo.names import drawn_names as of_gpus

    rng = random.Random(SEED)
    further = [*_segmentation(), *_audio(rng), *_tabular(rng), *_recurrent(rng), *_dilated(rng), *_super(rng)]
    names = [*of_gpus(), *further]
    rng.shuffle(names)
    return names


def _segmentation() -> list[Entry]:
    import torchvision

    names = torchvision.models.list_models(module=torchvision.models.segmentation)
    return [{"list": "segmentation", "name": name} for name in names if "101" not in name]


def _audio(rng: random.Random) -> list[Entry]:
    from transformers.models.auto import modeling_auto

    names = sorted(modeling_auto.MODEL_FOR_CTC_MAPPING_NAMES)
    return [{"list": "audio", "name": name} for name in rng.sample(names, min(4, len(names)))]


def _tabular(rng: random.Random) -> list[Entry]:
    from sklearn.utils import all_estimators

    named = ("Forest", "Boosting", "Trees", "SVC", "MLP", "LogisticRegression", "Neighbors")
    names = [name for name, _ in all_estimators("classifier") if any(part in name for part in named)]
    return [{"list": "tabular", "name": name} for name in rng.sample(names, min(6, len(names)))]


def _recurrent(rng: random.Random) -> list[Entry]:
    return [
        {"list": "recurrent", "name": f"{kind}-{width}x{layers}{'-both' * both}", "kind": kind, "width": width,
         "layers": layers, "both": both, "steps": rng.choice((25, 100, 250))}
        for kind in ("LSTM", "GRU", "RNN")
        for width, layers, both in [(rng.choice((48, 64, 128, 200, 320)), rng.randint(1, 3), rng.random() < 0.5)]
    ]  # fmt: skip


def _dilated(rng: random.Random) -> list[Entry]:
    """Stacks of 1-D convolutions whose dilation doubles, as in WaveNet and temporal convolutional networks."""
    found: dict[str, Entry] = {}
    while len(found) < 3:
        width, taps, layers = rng.choice((32, 64, 96, 128)), rng.choice((2, 3, 5)), rng.randint(5, 9)
        length = rng.choice((200, 1000, 4000))
        name = f"tcn-{width}-k{taps}-{layers}-t{length}"
        sizes = {"width": width, "taps": taps, "layers": layers, "steps": length}
        found[name] = {"list": "temporal", "name": name, **sizes}
    return list(found.values())


def _super(rng: random.Random) -> list[Entry]:
    """Residual blocks at the low resolution, then a pixel shuffle, as in EDSR."""
    found = []
    for _ in range(2):
        width, blocks, scale = rng.choice((16, 32, 48, 64)), rng.randint(2, 8), rng.choice((2, 3, 4))
        name = f"edsr-{width}x{blocks}-x{scale}"
        found.append({"list": "super-resolution", "name": name, "width": width, "blocks": blocks, "scale": scale})
    return found


# ---- models --------------------------------------------------------------------------------------------------------------
def made(entry: Entry, batch: int) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """A torch module with random weights, and its inputs."""
    import torch

    torch.manual_seed(0)
    match entry["list"]:
        case "segmentation":
            import torchvision

            from zoo.models import Tensors

            model = torchvision.models.get_model(entry["name"], weights=None, weights_backbone=None)
            return Tensors(model).eval(), (torch.randn(batch, 3, 256, 256),)
        case "audio":
            from transformers import AutoConfig, AutoModel

            from zoo.models import Tensors

            model = AutoModel.from_config(AutoConfig.for_model(entry["name"]))
            return Tensors(model).eval(), (torch.randn(batch, 16000),)
        case "recurrent":
            from zoo.models import Tensors

            make = getattr(torch.nn, entry["kind"])
            cells = make(64, entry["width"], entry["layers"], batch_first=True, bidirectional=entry["both"])
            return Tensors(cells).eval(), (torch.randn(batch, entry["steps"], 64),)
        case "temporal":
            return _temporal(entry).eval(), (torch.randn(batch, 16, entry["steps"]),)
        case "super-resolution":
            return _upscaling(entry).eval(), (torch.randn(batch, 3, 96, 96),)
        case _:
            from zoo.models import made as of_gpus

            module, inputs = of_gpus(entry, batch, torch.float32)
            return module.eval(), inputs


def _temporal(entry: Entry) -> torch.nn.Module:
    from torch import nn

    width, taps = entry["width"], entry["taps"]
    layers: list[nn.Module] = [nn.Conv1d(16, width, 1)]
    for number in range(entry["layers"]):
        dilation = 2**number
        left = (taps - 1) * dilation
        layers += [nn.ConstantPad1d((left, 0), 0.0), nn.Conv1d(width, width, taps, dilation=dilation), nn.ReLU()]
    return nn.Sequential(*layers, nn.Conv1d(width, 16, 1))


def _upscaling(entry: Entry) -> torch.nn.Module:
    from torch import nn

    width, scale = entry["width"], entry["scale"]

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            convolve = partial(nn.Conv2d, width, width, 3, padding=1)
            self.body = nn.Sequential(convolve(), nn.ReLU(), convolve())

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.body(x)

    blocks = [Block() for _ in range(entry["blocks"])]
    head, tail = nn.Conv2d(3, width, 3, padding=1), nn.Conv2d(width, 3 * scale**2, 3, padding=1)
    return nn.Sequential(head, *blocks, tail, nn.PixelShuffle(scale))


def export(entry: Entry, batch: int, path: Path) -> None:
    """Write the model's ONNX file, and its inputs beside it."""
    if entry["list"] == "tabular":
        _export_table(entry, batch, path)
        return
    import torch

    module, inputs = made(entry, batch)
    with torch.no_grad():
        torch.onnx.export(module, inputs, path, dynamo=True, external_data=False)
    _save_inputs(path, [tensor.numpy() for tensor in inputs])


def _export_table(entry: Entry, batch: int, path: Path) -> None:
    from skl2onnx import to_onnx
    from sklearn.utils import all_estimators

    rng = np.random.default_rng(0)
    rows = rng.standard_normal((ROWS, FEATURES)).astype(np.float32)
    classes = (rows[:, :4].sum(1) > 0).astype(np.int64) + (rows[:, 5] > 1)
    estimator = dict(all_estimators("classifier"))[entry["name"]]().fit(rows, classes)
    model: Any = to_onnx(estimator, rows[:1], options={id(estimator): {"zipmap": False}})
    path.write_bytes(model.SerializeToString())
    _save_inputs(path, [rng.standard_normal((batch, FEATURES)).astype(np.float32)])


def _save_inputs(path: Path, arrays: Sequence[np.ndarray]) -> None:
    import onnx

    graph = onnx.load(path, load_external_data=False).graph
    weights = {tensor.name for tensor in graph.initializer}
    names = [value.name for value in graph.input if value.name not in weights]
    named: dict[str, Any] = dict(zip(names, arrays, strict=True))
    np.savez(path.with_suffix(".npz"), **named)
