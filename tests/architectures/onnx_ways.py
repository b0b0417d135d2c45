"""Architectures as ONNX files: torch's exporters write them; burn loads them, or writes them as source. ONNX Runtime is the peer.

Enter at `loaded` and `imported`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch

from tests.architectures.drawn import Made
from tests.architectures.exporting import OPSET, Exported, files, named, widened
from tests.architectures.reporting import told
from tests.fuzz.onnx import ways
from tests.importers.torch.architectures import judged

Feed = dict[str, np.ndarray]
Run = Callable[[Feed], dict[str, Any]]
Way = Callable[[onnx.ModelProto, str | None, int], Run]


class Unexported(Exception):
    """torch wrote no file that a runtime takes and that is the model."""


def loaded(case: Made, ours: bool) -> str:
    """torch.onnx.export, then burn.load (or ONNX Runtime)."""
    return _compared(case, ways.load if ours else _peer)


def imported(case: Made, ours: bool) -> str:
    """torch.onnx.export, then the source that burn-import writes (or ONNX Runtime)."""
    return _compared(case, ways.source if ours else _peer)


def _peer(model: onnx.ModelProto, target: str | None, opset: int) -> Run:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return lambda feed: dict(zip(names, session.run(names, feed), strict=True))


def _compared(case: Made, way: Way) -> str:
    """The error, and which export it is of: the first that ONNX Runtime takes, where the way takes none before."""
    reasons = []
    for attempt, found in files(case):
        if isinstance(found, Exception):
            reasons.append(f"{attempt.name}: {told(found)[:400]}")
            continue
        try:
            return f"{_error(case, found, way)}, {attempt.name}"
        except Exception as error:
            reason = f"{attempt.name}: {told(error)}"
            if way is not _peer and _is_right(case, found):
                raise AssertionError(reason) from error
            reasons.append(f"{reason[:400]} (ONNX Runtime neither)")
    raise Unexported("; ".join(reasons))


def _is_right(case: Made, found: Exported) -> bool:
    try:
        _error(case, found, _peer)
        return True
    except Exception:
        return False


def _error(case: Made, found: Exported, way: Way) -> str:
    run = way(found.model, None, OPSET)
    names, errors = [output.name for output in found.model.graph.output], []
    for batch in found.batches:
        inputs = named(case.inputs(batch))
        known = {name: tensor.numpy() for name, tensor in inputs}
        results = run({value.name: known[value.name] for value in found.model.graph.input})
        got = [torch.from_numpy(np.array(results[name])) for name in names]
        with torch.no_grad():
            want = [t.detach() for t in found.flat(*(t for _, t in inputs))]
            errors.append(judged(got, want, lambda b=batch: _exact(case, found, b)))
    return max(errors, key=float, default="0")


def _exact(case: Made, found: Exported, batch: int) -> list[torch.Tensor]:
    wide = [t.double() if t.is_floating_point() else t for _, t in named(case.inputs(batch))]
    with torch.no_grad():
        return list(widened(found.flat)(*wide))
