"""Architectures, and the packages that list them. Enter at `listed` and `made`."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from tests.architectures.vision_ops import define

define()  # transformers, timm and torchvision import it where it is installed

PACKAGES = ("transformers", "timm", "torchvision", "diffusers", "torch_geometric")

Inputs = dict[str, Any]


@dataclass
class Made:
    """A model with random weights, in inference mode, and how it is called.

    `inputs`: a batch's size -> the arguments by name. `batched`: the arguments whose first axis is the batch. `prompt`:
    arguments of `generate()`, if the model writes tokens. `note`: the model, if the name does not say it."""

    model: torch.nn.Module
    inputs: Callable[[int], Inputs]
    batched: tuple[str, ...]
    prompt: Inputs = field(default_factory=dict)
    note: str = ""


class Unmade(Exception):
    """No small model of that name: torch alone does not run what was tried."""


def listed(package: str) -> list[str]:
    """The names that a package lists, as "package/name"; nothing where it is not installed."""
    try:
        source = importlib.import_module(f"tests.architectures.from_{package}")
        return [f"{package}/{name}" for name in source.names()]
    except ImportError:
        return []


def made(name: str) -> Made:
    """The model of a name. Raises Unmade."""
    package, _, rest = name.partition("/")
    torch.manual_seed(0)
    found = importlib.import_module(f"tests.architectures.from_{package}").made(rest)
    found.model.eval()
    return found


def floats(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def integers(below: int, *shape: int) -> torch.Tensor:
    return torch.randint(0, below, shape, generator=torch.Generator().manual_seed(sum(shape)))


def runs(model: torch.nn.Module, inputs: Inputs) -> Any:
    """The results of eager torch."""
    with torch.no_grad():
        return model(**inputs)
