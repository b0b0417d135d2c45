"""Architectures as ONNX files: torch's exporter writes them; burn loads them, or writes them as source. ONNX Runtime is the peer.

Enter at `loaded` and `imported`.
"""

from __future__ import annotations

import copy
import logging
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from torch.utils import _pytree as pytree

from tests.architectures.drawn import Inputs, Made
from tests.fuzz.onnx import ways
from tests.importers.torch.architectures import judged, leaves, tensors

BATCH, OTHER, OPSET = 2, 3, 20

Feed = dict[str, np.ndarray]
Run = Callable[[Feed], dict[str, Any]]


@dataclass(frozen=True)
class Exported:
    """wanted: which of the outputs eager torch's comparison has; caches are left out. batches: the sizes that it takes."""

    model: onnx.ModelProto
    wanted: tuple[int, ...]
    batches: tuple[int, ...]


def loaded(case: Made, ours: bool) -> str:
    """torch.onnx.export, then burn.load (or ONNX Runtime)."""
    return _compared(case, ways.load if ours else _peer)


def imported(case: Made, ours: bool) -> str:
    """torch.onnx.export, then the source that burn-import writes (or ONNX Runtime)."""
    return _compared(case, ways.source if ours else _peer)


def _peer(model: onnx.ModelProto, target: str | None, opset: int) -> Run:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return lambda feed: dict(zip(names, session.run(names, feed), strict=True))


def _compared(case: Made, way: Callable[[onnx.ModelProto, str | None, int], Run]) -> str:
    found = _exported(case)
    run = way(found.model, None, OPSET)
    names, errors = [output.name for output in found.model.graph.output], []
    for batch in found.batches:
        inputs = case.inputs(batch)
        feed = {value.name: inputs[value.name].numpy() for value in found.model.graph.input}
        results = run(feed)
        got = [torch.from_numpy(np.array(results[names[i]])) for i in found.wanted]
        with torch.no_grad():
            errors.append(judged(got, tensors(case.model(**inputs)), lambda b=batch: _exact(case, b)))
    return max(errors, key=float)


def _exact(case: Made, batch: int) -> list[torch.Tensor]:
    twin = copy.deepcopy(case.model).double()
    inputs = case.inputs(batch)
    with torch.no_grad():
        return tensors(twin(**pytree.tree_map_only(torch.Tensor, _wide, inputs)))


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor


_last: list[tuple[Made, Exported | Exception]] = []
"""The last architecture's file, which both ways take."""


def _exported(case: Made) -> Exported:
    """Raises whatever torch's exporter raises."""
    if not _last or _last[0][0] is not case:
        try:
            answer: Exported | Exception = _export(case)
        except Exception as error:
            answer = error
        _last[:] = [(case, answer)]
    found = _last[0][1]
    if isinstance(found, Exception):
        raise found
    return found


def _export(case: Made) -> Exported:
    """With a named batch; for one size where torch does not export that."""
    inputs = case.inputs(BATCH)
    named = {n: {0: "batch"} if n in case.batched and isinstance(v, torch.Tensor) else None for n, v in inputs.items()}
    with torch.no_grad():
        result = case.model(**case.inputs(BATCH))
    flat = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
    compared = {id(tensor) for tensor in leaves(result)}
    wanted = tuple(i for i, tensor in enumerate(flat) if id(tensor) in compared)
    try:
        model, batches = _written(case.model, inputs, named), (BATCH, OTHER)
    except Exception:
        model, batches = _written(case.model, inputs, None), (BATCH,)
    if len(model.graph.output) != len(flat):
        raise RuntimeError(f"the exporter wrote {len(model.graph.output)} outputs of {len(flat)}")
    return Exported(model, wanted, batches if any(named.values()) else (BATCH,))


def _written(model: torch.nn.Module, inputs: Inputs, dynamic: Any) -> onnx.ModelProto:
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        path = Path(folder) / "model.onnx"
        torch.onnx.export(
            model, (), str(path), kwargs=inputs, dynamo=True, dynamic_shapes=dynamic, opset_version=OPSET, verbose=False,
            external_data=False,
        )  # fmt: skip
        return onnx.load(path)
