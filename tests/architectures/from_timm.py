"""The smallest model of each of timm's modules. Enter at `names` and `made`."""

from __future__ import annotations

import importlib
import math
import re
from typing import Any

import torch

from tests.architectures.drawn import Inputs, Made, Unmade, floats, runs

timm: Any = importlib.import_module("timm")

SMALL = (
    "atto", "femto", "pico", "nano", "zepto", "test", "tinynet_e", "xxsmall", "xxs", "xsmall", "xs", "tiny", "mini", "0x", "050",
    "small", "_s", "_t", "_m",
)  # fmt: skip
TRIED = 4
"""Candidates by name whose parameters are counted."""
SIZES = (64, 96, 128)


def names() -> list[str]:
    return sorted(m for m in timm.list_modules() if timm.list_models(module=m))


def _rank(name: str) -> tuple[float, ...]:
    word = next((i for i, word in enumerate(SMALL) if word in name), len(SMALL))
    digits = [int(d) for d in re.findall(r"\d+", name)]
    return (word, sum(digits), len(name))


def smallest(module: str) -> str:
    """The model of a module with the fewest parameters, among those that the names tell to be small."""
    counts = {}
    for name in sorted(timm.list_models(module=module), key=_rank)[:TRIED]:
        try:
            with torch.device("meta"):
                counts[name] = sum(p.numel() for p in timm.create_model(name, num_classes=10).parameters())
        except Exception:  # a model whose constructor computes with its weights
            counts[name] = 10**12
    return min(counts, key=lambda n: (counts[n], n))


def made(module: str) -> Made:
    name = module if timm.is_model(module) and module not in timm.list_modules() else smallest(module)
    reasons = []
    for size in (*SIZES, None):
        for kwargs in ({"img_size": size}, {}):
            if size is None and kwargs:
                continue
            try:
                model = timm.create_model(name, num_classes=10, **kwargs).eval()
                channels, *native = model.default_cfg.get("input_size", (3, 224, 224))
                shape = (channels, *(native if size is None else (size, size)))
                if math.prod(shape) > 3 * 256 * 256:
                    raise ValueError(f"images of {shape}")

                def inputs(batch: int, shape: tuple[int, ...] = shape) -> Inputs:
                    return {"x": floats(batch, *shape)}

                runs(model, inputs(2))
                return Made(model, inputs, ("x",), note=f"{name} at {shape[-1]}")
            except Exception as error:
                reasons.append(f"{type(error).__name__}: {' '.join(str(error).split())[:120]}")
    raise Unmade(f"{name}: {'; '.join(dict.fromkeys(reasons))}")
