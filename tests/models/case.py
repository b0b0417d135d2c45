"""A reference model: the origin of its graph, its inputs, and a way to draw random ones.

An input's sizes are given once, as numbers and symbols (`Spec.dims`). The rest follows from them: the axes that an exporter must
keep dynamic, the example that it traces, and the inputs of a test or a benchmark. This module needs
numpy only, so the table can be read without torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    import torch

Exporter = Literal["dynamo", "torchscript"]
Dim = int | str  # a size, a symbol ("batch"), or a sum of symbols ("past + seq")
Array = np.ndarray
Draw = Callable[[np.random.Generator, tuple[int, ...]], Array]


def normal(random: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return random.standard_normal(shape, dtype=np.float32)


def uniform(random: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return random.random(shape, dtype=np.float32)


def integers(high: int, dtype: type[np.generic] = np.int64) -> Draw:
    """Whole numbers in [0, high)."""
    return lambda random, shape: random.integers(0, high, shape).astype(dtype)


def constant(value: int | float, dtype: type[np.generic]) -> Draw:
    return lambda random, shape: np.full(shape, value, dtype)


def padding_mask(random: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Ones, then zeros from a random index in the last quarter of each row: sentences of unequal length, padded."""
    length = shape[-1]
    ends = random.integers(min(length, max(1, length - length // 4)), length + 1, (*shape[:-1], 1))
    return (np.arange(length) < ends).astype(np.int64)


@dataclass(frozen=True)
class Spec:
    """One input of a model."""

    name: str
    dims: tuple[Dim, ...]
    draw: Draw = normal

    @property
    def dynamic(self) -> dict[int, str]:
        """Axis -> symbol, for the axes that are no plain number."""
        return {axis: dim for axis, dim in enumerate(self.dims) if isinstance(dim, str)}


@dataclass(frozen=True)
class TorchModule:
    """A torch module in eval mode with seeded weights, exported by each of `exporters`.

    The module is made by `function` of the sibling file `file`, imported when it is asked for: the table is read
    without torch. `requires` names the distributions it takes; `refused` says why an exporter is not in `exporters`, `since` from
    which torch on one takes the module, if others do not.
    """

    file: str
    function: str
    outputs: tuple[str, ...]
    requires: tuple[str, ...] = ("torch", "onnxscript")
    exporters: tuple[Exporter, ...] = ("dynamo", "torchscript")
    refused: Mapping[Exporter, str] = field(default_factory=dict)
    since: Mapping[Exporter, tuple[int, int]] = field(default_factory=dict)

    def build(self) -> torch.nn.Module:
        return getattr(import_module(f"tests.models.{self.file}"), self.function)()


@dataclass(frozen=True)
class OnnxFile:
    """A file that another package or the folder beside this project holds; `path` raises `Unavailable` if absent."""

    path: Callable[[], Path]
    stored: Callable[[], tuple[dict[str, Array], list[Array]]] | None = None  # inputs and outputs kept with the file


@dataclass(frozen=True)
class ModelCase:
    """One reference model. `sizes` gives every symbol of `inputs` a moderate value."""

    name: str
    source: TorchModule | OnnxFile
    inputs: tuple[Spec, ...]
    sizes: Mapping[str, int] = field(default_factory=dict)


class Unavailable(Exception):
    """A model cannot be had here: a file or a distribution is absent. Tests turn it into a skip that names it."""


def random_inputs(case: ModelCase, seed: int = 0, **sizes: int) -> dict[str, Array]:
    """Inputs of `case` by name, `sizes` overriding the case's own."""
    unknown = sizes.keys() - case.sizes.keys()
    if unknown:
        raise ValueError(f"{case.name} has no size named {', '.join(sorted(unknown))}; it has {', '.join(case.sizes)}")
    values = {**case.sizes, **sizes}
    random = np.random.default_rng(seed)
    return {spec.name: spec.draw(random, tuple(size_of(dim, values) for dim in spec.dims)) for spec in case.inputs}


def size_of(dim: Dim, sizes: Mapping[str, int]) -> int:
    return dim if isinstance(dim, int) else sum(sizes[term.strip()] for term in dim.split("+"))
