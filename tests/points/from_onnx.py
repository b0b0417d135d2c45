"""The table's functions as ONNX models: each as burn exports it, and those that are one ONNX operator as that operator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

import burn
from tests.points.explained import INFINITE, NAN, Reason
from tests.points.functions import ROWS, TABLE
from tests.points.run import PARTS, Triple, of_model

OPSET = 21
POOL = {"kernel_shape": [2], "strides": [1]}

SPELLED: dict[str, tuple[str, dict[str, Any], tuple[Any, ...]]] = {
    **{
        name: (op, {}, ())
        for name, op in {
            "abs": "Abs", "neg": "Neg", "sqrt": "Sqrt", "reciprocal": "Reciprocal", "exp": "Exp", "log": "Log", "sin": "Sin",
            "cos": "Cos", "tan": "Tan", "asin": "Asin", "acos": "Acos", "atan": "Atan", "sinh": "Sinh", "cosh": "Cosh",
            "tanh": "Tanh", "asinh": "Asinh", "acosh": "Acosh", "atanh": "Atanh", "erf": "Erf", "sigmoid": "Sigmoid",
            "sign": "Sign", "floor": "Floor", "ceil": "Ceil", "round": "Round", "relu": "Relu", "elu": "Elu",
            "selu": "Selu", "gelu": "Gelu", "mish": "Mish", "softplus": "Softplus", "softsign": "Softsign",
            "hard_swish": "HardSwish", "thresholded_relu": "ThresholdedRelu", "softmax": "Softmax",
            "log_softmax": "LogSoftmax",
        }.items()
    },
    "leaky_relu": ("LeakyRelu", {"alpha": 0.01}, ()),
    "hard_sigmoid": ("HardSigmoid", {"alpha": 1 / 6, "beta": 0.5}, ()),
    "nn.ELU 0.5": ("Elu", {"alpha": 0.5}, ()),
    "nn.GELU tanh": ("Gelu", {"approximate": "tanh"}, ()),
    "nn.Hardshrink": ("Shrink", {"lambd": 0.5}, ()),
    "nn.Softshrink": ("Shrink", {"lambd": 0.5, "bias": 0.5}, ()),
    "prelu": ("PRelu", {}, (np.array([0.25]),)),
    "clip": ("Clip", {}, (np.array(0.0), np.array(2.0))),
    "clip from below": ("Clip", {}, (np.array(0.0),)),
    "maximum(x, c)": ("Max", {}, (np.array([0.0, 2, 1]),)),
    "minimum(x, c)": ("Min", {}, (np.array([0.0, 2, 1]),)),
    "div(x, c)": ("Div", {}, (np.array([0.0, 2, 1]),)),
    "pow(x, c)": ("Pow", {}, (np.array([0.0, 2, 1]),)),
    "mul(x, c)": ("Mul", {}, (np.array([0.0, 2, 1]),)),
    "fmod(x, c)": ("Mod", {"fmod": 1}, (np.array([0.0, 2, 1]),)),
    **{f"pow {p}": ("Pow", {}, (np.array(p),)) for p in (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, -1.0)},
    **{
        name: (f"Reduce{op}", {"keepdims": 0}, (np.array([-1]),))
        for name, op in {
            "sum": "Sum", "mean": "Mean", "prod": "Prod", "max": "Max", "min": "Min", "logsumexp": "LogSumExp",
            "norm 1.0": "L1", "norm 2.0": "L2",
        }.items()
    },
    "cumsum": ("CumSum", {}, (np.array(1),)),
    "topk": ("TopK", {"axis": -1}, (np.array([2]),)),
    "lp_norm 1": ("LpNormalization", {"p": 1}, ()),
    "lp_norm 2": ("LpNormalization", {"p": 2}, ()),
    "layer_norm": ("LayerNormalization", {"epsilon": 1e-5}, (np.ones(3), np.zeros(3))),
    "matmul": ("MatMul", {}, (np.arange(6.0).reshape(3, 2),)),
    "gather": ("GatherElements", {"axis": 1}, (np.tile([2, 2, 0], (len(ROWS), 1)),)),
}  # fmt: skip
"""By the table's name: operator, attributes and further inputs. Celu is not here, which ONNX has in float32 alone."""

SINGLE = frozenset({"selu", "leaky_relu", "hard_sigmoid", "layer_norm"})
"""Operators whose attributes are no float32: they are rounded in the model."""

SHRINK = "ONNX's Shrink is 0 wherever neither x < -lambd nor x > lambd holds, NaN included"
POWER = "C's power of minus infinity is infinity; PyTorch goes through the root"
EXPLAINED = (
    Reason("nn.*shrink", NAN, PARTS, SHRINK),
    Reason("pow ?.5", INFINITE, PARTS, POWER),
)
"""Differences of operators from the table's functions."""

IMAGES: dict[str, tuple[str, dict[str, Any]]] = {
    "nn.MaxPool1d": ("MaxPool", POOL),
    "nn.AvgPool1d": ("AveragePool", POOL),
    "nn.LPPool1d 2": ("LpPool", {**POOL, "p": 2}),
}
"""Operators of [rows, 1, 3]."""


def _loaded(nodes: list[Any], held: dict[str, Any]) -> Any:
    """nodes: from "a", the points, to "y"."""
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "one"], ["a"]), *nodes],
        "points",
        [helper.make_tensor_value_info("one", onnx.TensorProto.DOUBLE, [1])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.DOUBLE, None)],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in {"x": ROWS, **held}.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
    model.ir_version = 9
    loaded = burn.load(model, train=True)
    loaded.freeze()
    loaded.unfreeze("^x$")
    return loaded


def spelled(name: str) -> Triple:
    """The function as one ONNX operator."""
    if name in IMAGES:
        op, attributes = IMAGES[name]
        nodes = [
            helper.make_node("Unsqueeze", ["a", "axes"], ["image"]),
            helper.make_node(op, ["image"], ["y"], **attributes),
        ]
        return of_model(_loaded(nodes, {"axes": np.array([1])}))
    op, attributes, further = SPELLED[name]
    held = {f"c{i}": array for i, array in enumerate(further)}
    outputs = ["y", "places"] if op == "TopK" else ["y"]
    return of_model(_loaded([helper.make_node(op, ["a", *held], outputs, **attributes)], held))


def exported(name: str, folder: Path) -> Triple:
    """The function as burn exports it; its points become a weight. Raises TypeMismatch for what ONNX has no operators for."""
    function = TABLE[name].burn
    types = (f"float64[{len(ROWS)}, 3]", "float64[1]")
    model = burn.export(lambda x, one: function(x * one), folder / "model.onnx", types, opset=OPSET)
    points, _ = model.graph.input
    model.graph.initializer.append(numpy_helper.from_array(ROWS, points.name))
    del model.graph.input[0]
    loaded = burn.load(model, train=True)
    loaded.freeze()
    loaded.unfreeze(f"^{points.name}$")
    return of_model(loaded)
