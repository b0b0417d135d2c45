"""Weights that hold NaN or infinity are refused by name."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

from burn import nn
from burn.errors import BurnError
from burn.quantization import quantize_dynamic, quantize_module, quantize_static, quantize_weights


def test_weights_that_are_not_finite_are_refused() -> None:
    """By every way to quantise, before anything is changed."""
    for spoiled in (np.nan, np.inf):
        weight = np.ones((32, 2), np.float32)
        weight[3, 1] = spoiled
        nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], name="scores")]
        x, y = (helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [1, s]) for n, s in (("x", 32), ("y", 2)))
        graph = helper.make_graph(nodes, "g", [x], [y], [onnx.numpy_helper.from_array(weight, "w")])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        sample = {"x": np.ones((1, 32), np.float32)}
        for way in (quantize_weights, quantize_dynamic, lambda m, s=sample: quantize_static(m, [s])):
            with pytest.raises(BurnError, match=r"'w', a constant of node 'scores', holds NaN or infinity"):
                way(model)
        module = nn.Sequential(nn.Linear(32, 32), nn.Linear(32, 2))
        module[1].weight.assign(weight.T)
        with pytest.raises(BurnError, match="the weight of '1' holds NaN"):
            quantize_module(module)
        assert type(module[0]) is nn.Linear
