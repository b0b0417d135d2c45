"""The engines that run a suite: burn, or a peer to check the harness itself against.

An engine turns a serialised model into a function from a list of inputs to a list of outputs. The engine "import" stops
after burn's importer and has nothing to run: a case passes when its model can be imported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx

Run = Callable[[list[Any]], Any]


def burn(model: bytes, device: str = "CPU") -> Run:
    """Random numbers are the same in every sweep: a few of numpy's are hit by chance once in some hundred."""
    from burn.adapters.onnx import prepare
    from burn.random import manual_seed

    manual_seed(0)
    return prepare(onnx.load_from_string(model), device).run


def burn_cuda(model: bytes) -> Run:
    return burn(model, "CUDA")


def burn_reference(model: bytes) -> Run:
    return burn(model, "REFERENCE")


def burn_wgpu(model: bytes) -> Run:
    return burn(model, "WGPU")


def burn_xla(model: bytes) -> Run:
    return burn(model, "XLA")


def import_only(model: bytes) -> None:
    from burn.importers.onnx import import_onnx

    import_onnx(model)


def reference(model: bytes) -> Run:
    from onnx.reference import ReferenceEvaluator

    proto = onnx.load_from_string(model)
    evaluator = ReferenceEvaluator(proto)
    names = _input_names(proto)
    return lambda inputs: evaluator.run(None, dict(zip(names, inputs, strict=False)))


def onnxruntime(model: bytes) -> Run:
    import onnxruntime as ort

    ort.set_default_logger_severity(4)
    session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
    names = _input_names(onnx.load_from_string(model))

    def run(inputs: list[Any]) -> list[Any]:
        return list(session.run(None, {name: _for_ort(value) for name, value in zip(names, inputs, strict=False)}))

    return run


def _for_ort(value: Any) -> Any:
    return value if value is None or isinstance(value, list) else np.ascontiguousarray(value).reshape(value.shape)


def _input_names(model: onnx.ModelProto) -> list[str]:
    initialised = {tensor.name for tensor in model.graph.initializer}
    return [value.name for value in model.graph.input if value.name not in initialised]


ENGINES: dict[str, Callable[[bytes], Run | None]] = {
    "burn": burn,
    "cuda": burn_cuda,
    "burn-reference": burn_reference,
    "burn-xla": burn_xla,
    "wgpu": burn_wgpu,
    "import": import_only,
    "reference": reference,
    "onnxruntime": onnxruntime,
}
