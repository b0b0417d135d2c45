"""Models with random weights, and their inputs. Enter at `made`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

PROMPT, TOKENS, KEPT = 512, 128, 511
"""Tokens of a prompt at batch 1, of a text in a batch, and in the cache before a step of decoding."""

DIFFUSION = {
    "UNet2DModel": {"sample_size": 64, "block_out_channels": (128, 256, 256, 512)},
    "UNet2DConditionModel": {"sample_size": 32, "cross_attention_dim": 768},
    "DiTTransformer2DModel": {"num_attention_heads": 12, "attention_head_dim": 64, "sample_size": 32, "num_layers": 12},
    "AutoencoderKL": {"sample_size": 128, "block_out_channels": (64, 128), "latent_channels": 4,
                      "down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2},
}  # fmt: skip


class Tensors(torch.nn.Module):
    """The first floating-point tensor of a model's result."""

    def __init__(self, model: torch.nn.Module, given: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self.model, self.given = model, dict(given or {})

    def forward(self, *args: torch.Tensor) -> torch.Tensor:
        return _first(self.model(*args, **self.given))


def _first(found: Any) -> torch.Tensor:
    if isinstance(found, torch.Tensor):
        return found
    values = found.values() if isinstance(found, Mapping) else found
    return next(v for v in map(_first, values) if v is not None)


def made(entry: Mapping[str, str], batch: int, dtype: torch.dtype) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """A model with random weights on the CPU, and its inputs."""
    name = entry["name"]
    torch.manual_seed(0)
    match entry["list"]:
        case "timm":
            import timm

            model = timm.create_model(name)
            inputs: tuple[torch.Tensor, ...] = (torch.randn(batch, *model.default_cfg["input_size"], dtype=dtype),)
        case "torchvision":
            import torchvision

            model = torchvision.models.get_model(name, weights=None)
            size = 299 if "inception" in name else 224
            inputs = (torch.randn(batch, 3, size, size, dtype=dtype),)
        case "diffusers":
            import diffusers

            model = getattr(diffusers, name)(**DIFFUSION[name])
            size, channels = model.config.sample_size, model.config.in_channels
            image, steps = torch.randn(batch, channels, size, size, dtype=dtype), torch.randint(0, 999, (batch,))
            context = torch.randn(batch, 77, 768, dtype=dtype)
            given = {"return_dict": False} | (
                {"class_labels": torch.zeros(batch, dtype=torch.int64)} if "DiT" in name else {}
            )
            inputs = (image,) if name.startswith("Auto") else (image, steps)
            inputs = (*inputs, context) if name == "UNet2DConditionModel" else inputs
            return Tensors(model, {k: v for k, v in given.items() if not isinstance(v, torch.Tensor)}).to(dtype), inputs
        case "decode":
            shapes, model = kept_shapes(name), _decoder(name)
            kept = [torch.randn(batch, heads, KEPT, depth, dtype=dtype) for _, heads, _, depth in shapes]
            return Step(model).to(dtype), (torch.randint(5, 1000, (batch, 1)), *kept)
        case kind:
            from transformers import AutoConfig, AutoModel

            config = AutoConfig.for_model(name, use_cache=False)
            length = PROMPT if kind == "decoder" and batch == 1 else TOKENS
            tokens = torch.randint(5, min(1000, getattr(config, "vocab_size", 1000)), (batch, length))
            inputs = (tokens,)
            model = AutoModel.from_config(config)
            if kind == "encoder-decoder":
                return Both(model).to(dtype), (tokens, tokens[:, :32].contiguous())
    return Tensors(model).to(dtype), inputs


class Both(torch.nn.Module):
    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor, decoder_ids: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=ids, decoder_input_ids=decoder_ids)[0]


class Step(torch.nn.Module):
    """The state of one more token, from the token and the keys and values of those before it."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, token: torch.Tensor, *kept: torch.Tensor) -> torch.Tensor:
        from transformers import DynamicCache

        cache = DynamicCache(ddp_cache_data=list(zip(kept[::2], kept[1::2], strict=True)))
        return self.model(input_ids=token, past_key_values=cache, use_cache=True)[0]


def _decoder(name: str) -> torch.nn.Module:
    from transformers import AutoConfig, AutoModel

    return AutoModel.from_config(AutoConfig.for_model(name, use_cache=True)).eval()


def kept_shapes(name: str) -> list[tuple[int, ...]]:
    """Shapes of keys and values, layer by layer, after one token."""
    with torch.device("meta"), torch.no_grad():
        kept = _decoder(name)(torch.ones(1, 1, dtype=torch.int64)).past_key_values
    return [tuple(t.shape) for layer in kept.layers for t in (layer.keys, layer.values)]
