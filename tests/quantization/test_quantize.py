"""Quantised models are standard ONNX, near the float model, and give ONNX Runtime what they give burn."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

import burn
from burn.cli.main import main as cli
from burn.errors import BurnError
from burn.quantization import (
    METHODS,
    compare,
    quantize_dynamic,
    quantize_static,
    quantize_weights,
    read_samples,
    save,
)
from burn.quantization.weights import in_blocks
from tests.quantization.models import images, perceptron, residual_network, rows

IMAGES = [{"x": x[None]} for x in images(8)]


def arrays(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    return {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}


def kinds(model: onnx.ModelProto) -> Counter[str]:
    return Counter(node.op_type for node in model.graph.node)


def by_onnxruntime(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"x": x})[0])


def test_sums_of_older_files_flow_as_additions_do() -> None:
    old = residual_network()
    for node in old.graph.node:
        node.op_type = "Sum" if node.op_type == "Add" else node.op_type
    made, known = kinds(quantize_static(old, IMAGES)), kinds(quantize_static(residual_network(), IMAGES))
    assert made["QuantizeLinear"] == known["QuantizeLinear"]


@pytest.mark.covering
@pytest.mark.parametrize("activations", ["uint8", "int8"])
@pytest.mark.parametrize("method", METHODS)
def test_static(method: str, activations: str) -> None:
    model = residual_network()
    made = quantize_static(model, IMAGES, method=method, activations=activations)
    onnx.checker.check_model(made, full_check=True)
    assert kinds(made)["BatchNormalization"] == 0
    whole = {name: a for name, a in arrays(made).items() if a.dtype == np.int8 and a.ndim > 1}
    assert len(whole) == 4 and all(abs(a.astype(int)).max() == 127 for a in whole.values())
    assert all(a.size == a.shape[0] for name, a in arrays(made).items() if a.ndim == 1 and a.dtype == np.float32)
    (found,) = compare(model, made, IMAGES)
    assert found.noise > {"minmax": 25, "percentile": 20, "mse": 25}[method], found
    for sample in IMAGES[:2]:
        ours, theirs = np.asarray(burn.load(made, cache=False)(sample["x"])), by_onnxruntime(made, sample["x"])
        assert np.abs(ours - theirs).max() < 0.05 * np.abs(theirs).max()


def test_bytes_flow_from_layer_to_layer() -> None:
    """Of the residual network every tensor that convolutions give, pools and sums are quantised; a pool's as what it pools."""
    made = quantize_static(residual_network(), IMAGES)
    quantised = {node.input[0] for node in made.graph.node if node.op_type == "QuantizeLinear"}
    assert quantised == {"x", "stem_relu", "pool", "a_relu", "b", "sum_relu", "mean", "flat"}
    numbers = arrays(made)
    assert numbers["pool_scale"] == numbers["stem_relu_scale"] and numbers["flat_scale"] == numbers["mean_scale"]


def test_what_is_left_out_stays() -> None:
    made = quantize_static(residual_network(), IMAGES, exclude=["conv_a"])
    conv = next(node for node in made.graph.node if node.name == "conv_a")
    assert arrays(made)[conv.input[1]].dtype == np.float32
    with pytest.raises(BurnError, match="did you mean 'conv_a'"):
        quantize_static(residual_network(), IMAGES, exclude=["convoa"])


def test_older_models_are_brought_up_to_date() -> None:
    made = quantize_static(residual_network(opset=9), IMAGES[:2])
    assert made.opset_import[0].version == 13
    assert compare(residual_network(opset=9), made, IMAGES[:2])[0].noise > 20


def test_dynamic() -> None:
    model = perceptron()
    made = quantize_dynamic(model)
    onnx.checker.check_model(made, full_check=True)
    assert kinds(made)["DynamicQuantizeLinear"] == kinds(made)["MatMulInteger"] == 2
    x = rows(9)
    evaluated: Any = ReferenceEvaluator(made).run(
        None, {"x": x}
    )  # ONNX Runtime saturates in 16 bits on CPUs without VNNI
    np.testing.assert_allclose(np.asarray(burn.load(made, cache=False)(x)), evaluated[0], rtol=1e-5, atol=1e-5)
    assert compare(model, made, [{"x": x}])[0].noise > 30
    assert kinds(quantize_dynamic(model, exclude=["first"]))["MatMulInteger"] == 1


