"""The names of `burn-bench` in a checkout: those of tests/models, with the sizes at which they are usually timed.

Models that come as ONNX files have torch modules, too, where all of their operators are known to tests/models/onnx_in_torch.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from burn.bench.subject import Subject
from burn.errors import BurnError
from tests.models import MODELS, ModelCase, TorchModule, Unavailable, model_path, random_inputs

if TYPE_CHECKING:
    import torch

# A dynamic model is timed at one sentence, one image or one decoding step unless sizes are given.
SIZES: dict[str, dict[str, int]] = {
    "bert_base": {"batch": 1, "seq": 128},
    "minilm": {"batch": 1, "seq": 128},
    "vit_tiny": {"batch": 1},
    "gpt2": {"batch": 1, "seq": 1, "past": 128},
    "gpt2_tiny": {"batch": 1, "seq": 1, "past": 128},
    "lstm": {"batch": 1, "seq": 128},
    "mobilenet": {"batch": 1, "height": 224, "width": 224},
    "unet": {"batch": 1},
    "t5_small": {"batch": 1, "seq": 64, "target": 32},
}

IN_TORCH = (
    "mnist",
    "seeded_densenet121",
    "seeded_inception_v2",
    "seeded_resnet50",
    "seeded_shufflenet",
    "seeded_squeezenet",
    "seeded_vgg19",
)
"""Files whose operators are all in tests/models/onnx_in_torch.py."""


def subject(name: str, sizes: Mapping[str, int]) -> Subject:
    """The subject called `name`, or `name.EXPORTER` for a torch model's other file."""
    stem, _, exporter = name.partition(".")
    case = MODELS.get(stem)
    if case is None or (exporter and not (isinstance(case.source, TorchModule) and exporter in case.source.exporters)):
        raise BurnError(f"no model '{name}'", [f"the names are {', '.join(MODELS)}; it is no file either"])
    chosen = {
        **case.sizes,
        **SIZES.get(stem, {}),
        **{symbol: sizes[symbol] for symbol in sizes if symbol in case.sizes},
    }
    try:
        path = model_path(stem, exporter or None)  # type: ignore[arg-type]
    except Unavailable as reason:
        raise BurnError(f"the model '{name}' is not here", [str(reason)]) from None
    return Subject(name, path, random_inputs(case, **chosen), chosen, _module(case, path))


def _module(case: ModelCase, path: Path) -> Callable[[], torch.nn.Module] | None:
    """A function that builds the torch module that a file was exported from, or an equivalent one."""
    if isinstance(case.source, TorchModule):
        return case.source.build
    return partial(_in_torch, path) if case.name in IN_TORCH else None


def _in_torch(path: Path) -> torch.nn.Module:
    import onnx

    from tests.models.onnx_in_torch import OnnxInTorch

    return OnnxInTorch(onnx.load(path)).eval()
