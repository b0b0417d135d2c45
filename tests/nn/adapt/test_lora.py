"""LoRA: adapters of drawn layers against float64, merging, freezing, training over quantised bases.

BURN_SWEEP=1000 draws so many layers, from BURN_SWEEP_SEED on."""

from __future__ import annotations

import os
import pickle
from typing import Any

import numpy as np
import pytest

import burn
from burn import nn, optim
from burn.errors import TypeMismatch
from burn.nn.adapt.apply import adapters
from burn.quantization import quantize_module

SWEEP = int(os.environ.get("BURN_SWEEP", "6"))
SEED = int(os.environ.get("BURN_SWEEP_SEED", "0"))


def filled(module: nn.Module, rng: np.random.Generator) -> None:
    """Gives all factors of adapters elements: B is zero at first."""
    for _, adapter in adapters(module):
        for p in adapter.factors().values():
            p.assign(rng.standard_normal(p.shape).astype(np.float32))


def drawn(rng: np.random.Generator) -> tuple[nn.Module, np.ndarray, int]:
    """A layer, an input, and a rank that fits."""
    a, b, n = (int(v) for v in rng.integers(1, 8, 3))
    rank = int(rng.integers(1, 5))
    kind = rng.choice(["linear", "int4", "int8", "quant", "embedding", "conv"])
    bias = bool(rng.integers(2))
    x = rng.standard_normal((int(rng.integers(0, 4)), n, a)).astype(np.float32)
    if kind == "linear":
        return nn.Linear(a, b, bias, transposed=bool(rng.integers(2))), x, rank
    if kind == "quant":
        return nn.QuantLinear(a, b, bias, bool(rng.integers(2)), bool(rng.integers(2))), x, rank
    if kind == "embedding":
        return nn.Embedding(a, b, wrap=bool(rng.integers(2))), rng.integers(0, a, (n, 2)), rank
    if kind == "conv":
        groups = int(rng.integers(1, 3))
        mode: Any = str(rng.choice(["zeros", "reflect", "circular"]))
        k, d = int(rng.integers(1, 4)), int(rng.integers(1, 3))
        layer = nn.Conv1d(2 * a, 2 * b, k, int(rng.integers(1, 3)), 2, d, groups, bias, padding_mode=mode)
        return layer, rng.standard_normal((n, 2 * a, 9)).astype(np.float32), rank * groups
    holder = nn.Sequential(nn.Linear(a, b, bias))
    return quantize_module(holder, weights=str(kind), block=8, zero_points=bool(rng.integers(2)))[0], x, rank


def update64(layer: Any, adapter: nn.adapt.LoRA, x: np.ndarray) -> np.ndarray:
    """scale * B(A(x)) in float64, by numpy."""
    a, b = (p.numpy().astype(np.float64) for p in adapter.factors().values())
    if isinstance(layer, nn.Embedding):
        return a.T[x] @ b.T * adapter.scale
    if not isinstance(layer, nn.Conv1d):
        return x @ a.T @ b.T * adapter.scale
    ((low,), (high,)), (stride,), (dilation,) = layer.padding, layer.stride, layer.dilation
    mode = {"zeros": "constant", "reflect": "reflect", "circular": "wrap"}[layer.padding_mode]
    wide = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (low, high)), mode=mode)
    k = a.shape[2]
    count = (wide.shape[2] - (k - 1) * dilation - 1) // stride + 1
    windows = np.stack(
        [wide[:, :, i * dilation : i * dilation + stride * (count - 1) + 1 : stride] for i in range(k)], -1
    )
    inner = np.einsum("nctk,rck->nrt", windows, a)
    g = layer.groups
    split = inner.reshape(len(x), g, -1, count)
    out = np.einsum("ngrt,gor->ngot", split, b[:, :, 0].reshape(g, -1, b.shape[1]))
    return out.reshape(len(x), -1, count) * adapter.scale


