"""Modules, their weights and the files these are kept in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import burn
from burn import nn, ops
from burn.errors import DeviceError, ModelError, TypeMismatch


class Net(nn.Module):
    def __init__(self) -> None:
        self.first = nn.Linear(4, 8)
        self.rest = nn.ModuleList([nn.Linear(8, 8), nn.Linear(8, 2, bias=False)])
        self.norm = nn.BatchNorm1d(8)
        self.scale = nn.Parameter((1, 2))

    def forward(self, x: burn.Tensor) -> burn.Tensor:
        x = self.norm(ops.relu(self.first(x)))
        return self.rest[1](self.rest[0](x)) * self.scale


NAMES = [
    "scale", "first.weight", "first.bias", "rest.0.weight", "rest.0.bias", "rest.1.weight",
    "norm.weight", "norm.bias", "norm.running_mean", "norm.running_var",
]  # fmt: skip


def test_parameters_by_path() -> None:
    net = Net()
    assert sorted(dict(net.named_parameters())) == sorted(NAMES)
    assert net.num_params() == 2 + 40 + 72 + 16 + 16 and net.num_params(buffers=True) == net.num_params() + 16
    assert {name: array.shape for name, array in net.state_dict().items()}["rest.1.weight"] == (2, 8)
    assert [name for name, _ in net.named_modules()] == ["", "first", "rest", "rest.0", "rest.1", "norm"]


def test_the_summary_lists_what_has_parameters() -> None:
    text = Net().summary()
    assert "rest.1" in text and "Linear" in text and "146 trainable parameters, 162 in all" in text
    assert repr(Net()).startswith("Net(\n  (first): Linear(4, 8)")


def test_weights_through_a_file_stay_in_it(tmp_path: Path) -> None:
    net = Net()
    net.scale.assign(np.array([[2.0, -1.0]], np.float32))
    net.save(tmp_path / "net.safetensors")
    again = Net.from_file(tmp_path / "net.safetensors")
    for name, array in net.state_dict().items():
        np.testing.assert_array_equal(again.state_dict()[name], array, name)
    assert again.first.weight.weight.file is not None  # mapped, not copied
    x = np.random.default_rng(0).standard_normal((3, 4), np.float32)
    runs = [burn.compile(m, ("float32[n, 4]",))(x) for m in (net, again)]
    np.testing.assert_array_equal(*runs)


def test_the_common_library_reads_the_file_and_writes_ours(tmp_path: Path) -> None:
    from safetensors import numpy as library

    net = Net()
    net.save(tmp_path / "net.safetensors")
    theirs = library.load_file(tmp_path / "net.safetensors")
    assert {k: v.tolist() for k, v in theirs.items()} == {k: v.tolist() for k, v in net.state_dict().items()}
    library.save_file(theirs, tmp_path / "back.safetensors")
    assert Net.from_file(tmp_path / "back.safetensors").state_dict().keys() == theirs.keys()


def test_wrong_weights_are_all_named() -> None:
    state = dict(Net().state_dict())
    del state["scale"], state["first.bias"]
    state["extra"] = np.zeros(3, np.float32)
    state["rest.1.weight"] = np.zeros((2, 9), np.float32)
    state["norm.bias"] = np.zeros(8, np.float64)
    with pytest.raises(ModelError) as caught:
        Net().load_state_dict(state)
    assert len(caught.value.problems) == 5
    text = str(caught.value)
    for part in ("'scale' is missing", "'first.bias' is missing", "'extra'", "float32[2, 9]", "float64[8]"):
        assert part in text


def test_a_fresh_module_starts_the_same_with_the_same_seed() -> None:
    burn.manual_seed(3)
    one, two = Net(), Net()
    burn.manual_seed(3)
    again = Net()
    again.rest[0].weight.array.sum()  # the order of use makes no difference
    for (path, a), (_, b), (_, c) in zip(*(n.named_parameters() for n in (one, two, again)), strict=True):
        np.testing.assert_array_equal(a.array, c.array, path)
        drawn = "weight" in path and "norm" not in path
        assert not drawn or not np.array_equal(a.array, b.array), path
    assert np.abs(one.first.weight.array).max() <= 0.5  # 1 / sqrt(4)


def test_parameters_are_lazy_tensors_outside_of_a_trace() -> None:
    net = Net()
    np.testing.assert_array_equal((net.scale + 1.0).numpy(), net.scale.array + 1.0)
    before = net.scale * 1.0
    net.scale.assign(net.scale + 1.0)
    np.testing.assert_array_equal(net.scale.numpy(), before.numpy() + 1.0)


def test_one_parameter_used_twice_is_one_constant() -> None:
    from burn.tracing.trace import trace

    linear = nn.Linear(64, 64)
    program = trace(lambda x: linear(linear(x)), {"x": "float32[n, 64]"})
    weights = [op for op in program.block.operations if op.operation.name == "burn.weight"]
    assert len(weights) == 2  # the matrix and the bias


def test_weights_are_not_copied_while_tracing() -> None:
    from burn.tracing.trace import trace

    linear = nn.Linear(64, 64)
    program = trace(linear, {"x": "float32[n, 64]"})
    held = {id(weight.buffer) for _, weight in program.weights.items()}
    assert held == {id(linear.weight.weight.buffer), id(dict(linear.named_parameters())["bias"].weight.buffer)}


# ---- layers against their definitions ----------------------------------------------------------------------------------


def run(module: nn.Module, *arrays: np.ndarray):
    return burn.compile(module, arrays)(*arrays)


def state(module: nn.Module) -> dict[str, np.ndarray]:
    return module.state_dict()


def draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape, np.float32)


def test_linear_and_its_transpose() -> None:
    x, plain, turned = draw(2, 3, 5), nn.Linear(5, 4), nn.Linear(5, 4, transposed=True)
    want = x @ plain.weight.array.T + state(plain)["bias"]
    np.testing.assert_allclose(run(plain, x), want, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(run(turned, x), x @ turned.weight.array + state(turned)["bias"], rtol=1e-5, atol=1e-6)


def test_normalisations() -> None:
    x = draw(2, 6, 4)
    mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    np.testing.assert_allclose(run(nn.LayerNorm(4), x), (x - mean) / np.sqrt(var + 1e-5), atol=1e-5)
    np.testing.assert_allclose(run(nn.InstanceNorm(6), x), (x - mean) / np.sqrt(var + 1e-5), atol=1e-5)
    np.testing.assert_allclose(run(nn.RMSNorm(4), x), x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5), atol=1e-5)
    g = x.reshape(2, 3, 8)
    want = (g - g.mean(-1, keepdims=True)) / np.sqrt(g.var(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(run(nn.GroupNorm(3, 6), x), want.reshape(x.shape), atol=1e-5)
    with pytest.raises(TypeMismatch, match="BatchNorm2d takes 4 axes"):
        run(nn.BatchNorm2d(6), x)


def test_pools_at_odd_sizes() -> None:
    x = draw(1, 2, 5, 7)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    views = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))[:, :, ::2, ::2]
    ones = np.lib.stride_tricks.sliding_window_view(np.pad(np.ones((5, 7)), 1), (3, 3))[::2, ::2]
    np.testing.assert_allclose(run(nn.AvgPool2d(3, 2, 1), x), views.mean((-1, -2)), atol=1e-6)
    want = views.sum((-1, -2)) / ones.sum((-1, -2))
    np.testing.assert_allclose(run(nn.AvgPool2d(3, 2, 1, count_include_pad=False), x), want, atol=1e-6)
    lowest = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    want = np.lib.stride_tricks.sliding_window_view(lowest, (3, 3), (2, 3))[:, :, ::2, ::2].max((-1, -2))
    np.testing.assert_array_equal(run(nn.MaxPool2d(3, 2, 1), x), want)


def test_attention_is_softmax_of_scaled_scores() -> None:
    layer, x = nn.MultiheadAttention(8, 2), draw(2, 5, 8)
    q, k, v = (
        (x @ p.weight.array.T + state(p)["bias"]).reshape(2, 5, 2, 4).swapaxes(1, 2)
        for p in (layer.query, layer.key, layer.value)
    )
    scores = q @ k.swapaxes(2, 3) / 2
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    y = ((weights / weights.sum(-1, keepdims=True)) @ v).swapaxes(1, 2).reshape(2, 5, 8)
    want = y @ layer.output.weight.array.T + state(layer)["output.bias"]
    got = burn.compile(lambda a: layer(a, a, a), (x,))(x)
    np.testing.assert_allclose(got, want, atol=1e-5)


def test_arrays_are_taken_and_errors_name_the_layer() -> None:
    layer = nn.Linear(4, 3)
    x = np.ones((2, 4), np.float32)
    np.testing.assert_array_equal(layer(x).numpy(), layer(burn.constant(x)).numpy())
    with pytest.raises(TypeMismatch, match=r"in Linear\(4, 3\): .*of one size"):
        nn.Sequential(layer)(x[:, :3])
    with pytest.raises(TypeMismatch, match=r"\.weight\.assign"):
        layer.weight = x  # type: ignore[assignment]
    with pytest.raises(nn.ConfigError, match="'embedding_dim' is called 'dim' here"):
        nn.Embedding(num_embeddings=4, embedding_dim=2)  # type: ignore[call-arg]
    with pytest.raises(AttributeError, match="any number of axes"):
        nn.InstanceNorm2d  # type: ignore[attr-defined]  # noqa: B018


def test_parameters_are_made_of_elements_or_of_a_shape() -> None:
    np.testing.assert_array_equal(nn.Parameter([1.5, 2.0]).numpy(), np.array([1.5, 2], np.float32))
    assert nn.Parameter((2, 3)).shape == (2, 3) and nn.Parameter([[1, 2]]).shape == (1, 2)


def test_moves_between_types_and_to_devices() -> None:
    layer = nn.Linear(2, 2).to("cpu").to(np.float16)
    assert (
        layer.weight.dtype == "float16" and layer.weight.device == "cpu" and burn.ones(2).to("cpu").dtype == "float32"
    )
    with pytest.raises(TypeMismatch, match="no element type 'tpu'"):
        layer.to("tpu")
    with pytest.raises(DeviceError, match="cuda:99"):
        layer.to("cuda:99")


def test_parameters_have_elements_of_their_own() -> None:
    array = np.ones((2, 2), np.float32)
    first, second = nn.Parameter(array), nn.Parameter((2, 2))
    second.assign(array)
    array[:] = 7
    assert first.numpy().max() == 1 and second.numpy().max() == 1
