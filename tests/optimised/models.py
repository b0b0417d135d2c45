"""The models: tiny, with seeded random weights, and what optimisers need to know of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from tests.models.case import Exporter, ModelCase, Spec, TorchModule, integers, padding_mask
from tests.models.networks import randomise

HIDDEN, HEADS, LAYERS, WORDS, INNER = 32, 4, 2, 100, 64


@dataclass(frozen=True)
class Model:
    """model_type: what ONNX Runtime's optimizer of transformers calls it; None for other models."""

    case: ModelCase
    build: Callable[[], torch.nn.Module]
    model_type: str | None
    exporters: tuple[Exporter, ...] = ("dynamo", "torchscript")
    convolves: bool = False


class First(torch.nn.Module):
    """A transformers model whose outputs are a tuple, without a cache."""

    def __init__(self, model: torch.nn.Module, names: tuple[str, ...]) -> None:
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.model(**dict(zip(self.names, inputs, strict=True)))[0]


def bert() -> torch.nn.Module:
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(
        vocab_size=WORDS, hidden_size=HIDDEN, num_hidden_layers=LAYERS, num_attention_heads=HEADS, intermediate_size=INNER,
        max_position_embeddings=64,
    )  # fmt: skip
    config._attn_implementation = "eager"
    return First(
        randomise(BertForSequenceClassification(config).eval()), ("input_ids", "attention_mask", "token_type_ids")
    )


def new_bert() -> torch.nn.Module:
    """As transformers makes it: all biases are zeros, all scales are ones."""
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=WORDS, hidden_size=HIDDEN, num_hidden_layers=LAYERS, num_attention_heads=HEADS, intermediate_size=INNER,
        max_position_embeddings=64,
    )  # fmt: skip
    torch.manual_seed(0)
    return First(BertModel(config).eval(), ("input_ids", "attention_mask", "token_type_ids"))


def gpt2() -> torch.nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=WORDS, n_embd=HIDDEN, n_layer=LAYERS, n_head=HEADS, n_positions=64, use_cache=False,
        bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    config._attn_implementation = "eager"
    return First(randomise(GPT2LMHeadModel(config).eval()), ("input_ids", "attention_mask"))


def vit() -> torch.nn.Module:
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        hidden_size=HIDDEN, num_hidden_layers=LAYERS, num_attention_heads=HEADS, intermediate_size=INNER, image_size=32,
        patch_size=8,
    )  # fmt: skip
    config._attn_implementation = "eager"
    return First(randomise(ViTForImageClassification(config).eval()), ("pixel_values",))


class Tagger(torch.nn.Module):
    """Embedding -> bidirectional LSTM of two layers -> scores of tags."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(WORDS, HIDDEN)
        self.lstm = torch.nn.LSTM(HIDDEN, INNER // 2, num_layers=2, batch_first=True, bidirectional=True)
        self.head = torch.nn.Linear(INNER, 7)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(self.embedding(words))[0])


def lstm() -> torch.nn.Module:
    return randomise(Tagger().eval())


TEXT = (
    Spec("input_ids", ("batch", "seq"), integers(WORDS)),
    Spec("attention_mask", ("batch", "seq"), padding_mask),
    Spec("token_type_ids", ("batch", "seq"), integers(2)),
)
SIZES = {"batch": 2, "seq": 9}


def _model(
    name: str, build: Callable[[], torch.nn.Module], inputs: tuple[Spec, ...], model_type: str | None, **sizes: int
) -> Model:
    case = ModelCase(name, TorchModule(__name__, name, ("y",)), inputs, sizes or SIZES)
    return Model(case, build, model_type, convolves=name == "vit")


MODELS = {
    model.case.name: model
    for model in (
        _model("bert", bert, TEXT, "bert"),
        _model("new_bert", new_bert, TEXT, "bert"),
        _model("gpt2", gpt2, TEXT[:2], "gpt2"),
        _model("vit", vit, (Spec("pixel_values", ("batch", 3, 32, 32)),), "vit", batch=2),
        _model("lstm", lstm, (Spec("words", ("batch", "seq"), integers(WORDS)),), None),
    )
}
