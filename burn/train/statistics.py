"""Running statistics of batch normalisation, computed anew: for averages of weights, whose activations are others."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from burn.errors import Problem, TypeMismatch
from burn.nn.graph import Graph
from burn.nn.module import Module
from burn.nn.norm import _BatchNorm
from burn.tensors import constant
from burn.train.batches import Data, Source, arguments
from burn.train.step import of_batches


def update_statistics(model: Module, data: Data, forward: Callable[..., Any] | None = None) -> None:
    """Sets the running means and variances of a model's batch normalisation to their means over the batches of `data`, each batch
    counting once. As torch.optim.swa_utils.update_bn.

    forward: called as forward(model, *batch); by default the model is called with the batch's first entry. Raises TypeMismatch
    for a model without such layers, or with imported parts, and if there is no batch."""
    layers = [m for m in model.modules() if isinstance(m, _BatchNorm) and "running_mean" in dict(m.named_parameters())]
    if not layers or any(isinstance(m, Graph) for m in model.modules()):
        hint = "an imported model decides itself how its statistics move"
        raise TypeMismatch("the model has no BatchNorm layers of burn.nn", [Problem(type(model).__name__, hint=hint)])

    def run(batch: Any) -> Any:
        args, kwargs = batch
        if forward is None:
            model(*args[:1]) if args else model(**kwargs)
        else:
            forward(model, *args, **kwargs)
        return constant(0)

    buffers = [b for layer in layers for name, b in layer.named_buffers() if name in ("running_mean", "running_var")]
    modes = [(m, m.training) for m in model.modules()]
    momenta = [layer.momentum for layer in layers]
    sums, count, compiled = [np.zeros(b.shape) for b in buffers], 0, None
    try:
        model.train()
        for layer in layers:
            layer.momentum = 1.0
        for batch in Source(data, "training").batches(1):
            given = {"batch": arguments(batch)}
            if compiled is None:
                compiled = of_batches(run, inspect.signature(run), "statistics", given)
            compiled(given["batch"])
            sums = [total + b.numpy().astype(np.float64) for total, b in zip(sums, buffers, strict=True)]
            count += 1
    finally:
        for module, mode in modes:
            module.training = mode
        for layer, momentum in zip(layers, momenta, strict=True):
            layer.momentum = momentum
    if not count:
        raise TypeMismatch("there is no batch", ["the data is empty"])
    for total, b in zip(sums, buffers, strict=True):
        b.assign((total / count).astype(b.numpy().dtype))