@pytest.mark.parametrize("seed", range(SEED, SEED + SWEEP))
def test_drawn_layers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    burn.manual_seed(seed)
    layer, x, rank = drawn(rng)
    model = nn.Sequential(layer)
    base = np.asarray(model(x), np.float64)
    stabilised, alpha = bool(rng.integers(2)), float(rng.uniform(0.5, 4))
    before = {path: p.numpy().copy() for path, p in layer.named_parameters()}
    nn.adapt.lora(model, "0", rank=rank, alpha=alpha, stabilised=stabilised)
    np.testing.assert_allclose(np.asarray(model(x)), base, rtol=1e-5, atol=1e-5)  # one of A and B is zero
    filled(model, rng)
    adapter = model[0]
    want = base + update64(layer, adapter, x)
    tolerance: dict[str, float] = {"rtol": 2e-5, "atol": 2e-5 * float(np.abs(want).max(initial=1))}
    np.testing.assert_allclose(np.asarray(model(x)), want, **tolerance)
    if getattr(layer, "groups", 1) > 1:
        with pytest.raises(TypeMismatch, match="2 groups"):
            nn.adapt.merge(model)
    else:
        nn.adapt.merge(model)
        assert adapter.merged and adapter.base_layer is not layer
        np.testing.assert_allclose(np.asarray(model(x)), want, **tolerance)
        np.testing.assert_allclose(np.asarray(pickle.loads(pickle.dumps(model))(x)), want, **tolerance)
        nn.adapt.unmerge(nn.adapt.unmerge(model))
    assert adapter.base_layer is layer
    assert all(np.array_equal(p.numpy(), before[path]) for path, p in layer.named_parameters())
    assert nn.adapt.remove(model, merged=False)[0] is layer
    assert [path for path, p in model.named_parameters(buffers=False) if p.trainable] == []


class Net(nn.Module):
    """A linear layer that stands twice, an embedding that shares its weight with the head."""

    def __init__(self) -> None:
        self.table = nn.Embedding(11, 8)
        self.inner = nn.Linear(8, 8)
        self.blocks = nn.ModuleList([nn.Linear(8, 8), self.inner])
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.table.weight

    def forward(self, x: burn.Tensor) -> burn.Tensor:
        y = self.inner(self.table(x))
        for block in self.blocks:
            y = y + block(y).relu()
        return self.head(y)


def loss(model: nn.Module, x: burn.Tensor) -> burn.Tensor:
    return nn.CrossEntropyLoss()(model(x), x)


IDS = np.arange(13) % 11


def test_shared_layers_and_tied_weights() -> None:
    burn.manual_seed(1)
    net = nn.adapt.lora(Net(), "inner|table", rank=2)
    assert net.inner is net.blocks[1] and [path for path, _ in adapters(net)] == ["table", "inner"]
    assert net.head.weight is net.table.weight  # the base's own
    filled(net, np.random.default_rng(0))
    before, head = np.asarray(net(IDS)), net.head.weight.numpy().copy()
    nn.adapt.merge(net)
    np.testing.assert_allclose(np.asarray(net(IDS)), before, rtol=2e-5, atol=2e-4)
    assert np.array_equal(net.head.weight.numpy(), head)  # a tied weight does not take part
    nn.adapt.remove(net)
    assert net.inner is net.blocks[1] and type(net.inner) is nn.Linear and type(net.table) is nn.Embedding
    np.testing.assert_allclose(np.asarray(net(IDS)), before, rtol=2e-5, atol=2e-4)


@pytest.mark.parametrize(
    ("weights", "options"),
    [
        pytest.param("", {"accumulate": 3}, marks=pytest.mark.slow),
        ("int4", {"precision": "bfloat16"}),
        pytest.param("int8", {"memory": "1 MB"}, marks=pytest.mark.slow),
    ],
    ids=["float, accumulate", "int4, bfloat16", "int8, memory"],
)
def test_only_adapters_train(weights: str, options: dict[str, Any]) -> None:
    burn.manual_seed(0)
    net = Net()
    if weights:
        quantize_module(net, weights=weights, block=8, exclude=["head"])
    nn.adapt.lora(net, "inner|blocks|table", rank=4, alpha=8)
    before = {path: p.numpy().copy() for path, p in net.named_parameters()}
    step = burn.train.step(net, loss, optim.AdamW(net, lr=0.02), **options)
    losses = [float(step(IDS)) for _ in range(12)]
    assert losses[-1] < losses[0] - 0.1
    moved = {path for path, p in net.named_parameters() if not np.array_equal(p.numpy(), before[path])}
    assert moved == {path for path in before if "lora" in path}


