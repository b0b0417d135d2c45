"""Quantised models on a GPU: matmuls and convolutions of bytes are integer ones, with int8 on tensor cores."""

from __future__ import annotations

import os
import random

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from burn.adapters.onnx import load_onnx
from burn.codegen.triton import images
from burn.codegen.triton.backend import GPU
from burn.codegen.triton.images import Source
from burn.compiler import environment
from burn.dialect.mlir import context
from burn.importers.onnx import import_onnx
from burn.kernels.text import groups
from burn.passes import pipeline
from tests.codegen.gpu.simulated_gpu import SimulatedGPU
from tests.codegen.gpu.test_triton_compiles import MACHINES

pytest.importorskip("triton")


def quantised(draw: random.Random, rows: int | str | None = None) -> tuple[onnx.ModelProto, np.ndarray]:
    """A drawn QDQ model of one matmul or convolution with a quantised result, and an input for it."""
    numbers = np.random.default_rng(draw.randrange(1 << 30))
    activation, zero_points = draw.choice(["uint8", "int8"]), draw.random() < 0.7
    least, most = (0, 255) if activation == "uint8" else (-128, 127)
    convolution = rows is None and draw.random() < 0.5
    if convolution:
        channels, filters, size = draw.choice([1, 3, 8, 16]), draw.choice([1, 5, 16, 33]), draw.randrange(3, 9)
        shape, weight_shape, axis = [draw.choice([1, 2]), channels, size, size + 1], [filters, channels, 3, 3], 0
    else:
        depth, columns = draw.choice([1, 7, 32, 64, 129]), draw.choice([1, 3, 16, 65])
        shape, weight_shape, axis = [draw.choice([1, 3, 17, 64]), depth], [depth, columns], 1
    weight = numbers.integers(-127, 128, weight_shape).astype(np.int8)
    count = weight_shape[axis] if draw.random() < 0.5 else 0
    weight_scale = np.asarray(numbers.random(count or ()) * 0.02 + 0.001, np.float32)
    scale, scale_out = np.float32(0.03), np.float32(0.05 * np.sqrt(weight.size / weight_shape[axis]))
    point, point_out = (numbers.integers(least, most + 1, ()) if zero_points else np.array(0) for _ in range(2))
    tensors = {
        "w": weight, "ws": weight_scale, "wz": np.zeros(weight_scale.shape, np.int8),
        "s": np.asarray(scale), "z": point.astype(activation), "so": np.asarray(scale_out), "zo": point_out.astype(activation),
    }  # fmt: skip
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wd"], axis=axis),
        helper.make_node("Conv", ["d", "wd"], ["m"], pads=[draw.randrange(2)] * 4)
        if convolution
        else helper.make_node("MatMul", ["d", "wd"], ["m"]),
        helper.make_node("QuantizeLinear", ["m", "so", "zo"], ["qo"]),
        helper.make_node("DequantizeLinear", ["qo", "so", "zo"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "quantised",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in tensors.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return model, numbers.standard_normal(shape).astype(np.float32) * 2


def in_float64(model: onnx.ModelProto, x: np.ndarray) -> tuple[np.ndarray, float]:
    """The result before its quantisation in float64, and the scale of the quantisation."""
    have = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    least, most = (0, 255) if have["z"].dtype == np.uint8 else (-128, 127)
    q = np.clip(np.rint(x / have["s"]) + have["z"].astype(np.float64), least, most) - have["z"].astype(np.float64)
    d = q * have["s"].astype(np.float64)
    node = next(n for n in model.graph.node if n.op_type in ("MatMul", "Conv"))
    scales = have["ws"].astype(np.float64)
    if node.op_type == "MatMul":
        made = d @ (have["w"] * scales)
    else:
        w = have["w"] * scales.reshape(-1, 1, 1, 1)
        pad = node.attribute[0].ints[0]
        d = np.pad(d, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
        windows = np.lib.stride_tricks.sliding_window_view(d, (3, 3), (2, 3))
        made = np.einsum("bchwij,fcij->bfhw", windows, w)
    so, zo = have["so"].astype(np.float64), have["zo"].astype(np.float64)
    return np.clip(made / so + zo, least, most), float(zo)


@pytest.mark.parametrize("seed", range(int(os.environ.get("BURN_SWEEP", "8")) // 4))
def test_quantised_models(gpu: SimulatedGPU, seed: int) -> None:
    """A result is within half a step of float64's, and a little more where float32 rounds at the middle between two steps."""
    for number in range(4):
        model, x = quantised(random.Random(4 * seed + number))
        got = np.asarray(load_onnx(model, device="cuda")(x))
        steps, point = in_float64(model, x)
        scale = numpy_helper.to_array(next(t for t in model.graph.initializer if t.name == "so"))
        assert got.shape == steps.shape
        assert np.abs(got / scale + point - steps).max(initial=0) <= 0.5 + 1e-3


def sources(model: onnx.ModelProto, machine: str) -> list[Source]:
    target = MACHINES[machine]
    program = import_onnx(model)
    backend = GPU(kind=target.kind, architecture=machine, warp=target.warp).session(program)
    pipeline.run(pipeline.parse(backend.pipeline.text), program, environment(backend))
    with context():
        kernels = backend.printer.kernels(program)
        for group in groups(program.block):
            kernels.group(group)
    assert not kernels.refused
    return kernels.sources


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("machine", ["sm_90", "gfx90a", pytest.param("gfx1100", marks=pytest.mark.slow)])
def test_int8_is_multiplied_as_it_is(machine: str) -> None:
    """Weights stay bytes, with a contiguous depth, and the code compiles."""
    draw = random.Random(1)
    while True:
        model, _ = quantised(draw, rows=64)
        if numpy_helper.to_array(model.graph.initializer[0]).shape == (64, 16):
            break
    (dot,) = (s for s in sources(model, machine) if "tl.dot" in s.text)
    assert "out_dtype=tl.int32" in dot.text and dot.types.count("*i8") == 2
    (image,) = images.compile_all([dot], MACHINES[machine])
    assert len(image.data) > 500
