"""A model's results in float64, by the ONNX project's evaluator, to decide which of two engines is more accurate."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np


def in_float64(proto: Any, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray] | None:
    """The outputs by name, computed of floats widened to float64; None where the evaluator cannot run the model."""
    from onnx import ModelProto
    from onnx.reference import ReferenceEvaluator

    model = ModelProto()
    model.CopyFrom(proto)
    _widen(model.graph, {each.domain: each.version for each in model.opset_import})
    names = [output.name for output in model.graph.output]
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            results = ReferenceEvaluator(model).run(None, {name: _wide(array) for name, array in feeds.items()})
    except Exception:  # not every op is there, and some want all types alike
        return None
    return {name: np.asarray(result) for name, result in zip(names, results, strict=True)}


def _widen(graph: Any, opsets: Mapping[str, int]) -> None:
    """Widens constants, conversions and the types of normalisations, including subgraphs."""
    from onnx import AttributeProto, TensorProto, helper

    for constant in graph.initializer:
        _widen_tensor(constant)
    narrow = (TensorProto.FLOAT, TensorProto.FLOAT16)
    for node in graph.node:
        if _has_attribute(node, "stash_type", opsets):
            kept = [attribute for attribute in node.attribute if attribute.name != "stash_type"]
            _replace(node.attribute, [*kept, helper.make_attribute("stash_type", TensorProto.DOUBLE)])
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                _widen(attribute.g, opsets)
            elif attribute.type == AttributeProto.TENSOR:
                _widen_tensor(attribute.t)
            elif node.op_type == "Constant" and attribute.type in (AttributeProto.FLOAT, AttributeProto.FLOATS):
                numbers = attribute.f if attribute.type == AttributeProto.FLOAT else list(attribute.floats)
                attribute.CopyFrom(helper.make_attribute("value", _tensor(np.array(numbers, np.float64))))
            elif node.op_type == "Cast" and attribute.name == "to" and attribute.i in narrow:
                attribute.i = TensorProto.DOUBLE


def _has_attribute(node: Any, name: str, opsets: Mapping[str, int]) -> bool:
    from onnx import defs

    version = opsets.get(node.domain, 0)
    if not version or not defs.has(node.op_type, node.domain):
        return False
    try:
        return name in defs.get_schema(node.op_type, version, node.domain).attributes
    except defs.SchemaError:  # the operator is newer than the model's opset
        return False


def _replace(repeated: Any, items: Iterable[Any]) -> None:
    del repeated[:]
    repeated.extend(items)


def _widen_tensor(tensor: Any) -> None:
    from onnx import numpy_helper

    tensor.CopyFrom(_tensor(_wide(numpy_helper.to_array(tensor)), tensor.name))


def _tensor(array: np.ndarray, name: str = "") -> Any:
    from onnx import numpy_helper

    return numpy_helper.from_array(array, name)


def _wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64) if array.dtype in (np.float32, np.float16) else array
