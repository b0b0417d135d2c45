"""Imported ONNX models that are trained: weights are parameters, forms for training and inference, what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import burn
from burn import nn, optim
from burn.errors import ModelError, TypeMismatch
from burn.exporters.python.generate import generate
from burn.importers.onnx import import_onnx
from tests.importers.models import model, node, tensor, value

torch = pytest.importorskip("torch")


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape).astype(np.float32)


WEIGHTS = {
    "first.weight": drawn(4, 2, 3, 3),
    "norm.weight": drawn(4) + 1,
    "norm.bias": drawn(4),
    "norm.mean": drawn(4, seed=1),
    "norm.var": np.abs(drawn(4, seed=2)) + 0.5,
    "onnx::MatMul_7": drawn(36, 3),
    "head.bias": drawn(3),
    "scale": np.float32(0.5),
}


def network(shape: Sequence[int | str] = ("n", 2, 5, 5), rate: float = 0.0) -> onnx.ModelProto:
    """A convolution, batch normalisation, dropout and a linear layer, as torch's exporter names them."""
    nodes = [
        node("Conv", "x first.weight", "c", "/first/Conv"),
        node("BatchNormalization", "c norm.weight norm.bias norm.mean norm.var", "b", "/norm/BN", momentum=0.8),
        node("Relu", "b", "r"),
        node("Dropout", "r rate", "d", "/drop/Dropout"),
        node("Flatten", "d", "f"),
        node("MatMul", "f onnx::MatMul_7", "m", "/head/MatMul"),
        node("Add", "m head.bias", "a", "/head/Add"),
        node("Mul", "a scale", "y", "/Mul"),
    ]
    held = [*(tensor(k, v) for k, v in WEIGHTS.items()), tensor("rate", np.float32(rate))]
    return model(nodes, [value("x", shape)], [value("y", ("n", 3))], held)


def of_torch(x: np.ndarray, training: bool) -> tuple[dict[str, np.ndarray], Any]:
    """The derivatives of the sum of squares of the network's results, in float64."""
    given = {k: torch.tensor(v, dtype=torch.float64, requires_grad="var" not in k and "mean" not in k)
             for k, v in WEIGHTS.items()}  # fmt: skip
    running = given["norm.mean"].clone(), given["norm.var"].clone()
    c = torch.nn.functional.conv2d(torch.tensor(x, dtype=torch.float64), given["first.weight"])
    b = torch.nn.functional.batch_norm(
        c, *running, given["norm.weight"], given["norm.bias"], training=training, momentum=0.2
    )
    y = (b.relu().flatten(1) @ given["onnx::MatMul_7"] + given["head.bias"]) * given["scale"]
    (y * y).sum().backward()
    return {k: v.grad.numpy() for k, v in given.items() if v.grad is not None}, running


@pytest.mark.parametrize("training", [False, True])
def test_gradients_are_torchs(training: bool) -> None:
    net = burn.load(network(), train=True).train(training)
    assert sorted(p for p, _ in net.named_buffers()) == ["norm.mean", "norm.var"]
    x = drawn(5, 2, 5, 5)
    grads = burn.grad(lambda m, x: (m(x) ** 2).sum())(net, x)
    want, _ = of_torch(x, training)
    want["head.weight"] = want.pop("onnx::MatMul_7")
    assert not net["scale"].trainable and want.pop("scale") is not None
    assert grads.keys() == want.keys()
    for path, g in grads.items():
        np.testing.assert_allclose(g.numpy(), want[path], rtol=1e-4, atol=1e-4 * np.abs(want[path]).max(), err_msg=path)