def test_dropout_is_of_training() -> None:
    burn.manual_seed(0)
    net = nn.adapt.lora(nn.Sequential(nn.Linear(32, 5)), "0", dropout=0.5)
    filled(net, np.random.default_rng(0))
    x = np.ones((3, 32), np.float32)
    assert np.array_equal(np.asarray(net(x)), np.asarray(net(x)))
    net.train()
    assert not np.array_equal(np.asarray(net(x)), np.asarray(net(x)))


def test_half_precision_bases_and_export(tmp_path: Any) -> None:
    """A bfloat16 base with float32 factors; the merged model exports as the layers that it was made of."""
    burn.manual_seed(0)
    net = nn.adapt.lora(nn.Sequential(nn.Linear(6, 4).bfloat16()), "0", dtype="float32", rank=2)
    filled(net, np.random.default_rng(0))
    x = burn.ones(3, 6, dtype="bfloat16")
    assert str(net(x).dtype) == "bfloat16" and str(net[0].lora_A.weight.dtype) == "float32"
    net = nn.adapt.lora(nn.Sequential(nn.Linear(6, 4)), "0", rank=2)
    filled(net, np.random.default_rng(0))
    want = np.asarray(net(np.ones((2, 6), np.float32)))
    for merged in (False, True):
        burn.export(nn.adapt.merge(net) if merged else net, tmp_path / "net.onnx", ("float32[n, 6]",))
        got = burn.load(tmp_path / "net.onnx")(np.ones((2, 6), np.float32))
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
def test_resumed_with_the_same_bits(tmp_path: Any) -> None:
    def learner(folder: str) -> burn.train.Learner:
        burn.manual_seed(3)
        net = quantize_module(Net(), block=8, exclude=["head"])
        nn.adapt.lora(net, "inner|table", dropout=0.0)
        return burn.train.Learner(net, loss, optim.AdamW(net), folder=tmp_path / folder, progress=False)

    whole, parts = learner("a"), learner("b")
    batches = [(IDS[:7],), (IDS,)]
    whole.fit(batches, epochs=2)
    parts.fit(batches, epochs=1)
    parts = learner("b")
    parts.fit(batches, epochs=2, resume=True)
    for (path, a), (_, b) in zip(whole.model.named_parameters(), parts.model.named_parameters(), strict=True):
        assert np.array_equal(a.numpy(), b.numpy()), path


def test_imported_models(tmp_path: Any) -> None:
    """Weights of matmuls in either layout; training, merging and unmerging."""
    burn.manual_seed(0)
    source = nn.Sequential(nn.Embedding(7, 6), nn.Linear(6, 5, transposed=True), nn.ReLU(), nn.Linear(5, 3))
    burn.export(source, tmp_path / "m.onnx", ("int64[n]",))
    graph = burn.load(tmp_path / "m.onnx", train=True)
    x = np.arange(7)
    before = np.asarray(graph(x))
    state = {path: p.numpy().copy() for path, p in graph.named_parameters()}
    matrices = [path for path, p in graph.named_parameters() if p.ndim == 2]
    nn.adapt.lora(graph, "|".join(matrices), rank=2, alpha=3)
    assert np.array_equal(np.asarray(graph(x)), before) and len(list(adapters(graph))) == 3
    clone = graph.clone()
    step = burn.train.step(graph, lambda m, x: (m(x) ** 2).mean(), optim.Adam(graph, lr=0.05))
    losses = [float(step(x)) for _ in range(10)]
    assert losses[-1] < losses[0]
    graph.eval()
    assert all(np.array_equal(graph[path].numpy(), elements) for path, elements in state.items())
    trained = np.asarray(graph(x))
    nn.adapt.merge(graph)
    np.testing.assert_allclose(np.asarray(graph(x)), trained, rtol=1e-5, atol=1e-6)
    with pytest.raises(TypeMismatch, match="unmerge"):
        graph.train()(x)
    with pytest.raises(TypeMismatch, match="its update is part of the base weight"):
        graph.state_dict()
    nn.adapt.unmerge(graph.eval())
    assert np.array_equal(np.asarray(graph(x)), trained)
    assert np.array_equal(np.asarray(clone(x)), before)
    nn.adapt.remove(graph)
    np.testing.assert_allclose(np.asarray(graph(x)), trained, rtol=1e-5, atol=1e-6)
    assert not any("lora" in path for path, _ in graph.named_parameters())


