"""Who is right where burn and ONNX Runtime differ: the specification's own evaluator, in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from burn.cli.truth import in_float64

from .compare import difference
from .values import Array


def ours_is_right(model: onnx.ModelProto, feed: dict[str, Array], got: dict[str, Any], twins: dict[str, Array]) -> bool:
    """Whether the specification agrees with burn on every output of a piece that was cut out."""
    exact = in_float64(model, feed)
    if exact is None:
        return False  # nothing speaks for burn
    for name, truth in exact.items():
        mine = np.asarray(got[name])
        with np.errstate(all="ignore"):
            truth = truth.astype(mine.dtype) if truth.dtype.kind == mine.dtype.kind else truth
        if truth.shape != twins[name].shape or difference(mine, truth, truth):
            return False
    return True
