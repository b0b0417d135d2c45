"""Modules being changed: training mode, freezing, conversion, copies, containers; and what refuses to be one."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import burn
from burn import nn
from burn.errors import TypeMismatch
from tests.nn.test_module import NAMES, Net, draw, run


def test_training_mode_reaches_everything() -> None:
    net = Net()
    assert not any(m.training for m in net.modules())
    assert net.train() is net and all(m.training for m in net.modules())
    assert not any(m.training for m in net.eval().modules())


def test_batch_norm_in_training_is_torchs() -> None:
    torch = pytest.importorskip("torch")
    x = draw(5, 3, 4)
    ours, theirs = nn.BatchNorm1d(3, momentum=0.3).train(), torch.nn.BatchNorm1d(3, momentum=0.3).train()
    for scale in (1.0, 2.0):
        want = theirs(torch.from_numpy(x * np.float32(scale))).detach().numpy()
        np.testing.assert_allclose(ours(burn.constant(x * np.float32(scale))).numpy(), want, rtol=1e-5, atol=1e-5)
    for name in ("running_mean", "running_var"):
        np.testing.assert_allclose(ours.state_dict()[name], getattr(theirs, name).numpy(), rtol=1e-5, atol=1e-6)
    with pytest.raises(TypeMismatch, match=r"compiled with burn\.jit"):
        burn.compile(ours, ("float32[n, 3, 4]",))
    with pytest.raises(TypeMismatch, match="two values a channel"):
        ours(burn.constant(x[:1, :, 0]))
    np.testing.assert_allclose(run(ours.eval(), x), ours(burn.constant(x)).numpy(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name, axes", [("Dropout", 2), ("Dropout1d", 1), ("Dropout2d", 2), ("Dropout3d", 3)])
def test_dropout_in_training(name: str, axes: int) -> None:
    layer = getattr(nn, name)(0.3).train()
    x = np.ones((20, 30, *(5,) * axes), np.float32)
    burn.manual_seed(5)
    a, b = layer(burn.constant(x)).numpy(), layer(burn.constant(x)).numpy()
    burn.manual_seed(5)
    np.testing.assert_array_equal(layer(burn.constant(x)).numpy(), a)
    assert not np.array_equal(a, b)
    kept = a[a != 0]
    np.testing.assert_allclose(kept, 1 / 0.7, rtol=1e-6)
    drawn = a if name == "Dropout" else a.reshape(600, -1)[:, 0]
    assert name == "Dropout" or (a.reshape(600, -1) == drawn[:, None]).all()
    assert abs((drawn == 0).mean() - 0.3) < 5 * (0.21 / drawn.size) ** 0.5
    assert (getattr(nn, name)(1.0).train()(burn.constant(x)).numpy() == 0).all()
    compiled = burn.compile(layer, (x,))
    first, second = compiled(x), compiled(x)
    assert not np.array_equal(first, second) and abs((first == 0).mean() - 0.3) < 0.06
    keyed = burn.compile(lambda y, key: layer(y, key), (x, "uint32[2]"))
    one, two = (keyed(x, burn.random.key(n).numpy()) for n in (1, 2))
    assert not np.array_equal(one, two)
    np.testing.assert_array_equal(one, layer(burn.constant(x), burn.random.key(1)).numpy())


def test_noise_in_training() -> None:
    x = burn.constant(np.zeros((100, 100), np.float32))
    noise = nn.GaussianNoise(0.5).train()(x).numpy()
    assert abs(noise.std() - 0.5) < 0.02 and abs(noise.mean()) < 0.03
    assert (nn.GaussianNoise(0.5)(x).numpy() == 0).all()


def test_freezing_by_pattern() -> None:
    net = Net().freeze(r"^rest\.")
    assert net.num_params(trainable=True) == 2 + 40 + 16 and net.num_params() == 146
    frozen = {n for n, p in net.named_parameters(buffers=False) if not p.trainable}
    assert frozen == {n for n in NAMES if n.startswith("rest")}
    assert net.unfreeze("weight").num_params(trainable=True) == 146 - 8
    assert net.freeze().num_params(trainable=True) == 0 and "0 trainable parameters, 162 in all" in net.summary()
    with pytest.raises(TypeMismatch, match="'head' is in no parameter's path"):
        net.freeze("head")
    assert [n for n, _ in net.named_buffers()] == ["norm.running_mean", "norm.running_var"]


def test_conversion_and_copies() -> None:
    net = Net()
    other = net.clone().half()
    assert {p.dtype for _, p in other.named_parameters()} == {"float16"}
    assert {p.dtype for _, p in net.named_parameters()} == {"float32"}
    np.testing.assert_array_equal(other.first.weight.array, net.first.weight.array.astype(np.float16))
    doubled = net.map(lambda path, p: p * 2.0 if path.startswith("first") else None)
    np.testing.assert_array_equal(doubled.first.weight.array, 2 * net.first.weight.array)
    np.testing.assert_array_equal(doubled.rest[0].weight.array, net.rest[0].weight.array)
    assert doubled.config == net.config
    x = burn.constant(draw(3, 4))
    np.testing.assert_allclose(net.clone()(x).numpy(), net(x).numpy())
    assert other.bfloat16()(x.astype("bfloat16")).dtype == "bfloat16"
    with pytest.raises(TypeMismatch, match="does not become int8"):
        net.to("int8")
    seen: list[str] = []
    net.visit(lambda path, p: seen.append(path))
    assert seen == [n for n, _ in net.named_parameters(buffers=False)]
    kinds: list[str] = []
    net.apply(lambda m: kinds.append(type(m).__name__))
    assert kinds[-1] == "Net" and len(kinds) == 6


def test_pickles_keep_everything() -> None:
    net = Net().freeze("first").train()
    net.rest[1].bfloat16()
    again = pickle.loads(pickle.dumps(net))
    assert again.config == net.config and again.training and again.num_params(trainable=True) == 106
    for (path, a), (_, b) in zip(net.named_parameters(), again.named_parameters(), strict=True):
        assert a.type == b.type, path
        np.testing.assert_array_equal(a.array, b.array)


class Tied(nn.Module):
    def __init__(self) -> None:
        self.embedding = nn.Embedding(5, 3)
        self.head = nn.Linear(3, 5, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, x: burn.Tensor) -> burn.Tensor:
        return self.head(self.embedding(x))


def test_shared_parameters_stay_shared() -> None:
    net = Tied()
    assert list(net.state_dict()) == ["embedding.weight"] and net.num_params() == 15
    assert [n for n, _ in net.named_parameters(shared=True)] == ["embedding.weight", "head.weight"]
    other = net.clone()
    assert other.head.weight is other.embedding.weight is not net.head.weight
    assert "[5, 3] shared" in net.summary()
    net.freeze("head")
    assert not net.embedding.weight.trainable and other.embedding.weight.trainable


def test_containers() -> None:
    named = nn.Sequential(up=nn.Linear(2, 4), act=nn.ReLU())
    assert [n for n, _ in named.named_parameters()] == ["up.weight", "up.bias"] and named.act is named[1]
    heads = nn.ModuleDict({"a": nn.Linear(2, 3)})
    heads["b"] = nn.ModuleList([nn.ReLU(), nn.Linear(1, 1, bias=False)])
    assert [n for n, _ in heads.named_parameters()] == ["a.weight", "a.bias", "b.1.weight"] and "b" in heads
    assert [n for n, _ in heads.clone().named_modules()] == ["", "a", "b", "b.0", "b.1"]
    for wrong in (
        lambda: nn.ModuleList([3]),  # type: ignore[list-item]
        lambda: nn.ModuleDict({"a.b": nn.ReLU()}),
        lambda: nn.Sequential(nn.ReLU(), x=nn.ReLU()),
    ):
        with pytest.raises(TypeMismatch):
            wrong()


def test_modules_that_would_be_lost_are_refused() -> None:
    class Lost(nn.Module):
        def __init__(self, kind: type) -> None:
            layers = [nn.Linear(1, 1)]
            self.layers = {"a": layers[0]} if kind is dict else kind(layers)

    for kind in (list, tuple, dict):
        with pytest.raises(TypeMismatch, match="would hide the modules"):
            Lost(kind)


def test_the_summary_shows_what_comes_out() -> None:
    text = Net().summary("float32[batch, 4]")
    assert "float32[batch, 8]" in text and "float32[batch, 2]" in text
    assert "146 trainable parameters, 162 in all, 648 bytes" in text
    with pytest.raises(TypeMismatch):
        Net().summary("float32[batch, 5]")


def test_empty_batches_go_through() -> None:
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(4, 3), nn.LayerNorm(3),
    )  # fmt: skip
    x = np.zeros((0, 1, 6, 6), np.float32)
    assert model(burn.constant(x)).numpy().shape == (0, 3)
    compiled = burn.compile(model, ("float32[n, 1, 6, 6]",))
    assert compiled(x).shape == (0, 3) and compiled(np.zeros((2, 1, 6, 6), np.float32)).shape == (2, 3)


def sample(image: np.ndarray, row: float, column: float) -> float:
    """Between elements, zeros outside."""
    top, left = int(np.floor(row)), int(np.floor(column))
    total = 0.0
    for r in (top, top + 1):
        for c in (left, left + 1):
            if 0 <= r < image.shape[0] and 0 <= c < image.shape[1]:
                total += (1 - abs(row - r)) * (1 - abs(column - c)) * image[r, c]
    return total


def test_deformable_convolution() -> None:
    """Beside its definition, tap by tap, in float64: torch has none."""
    rng = np.random.default_rng(0)
    batch, inputs, out, groups, shared, eh, ew = 2, 4, 6, 2, 2, 4, 6
    layer = nn.DeformConv2d(
        inputs, out, (3, 2), (2, 1), padding=1, dilation=(1, 2), groups=groups, offset_groups=shared
    )
    x = rng.standard_normal((batch, inputs, 7, 6)).astype(np.float32)
    offset = rng.uniform(-2, 2, (batch, shared * 6 * 2, eh, ew)).astype(np.float32)
    mask = rng.uniform(0, 1, (batch, shared * 6, eh, ew)).astype(np.float32)
    weight, bias = layer.weight.array.astype(np.float64), layer.state_dict()["bias"]
    want = np.zeros((batch, out, eh, ew)) + bias[None, :, None, None]
    for n, o, i, j in np.ndindex(batch, out, eh, ew):
        for c in range(inputs // groups):
            channel = (o // (out // groups)) * (inputs // groups) + c
            share = channel // (inputs // shared)
            for tap in range(6):
                a, b = divmod(tap, 2)
                first = (share * 6 + tap) * 2
                down, right = offset[n, first : first + 2, i, j].astype(np.float64)
                value = sample(x[n, channel], 2 * i - 1 + a + down, j - 1 + 2 * b + right)
                want[n, o, i, j] += weight[o, c, a, b] * value * mask[n, share * 6 + tap, i, j]
    given = (x, offset, mask)
    np.testing.assert_allclose(layer(*map(burn.constant, given)).numpy(), want, rtol=1e-4, atol=1e-5)
    types = ("float32[n, 4, h, w]", "float32[n, 24, p, q]", "float32[n, 12, p, q]")
    np.testing.assert_allclose(burn.compile(layer, types)(*given), want, rtol=1e-4, atol=1e-5)


# ---- hooks -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("traced", [False, True])
def test_hooks_see_and_change_what_goes_through(traced: bool) -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    x, shapes = draw(2, 3), []
    want = np.maximum(x @ net[0].weight.numpy().T + net[0].bias.numpy(), 0)  # type: ignore[union-attr]

    def call() -> np.ndarray:
        run_it = burn.jit(net) if traced else net
        return np.asarray(run_it(burn.constant(x)))

    seen = net[0].register_forward_hook(lambda module, args, result: shapes.append((args[0].shape, result.shape)))
    np.testing.assert_allclose(call(), want, rtol=1e-5, atol=1e-6)
    assert shapes == [((2, 3), (2, 4))]
    seen.remove()
    doubled = net.register_forward_hook(lambda module, args, result: result * 2.0)
    np.testing.assert_allclose(call(), want * 2, rtol=1e-5, atol=1e-6)
    doubled.remove()
    nothing = net.register_forward_pre_hook(lambda module, args: args[0] * 0.0)
    np.testing.assert_allclose(
        call(), np.maximum(np.zeros_like(x) @ np.zeros((3, 4)) + net[0].bias.numpy(), 0), rtol=1e-5
    )  # type: ignore[union-attr]
    nothing.remove()
    nothing.remove()
    np.testing.assert_allclose(call(), want, rtol=1e-5, atol=1e-6)


def test_a_jitted_module_sees_its_hooks_change() -> None:
    layer, x = nn.Linear(3, 2), draw(2, 3)
    f = burn.jit(layer)
    want = np.asarray(f(x))
    handle = layer.register_forward_hook(lambda module, args, result: result + 1.0)
    np.testing.assert_allclose(np.asarray(f(x)), want + 1, rtol=1e-5, atol=1e-6)
    handle.remove()
    np.testing.assert_allclose(np.asarray(f(x)), want, rtol=1e-6)


def test_modules_made_of_iterators_are_copied() -> None:
    lstm = nn.StackedLSTM(3, 4, 2)
    twin = lstm.clone()
    assert [p for p, _ in twin.named_parameters()] == [p for p, _ in lstm.named_parameters()]