def test_what_is_refused() -> None:
    net = Net()
    with pytest.raises(TypeMismatch, match=r"blocks.0"):
        nn.adapt.lora(net, "query")
    with pytest.raises(TypeMismatch, match="rank of at least 1"):
        nn.adapt.lora(net, "inner", rank=0)
    with pytest.raises(TypeMismatch, match="no dropout"):
        nn.adapt.lora(net, "inner|table", dropout=0.1)
    assert type(net.inner) is nn.Linear and net.inner.weight.trainable  # unchanged
    with pytest.raises(TypeMismatch, match="no adapter"):
        nn.adapt.merge(net)
    nn.adapt.lora(net, "inner")
    with pytest.raises(TypeMismatch, match="'inner' has one"):
        nn.adapt.lora(net, "inner|head")
    assert type(net.head) is nn.Linear
    nn.adapt.lora(net, "blocks.0", rank=3)
    assert {path for path, p in net.named_parameters() if p.trainable} == {
        f"{path}.lora_{x}.weight" for path in ("inner", "blocks.0") for x in "AB"
    }
    with pytest.raises(TypeMismatch, match="multiple of a convolution's groups"):
        nn.adapt.lora(nn.Sequential(nn.Conv1d(4, 4, 1, groups=2)), "0", rank=3)
    with pytest.raises(TypeMismatch, match="merged adapter cannot be trained"):
        nn.adapt.merge(net).train()(IDS)
    with pytest.raises(TypeMismatch, match="not RMSNorm"):
        nn.adapt.LoRA(nn.RMSNorm(4))
    with pytest.raises(AttributeError, match="wieght"):
        _ = net.inner.wieght


def test_quantising_after_adapting() -> None:
    """The base is quantised, the factors are not."""
    burn.manual_seed(0)
    net = nn.adapt.lora(Net(), "inner", rank=8)
    quantize_module(net, block=8)
    assert isinstance(net.inner.base_layer, nn.BlockLinear) and str(net.inner.lora_A.weight.dtype) == "float32"


def test_a_merged_model_is_neither_saved_nor_loaded(tmp_path: Any) -> None:
    net = nn.adapt.lora(nn.Sequential(nn.Linear(3, 2)), "0", rank=1)
    filled(net, np.random.default_rng(0))
    step = burn.train.step(net, lambda m, x: m(x).sum(), optim.SGD(net))
    state = net.state_dict()
    path = tmp_path / "net.safetensors"
    nn.adapt.merge(net)
    for act in (net.state_dict, lambda: net.save(path), lambda: net.load(state), lambda: step.save(path)):
        with pytest.raises(TypeMismatch, match=r"'0': its update is part of the base weight \(nn.adapt.unmerge"):
            act()
    nn.adapt.unmerge(net)
    assert all(np.array_equal(array, state[name]) for name, array in net.state_dict().items())
    net.load(state)
    assert nn.adapt.remove(net).state_dict().keys() == {"0.weight", "0.bias"}


def test_normalised_weights_have_no_adapter() -> None:
    net = nn.adapt.weight_norm(Net(), "blocks.0.weight")
    paths = [path for path, _ in net.named_parameters()]
    with pytest.raises(TypeMismatch, match=r"'blocks.0'.*nn.adapt.bake"):
        nn.adapt.lora(net, "inner|blocks")
    assert [path for path, p in net.named_parameters() if p.trainable] == paths
    nn.adapt.lora(nn.adapt.bake(net), "inner|blocks")
    nn.adapt.spectral_norm(net, "blocks.0.base_layer.weight")
    with pytest.raises(TypeMismatch, match=r"cannot be merged(.|\n)*nn.adapt.bake"):
        nn.adapt.merge(net)
    assert not any(adapter.merged for _, adapter in adapters(net))


@pytest.mark.parametrize("weights", ["", "int4"])
def test_removed_adapters_leave_the_base_as_trainable_as_it_was(weights: str) -> None:
    net = nn.Sequential(nn.Linear(4, 3), nn.Embedding(3, 2))
    net.freeze("0.bias")
    if weights:
        quantize_module(net, weights=weights, block=8)
        net[0].bias.trainable, net[0].scale.trainable = False, True
    nn.adapt.remove(nn.adapt.lora(net, "0|1", freeze=False))
    trained = {path: p.trainable for path, p in net.named_parameters()}
    assert trained == {"0.weight": True, "0.bias": False, "1.weight": True}
