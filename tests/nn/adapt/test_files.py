"""Adapters in peft's files: what burn writes and reads, by the format and by peft itself if it is installed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burn
from burn import nn, optim
from burn.errors import ModelError
from burn.importers.weights import safetensors
from burn.nn.adapt.apply import adapters

CONFIG = {
    "alora_invocation_tokens": None, "alpha_pattern": {"b.1": 5}, "arrow_config": None, "auto_mapping": None,
    "base_model_name_or_path": "x/y", "bias": "none", "corda_config": None, "ensure_weight_tying": False, "eva_config": None,
    "exclude_modules": None, "fan_in_fan_out": False, "inference_mode": True, "init_lora_weights": True,
    "layer_replication": None, "layers_pattern": None, "layers_to_transform": None, "loftq_config": {}, "lora_alpha": 6,
    "lora_bias": False, "lora_dropout": 0.25, "lora_ga_config": None, "megatron_config": None,
    "megatron_core": "megatron.core", "modules_to_save": None, "peft_type": "LORA", "peft_version": "0.19.1",
    "qalora_group_size": 16, "r": 3, "rank_pattern": {"1": 2}, "revision": None, "target_modules": ["a", "1", "table"],
    "target_parameters": None, "task_type": None, "trainable_token_indices": None, "use_bdlora": None, "use_dora": False,
    "use_qalora": False, "use_rslora": True,
}  # fmt: skip
"""As peft 0.19.1 writes it."""


class Net(nn.Module):
    def __init__(self) -> None:
        self.table = nn.Embedding(5, 4)
        self.a = nn.Linear(4, 6)
        self.b = nn.ModuleList([nn.ReLU(), nn.Linear(6, 2)])

    def forward(self, x: burn.Tensor) -> burn.Tensor:
        y = self.a(self.table(x))
        for layer in self.b:
            y = layer(y)
        return y


def tensors() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = {
        "table.lora_embedding_A": (3, 5), "table.lora_embedding_B": (4, 3), "table.base_layer.weight": (5, 4),
        "a.lora_A.weight": (3, 4), "a.lora_B.weight": (6, 3), "b.1.lora_A.weight": (2, 6), "b.1.lora_B.weight": (2, 2),
    }  # fmt: skip
    return {f"base_model.model.{name}": rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def written(folder: Path, config: dict[str, Any], given: dict[str, np.ndarray]) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "adapter_config.json").write_text(json.dumps(config))
    weights = {name: burn.nn.Parameter(array).weight for name, array in given.items()}
    safetensors.write(folder / "adapter_model.safetensors", weights, {"format": "pt"})
    return folder


def test_a_file_of_peft(tmp_path: Path) -> None:
    """Ranks and alphas by pattern, rank stabilisation, dropout, an embedding with its base; and the same file back."""
    given = tensors()
    net = nn.adapt.load(Net(), written(tmp_path / "in", CONFIG, given))
    found = dict(adapters(net))
    assert {path: (a.rank, a.alpha, a.stabilised) for path, a in found.items()} == {
        "table": (3, 6.0, True), "a": (3, 6.0, True), "b.1": (2, 5.0, True),
    }  # fmt: skip
    assert net.a.lora_dropout.p == 0.25 and net.table.lora_dropout.p == 0
    x = np.array([3, 0, 4])
    p = {name.removeprefix("base_model.model."): a.astype(np.float64) for name, a in given.items()}
    y = p["table.base_layer.weight"][x]
    y = y + p["table.lora_embedding_A"].T[x] @ p["table.lora_embedding_B"].T * 6 / 3**0.5
    w, v = net.a.base_layer, net.b[1].base_layer
    hidden = y @ w.weight.numpy().T + w.bias.numpy() + y @ p["a.lora_A.weight"].T @ p["a.lora_B.weight"].T * 6 / 3**0.5
    hidden = np.maximum(hidden, 0)
    want = hidden @ v.weight.numpy().T + v.bias.numpy()
    want = want + hidden @ p["b.1.lora_A.weight"].T @ p["b.1.lora_B.weight"].T * 5 / 2**0.5
    np.testing.assert_allclose(net(x).numpy(), want, rtol=1e-5, atol=1e-5)
    nn.adapt.save(net, tmp_path / "out", base="x/y")
    back = safetensors.read(tmp_path / "out" / "adapter_model.safetensors")
    assert (
        back.keys() == given.keys() - {"base_model.model.table.base_layer.weight"} and back.metadata["format"] == "pt"
    )
    assert all(np.array_equal(w.array(), given[name]) for name, w in back.items())
    config = json.loads((tmp_path / "out" / "adapter_config.json").read_text())
    assert config["target_modules"] == ["a", "b.1", "table"] and config["base_model_name_or_path"] == "x/y"
    assert (config["r"], config["lora_alpha"], config["use_rslora"], config["lora_dropout"]) == (3, 6, True, 0.25)
    assert config["rank_pattern"] == {"b.1": 2} and config["alpha_pattern"] == {"b.1": 5}
    again = nn.adapt.load(nn.adapt.load(Net(), tmp_path / "out"), tmp_path / "out")  # the second time into the adapters
    for path, adapter in adapters(again):
        for name, factor in adapter.factors().items():
            assert np.array_equal(factor.numpy(), found[path].factors()[name].numpy())


def test_names_and_types_may_differ(tmp_path: Path) -> None:
    given = {name: array.astype(np.float16) for name, array in tensors().items() if ".a." in name}
    folder = written(
        tmp_path, {"peft_type": "LORA", "r": 3}, {n.replace(".a.", ".model.q."): v for n, v in given.items()}
    )
    with pytest.raises(ModelError, match=r"no layer 'model.q'"):
        nn.adapt.load(Net(), folder)
    net = nn.adapt.load(Net(), folder, remap=[(r"^model\.q$", "a")])
    assert net.a.lora_A.weight.dtype == "float32" and net.a.scale == 8 / 3
    nn.adapt.save(net, tmp_path / "out", remap=[("^a$", "model.q")])
    names = safetensors.read(tmp_path / "out" / "adapter_model.safetensors").keys()
    assert names == {f"base_model.model.model.q.lora_{x}.weight" for x in "AB"}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"use_dora": True}, "use_dora is True"),
        ({"peft_type": "IA3"}, "peft_type is 'IA3'"),
        ({"bias": "all"}, "bias is 'all'"),
        ({"modules_to_save": ["head"]}, "modules_to_save"),
        ({"init_lora_weights": "pissa"}, "init_lora_weights is 'pissa'"),
        ({"layer_replication": [[0, 1]]}, "layer_replication"),
        ({"something_new": 1}, "something_new is 1"),
        ({"r": 0}, "r is 0"),
        ({"rank_pattern": {"(": 1}}, "rank_pattern"),
        ({"rank_pattern": {}}, "'b.1.lora_A.weight' is \\[2, 6\\], not \\[3, 6\\]"),
    ],
)
def test_configurations_that_are_refused(change: dict[str, Any], told: str, tmp_path: Path) -> None:
    net = Net()
    with pytest.raises(ModelError, match=told):
        nn.adapt.load(net, written(tmp_path, {**CONFIG, **change}, tensors()))
    assert not list(adapters(net)) and net.a.weight.trainable


def test_tensors_that_are_refused(tmp_path: Path) -> None:
    given = tensors()
    wrong = {
        "base_model.model.a.lora_magnitude_vector": "no kind that burn supports",
        "a.lora_A.weight": "no kind that burn supports",
        "base_model.model.c.lora_A.weight": "no layer 'c'",
        "base_model.model.b.0.lora_A.weight": "no layer 'b.0'",
        "base_model.model.a.lora_embedding_A": "another kind of layer",
    }
    for name, told in wrong.items():
        with pytest.raises(ModelError, match=told):
            nn.adapt.load(Net(), written(tmp_path, CONFIG, {**given, name: np.ones((3, 4), np.float32)}))
    del given["base_model.model.a.lora_B.weight"]
    with pytest.raises(ModelError, match=r"'a.lora_B.weight' is missing"):
        nn.adapt.load(Net(), written(tmp_path, CONFIG, given))
    with pytest.raises(ModelError, match="cannot read"):
        nn.adapt.load(Net(), tmp_path / "nowhere")
    with pytest.raises(ModelError, match="no adapter to save"):
        nn.adapt.save(Net(), tmp_path / "nothing")
    net = nn.adapt.lora(nn.adapt.lora(Net(), "a$", rank=2, dropout=0.5), "b", rank=2)
    with pytest.raises(ModelError, match=r"dropout: 0.0, 0.5"):
        nn.adapt.save(net, tmp_path / "several")
    net = nn.adapt.merge(nn.adapt.lora(Net(), "a$", rank=2))
    with pytest.raises(ModelError, match="merged"):
        nn.adapt.load(net, written(tmp_path, CONFIG, tensors()))


def _llama() -> Any:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=37, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=32, use_cache=False,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config).eval()


def _loss(model: Any, ids: burn.Tensor | np.ndarray) -> burn.Tensor:
    return nn.CrossEntropyLoss()(model(ids).logits[:, :-1].reshape(-1, 37), ids[:, 1:].reshape(-1))


def test_a_llama_in_peft_and_here(tmp_path: Path) -> None:
    """peft loads what burn trained, burn loads what peft made, and steps of both have the same losses."""
    peft = pytest.importorskip("peft", reason="peft is not installed")
    import torch

    ids = torch.from_numpy(np.random.default_rng(0).integers(0, 37, (3, 7)))

    def theirs(model: Any) -> Any:
        logits = model(ids).logits[:, :-1].reshape(-1, 37)
        return torch.nn.functional.cross_entropy(logits, ids[:, 1:].reshape(-1))

    targets = ["q_proj", "v_proj", "down_proj", "embed_tokens"]
    options = peft.LoraConfig(r=3, lora_alpha=6, target_modules=targets, rank_pattern={"layers.1.self_attn.v_proj": 5})
    other = peft.get_peft_model(_llama(), options)
    other.save_pretrained(tmp_path / "theirs")
    dynamic = {"input_ids": {0: "n", 1: "length"}}
    ours = nn.adapt.load(burn.compile(_llama(), ids, train=True, dynamic=dynamic), tmp_path / "theirs")
    step = burn.train.step(ours, _loss, optim.AdamW(ours, lr=0.01))
    optimizer = torch.optim.AdamW([p for p in other.parameters() if p.requires_grad], lr=0.01)
    for _ in range(4):
        optimizer.zero_grad()
        value = theirs(other)
        value.backward()
        optimizer.step()
        np.testing.assert_allclose(float(step(ids.numpy())), float(value.detach()), rtol=1e-5)
    nn.adapt.save(ours.eval(), tmp_path / "ours")
    loaded = peft.PeftModel.from_pretrained(_llama(), tmp_path / "ours")
    np.testing.assert_allclose(float(theirs(loaded)), float(_loss(ours, ids.numpy())), rtol=1e-6)
    np.testing.assert_allclose(float(theirs(loaded)), float(theirs(other)), rtol=1e-4)
