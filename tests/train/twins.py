"""Whole models in PyTorch with random weights, whose gradients burn's are held against: one table, `TWINS`, of very small ones
and of larger ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from tests.models import networks
from tests.models import torch_models as larger
from tests.models.torch_models import Inputs


@dataclass(frozen=True)
class Twin:
    """A model, very small or larger, its inputs by name for a batch and a length, and whether its gradients are those of training
    (batches' own statistics)."""

    small: Callable[[], nn.Module]
    large: Callable[[], nn.Module]
    inputs: Callable[[nn.Module, int, int], Inputs]
    training: bool = False
    sizes: tuple[int, int] = (2, 7)


WIDTHS: Inputs = {
    "num_hidden_layers": 1, "hidden_size": 24, "num_attention_heads": 2, "intermediate_size": 40, "use_cache": False,
}  # fmt: skip
TEXT: Inputs = {"vocab_size": 101, "max_position_embeddings": 32, **WIDTHS}


def _transformer(model: str, config: str, **options: Any) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        import transformers

        torch.manual_seed(0)
        made = getattr(transformers, model)(getattr(transformers, config)(**options))
        return networks.randomise(made)

    return build


def _without_cache(build: Callable[[bool], nn.Module]) -> Callable[[], nn.Module]:
    def made() -> nn.Module:
        model: Any = build(False)
        model.config.use_cache = False
        return model

    return made


def _seeded(build: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    def made() -> nn.Module:
        torch.manual_seed(0)
        return networks.randomise(build())

    return made


def _ids(model: nn.Module, batch: int, length: int) -> Inputs:
    return {"input_ids": larger._tokens(101, batch, length), "attention_mask": larger._mask(batch, length)}


def _steps(model: Any, batch: int, length: int) -> Inputs:
    return {"x": torch.randn(batch, length, model.lstm.input_size, generator=torch.Generator().manual_seed(length))}


def _image(model: nn.Module, batch: int, length: int) -> Inputs:
    return {"x": torch.randn(batch, 3, 16, 24, generator=torch.Generator().manual_seed(batch))}


TWINS = {
    "BERT": Twin(_transformer("BertModel", "BertConfig", **TEXT), lambda: larger._bert(False), larger._bert_inputs),
    "GPT-2": Twin(
        _transformer("GPT2LMHeadModel", "GPT2Config", n_embd=24, n_layer=1, n_head=2, vocab_size=101, use_cache=False),
        _without_cache(larger._gpt2),
        _ids,
    ),
    "ViT": Twin(
        _transformer("ViTForImageClassification", "ViTConfig", image_size=16, patch_size=8, num_labels=5, **WIDTHS),
        lambda: larger._vit(False),
        larger._vit_inputs,
    ),
    "ResNet": Twin(
        _seeded(lambda: larger.ResNet((1, 1), 4, 5)), lambda: larger._resnet(False), larger._images, training=True
    ),
    "Llama": Twin(
        _transformer("LlamaForCausalLM", "LlamaConfig", num_key_value_heads=1, **TEXT),
        _without_cache(larger._llama),
        _ids,
    ),
    "T5": Twin(
        _transformer(
            "T5ForConditionalGeneration", "T5Config", use_cache=False,
            d_model=24, d_kv=12, d_ff=40, num_layers=1, num_heads=2, vocab_size=101,
        ),
        lambda: larger._t5(False),
        larger._t5_inputs,
    ),
    "LSTM tagger": Twin(_seeded(lambda: networks.BiLSTM(5, 7, 3)), networks.lstm, _steps, training=True),
    "U-Net": Twin(_seeded(lambda: larger.UNet(4, 2)), lambda: larger._unet(False), _image, training=True),
}  # fmt: skip


@dataclass(frozen=True)
class Exported:
    """A model of `transformers` whose ONNX file is held against it: `wrapped` in a class of tests/models/transformer.py, so that
    plain tensors go in and out."""

    twin: str
    wrapped: str
    field: str

    def build(self) -> nn.Module:
        from tests.models import transformer

        holder: Any = object.__new__(getattr(transformer, self.wrapped))
        nn.Module.__init__(holder)
        setattr(holder, self.field, TWINS[self.twin].small())
        return holder.eval()

    def inputs(self, model: Any) -> Inputs:
        twin = TWINS[self.twin]
        return twin.inputs(getattr(model, self.field), *twin.sizes)


EXPORTED = {"MiniLM": Exported("BERT", "Encoder", "bert"), "ViT-tiny": Exported("ViT", "Classifier", "vit")}
