"""Windows, regions and constants far larger than their inputs: the extra part is not computed, and results do not change."""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import burn
from burn.compiler import environment, executable
from burn.dialect import ops
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.options import Options
from burn.passes import pipeline
from burn.passes.constants import full
from burn.passes.environment import Environment
from burn.passes.fold import Fold
from tests.passes.cases import PLAIN

SEED = int(os.environ.get("BURN_SWEEP_SEED", random.SystemRandom().randrange(1 << 32)))
SEEDS = [1, 2, *range(SEED, SEED + int(os.environ.get("BURN_SWEEP", "0")))]


def drawn(rng: random.Random) -> dict[str, tuple[int, int]]:
    """Windows with padding that they fit into."""
    while True:
        pairs = {
            "sizes": (rng.randint(0, 6), rng.randint(1, 5)),
            "window": (rng.randint(1, 14), rng.randint(1, 9)),
            "strides": (rng.randint(1, 4), rng.randint(1, 2)),
            "dilations": (rng.randint(1, 3), rng.randint(1, 2)),
            "low": (rng.randint(0, 16), rng.randint(0, 9)),
            "high": (rng.randint(0, 16), rng.randint(0, 9)),
        }
        rows = zip(*pairs.values(), strict=True)
        if all((w - 1) * t + 1 <= low + n + high for n, w, _, t, low, high in rows):
            return pairs


@pytest.mark.parametrize("seed", SEEDS)
def test_windows_beyond_their_axis(seed: int) -> None:
    rng = random.Random(seed)
    cases = [(drawn(rng), rng.choice(["sum", "max", "min"])) for _ in range(16)]
    program = Program.create([(f"x{i}", TensorType("float32", c["sizes"])) for i, (c, _) in enumerate(cases)])
    with program.building("node"):
        made = [
            ops.window_reduce(x, kind=kind, **{k: v for k, v in c.items() if k != "sizes"})
            for x, (c, kind) in zip(program.inputs, cases, strict=True)
        ]
    program.finish([(f"y{i}", y) for i, y in enumerate(made)])
    arrays = [np.random.default_rng(seed).integers(-9, 9, c["sizes"]).astype(np.float32) for c, _ in cases]
    plain = executable(program.copy(), Options(passes=PLAIN))(*arrays)
    for case, a, b in zip(cases, executable(program)(*arrays), plain, strict=True):
        assert a.shape == b.shape, case
        np.testing.assert_array_equal(a, b, err_msg=str(case))


def test_no_more_taps_than_an_axis_has() -> None:
    program = Program.create([("x", TensorType("float32", (5, 7)))])
    with program.building("node"):
        window, edge = (2**31 + 1, 1), (2**30, 0)
        y = ops.window_reduce(
            program.inputs[0], kind="sum", window=window, strides=(1, 1), dilations=(1, 1), low=edge, high=edge
        )
    program.finish([("y", y)])
    pipeline.run(pipeline.parse("simplify"), program, environment())
    (op,) = [o.opview for o in program.block.operations if o.name == "burn.window_reduce"]
    assert (op.window, op.low, op.high) == ((9, 1), (4, 0), (4, 0))


def test_normalisation_over_more_neighbours_than_channels() -> None:
    x = np.random.default_rng(0).standard_normal((2, 5, 3, 3)).astype(np.float32)
    for size in (9, 101, 2**31 + 1):
        node = helper.make_node("LRN", ["x"], ["y"], size=size, alpha=0.5, beta=0.75, bias=2.0)
        got = _loaded(node, x=x)(x)
        wide = x.astype(np.float64)
        want = wide / (2.0 + 0.5 / size * (wide**2).sum(1, keepdims=True)) ** 0.75
        np.testing.assert_allclose(got, want, rtol=1e-5)


def _loaded(node: onnx.NodeProto, **arrays: np.ndarray) -> Any:
    return burn.load(_model(node, **arrays), cache=False)


