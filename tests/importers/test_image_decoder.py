"""ImageDecoder: files that pillow writes, and what is said without pillow."""

from __future__ import annotations

import io
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from burn.compiler import executable
from burn.errors import RunError
from burn.importers.onnx import import_onnx
from burn.runtime import Executable


def decoder(form: str) -> Executable:
    """The decoded image, and its mean, which the program computes."""
    nodes = [
        helper.make_node("ImageDecoder", ["x"], ["y"], pixel_format=form),
        helper.make_node("Cast", ["y"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMean", ["f"], ["mean"], keepdims=0),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.UINT8, ["n"])
    outputs = [onnx.ValueInfoProto(name=name) for name in ("y", "mean")]
    graph = helper.make_graph(nodes, "images", [x], outputs)
    return executable(import_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])))


@pytest.mark.parametrize("form", ["RGB", "BGR", "Grayscale"])
def test_files_of_every_size(form: str) -> None:
    image = pytest.importorskip("PIL.Image")
    run = decoder(form)
    rng = np.random.default_rng(1)
    for height, width, kind in ((1, 1, "png"), (7, 5, "bmp"), (16, 33, "png"), (3, 40, "tiff")):
        pixels = rng.integers(0, 256, (height, width, 3), np.uint8)
        file = io.BytesIO()
        image.fromarray(pixels).save(file, kind)
        want = {"RGB": pixels, "BGR": pixels[:, :, ::-1]}.get(form)
        if want is None:
            want = np.asarray(image.fromarray(pixels).convert("L"))[:, :, None]
        got, mean = run(np.frombuffer(file.getvalue(), np.uint8))
        np.testing.assert_array_equal(got, want)
        assert abs(mean - want.mean()) < 1e-3


def test_what_is_no_image_is_named() -> None:
    pytest.importorskip("PIL.Image")
    with pytest.raises(RunError, match="7 bytes: cannot identify image file"):
        decoder("RGB")(np.zeros(7, np.uint8))


def test_without_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    run = decoder("RGB")
    for _ in range(2):
        with pytest.raises(RunError, match="this needs pillow"):
            run(np.zeros(7, np.uint8))
