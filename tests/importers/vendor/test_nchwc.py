"""Files that ONNX Runtime laid out in blocks of channels: drawn networks, and small files for each rule.

BURN_SWEEP draws so many more networks, by BURN_SWEEP_SEED.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import burn
from burn.errors import ModelError
from burn.importers.onnx import import_onnx
from burn.importers.onnx.node import BUILDERS
from burn.importers.onnx.ops import load_builders
from tests.fuzz.runner import check, sweep
from tests.importers.reference import evaluate
from tests.importers.vendor.nchwc import NCHWC, Array, one, ordered
from tests.importers.vendor.test_sweep import KERNELS

RNG = np.random.default_rng(7)


@pytest.mark.parametrize("seed", range(1, 13))  # every eighth is compiled
def test_drawn_networks(seed: int) -> None:
    check(one, seed)


test_more_drawn_networks = sweep(one)


def test_every_operator_of_the_domain_is_imported() -> None:
    load_builders()
    own = {key for key in KERNELS if key[0] == NCHWC}
    assert len(own) == 8
    assert own <= BUILDERS.keys()


# ---- files written by hand ---------------------------------------------------------------------------------------------
def blocked_model(
    nodes: list[onnx.NodeProto], x: tuple[int | str, ...], weights: dict[str, Array], outputs: str = "y"
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x)],
        [onnx.ValueInfoProto(name=name) for name in outputs.split()],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(NCHWC, 1)])


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op, inputs.split(), outputs.split(), domain=NCHWC, **attributes)


def f(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def convolved(x: Array, weight: Array, groups: int = 1) -> Array:
    """Without padding, in float64."""
    each, filters = x.shape[1] // groups, weight.shape[0] // groups
    views = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), weight.shape[2:], axis=(2, 3))
    parts = [
        np.einsum("nchwij,ocij->nohw", views[:, g * each :][:, :each], weight[g * filters :][:filters])
        for g in range(groups)
    ]
    return np.concatenate(parts, axis=1)


def loaded(model: onnx.ModelProto, x: Array, **dims: int) -> list[Array]:
    return list(burn.load(model, dims=dims, cache=False).run({"x": x}).values())


@pytest.mark.parametrize("block", [8, 16])
def test_two_convolutions(block: int) -> None:
    """The file is the same for both blocks but for the order in the filters: the caller says which one it is."""
    first, second = f(32, 3, 3, 3), f(16, 32, 1, 1)
    stored = {"a": ordered(first, block, False), "b": ordered(second, block, True)}
    nodes = [
        node("Conv", "x a", "t", activation="Relu"),
        node("Conv", "t b", "u"),
        node("ReorderOutput", "u", "y", channels=16),
    ]
    model, x = blocked_model(nodes, ("n", 3, 6, 5), stored), f(2, 3, 6, 5)
    (y,) = loaded(model, x, nchwc_block=block)
    np.testing.assert_allclose(y, convolved(np.maximum(convolved(x, first), 0), second), atol=1e-4)
    with pytest.raises(ModelError, match=r"blocks of 8 or 16 channels, and the file does not say of which"):
        import_onnx(model)


@pytest.mark.parametrize(("block", "channels"), [(16, 24), (8, 20)])
def test_sizes_tell_the_block(block: int, channels: int) -> None:
    """12 input channels without a reordering are less than a block of 16; 24 channels are blocks of 8."""
    padded = -(-channels // block) * block
    inputs = 12 if block == 16 else 3
    weight = np.zeros((padded, inputs, 1, 1), np.float32)
    weight[:channels] = f(channels, inputs, 1, 1)
    nodes = [node("Conv", "x w", "t"), node("ReorderOutput", "t", "y", channels=channels, channels_last=1)]
    x = f(1, inputs, 4, 3)
    model = blocked_model(nodes, (1, inputs, 4, 3), {"w": ordered(weight, block, False)})
    (y,) = loaded(model, x)
    np.testing.assert_allclose(y, convolved(x, weight[:channels]).transpose(0, 2, 3, 1), atol=1e-4)
    with pytest.raises(ModelError, match=f"blocks of {24 - block} channels do not fit"):
        import_onnx(model, dims={"nchwc_block": 24 - block})


def test_depthwise_and_grouped_filters() -> None:
    first, second, bias = f(48, 1, 2, 2), f(32, 24, 1, 1), f(32)
    nodes = [
        node("ReorderInput", "x", "r"),
        node("Conv", "r a", "t", group=48),
        node("Conv", "t b c", "u", group=2, activation="HardSigmoid", activation_params=[0.2, 0.5]),
        node("ReorderOutput", "u", "y", channels=32),
    ]
    weights = {"a": ordered(first, 8, False), "b": ordered(second, 8, True), "c": bias}
    x = f(2, 48, 4, 3)
    (y,) = loaded(blocked_model(nodes, x.shape, weights), x)
    want = convolved(convolved(x, first, 48), second, 2) + bias[:, None, None]
    np.testing.assert_allclose(y, np.clip(want * np.float32(0.2) + 0.5, 0, 1), atol=1e-4)


def test_other_operators_get_the_stored_order() -> None:
    """ONNX Runtime splits the channels where it cannot prove that sizes agree; what has no rule sees the memory's order."""
    nodes = [
        node("ReorderInput", "x", "r"),
        helper.make_node("Reshape", ["r", "split"], ["s"]),
        helper.make_node("Add", ["s", "s"], ["t"]),
        helper.make_node("Reshape", ["t", "unsplit"], ["u"]),
        node("GlobalMaxPool", "u", "p"),
        node("ReorderOutput", "p", "y", channels=12),
        helper.make_node("Flatten", ["r"], ["z"]),
        helper.make_node("Relu", ["r"], ["v"]),
    ]
    shapes = {"split": np.array([0, 2, 0, 0, 8]), "unsplit": np.array([0, 16, 0, 0])}
    x = f(2, 12, 3, 2)
    y, z, v = loaded(blocked_model(nodes, (2, 12, "h", 2), shapes, "y z v"), x)
    padded = np.pad(x, ((0, 0), (0, 4), (0, 0), (0, 0)))
    memory = padded.reshape(2, 2, 8, 3, 2).transpose(0, 1, 3, 4, 2)
    np.testing.assert_array_equal(y, 2 * x.max((2, 3), keepdims=True))
    np.testing.assert_array_equal(z, memory.reshape(2, -1))
    np.testing.assert_array_equal(v, np.maximum(memory, 0).reshape(2, 16, 3, 2))


