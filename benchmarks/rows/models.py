"""Whole models, one call after another."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

import burn
from rows.timing import Row, by_turns, difference, waited

AT_LEAST = 0.9
"""Of torch.compile's speed; the mean is to be above it."""


class First(torch.nn.Module):
    """The first of a model's results."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.model(x)[0]


def cases() -> dict[str, Callable[[], Row]]:
    from torchvision.models import resnet50
    from transformers import BertConfig, BertModel, ViTConfig, ViTModel

    def words(batch: int, length: int) -> torch.Tensor:
        return torch.randint(0, 30000, (batch, length), device="cuda")

    def images(batch: int) -> torch.Tensor:
        return torch.randn(batch, 3, 224, 224, device="cuda", dtype=torch.float16)

    bert = First(BertModel(BertConfig(), add_pooling_layer=False))
    vit = First(ViTModel(ViTConfig(), add_pooling_layer=False))
    resnet = resnet50()
    made = [
        ("BERT-base fp16 1x128", bert, words(1, 128)),
        ("BERT-base fp16 32x128", bert, words(32, 128)),
        ("ResNet-50 fp16 1", resnet, images(1)),
        ("ResNet-50 fp16 64", resnet, images(64)),
        ("ViT-base fp16 32", vit, images(32)),
    ]
    return {name: partial(model, name, module.half().eval(), x) for name, module, x in made}


def model(name: str, module: torch.nn.Module, x: torch.Tensor) -> Row:
    start = time.perf_counter()
    compiled = burn.compile(module.cpu(), (x.cpu(),), cache=False, device="cuda")
    seconds = time.perf_counter() - start
    module = module.cuda()
    fast = torch.compile(module, mode="reduce-overhead")
    error = difference(compiled(x), module(x))
    calls: dict[str, Callable[[], Any]] = {
        "burn": lambda: compiled(x),
        "torch": lambda: module(x),
        "torch.compile": lambda: fast(x),
    }
    times = by_turns(calls, waited, waited)
    made = Row(f"{name} (compiled in {seconds:.1f} s, differs by {error:.0e})", times.pop("burn"), times)
    made.of_peers("torch.compile", AT_LEAST, "torch.compile")
    return made
