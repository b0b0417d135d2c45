"""PyTorch models with random weights, small enough for tests: what each is, its example inputs, and which sizes vary.

`MODELS` is the table; `true_size` builds the published configuration where there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

Inputs = dict[str, Any]


@dataclass(frozen=True)
class TorchModel:
    """One model: `build(true_size)`, `inputs(model, batch, length)` by name, and the sizes that vary."""

    name: str
    build: Callable[[bool], nn.Module]
    inputs: Callable[[nn.Module, int, int], Inputs]
    dynamic: Mapping[str, Any] = field(default_factory=dict)
    sizes: tuple[tuple[int, int], ...] = ((2, 7), (1, 5), (3, 12))
    """(batch, length) pairs that one compiled program must serve; the first is the example."""
    tolerance: float = 1e-4


def _eval(module: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02 if parameter.numel() > 4096 else 0.1)
    return module.eval()


def _tokens(vocabulary: int, batch: int, length: int) -> torch.Tensor:
    return torch.randint(0, vocabulary, (batch, length), generator=torch.Generator().manual_seed(batch * 31 + length))


def _mask(batch: int, length: int) -> torch.Tensor:
    """Ones, except for the last two elements of the last row."""
    mask = torch.ones(batch, length, dtype=torch.int64)
    mask[-1, -2:] = 0
    return mask


# ---- transformers -------------------------------------------------------------------------------------------------------
def _bert(true_size: bool) -> nn.Module:
    from transformers import BertConfig, BertModel

    small: Inputs = {
        "hidden_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 3,
        "intermediate_size": 96,
        "vocab_size": 101,
    }
    return _eval(BertModel(BertConfig(**({} if true_size else small))))


def _bert_inputs(model: nn.Module, batch: int, length: int) -> Inputs:
    ids = _tokens(101, batch, length)
    return {"input_ids": ids, "attention_mask": _mask(batch, length), "token_type_ids": torch.zeros_like(ids)}


_SEQUENCES = {0: "batch", 1: "sequence"}


def _gpt2(true_size: bool) -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    small: Inputs = {"n_embd": 48, "n_layer": 2, "n_head": 3, "vocab_size": 101, "n_positions": 64}
    return _eval(GPT2LMHeadModel(GPT2Config(**({} if true_size else small))))


def _llama(true_size: bool) -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    small: Inputs = {
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 96,
        "vocab_size": 101,
        "max_position_embeddings": 64,
    }
    large: Inputs = {
        "hidden_size": 512,
        "num_hidden_layers": 8,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "intermediate_size": 1376,
        "vocab_size": 32000,
    }
    return _eval(LlamaForCausalLM(LlamaConfig(**(large if true_size else small))))


def _cached_inputs(model: Any, batch: int, length: int) -> Inputs:
    """Two new tokens after `length` old ones whose keys and values are given."""
    from transformers import DynamicCache

    config = model.config
    heads = getattr(config, "num_key_value_heads", config.num_attention_heads)
    depth = config.hidden_size // config.num_attention_heads
    generator = torch.Generator().manual_seed(length)
    cache = DynamicCache()
    for layer in range(config.num_hidden_layers):
        key, value = (torch.randn(batch, heads, length, depth, generator=generator) for _ in range(2))
        cache.update(key, value, layer)
    return {
        "input_ids": _tokens(101, batch, 2),
        "attention_mask": torch.ones(batch, length + 2, dtype=torch.int64),
        "past_key_values": cache,
    }


_CACHED = {
    "input_ids": {0: "batch"},
    "attention_mask": {0: "batch", 1: "total"},
    "past_key_values": {0: "batch", 2: "past"},
}


def _vit(true_size: bool) -> nn.Module:
    from transformers import ViTConfig, ViTForImageClassification

    small: Inputs = {
        "hidden_size": 48,
        "num_hidden_layers": 1,
        "num_attention_heads": 3,
        "intermediate_size": 96,
        "image_size": 32,
        "patch_size": 8,
    }
    return _eval(ViTForImageClassification(ViTConfig(**({} if true_size else small))))


def _vit_inputs(model: Any, batch: int, length: int) -> Inputs:
    size = model.config.image_size
    return {"pixel_values": torch.randn(batch, 3, size, size, generator=torch.Generator().manual_seed(batch))}


def _t5(true_size: bool) -> nn.Module:
    from transformers import T5Config, T5ForConditionalGeneration

    small: Inputs = {"d_model": 48, "d_kv": 16, "d_ff": 96, "num_layers": 1, "num_heads": 3, "vocab_size": 101}
    return _eval(T5ForConditionalGeneration(T5Config(use_cache=False, **({} if true_size else small))))


def _t5_inputs(model: nn.Module, batch: int, length: int) -> Inputs:
    return {
        "input_ids": _tokens(101, batch, length),
        "attention_mask": _mask(batch, length),
        "decoder_input_ids": _tokens(101, batch, length + 1),
    }


def _whisper(true_size: bool) -> nn.Module:
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    small: Inputs = {
        "d_model": 48,
        "encoder_layers": 2,
        "encoder_attention_heads": 3,
        "encoder_ffn_dim": 96,
        "max_source_positions": 20,
    }
    large: Inputs = {"d_model": 384, "encoder_layers": 4, "encoder_attention_heads": 6, "encoder_ffn_dim": 1536}
    return _eval(WhisperEncoder(WhisperConfig(**(large if true_size else small))))


def _whisper_inputs(model: Any, batch: int, length: int) -> Inputs:
    frames = 2 * model.config.max_source_positions
    generator = torch.Generator().manual_seed(batch)
    return {"input_features": torch.randn(batch, model.config.num_mel_bins, frames, generator=generator)}


# ---- convolutional networks ---------------------------------------------------------------------------------------------
class Bottleneck(nn.Module):
    """ResNet's block: 1x1, 3x3, 1x1 convolutions beside the identity (arXiv:1512.03385, v1.5's stride)."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        self.conv1, self.bn1 = nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs)
        self.downsample: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        return F.relu(self.bn3(self.conv3(y)) + self.downsample(x))