@pytest.mark.parametrize("block", [8, 16])
def test_channels_last(block: int) -> None:
    x = f(1, 3, 2, 20)
    nodes = [node("ReorderInput", "x", "r", channels_last=1), node("ReorderOutput", "r", "y", channels=20)]
    (y,) = loaded(blocked_model(nodes, x.shape, {}), x, nchwc_block=block)
    np.testing.assert_array_equal(y, x.transpose(0, 3, 1, 2))


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("coordinates", ["asymmetric", "align_corners", "half_pixel"])
def test_upsample(mode: str, coordinates: str) -> None:
    x = f(1, 8, 3, 4)
    nodes = [
        node("ReorderInput", "x", "r"),
        node("Upsample", "r", "u", scales=[1, 1, 2, 3], mode=mode, coordinate_transformation_mode=coordinates),
        node("ReorderOutput", "u", "y", channels=8),
    ]
    model = blocked_model(nodes, x.shape, {})
    (y,) = evaluate(import_onnx(model, dims={"nchwc_block": 8}), {"x": x}).values()
    want = x.astype(np.float64)
    for axis, scale in ((2, 2), (3, 3)):
        size, out = x.shape[axis], np.arange(x.shape[axis] * scale)
        at = {"asymmetric": out / scale, "half_pixel": np.clip((out + 0.5) / scale - 0.5, 0, None)}.get(
            coordinates, out * (size - 1) / (len(out) - 1)
        )
        if mode == "nearest":
            at = out // scale
        low = np.minimum(np.floor(at).astype(int), size - 1)
        share = (at - low).reshape([-1 if i == axis else 1 for i in range(4)])
        want = want.take(low, axis) * (1 - share) + want.take(np.minimum(low + 1, size - 1), axis) * share
    np.testing.assert_allclose(y, want, atol=1e-6)


@pytest.mark.parametrize(
    ("nodes", "weights", "message"),
    [
        ([node("ReorderInput", "x", "y", nonsense=1)], {}, "attribute 'nonsense'"),
        ([node("ReorderInput", "x", "r"), node("ReorderOutput", "r", "y", channels=7)], {}, "do not fit: 7 of 16"),
        ([node("ReorderInput", "x", "r"), node("ReorderOutput", "r", "y", channels=17)], {}, "do not fit: 17 of 16"),
        ([node("Conv", "x w", "y")], {"w": f(12, 3, 1, 1)}, "do not fit: 'y' has 12 channels"),
        ([node("Conv", "x w", "y")], {"w": f(16, 16, 1, 1)}, "do not fit: a filter .* is for a blocked operand"),
        (
            [node("ReorderInput", "x", "r"), node("Conv", "r w", "y", activation="Swish")],
            {"w": f(16, 16, 1, 1)},
            "'Swish' is none of",
        ),
        ([node("ReorderInput", "x", "r"), node("Upsample", "r", "y", scales=[1, 2, 1, 1])], {}, "attribute 'scales'"),
        (
            [node("ReorderInput", "x", "r"), node("Upsample", "r", "y", scales=[1, 1, 1, 1], mode="cubic")],
            {},
            "'cubic'",
        ),
        ([node("MaxPool", "x", "y")], {}, "kernel_shape"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_refusals(nodes: list[onnx.NodeProto], weights: dict[str, Array], message: str) -> None:
    model = blocked_model(nodes, (1, 16, 4, 4), weights)
    with pytest.raises(ModelError, match=message):
        import_onnx(model, dims={"nchwc_block": 8})


def test_a_block_that_nothing_is_in_is_refused() -> None:
    model = blocked_model([helper.make_node("Relu", ["x"], ["y"])], (1, 3, 4, 4), {})
    with pytest.raises(ModelError, match="nchwc_block"):
        import_onnx(model, dims={"nchwc_block": 8})
