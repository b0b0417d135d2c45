"""Every model class of diffusers, by the names of its constructor's and its forward's arguments. Enter at `names` and `made`."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import torch

from tests.architectures.drawn import Inputs, Made, Unmade, floats, integers, runs
from tests.architectures.small import RULES, matched

diffusers: Any = importlib.import_module("diffusers")

SMALL = {
    "sample_size": 8, "block_out_channels": (32, 64), "layers_per_block": 1, "norm_num_groups": 8, "cross_attention_dim": 32,
    "down_block_types": 2, "up_block_types": 2, "caption_channels": 32, "joint_attention_dim": 32, "pooled_projection_dim": 32,
    "num_layers": 1, "num_single_layers": 1, "num_attention_heads": 4, "attention_head_dim": 8,
    "decoder_block_out_channels": (32, 64), "encoder_block_out_channels": (32, 64),
    "text_embed_dim": 32, "text_dim": 32, "encoder_hidden_dim": 32,
}  # fmt: skip
LIMIT = 30_000_000


def names() -> list[str]:
    kinds = importlib.import_module("diffusers.models")._import_structure
    classes = {name for group in kinds.values() for name in group}
    return sorted(n for n in classes if n.endswith("Model") and n not in ("ModelMixin", "AutoModel", "MultiAdapter"))


def _arguments(cls: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, parameter in inspect.signature(cls.__init__).parameters.items():
        value = parameter.default
        if name in ("self", "args", "kwargs") or value is parameter.empty:
            continue
        if name in ("down_block_types", "up_block_types") and isinstance(value, (list, tuple)):
            found[name] = tuple(value)[-2:] if name[0] == "d" else tuple(value)[:2]
        elif name in SMALL and value is not None and isinstance(value, (tuple, list)) == isinstance(SMALL[name], tuple):
            small = SMALL[name]
            found[name] = (
                small[: len(value)] if isinstance(value, (list, tuple)) and isinstance(small, tuple) else small
            )
        elif isinstance(value, (int, list, tuple)) and not isinstance(value, bool) and "channels" not in name:
            other = matched(name, value, RULES)
            if other != value:
                found[name] = other
    return found


def made(name: str) -> Made:
    cls = getattr(diffusers, name)
    arguments = _arguments(cls)
    reasons = []
    for kwargs in (arguments, {k: v for k, v in arguments.items() if k in SMALL}):
        try:
            torch.manual_seed(0)
            model = cls(**kwargs).eval()
            if sum(p.numel() for p in model.parameters()) > LIMIT:
                raise ValueError("it was not made small")
            return _with_inputs(model)
        except Exception as error:
            reasons.append(f"{type(error).__name__}: {' '.join(str(error).split())[:200]}")
    raise Unmade("; ".join(dict.fromkeys(reasons)))


def _with_inputs(model: Any) -> Made:
    config, taken = model.config, inspect.signature(model.forward).parameters
    channels = config.get("in_channels", 4)
    size = config.get("sample_size", 8)
    size = size if isinstance(size, int) else 8
    wide = next(
        (
            config[n]
            for n in ("joint_attention_dim", "cross_attention_dim", "caption_channels", "text_dim")
            if config.get(n)
        ),
        32,
    )
    problem: Exception | None = None
    for shape in ((channels, size, size), (channels, 5, size, size), (16, channels), (channels, 16)):
        known = {
            "sample": lambda b, shape=shape: floats(b, *shape),
            "hidden_states": lambda b, shape=shape: floats(b, *shape),
            "x": lambda b, shape=shape: floats(b, *shape),
            "timestep": lambda b: integers(100, b),
            "encoder_hidden_states": lambda b: floats(b, 5, wide),
            "pooled_projections": lambda b: floats(b, config.get("pooled_projection_dim", 32)),
            "class_labels": lambda b: integers(10, b),
            "encoder_attention_mask": lambda b: torch.ones(b, 5, dtype=torch.bool),
            "img_ids": lambda b: torch.zeros(16, 3),
            "txt_ids": lambda b: torch.zeros(5, 3),
            "guidance": lambda b: floats(b),
        }
        for optional in (True, False):
            chosen = {n: known[n] for n, p in taken.items() if n in known and (optional or p.default is p.empty)}

            def inputs(batch: int, chosen: dict[str, Any] = chosen) -> Inputs:
                return {n: maker(batch) for n, maker in chosen.items()}

            try:
                runs(model, inputs(2))
                return Made(model, inputs, tuple(n for n in chosen if n not in ("img_ids", "txt_ids")))
            except Exception as error:
                problem = error
    assert problem is not None
    raise problem