def test_per_tensor() -> None:
    made = quantize_static(perceptron(), [{"x": rows(5)}], per_channel=False)
    assert all(array.ndim == 0 for name, array in arrays(made).items() if name.endswith("scale"))


def test_weights_of_zeros_and_ranges_of_nothing() -> None:
    model = perceptron()
    for tensor in model.graph.initializer:
        if tensor.name == "w1":
            tensor.CopyFrom(numpy_helper.from_array(np.zeros((33, 64), "float32"), "w1"))
    for made in (quantize_static(model, [{"x": np.zeros((2, 33), "float32")}]), quantize_dynamic(model)):
        x = rows(3)
        want = np.asarray(burn.load(model, cache=False)(x))
        np.testing.assert_allclose(np.asarray(burn.load(made, cache=False)(x)), want, atol=0.05)


@pytest.mark.parametrize(
    ("samples", "says"),
    [([], "needs samples"), ([{"x": np.full((2, 33), np.inf, "float32")}], "not finite")],
)
def test_samples_that_do_not_do(samples: list[dict[str, np.ndarray]], says: str) -> None:
    with pytest.raises(BurnError, match=says):
        quantize_static(perceptron(), samples)


@pytest.mark.parametrize("zero_points", [False, True])
@pytest.mark.parametrize(("weights", "noise"), [("int4", 18), ("int8", 40)])
def test_weights_alone(weights: str, noise: float, zero_points: bool) -> None:
    """ONNX Runtime and burn read the blocks alike, and the model is near that of floats."""
    model, x = perceptron(), rows(9)
    made = quantize_weights(model, weights=weights, block=16, zero_points=zero_points)
    onnx.checker.check_model(made)
    assert kinds(made)["MatMulNBits"] == 2 and not any(
        a.size > 400 and a.dtype == np.float32 for a in arrays(made).values()
    )
    ours, theirs = np.asarray(burn.load(made, cache=False)(x)), by_onnxruntime(made, x)
    np.testing.assert_allclose(ours, theirs, atol=0.02)  # whose 8-bit matmuls round activations
    assert compare(model, made, [{"x": x}])[0].noise > noise
    assert kinds(quantize_weights(model, exclude=["first"]))["MatMulNBits"] == 1


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("zero_points", [False, True])
def test_blocks_hold_the_nearest_numbers(bits: int, zero_points: bool) -> None:
    """Every element is within half a step, but for the largest where numbers end one short of it; zeros stay zeros."""
    rng = np.random.default_rng(5)
    weight = (rng.standard_normal((5, 70)) * rng.uniform(0, 3, (5, 1)) + rng.uniform(-1, 1, (5, 1))).astype("float32")
    weight[1], weight[2, :32] = 0, 2.5
    made = in_blocks(weight, bits, 32, zero_points)
    parts = [made.values.reshape(5, -1) >> (bits * i) & (2**bits - 1) for i in range(8 // bits)]
    numbers = np.stack(parts, -1)
    point = np.full((5, 3), 2 ** (bits - 1)) if made.zeros is None else made.zeros
    back = (numbers.reshape(5, 3, 32) - point[..., None].astype(int)) * made.scales[..., None].astype("f8")
    off = np.abs(back.reshape(5, 96)[:, :70] - weight)
    step = np.abs(np.repeat(made.scales, 32, 1)[:, :70])
    assert (off <= step * (0.501 if zero_points else 1.001)).all() and (off <= step * 0.501).mean() > 0.9
    assert (back[1] == 0).all() and (back.reshape(5, 96)[:, 70:] == 0).all()


def test_an_output_layer_that_shares_the_embedding() -> None:
    """If a Transpose precedes the matmul, the matmul is quantised, and other users of the weight keep it."""
    rng = np.random.default_rng(6)
    table = numpy_helper.from_array(rng.standard_normal((40, 33)).astype("float32"), "table")
    nodes = [
        onnx.helper.make_node("Transpose", ["table"], ["turned"], perm=[1, 0]),
        onnx.helper.make_node("MatMul", ["x", "turned"], ["y"]),
    ]
    model = perceptron()
    del model.graph.node[:], model.graph.initializer[:]
    model.graph.node.extend(nodes)
    model.graph.initializer.append(table)
    made = quantize_weights(model)
    assert kinds(made) == {"MatMulNBits": 1} and "table" not in arrays(made)
    assert compare(model, made, [{"x": rows(5)}])[0].noise > 18


# ---- files and the command ------------------------------------------------------------------------------------------------


def test_samples_of_files(tmp_path: Path) -> None:
    model = residual_network()
    np.save(tmp_path / "b.npy", images(3))
    np.savez(tmp_path / "a.npz", x=images(2, 1), other=np.zeros(3))
    found = read_samples(model, tmp_path)
    assert [s["x"].shape for s in found] == [(1, 3, 20, 20)] * 5
    np.testing.assert_array_equal(found[0]["x"], images(2, 1)[:1])
    assert [s["x"].shape for s in read_samples(perceptron(), _saved(tmp_path / "c.npy", rows(4)))] == [(4, 33)]


def _saved(path: Path, array: np.ndarray) -> Path:
    np.save(path, array)
    return path


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["quantize", *map(str, arguments)])
    return result.exit_code, result.output


def test_command(tmp_path: Path) -> None:
    model, out = tmp_path / "model.onnx", tmp_path / "out.onnx"
    save(residual_network(), model)
    _saved(tmp_path / "few.npy", images(4))
    code, text = run(model, "-o", out, "--calibrate", tmp_path / "few.npy", "--method", "percentile")
    assert code == 0 and "same top 1" in text and "MB instead of" in text, text
    code, text = run(model, "-o", out, "--dynamic", "--evaluate", tmp_path / "few.npy", "--json")
    assert code == 0, text
    report = json.loads(text)
    assert report["samples"] == 4 and report["outputs"][0]["top1"] is not None
    assert report["bytes"]["after"] < report["bytes"]["before"]
    assert kinds(onnx.load(out))["MatMulInteger"] == 1
    code, text = run(model, "-o", out, "--weights", "int4", "--block", 16, "--zero-points")
    assert code == 0 and "accuracy was not measured" in text, text
    assert kinds(onnx.load(out))["MatMulNBits"] == 1


def test_mistakes_are_told(tmp_path: Path) -> None:
    model, out = tmp_path / "model.onnx", tmp_path / "out.onnx"
    save(perceptron(), model)
    array, images_ = _saved(tmp_path / "x.npy", rows(2)), _saved(tmp_path / "im.npz.npy", images(1))
    (tmp_path / "empty").mkdir()
    np.savez(tmp_path / "wrong.npz", z=rows(1))
    for arguments, says in (
        ((model, "-o", out), "--calibrate"),
        ((model, "-o", out, "--dynamic", "--calibrate", array), "--calibrate"),
        ((model, "-o", out, "--dynamic", "--weights", "int4"), "--calibrate"),
        ((model, "-o", out, "--weights", "int4", "--block", 24), "a block has"),
        ((model, "-o", model, "--dynamic"), "is the model itself"),
        ((tmp_path / "none.onnx", "-o", out, "--dynamic"), "no such file"),
        ((array, "-o", out, "--dynamic"), "it is weights alone"),
        ((model, "-o", tmp_path / "none" / "out.onnx", "--dynamic"), "no such folder"),
        ((model, "-o", out, "--calibrate", tmp_path / "empty"), "no .npy or .npz"),
        ((model, "-o", out, "--calibrate", tmp_path / "wrong.npz"), "lacks inputs"),
        ((model, "-o", out, "--calibrate", model), "no .npy or .npz file"),
        ((model, "-o", out, "--calibrate", images_), "x"),
        ((model, "-o", out, "--dynamic", "--exclude", "third"), "there is no node 'third'"),
    ):
        code, text = run(*arguments)
        assert code != 0 and says in text and "internal error" not in text, (arguments, text)
    assert not out.exists()
