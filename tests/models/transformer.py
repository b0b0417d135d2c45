"""Transformers as the `transformers` library builds them, from a configuration alone: the graphs that users export."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import (
    BertConfig,
    BertModel,
    DynamicCache,
    GPT2Config,
    GPT2LMHeadModel,
    T5Config,
    T5ForConditionalGeneration,
    ViTConfig,
    ViTForImageClassification,
    WhisperConfig,
)
from transformers.models.whisper.modeling_whisper import WhisperEncoder

from tests.models.networks import randomise


class Encoder(nn.Module):
    """BERT with positional inputs and plain tensors out."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.bert = BertModel(config)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> tuple[Tensor, Tensor]:
        out = self.bert(input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids)
        return out.last_hidden_state, out.pooler_output


class Classifier(nn.Module):
    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.vit = ViTForImageClassification(config)

    def forward(self, pixel_values: Tensor) -> Tensor:
        return self.vit(pixel_values=pixel_values).logits


class Decoder(nn.Module):
    """GPT-2 with its key/value cache as inputs and outputs: key and value of layer 0, of layer 1, ..."""

    def __init__(self, config: GPT2Config) -> None:
        super().__init__()
        self.gpt2 = GPT2LMHeadModel(config)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, *past: Tensor) -> tuple[Tensor, ...]:
        cache = DynamicCache(list(zip(past[0::2], past[1::2], strict=True)))
        out = self.gpt2(input_ids=input_ids, attention_mask=attention_mask, past_key_values=cache, use_cache=True)
        layers: list[Any] = list(cache.layers)
        return (out.logits, *(tensor for layer in layers for tensor in (layer.keys, layer.values)))


class Translator(nn.Module):
    """T5 without a cache: all target tokens at once."""

    def __init__(self, config: T5Config) -> None:
        super().__init__()
        self.t5 = T5ForConditionalGeneration(config)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, decoder_input_ids: Tensor) -> Tensor:
        out = self.t5(
            input_ids=input_ids, attention_mask=attention_mask, decoder_input_ids=decoder_input_ids, use_cache=False
        )
        return out.logits


class Listener(nn.Module):
    """Whisper's encoder: 30 seconds of sound as 1,500 positions."""

    def __init__(self, config: WhisperConfig) -> None:
        super().__init__()
        self.encoder = WhisperEncoder(config)

    def forward(self, input_features: Tensor) -> Tensor:
        return self.encoder(input_features).last_hidden_state


def bert_base() -> nn.Module:
    torch.manual_seed(0)
    return randomise(Encoder(BertConfig()))


def minilm() -> nn.Module:
    torch.manual_seed(0)
    config = BertConfig(hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536)
    return randomise(Encoder(config))


def vit_tiny() -> nn.Module:
    torch.manual_seed(0)
    config = ViTConfig(hidden_size=192, num_hidden_layers=12, num_attention_heads=3, intermediate_size=768)
    config.num_labels = 1000
    return randomise(Classifier(config))


def gpt2() -> nn.Module:
    torch.manual_seed(0)
    return randomise(Decoder(GPT2Config()))


def gpt2_tiny() -> nn.Module:
    torch.manual_seed(0)
    return randomise(
        Decoder(GPT2Config(vocab_size=1000, n_embd=64, n_layer=2, n_head=4, bos_token_id=None, eos_token_id=None))
    )


def t5_small() -> nn.Module:
    torch.manual_seed(0)
    return randomise(Translator(T5Config()))


def whisper_tiny() -> nn.Module:
    torch.manual_seed(0)
    config = WhisperConfig(d_model=384, encoder_layers=4, encoder_attention_heads=6, encoder_ffn_dim=1536)
    return randomise(Listener(config))
