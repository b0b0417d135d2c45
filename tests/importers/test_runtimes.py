"""Behaviour of ONNX files in use that the standard leaves open or excludes: burn follows ONNX Runtime and torch
(docs/guide/onnx.md)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from burn.adapters.onnx import load_onnx
from burn.errors import BurnError, ModelError
from tests.importers.models import model, node, tensor, value
from tests.importers.test_regressions import numbers, same

UNKNOWN = value("y", None)


# Names of sizes


@pytest.mark.parametrize("name", ["?", "-1", "*", "None", "", "unk"])
def test_what_is_no_name_is_no_size(name: str) -> None:
    proto = model([node("GlobalAveragePool", "x", "y")], [value("x", [1, 3, name, name])], [UNKNOWN])
    same(proto, {"x": numbers(1, 3, 4, 6)})


def test_a_name_that_stands_for_several_sizes() -> None:
    proto = model([node("GlobalAveragePool", "x", "y")], [value("x", [1, 3, "s", "s"])], [UNKNOWN])
    with pytest.raises(BurnError, match="must be s = 4"):
        load_onnx(proto.SerializeToString()).run({"x": numbers(1, 3, 4, 6)})
    x = numbers(1, 3, 4, 6)
    free = load_onnx(proto.SerializeToString(), dims={"s": None})
    np.testing.assert_allclose(free.run({"x": x})["y"], x.mean((2, 3), keepdims=True), rtol=1e-5)


def test_an_input_without_a_rank() -> None:
    proto = model([node("Add", "x x", "y")], [value("x", None)], [UNKNOWN])
    with pytest.raises(ModelError, match=r"dims=\{'x': "):
        load_onnx(proto.SerializeToString())
    x = numbers(2, 3)
    executable = load_onnx(proto.SerializeToString(), dims={"x": ("batch", 3)})
    np.testing.assert_array_equal(executable.run({"x": x})["y"], x + x)
    with pytest.raises(ModelError, match="no input's dimension is called"):
        load_onnx(proto.SerializeToString(), dims={"x": ("batch", 3), "z": (1,)})


# Operators


@pytest.mark.parametrize("channels", [4, "c"])
def test_group_normalization_of_opset_18(channels: int | str) -> None:
    constants = [tensor("s", numbers(2)), tensor("b", numbers(2))]
    nodes = [node("GroupNormalization", "x s b", "y", num_groups=2)]
    proto = model(nodes, [value("x", ["n", channels, "d"])], [UNKNOWN], constants, opset=18)
    if isinstance(channels, int):  # ONNX Runtime's function needs known channels
        same(proto, {"x": numbers(2, 4, 5)}, {"x": numbers(1, 4, 1)})
        return
    x = numbers(2, 4, 5)
    groups = x.reshape(2, 2, 10).astype(np.float64)
    want = (groups - groups.mean(2, keepdims=True)) / np.sqrt(groups.var(2, keepdims=True) + 1e-5)
    scale, bias = (_floats(t)[None, :, None] for t in constants)
    got = load_onnx(proto.SerializeToString()).run({"x": x})["y"]
    np.testing.assert_allclose(got, (want * scale + bias).reshape(x.shape), rtol=1e-4, atol=1e-5)


def _floats(proto: TensorProto) -> Any:
    from onnx import numpy_helper

    return numpy_helper.to_array(proto)


def test_stft_of_signals_without_parts() -> None:
    constants = [tensor("step", np.array(17)), tensor("w", np.hanning(64).astype(np.float32))]
    out = [value("y", ["n", "f", "q", 2])]
    proto = model([node("STFT", "x step w", "y")], [value("x", ["n", "t"])], out, constants, opset=17)
    same(proto, {"x": numbers(1, 1000)}, {"x": numbers(3, 64)}, atol=1e-4)


@pytest.mark.parametrize("size", [10, "h"])
@pytest.mark.parametrize("scale", [0.7, 0.9, 2.3, 1 / 3, 1.5, 0.123456, 2.0])
def test_sizes_by_scales(size: int | str, scale: float) -> None:
    scales = [tensor("sc", np.array([1, 1, scale], np.float32))]
    proto = model(
        [node("Resize", "x - sc", "y", mode="linear")], [value("x", [1, 1, size])], [UNKNOWN], scales, opset=13
    )
    sizes = (10,) if isinstance(size, int) else (10, 11, 20, 30, 59, 100, 1000)
    for n in sizes:
        x = np.arange(n, dtype=np.float32).reshape(1, 1, n)
        got = np.asarray(load_onnx(proto.SerializeToString()).run({"x": x})["y"])
        assert got.shape[2] == int(np.floor(np.float32(n) * np.float32(scale)))
    same(proto, {"x": numbers(1, 1, 10)})


@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
@pytest.mark.parametrize("given", [True, False])
def test_aligned_corners_are_on_corners(mode: str, given: bool) -> None:
    """5 * 1.75 is 8.75: of the result's 8 elements the last lies on the operand's last."""
    options = {"coordinate_transformation_mode": "align_corners", "nearest_mode": "round_prefer_floor"}
    scales = np.array([1, 1, 1, 1.75], np.float32)
    inputs = [value("x", [1, 1, 5, 5])] + ([] if given else [value("sc", [4])])
    constants = [tensor("sc", scales)] if given else []
    proto = model([node("Resize", "x - sc", "y", mode=mode, **options)], inputs, [UNKNOWN], constants, opset=13)
    feed = {"x": numbers(1, 1, 5, 5)} | ({} if given else {"sc": scales})
    same(proto, feed)
    got = np.asarray(load_onnx(proto.SerializeToString()).run(feed)["y"])
    np.testing.assert_allclose(got[..., -1], feed["x"][..., -1], rtol=1e-5)
