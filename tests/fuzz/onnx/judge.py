"""Who is right where burn and ONNX Runtime differ: the specification's own evaluator, in float64."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

from .compare import difference
from .values import FLOATS, Array


def ours_is_right(model: onnx.ModelProto, feed: dict[str, Array], got: dict[str, Any], twins: dict[str, Array]) -> bool:
    """Whether the specification agrees with burn on every output of a piece that was cut out."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            evaluator = ReferenceEvaluator(_wide(model))
            values = evaluator.run(None, {name: _wider(array) for name, array in feed.items()})
    except Exception:  # not every op is there, and some are wrong: then nothing speaks for burn
        return False
    for output, value in zip(model.graph.output, values, strict=True):
        mine = np.asarray(got[output.name])
        with np.errstate(all="ignore"):
            truth = np.asarray(value)
            truth = truth.astype(mine.dtype) if truth.dtype.kind == mine.dtype.kind else truth
        if truth.shape != twins[output.name].shape or difference(mine, truth, truth):
            return False
    return True


def _wider(array: Array) -> Array:
    return array.astype(np.float64) if array.dtype in FLOATS else array


def _wide(model: onnx.ModelProto) -> onnx.ModelProto:
    """With constants in float64; the evaluator takes the types of what it is given."""
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    for constant in wide.graph.initializer:
        constant.CopyFrom(numpy_helper.from_array(_wider(numpy_helper.to_array(constant)), constant.name))
    return wide