class ResNet(nn.Module):
    """ResNet-50 for the default depths and width."""

    def __init__(self, depths: tuple[int, ...] = (3, 4, 6, 3), width: int = 64, classes: int = 1000) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        stages, inputs = [], width
        for i, depth in enumerate(depths):
            blocks = []
            for j in range(depth):
                blocks.append(Bottleneck(inputs, width << i, 2 if i and not j else 1))
                inputs = 4 * (width << i)
            stages.append(nn.Sequential(*blocks))
        self.stages = nn.Sequential(*stages)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.maxpool(F.relu(self.bn1(self.conv1(x))))
        return self.fc(self.avgpool(self.stages(x)).flatten(1))


def _varied_statistics(module: nn.Module) -> nn.Module:
    """Running statistics that are not the trivial ones."""
    for norm in module.modules():
        if isinstance(norm, nn.BatchNorm2d):
            norm.running_mean.uniform_(-0.2, 0.2)  # type: ignore[union-attr]
            norm.running_var.uniform_(0.5, 1.5)  # type: ignore[union-attr]
    return module


def _resnet(true_size: bool) -> nn.Module:
    torch.manual_seed(0)
    return _varied_statistics(ResNet() if true_size else ResNet((1, 2, 1), 8, 11)).eval()


def _images(model: nn.Module, batch: int, length: int) -> Inputs:
    side = 16 * (2 + length % 3)
    return {"x": torch.randn(batch, 3, side, side + 16, generator=torch.Generator().manual_seed(length))}


class UNet(nn.Module):
    """Convolutions down and up again, each level joined with its mirror (arXiv:1505.04597), with group norm and both kinds
    of upsampling."""

    def __init__(self, width: int = 32, levels: int = 4) -> None:
        super().__init__()
        sizes = [width << i for i in range(levels)]
        self.down = nn.ModuleList([_double(3 if i == 0 else sizes[i - 1], size) for i, size in enumerate(sizes)])
        self.up = nn.ModuleList([_double(size * 3, size) for size in reversed(sizes[:-1])])
        self.final_up = nn.ConvTranspose2d(sizes[0], sizes[0], 2, 2)
        self.out = nn.Conv2d(sizes[0], 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = []
        for i, block in enumerate(self.down):
            x = block(x if i == 0 else F.max_pool2d(x, 2))
            kept.append(x)
        for block, other in zip(self.up, reversed(kept[:-1]), strict=True):
            x = F.interpolate(x, size=other.shape[2:], mode="bilinear", align_corners=False)
            x = block(torch.cat([other, x], 1))
        return self.out(F.silu(self.final_up(x)))


def _double(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1),
        nn.GroupNorm(4, outputs),
        nn.SiLU(),
        nn.Conv2d(outputs, outputs, 3, padding=1),
        nn.GroupNorm(4, outputs),
        nn.SiLU(),
    )


def _unet(true_size: bool) -> nn.Module:
    torch.manual_seed(0)
    return (UNet() if true_size else UNet(8, 3)).eval()


_PICTURE = {"x": {0: "batch", 2: "height", 3: "width"}}

MODELS = {
    m.name: m
    for m in (
        TorchModel(
            "BERT-base",
            _bert,
            _bert_inputs,
            dict.fromkeys(("input_ids", "attention_mask", "token_type_ids"), _SEQUENCES),
        ),
        TorchModel("GPT-2 small with cache", _gpt2, _cached_inputs, _CACHED),
        TorchModel("ViT", _vit, _vit_inputs, {"pixel_values": {0: "batch"}}),
        TorchModel("Llama-style decoder", _llama, _cached_inputs, _CACHED),
        TorchModel(
            "T5-small",
            _t5,
            _t5_inputs,
            {"input_ids": _SEQUENCES, "attention_mask": _SEQUENCES, "decoder_input_ids": {0: "batch", 1: "target"}},
        ),
        TorchModel("Whisper-tiny encoder", _whisper, _whisper_inputs, {"input_features": {0: "batch"}}),
        TorchModel("ResNet-50", _resnet, _images, _PICTURE),
        TorchModel("U-Net", _unet, _images, _PICTURE),
    )
}
