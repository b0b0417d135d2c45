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


def resnet() -> torch.nn.Module:
    """Residual blocks, whose sums ONNX Runtime takes into convolutions; numbers of channels that are no multiples of 16."""
    from transformers import ResNetConfig, ResNetForImageClassification

    config = ResNetConfig(embedding_size=24, hidden_sizes=[24, 40], depths=[1, 2], layer_type="basic")
    return First(randomise(ResNetForImageClassification(config).eval()), ("pixel_values",))


class Separable(torch.nn.Module):
    """Expanding, depthwise and projecting convolutions with clipped activations, as in MobileNet."""

    def __init__(self) -> None:
        super().__init__()
        conv, norm = torch.nn.Conv2d, torch.nn.BatchNorm2d
        self.stem = torch.nn.Sequential(conv(3, 12, 3, 2, 1, bias=False), norm(12), torch.nn.ReLU6())
        self.block = torch.nn.Sequential(
            *(conv(12, 40, 1, bias=False), norm(40), torch.nn.ReLU6()),
            *(conv(40, 40, 3, padding=1, groups=40, bias=False), norm(40), torch.nn.Hardswish()),
            *(conv(40, 12, 1, bias=False), norm(12)),
        )
        self.head = torch.nn.Linear(12, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        x = self.block(x) + x
        return self.head(x.mean((2, 3)))


def mobilenet() -> torch.nn.Module:
    return randomise(Separable().eval())


class UNet(torch.nn.Module):
    """Pools, nearest and linear upsampling, skips joined along the channels, and a gate of global means."""

    def __init__(self) -> None:
        super().__init__()
        self.down = torch.nn.ModuleList([torch.nn.Conv2d(a, b, 3, padding=1) for a, b in ((3, 16), (16, 32), (32, 48))])
        self.up = torch.nn.ModuleList([torch.nn.Conv2d(a, b, 3, padding=1) for a, b in ((80, 32), (48, 16))])
        self.norms = torch.nn.ModuleList([torch.nn.BatchNorm2d(n) for n in (16, 32)])
        self.gate = torch.nn.Conv2d(48, 48, 1)
        self.head = torch.nn.Conv2d(16, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        functional, skips = torch.nn.functional, []
        for conv, norm in zip(self.down, self.norms, strict=False):
            skips.append(torch.relu(norm(conv(x))))
            x = functional.max_pool2d(skips[-1], 2)
        x = self.down[2](x)
        x = torch.tanh(x) * torch.sigmoid(self.gate(x.mean((2, 3), keepdim=True)))
        for conv, mode in zip(self.up, ("nearest", "bilinear"), strict=True):
            x = functional.interpolate(x, scale_factor=2.0, mode=mode)
            x = functional.leaky_relu(conv(torch.cat([x, skips.pop()], 1)), 0.1)
        return self.head(x)


def unet() -> torch.nn.Module:
    return randomise(UNet().eval())


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
IMAGES = (Spec("pixel_values", ("batch", 3, 32, 32)),)
SIZES = {"batch": 2, "seq": 9}


def _model(
    name: str, build: Callable[[], torch.nn.Module], inputs: tuple[Spec, ...], model_type: str | None, **sizes: int
) -> Model:
    case = ModelCase(name, TorchModule(__name__, name, ("y",)), inputs, sizes or SIZES)
    return Model(case, build, model_type)


MODELS = {
    model.case.name: model
    for model in (
        _model("bert", bert, TEXT, "bert"),
        _model("new_bert", new_bert, TEXT, "bert"),
        _model("gpt2", gpt2, TEXT[:2], "gpt2"),
        _model("vit", vit, IMAGES, "vit", batch=2),
        _model("resnet", resnet, IMAGES, None, batch=2),
        _model("mobilenet", mobilenet, IMAGES, None, batch=2),
        _model("unet", unet, IMAGES, None, batch=2),
        _model("lstm", lstm, (Spec("words", ("batch", "seq"), integers(WORDS)),), None),
    )
}
