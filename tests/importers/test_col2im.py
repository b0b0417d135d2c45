"""ONNX Col2Im with the block as a constant, and as an input."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import burn

CASES = [
    ((5, 5), (1, 5), (1, 1), (1, 1), (0, 0, 0, 0)),
    ((5, 5), (1, 5), (1, 1), (1, 1), (0, 1, 0, 1)),
    ((6, 7), (3, 2), (2, 1), (1, 2), (1, 0, 2, 1)),
    ((8, 8), (4, 4), (4, 4), (1, 1), (0, 0, 0, 0)),
    ((9, 10), (5, 4), (2, 3), (1, 1), (2, 2, 2, 2)),
    ((3, 4, 5), (2, 2, 2), (1, 1, 2), (1, 2, 1), (0, 1, 0, 0, 1, 1)),
]


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize(("image", "block", "strides", "dilations", "pads"), CASES)
def test_col2im(
    image: tuple[int, ...],
    block: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
    pads: tuple[int, ...],
    constant: bool,
    tmp_path: Path,
) -> None:
    rank = len(image)
    counts = [
        (d + pads[i] + pads[i + rank] - t * (k - 1) - 1) // s + 1
        for i, (d, k, s, t) in enumerate(zip(image, block, strides, dilations, strict=True))
    ]
    x = np.random.default_rng(6).standard_normal((2, 3 * int(np.prod(block)), int(np.prod(counts)))).astype(np.float32)
    given = {"x": x, "image": np.array(image), "block": np.array(block)}
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)]
    held = [numpy_helper.from_array(given[name], name) for name in ("image", "block")]
    if not constant:
        inputs += [helper.make_tensor_value_info(h.name, TensorProto.INT64, [rank]) for h in held]
    node = helper.make_node(
        "Col2Im", ["x", "image", "block"], ["y"], strides=strides, dilations=dilations, pads=pads
    )  # fmt: skip
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "g", inputs, [output], held if constant else [])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    model.ir_version = 10
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    names = [i.name for i in inputs]
    (want,) = ReferenceEvaluator(model).run(None, {name: given[name] for name in names})
    got = np.asarray(burn.load(path)(*(given[name] for name in names)))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
