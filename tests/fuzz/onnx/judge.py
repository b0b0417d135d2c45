"""Who is right where burn and ONNX Runtime differ: the specification's own evaluator, in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper

from burn.cli.truth import in_float64

from .compare import difference
from .values import Array

FUSED = {"FusedConv": "Conv", "FusedGemm": "Gemm"}
"""Operators of com.microsoft with an activation that is a node of its own in the standard."""


def ours_is_right(model: onnx.ModelProto, feed: dict[str, Array], got: dict[str, Any], want: dict[str, Array]) -> bool:
    """True if the specification agrees with burn on every output of a piece that was cut out, or is about as far from
    ONNX Runtime: small errors grow there."""
    exact = in_float64(_unfused(model), feed)
    if exact is None:
        return False  # nothing speaks for burn
    for name, truth in exact.items():
        mine, theirs = np.asarray(got[name]), want[name]
        with np.errstate(all="ignore"):
            rounded = truth.astype(mine.dtype) if truth.dtype.kind == mine.dtype.kind else truth
        if truth.shape != theirs.shape:
            return False
        if difference(mine, rounded, rounded) and not _about_as_far(mine, theirs, truth):
            return False
    return True


def _unfused(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with each of `FUSED` as the two nodes of the standard, which the evaluator has."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    del made.graph.node[:]
    for node in model.graph.node:
        new = made.graph.node.add()
        new.CopyFrom(node)
        if node.domain != "com.microsoft" or node.op_type not in FUSED:
            continue
        new.op_type, new.domain, new.output[0] = FUSED[node.op_type], "", f"{node.output[0]} before"
        del new.attribute[:]
        new.attribute.extend(a for a in node.attribute if a.name != "activation")
        activation = next(a.s.decode() for a in node.attribute if a.name == "activation")
        made.graph.node.append(helper.make_node(activation, [new.output[0]], [node.output[0]]))
    return made


def _about_as_far(mine: Array, theirs: Array, truth: Array) -> bool:
    if mine.shape != truth.shape or truth.dtype != np.float64:
        return False
    finite = np.isfinite(truth)
    if not all(np.array_equal(np.isfinite(x), finite) for x in (mine, theirs)):
        return False
    errors = [np.abs(x[finite] - truth[finite]).max(initial=0.0) for x in (mine, theirs)]
    return bool(errors[0] <= 2 * errors[1])
