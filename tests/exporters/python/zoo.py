"""Small models whose generated sources are kept as golden files: what people export, with few and narrow layers.

Each row of `ZOO` makes a program. Weights are random but for their seed: the source names and shapes them only. Graphs come
from PyTorch's two exporters, from torch.export, from ONNX Runtime's quantiser, and from files of others.
"""

from __future__ import annotations

import logging
import tempfile
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx

from burn.dialect.program import Program

Inputs = Mapping[str, Any]


@dataclass(frozen=True)
class Golden:
    """One model. `slow` ones are made in slow test runs only."""

    name: str
    program: Callable[[], Program]
    layers: int  # how many layers its author would count
    slow: bool = False


def exported(
    build: Callable[[], Any], inputs: Callable[[Any], Inputs], dynamic: Mapping[str, Mapping[int, str]], **options: Any
) -> onnx.ModelProto:
    """A torch module as ONNX. options: `outputs`, and `dynamo` for PyTorch's newer exporter."""
    import torch

    module = build().eval()
    example = inputs(module)
    with torch.no_grad(), warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        logging.getLogger("torch.onnx").setLevel(logging.ERROR)
        path = Path(folder) / "model.onnx"
        if options.get("dynamo"):
            shapes = {name: dict(dynamic.get(name, {})) for name in example}
            torch.onnx.export(
                module, (), str(path), kwargs=dict(example), dynamo=True, dynamic_shapes=shapes, verbose=False,
                input_names=list(example), output_names=options.get("outputs"), opset_version=20,
                external_data=False,
            )  # fmt: skip
        else:
            torch.onnx.export(
                module, tuple(example.values()), str(path), dynamo=False, input_names=list(example),
                output_names=options.get("outputs"), dynamic_axes=dict(dynamic), opset_version=17,
            )  # fmt: skip
        return onnx.load(path)