def test_a_step_moves_weights_and_running_statistics() -> None:
    net = burn.load(network(), train=True).unfreeze("scale")
    step = burn.train.step(net, lambda m, x: (m(x) ** 2).sum(), optim.SGD(net, lr=1e-3))
    x = drawn(5, 2, 5, 5)
    step(x)
    grads, running = of_torch(x, True)
    for path, name in {"first.weight": "first.weight", "head.weight": "onnx::MatMul_7", "scale": "scale"}.items():
        want = WEIGHTS[name] - 1e-3 * grads[name]
        np.testing.assert_allclose(net[path].array, want, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(net["norm.mean"].array, running[0], rtol=1e-5, atol=1e-6)
    count = 5 * 9  # the standard's variance is the population's, torch's running one the sample's
    new = (running[1].numpy() - 0.8 * WEIGHTS["norm.var"]) * (count - 1) / count
    np.testing.assert_allclose(net["norm.var"].array, 0.8 * WEIGHTS["norm.var"] + new, rtol=1e-5)
    assert float(step(drawn(3, 2, 5, 5))) > 0 and step.compiled is not None
    assert sum(map(len, step.compiled.programs.values())) == 1  # whatever the batch


def test_dropout_draws_in_training_only() -> None:
    net = burn.load(network(rate=0.5), train=True)
    x = drawn(2, 2, 5, 5)
    assert np.array_equal(net(x).numpy(), net(x).numpy())
    np.testing.assert_allclose(net(x).numpy(), burn.load(network(rate=0.5))(x), rtol=1e-4, atol=1e-5)
    net.train()
    assert not np.array_equal(net(x).numpy(), net(x).numpy())


def test_sizes_that_the_file_fixes_may_vary() -> None:
    fixed = network((1, 2, 5, 5))
    net = burn.load(fixed, train=True, dynamic={"x": {0: "n"}})
    assert net(drawn(7, 2, 5, 5)).shape == (7, 3)
    with pytest.raises(TypeMismatch, match="a size of 'x'"):
        burn.load(fixed, train=True)(drawn(7, 2, 5, 5))
    with pytest.raises(ModelError, match=r"no input .z"):
        burn.load(fixed, train=True, dynamic={"z": {0: "n"}, "x": {9: "n"}})
    with pytest.raises(TypeMismatch, match="train=True"):
        burn.load(fixed, dynamic={"x": {0: "n"}})  # type: ignore[call-overload]


def test_what_is_learned_and_what_is_not() -> None:
    """A table that two nodes share is one parameter; indices, and what a builder reads as numbers, are none."""
    nodes = [
        node("Gather", "table ids", "rows"),
        node("Transpose", "table", "t", perm=[1, 0]),
        node("MatMul", "rows t", "scores"),
        node("Unsqueeze", "scores axes", "image"),
        node("Resize", "image - scales", "y", mode="nearest"),
    ]
    held = [
        tensor("table", drawn(4, 3)),
        tensor("ids", np.array([0, 2, 2])),
        tensor("axes", np.array([0, 1])),
        tensor("scales", np.array([1, 1, 2, 2], np.float32)),
    ]
    net = burn.load(model(nodes, [], [value("y", (1, 1, 6, 8))], held), train=True)
    assert [path for path, _ in net.named_parameters()] == ["table"]
    got = burn.grad(lambda m: (m() ** 2).sum())(net)["table"].numpy()
    table = torch.tensor(drawn(4, 3), dtype=torch.float64, requires_grad=True)
    (4 * (table[[0, 2, 2]] @ table.T) ** 2).sum().backward()
    np.testing.assert_allclose(got, table.grad.numpy(), rtol=1e-5)


def test_arithmetic_of_weights_is_differentiated() -> None:
    """Small weights are known while importing, and still computed with."""
    nodes = [node("Mul", "gain gain", "g"), node("Mul", "x g", "y")]
    net = burn.load(model(nodes, initializers=[tensor("gain", np.array([1, 2, 3], np.float32))]), train=True)
    grads = burn.grad(lambda m, x: m(x).sum())(net, np.ones((2, 3), np.float32))
    np.testing.assert_allclose(grads["gain"].numpy(), [4, 8, 12])


def test_loops_and_branches() -> None:
    """y = x w^k with k rounds of a loop, negated where the flag says so; traced and recorded."""

    def scalar(name: str, dtype: int) -> onnx.ValueInfoProto:
        return value(name, (), dtype)

    body = onnx.helper.make_graph(
        [node("Identity", "going", "on"), node("Mul", "state w", "next", "/loop/Mul")],
        "body",
        [scalar("i", TensorProto.INT64), scalar("going", TensorProto.BOOL), value("state")],
        [scalar("on", TensorProto.BOOL), value("next")],
    )
    kept = onnx.helper.make_graph([node("Identity", "end", "same")], "kept", [], [value("same")])
    turned = onnx.helper.make_graph([node("Neg", "end", "less")], "turned", [], [value("less")])
    nodes = [node("Loop", "k - x", "end", body=body), node("If", "flag", "y", then_branch=turned, else_branch=kept)]
    inputs = [value("x"), scalar("k", TensorProto.INT64), scalar("flag", TensorProto.BOOL)]
    net = burn.load(model(nodes, inputs, None, [tensor("w", np.array([1, 2, 3], np.float32))]), train=True)
    x = drawn(2, 3)
    of = burn.value_and_grad(lambda m, x, k, flag: m(x, k, flag).sum())
    for how in (of, burn.jit(lambda x, k, flag: of(net, x, k, flag))):
        given = (x, np.int64(3), np.bool_(True))
        total, grads = how(net, *given) if how is of else how(*given)
        w = np.array([1.0, 2, 3])
        np.testing.assert_allclose(np.asarray(total), -(x * w**3).sum(), rtol=1e-5)
        np.testing.assert_allclose(np.asarray(grads["w"]), -(3 * w**2 * x.sum(0)), rtol=1e-5)


def test_sizes_that_are_read_from_tensors() -> None:
    """x w, in the shape that another input says; compiled, and recorded, where it is read at once."""
    nodes = [node("Mul", "x w", "m"), node("Reshape", "m shape", "y")]
    inputs = [value("x"), value("shape", (2,), TensorProto.INT64)]
    net = burn.load(model(nodes, inputs, [value("y", ("a", "b"))], [tensor("w", drawn(3))]), train=True)
    slope = burn.grad(lambda m, x, shape: (m(x, shape)[0] ** 2).sum())
    x, shape = drawn(2, 3), np.array([3, 2])
    whole = (x * drawn(3)).reshape(3, 2)
    np.testing.assert_allclose(net(x, shape).numpy(), whole, rtol=1e-6)
    want = 2 * drawn(3) * x[0] ** 2 * [1, 1, 0]
    np.testing.assert_allclose(slope(net, x, shape)["w"].numpy(), want, rtol=1e-5)
    np.testing.assert_allclose(burn.jit(lambda x, s: slope(net, x, s)["w"])(x, shape), want, rtol=1e-5)


@pytest.mark.parametrize("compiled", [False, True])
def test_what_cannot_be_differentiated_is_named(compiled: bool) -> None:
    nodes = [
        node("Mul", "x w", "m"),
        node("QuantizeLinear", "m step", "q", "/deep/Quantize"),
        node("DequantizeLinear", "q step", "d"),
        node("NonZero", "d", "z", "/places/NonZero"),
        node("Add", "d w", "y"),
    ]
    held = [tensor("w", drawn(3)), tensor("step", np.float32(0.1))]
    net = burn.load(model(nodes, initializers=held), train=True)
    slope = burn.grad(lambda m, x: m(x).sum())
    with pytest.raises(TypeMismatch, match=r"deep/Quantize \(.*\).: burn.quantize cannot be differentiated"):
        burn.jit(lambda x: slope(net, x))(drawn(2, 3)) if compiled else slope(net, drawn(2, 3))


def test_the_layers_of_written_source_train() -> None:
    """Source written by burn-import has the same derivatives, and its running statistics change."""
    net = generate(import_onnx(network())).load().train()
    x = drawn(5, 2, 5, 5)
    grads = burn.grad(lambda m, x: (m(x) ** 2).sum())(net, x)
    want, _ = of_torch(x, True)
    want = {"first.weight": want["first.weight"], "norm.weight": want["norm.weight"], "norm.bias": want["norm.bias"],
            "head.weight": want["onnx::MatMul_7"].T, "head.bias": want["head.bias"]}  # fmt: skip
    assert grads.keys() == want.keys()
    for path, g in grads.items():
        np.testing.assert_allclose(g.numpy(), want[path], rtol=1e-4, atol=1e-4 * np.abs(want[path]).max(), err_msg=path)
    before = dict(net.named_parameters())["norm.running_mean"].array.copy()
    step = burn.train.step(net, lambda m, x: (m(x) ** 2).sum(), optim.SGD(net, lr=1e-3))
    assert float(step(x)) > float(step(x))
    assert not np.array_equal(dict(net.named_parameters())["norm.running_mean"].array, before)


def test_a_model_as_a_module() -> None:
    net = burn.load(network(), train=True)
    twin = net.clone()
    assert twin["head.bias"] is not net["head.bias"]
    twin["head.bias"].assign(np.zeros(3, np.float32))
    x = drawn(2, 2, 5, 5)
    np.testing.assert_allclose(
        (net(x) - twin(x)).numpy(), np.tile(WEIGHTS["head.bias"] / 2, (2, 1)), rtol=1e-3, atol=1e-4
    )
    net.load_state_dict(twin.state_dict())
    np.testing.assert_allclose(net(x).numpy(), twin(x).numpy())
    np.testing.assert_allclose(burn.compile(net)(x), twin(x).numpy(), rtol=1e-4, atol=1e-5)
    bigger: Any = nn.Sequential(net, nn.Linear(3, 2))
    bigger[1].bias = net["head.bias"]  # shared, also in copies
    other: Any = bigger.clone()
    assert other[1].bias is other[0]["head.bias"] is not net["head.bias"]
    assert next(path for path, _ in bigger.named_parameters()) == "0.first.weight"
    with pytest.raises(TypeMismatch, match="input 'x' is missing"):
        net()
    with pytest.raises(TypeMismatch, match="'x' is float32"):
        net(drawn(2, 3))
    with pytest.raises(TypeMismatch, match="no parameter 'head'"):
        net["head"]


# ---- ai.onnx.preview.training ------------------------------------------------------------------------------------------
TRAINING = "ai.onnx.preview.training"


def differentiated(*gradients: onnx.NodeProto, outputs: Sequence[onnx.ValueInfoProto]) -> onnx.ModelProto:
    """y = (x w)^2 v, summed, and results of Gradient nodes, which may precede the nodes that they differentiate."""
    nodes = [
        *gradients,
        node("Mul", "x w", "h"),
        node("Mul", "h h", "s"),
        node("Mul", "s v", "t"),
        node("ReduceSum", "t", "y", keepdims=0),
    ]
    return model(nodes, [value("x"), value("w"), value("other")], outputs, [tensor("v", drawn(3))],
                 domains={TRAINING: 1})  # fmt: skip


def test_gradient_nodes() -> None:
    of_inputs = node("Gradient", "x w", "dx dw", domain=TRAINING, xs=["x", "w"], y="y")
    of_middle = node("Gradient", "other", "dh", domain=TRAINING, xs=["h"], y="y")
    second = node("Gradient", "w x", "dd", domain=TRAINING, xs=["w"], zs=["x"], y="dw")
    outputs = [value(name) for name in ("dx", "dw", "dh", "dd")]
    x, w, other = drawn(2, 3), drawn(2, 3, seed=1), drawn(2, 3, seed=2)
    dx, dw, dh, dd = burn.load(differentiated(of_inputs, of_middle, second, outputs=outputs))(x, w, other)
    v = drawn(3)
    np.testing.assert_allclose(dx, 2 * x * w**2 * v, rtol=1e-5)
    np.testing.assert_allclose(dw, 2 * w * x**2 * v, rtol=1e-5)
    np.testing.assert_allclose(dh, 2 * other * v, rtol=1e-5)
    np.testing.assert_allclose(dd, 2 * x**2 * v, rtol=1e-5)


@pytest.mark.parametrize(
    ("inputs", "attributes", "says"),
    [
        ("x", {"xs": ["x"], "y": "nowhere"}, "there is no tensor 'nowhere'"),
        ("x", {"xs": ["x", "w"], "y": "y"}, "one operand for each of x, w, not 1"),
        ("x x", {"xs": ["x", "x"], "y": "y"}, "one operand for each"),
        ("x", {"xs": ["x"], "y": "q"}, "'q' is no tensor of floats"),
    ],
)
def test_gradient_nodes_that_are_wrong(inputs: str, attributes: dict[str, Any], says: str) -> None:
    wrong = node("Gradient", inputs, "g", domain=TRAINING, **attributes)
    broken = differentiated(wrong, node("Cast", "x", "q", to=TensorProto.INT64), outputs=[value("g")])
    with pytest.raises(ModelError, match=says):
        burn.load(broken)