def _model(node: onnx.NodeProto, **arrays: np.ndarray) -> onnx.ModelProto:
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for name, a in arrays.items()
    ]
    graph = helper.make_graph([node], "g", infos, [onnx.ValueInfoProto(name="y")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("transformation", ["half_pixel", "output_half_pixel"])
def test_regions_beyond_an_image(transformation: str) -> None:
    """Means against ONNX Runtime, which reads every sample, including those outside of the image."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((2, 3, 5, 4)).astype(np.float32)
    starts, sizes = rng.uniform(-70, 30, (12, 2)), rng.uniform(0, 160, (12, 2))
    starts[:3], sizes[:3] = rng.uniform(0, 2, (3, 2)), rng.uniform(0, 3, (3, 2))
    rois = np.concatenate([starts, starts + sizes], 1).astype(np.float32)
    images = rng.integers(0, 2, 12)
    model = _model(_roi_align(0, "avg", transformation), x=x, r=rois, b=images)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (want,) = session.run(None, {"x": x, "r": rois, "b": images})
    got = burn.load(model, cache=False)(x, rois, images)
    np.testing.assert_allclose(got, np.asarray(want), rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("mode", ["avg", "max"])
def test_regions_beyond_an_image_have_the_samples_of_a_stated_number(mode: str) -> None:
    """Regions of 60 pixels a bin, by both ways to ask for 60 samples: of a stated number none is left out."""
    x = -1 - np.random.default_rng(3).random((1, 2, 5, 4)).astype(np.float32)
    starts = np.array([[-37, -20], [-119, -179], [1, 1], [-100, 3]], np.float32)
    ends, images = starts + np.array([120, 180], np.float32), np.zeros(4, np.int64)
    rois = np.concatenate([starts, ends], 1)
    results = [_loaded(_roi_align(ratio, mode), x=x, r=rois, b=images)(x, rois, images) for ratio in (0, 60)]
    np.testing.assert_allclose(*results, rtol=1e-5, atol=1e-7)


def _roi_align(ratio: int, mode: str, transformation: str = "half_pixel") -> onnx.NodeProto:
    attributes = {"output_height": 3, "output_width": 2, "sampling_ratio": ratio, "mode": mode}
    return helper.make_node(
        "RoiAlign", ["x", "r", "b"], ["y"], coordinate_transformation_mode=transformation, **attributes
    )


def test_a_region_of_a_thousand_million_pixels() -> None:
    x, far = np.ones((1, 1, 4, 4), np.float32), np.array([[0, 0, 1e9, 1e9]], np.float32)
    node = helper.make_node("RoiAlign", ["x", "r", "b"], ["y"], output_height=7, output_width=7, sampling_ratio=0)
    got = _loaded(node, x=x, r=far, b=np.zeros(1, np.int64))(x, far, np.zeros(1, np.int64))
    assert got.shape == (1, 1, 7, 7) and (np.abs(got) < 1e-6).all()


def test_doubled_constants() -> None:
    """34 concatenations of a number with itself, and its maximum: nothing of that size is computed while loading."""
    count = 34
    nodes = [helper.make_node("Concat", [f"c{i}", f"c{i}"], [f"c{i + 1}"], axis=0) for i in range(count)]
    nodes += [
        helper.make_node("ReduceMax", [f"c{count}"], ["m"], keepdims=0),
        helper.make_node("Add", ["x", "m"], ["y"]),
    ]
    info = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])
    constant = numpy_helper.from_array(np.ones(1, np.float32), "c0")
    graph = helper.make_graph(nodes, "g", [info], [onnx.ValueInfoProto(name="y")], [constant])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    np.testing.assert_array_equal(burn.load(model, cache=False)(np.ones(2, np.float32)), [2, 2])


def test_what_takes_too_long_is_left_to_the_run() -> None:
    program = Program.create([("x", TensorType("float32", ()))])
    with program.building("node"):
        huge = full(0.5, TensorType("float32", (1 << 20, 1 << 20)))
        total = ops.reduce(huge, kind="sum", axes=(0, 1))
        small = ops.reduce(full(0.5, TensorType("float32", (4, 4))), kind="sum", axes=(0, 1))
        y = ops.add(ops.add(program.inputs[0], total), small)
    program.finish([("y", y)])
    env = environment()
    assert env.evaluate is not None
    counted: list[str] = []

    def evaluate(part: Program) -> Any:
        counted.append(str(part.module))
        return env.evaluate(part)  # type: ignore[misc]

    Fold().run(program, Environment(env.backend, evaluate))
    assert len(counted) == 1 and "1048576" not in counted[0]
    assert sum(o.name == "burn.reduce" for o in program.block.operations) == 1
