"""Writes a torch case as an ONNX file, with PyTorch's present exporter (dynamo) or its older one (TorchScript)."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path

import torch

from tests.models.case import Exporter, ModelCase, TorchModule, random_inputs

OPSET = {"dynamo": 20, "torchscript": 17}  # near what each writes by default


def export(case: ModelCase, exporter: Exporter, path: Path, module: torch.nn.Module | None = None) -> None:
    """Trace the case's module with its default sizes and write the graph and its weights to the one file `path`.

    module: in place of the one that the case names."""
    assert isinstance(case.source, TorchModule)
    example = tuple(torch.from_numpy(array) for array in random_inputs(case).values())
    names = [spec.name for spec in case.inputs]
    module = module or case.source.build()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # both exporters warn at length about things that do not matter to the result
        if exporter == "dynamo":
            logging.getLogger("torch.onnx").setLevel(logging.ERROR)
            torch.onnx.export(
                module,
                example,
                str(path),
                dynamo=True,
                input_names=names,
                output_names=list(case.source.outputs),
                dynamic_shapes=_dynamic_shapes(case, module),
                opset_version=OPSET[exporter],
                external_data=False,
                verbose=False,
            )
        else:
            torch.onnx.export(
                module,
                example,
                str(path),
                dynamo=False,
                input_names=names,
                output_names=list(case.source.outputs),
                dynamic_axes={spec.name: spec.dynamic for spec in case.inputs if spec.dynamic},
                opset_version=OPSET[exporter],
            )


def _dynamic_shapes(case: ModelCase, module: torch.nn.Module) -> tuple[object, ...]:
    """`torch.export`'s form: one entry a parameter of forward, where `*args` takes one tuple."""
    shapes = [{axis: symbol.replace(" + ", "_plus_") for axis, symbol in spec.dynamic.items()} for spec in case.inputs]
    parameters = module.forward.__code__
    plain = parameters.co_argcount - 1
    return (*shapes[:plain], tuple(shapes[plain:])) if len(shapes) > plain else tuple(shapes)
