"""A model as an ONNX file, by the attempts of a user, in order, until one works. Enter at `files`.

`ATTEMPTS` is that order. torch writes a file from its trace. Without an exception it may still be a file that no runtime
accepts, or another model. The user of the files decides whether one is right, and otherwise takes the next one.
"""

from __future__ import annotations

import copy
import inspect
import logging
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
import torch

from tests.architectures.apart import limited
from tests.architectures.drawn import Inputs, Made, runs
from tests.importers.torch.architectures import leaves

BATCH, OTHER, OPSET = 2, 3, 20
EXPERTS = "batched_mm"
"""transformers' implementation for exports: its default is a grouped matmul."""
SECONDS = 200
"""Of CPU time, for one attempt."""


@dataclass(frozen=True)
class Attempt:
    """dynamo: torch.export's program is written; else what torch.jit.trace records. dynamic: the batch is a named size."""

    name: str
    dynamo: bool
    dynamic: bool


ATTEMPTS = (
    Attempt("dynamo", True, True),
    Attempt("dynamo at one size", True, False),
    Attempt("TorchScript", False, True),
    Attempt("TorchScript at one size", False, False),
)


class Flat(torch.nn.Module):
    """A model as an ONNX file has it: tensors in, tensors out. Arguments that are no tensors are fixed, caches are not returned.

    names: of the tensors in their order."""

    def __init__(self, model: torch.nn.Module, inputs: Inputs) -> None:
        super().__init__()
        self.model, self.fixed = model, inputs
        self.names = tuple(name for name, _ in named(inputs))
        self.train(model.training)  # the TorchScript exporter leaves all modules in the mode of the outermost

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        left = list(tensors)
        return tuple(leaves(self.model(**{name: _filled(value, left) for name, value in self.fixed.items()})))


def named(inputs: Inputs) -> list[tuple[str, torch.Tensor]]:
    """The tensors of arguments; those of a list are numbered."""
    found: list[tuple[str, torch.Tensor]] = []
    for name, value in inputs.items():
        if isinstance(value, torch.Tensor):
            found.append((name, value))
        elif isinstance(value, (list, tuple)):
            found += [(f"{name}_{i}", v) for i, v in enumerate(value) if isinstance(v, torch.Tensor)]
    return found


def _filled(value: Any, left: list[torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        return left.pop(0)
    if isinstance(value, (list, tuple)):
        return type(value)(left.pop(0) if isinstance(v, torch.Tensor) else v for v in value)
    return value


@dataclass(frozen=True)
class Exported:
    """A file, the attempt that wrote it, the module that was exported, and the sizes of a batch that it says it takes."""

    model: onnx.ModelProto
    attempt: Attempt
    flat: Flat
    batches: tuple[int, ...]

    def tensors(self, case: Made, batch: int) -> list[torch.Tensor]:
        return [tensor for _, tensor in named(case.inputs(batch))]


_last: list[tuple[Made, list[tuple[Attempt, Exported | Exception]]]] = []
"""The last architecture's files, which several ways take."""


def files(case: Made) -> Iterator[tuple[Attempt, Exported | Exception]]:
    """Each attempt's file, or what torch raised."""
    if not _last or _last[0][0] is not case:
        _last[:] = [(case, [])]
    done = _last[0][1]
    for number, attempt in enumerate(attempts(case)):
        if number == len(done):
            try:
                done.append((attempt, exported(case, attempt)))
            except Exception as error:
                done.append((attempt, error))
        yield done[number]


def attempts(case: Made) -> list[Attempt]:
    """A batch that there is not is not named."""
    return [attempt for attempt in ATTEMPTS if case.batched or not attempt.dynamic]


def exported(case: Made, attempt: Attempt) -> Exported:
    """Raises whatever torch's exporter raises."""
    flat = Flat(case.model, _without_cache(case))
    batches = (BATCH, OTHER) if attempt.dynamic else (BATCH,)
    with _constant(case.model), torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.getLogger("torch.onnx").setLevel(logging.ERROR)
        results = [flat(*(t for _, t in named(case.inputs(batch)))) for batch in batches]
        with limited(SECONDS):
            model = (_by_dynamo if attempt.dynamo else _by_tracing)(flat, case, attempt.dynamic, results)
    if len(model.graph.output) != len(results[0]):
        raise RuntimeError(f"the exporter wrote {len(model.graph.output)} outputs of {len(results[0])}")
    return Exported(model, attempt, flat, batches)


def _without_cache(case: Made) -> Inputs:
    """The arguments, with use_cache=False where the model takes that."""
    inputs = case.inputs(BATCH)
    if "use_cache" in inspect.signature(case.model.forward).parameters:
        try:
            runs(case.model, {**inputs, "use_cache": False})
            return {**inputs, "use_cache": False}
        except Exception:  # a model that runs with a cache only
            return inputs
    return inputs


@contextmanager
def _constant(model: torch.nn.Module) -> Iterator[None]:
    """The parameters need no gradients inside, and experts are matmuls that ONNX has."""
    wanted = [p for p in model.parameters() if p.requires_grad]
    choose: Any = getattr(model, "set_experts_implementation", None)
    before = getattr(getattr(model, "config", None), "_experts_implementation", None)
    try:
        if choose is not None and before is not None:
            choose(EXPERTS)
        for parameter in wanted:
            parameter.requires_grad_(False)
        yield
    finally:
        if choose is not None and before is not None:
            choose(before)
        for parameter in wanted:
            parameter.requires_grad_(True)


def _names(results: list[Any]) -> list[str]:
    return [f"output_{i}" for i in range(len(results[0]))]


def _by_dynamo(flat: Flat, case: Made, dynamic: bool, results: list[Any]) -> onnx.ModelProto:
    tensors = tuple(t for _, t in named(case.inputs(BATCH)))
    dims = tuple({0: "batch"} if name in case.batched else {} for name in flat.names)
    return _written(
        flat, tensors, dynamo=True, dynamic_shapes={"tensors": dims} if dynamic else None, input_names=list(flat.names),
        output_names=_names(results), opset_version=OPSET, verbose=False,
    )  # fmt: skip


def _by_tracing(flat: Flat, case: Made, dynamic: bool, results: list[Any]) -> onnx.ModelProto:
    tensors = tuple(t for _, t in named(case.inputs(BATCH)))
    names = _names(results)
    axes: dict[str, dict[int, str]] = {}
    if dynamic:
        axes = {name: {0: "batch"} for name in flat.names if name in case.batched}
        for name, first, second in zip(names, *results, strict=True):
            vary = [i for i, sizes in enumerate(zip(first.shape, second.shape, strict=False)) if len(set(sizes)) > 1]
            axes[name] = {i: "batch" if first.shape[i] == BATCH else f"{name}_{i}" for i in vary}
    return _written(
        flat, tensors, dynamo=False, dynamic_axes=axes, input_names=list(flat.names), output_names=names,
        opset_version=OPSET, verbose=False,
    )  # fmt: skip


def _written(flat: Flat, tensors: tuple[torch.Tensor, ...], **options: Any) -> onnx.ModelProto:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        torch.onnx.export(flat, tensors, str(path), **options)
        return onnx.load(path)


def widened(flat: Flat) -> Flat:
    """The same in float64."""
    return copy.deepcopy(flat).double()
