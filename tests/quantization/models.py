"""Small models to be quantised, and their inputs."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def _model(
    nodes: list[onnx.NodeProto], constants: dict[str, np.ndarray], shape: tuple[int | str, ...], opset: int
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "model",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ("rows", "columns"))],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def residual_network(opset: int = 17) -> onnx.ModelProto:
    """A stem, a residual block with batch norms, pools and a classifier over images [1, 3, 20, 20]."""
    rng = np.random.default_rng(0)
    constants: dict[str, np.ndarray] = {}
    nodes: list[onnx.NodeProto] = []

    def conv(x: str, y: str, channels: int, outputs: int, kernel: int, stride: int = 1) -> None:
        name = f"w_{y}"
        spread = (2 / (channels * kernel * kernel)) ** 0.5
        constants[name] = rng.normal(0, spread, (outputs, channels, kernel, kernel)).astype("float32")
        pads = [kernel // 2] * 4
        nodes.append(helper.make_node("Conv", [x, name], [f"{y}_conv"], f"conv_{y}", pads=pads, strides=[stride] * 2))
        norm = [
            rng.uniform(0.5, 2, outputs),
            rng.normal(0, 1, outputs),
            rng.normal(0, 1, outputs),
            rng.uniform(0.5, 2, outputs),
        ]
        constants.update({f"{y}_{i}": n.astype("float32") for i, n in enumerate(norm)})
        nodes.append(helper.make_node("BatchNormalization", [f"{y}_conv", *(f"{y}_{i}" for i in range(4))], [y]))

    conv("x", "stem", 3, 16, 7, 2)
    nodes.append(helper.make_node("Relu", ["stem"], ["stem_relu"]))
    nodes.append(
        helper.make_node("MaxPool", ["stem_relu"], ["pool"], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    )
    conv("pool", "a", 16, 24, 3)
    nodes.append(helper.make_node("Relu", ["a"], ["a_relu"]))
    conv("a_relu", "b", 24, 16, 1)
    nodes.append(helper.make_node("Add", ["b", "pool"], ["sum"]))
    nodes.append(helper.make_node("Relu", ["sum"], ["sum_relu"]))
    nodes.append(helper.make_node("GlobalAveragePool", ["sum_relu"], ["mean"]))
    nodes.append(helper.make_node("Flatten", ["mean"], ["flat"]))
    constants["w"] = rng.normal(0, 0.3, (10, 16)).astype("float32")
    constants["c"] = rng.normal(0, 0.3, 10).astype("float32")
    nodes.append(helper.make_node("Gemm", ["flat", "w", "c"], ["y"], "classifier", transB=1))
    return _model(nodes, constants, (1, 3, 20, 20), opset)


def perceptron() -> onnx.ModelProto:
    """Two matmuls with a gelu's tanh between, over rows of any number."""
    rng = np.random.default_rng(1)
    constants = {
        "w1": rng.normal(0, 0.2, (33, 64)).astype("float32"),
        "b1": rng.normal(0, 0.2, 64).astype("float32"),
        "w2": rng.normal(0, 0.2, (64, 7)).astype("float32"),
        "b2": rng.normal(0, 0.2, 7).astype("float32"),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["h1"], "first"),
        helper.make_node("Add", ["h1", "b1"], ["h2"]),
        helper.make_node("Tanh", ["h2"], ["h3"]),
        helper.make_node("Gemm", ["h3", "w2", "b2"], ["y"], "second"),
    ]
    return _model(nodes, constants, ("n", 33), 17)


def images(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, 3, 20, 20)).astype("float32")


def rows(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, 33)).astype("float32")
