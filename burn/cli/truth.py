"""What a model's results are in float64, by the ONNX project's own evaluator: who is nearer where two engines differ."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np


def in_float64(proto: Any, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray] | None:
    """The outputs by name, computed of floats widened to float64; None where the evaluator cannot run the model."""
    from onnx import ModelProto, numpy_helper
    from onnx.reference import ReferenceEvaluator

    model = ModelProto()
    model.CopyFrom(proto)
    for constant in model.graph.initializer:
        constant.CopyFrom(numpy_helper.from_array(_wide(numpy_helper.to_array(constant)), constant.name))
    names = [output.name for output in model.graph.output]
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            results = ReferenceEvaluator(model).run(None, {name: _wide(array) for name, array in feeds.items()})
    except Exception:  # not every op is there, and some want all types alike
        return None
    return {name: np.asarray(result) for name, result in zip(names, results, strict=True)}


def _wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64) if array.dtype in (np.float32, np.float16) else array
