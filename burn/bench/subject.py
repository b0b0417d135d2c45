"""Subjects of benchmarks: an ONNX file, its inputs, and, if known, its original torch module.

Start at `find`: it reads a path's signature, and looks other names up in benchmarks/registry.py of a checkout.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from burn.errors import BurnError, ModelError, Problem

if TYPE_CHECKING:
    import torch

Feeds = dict[str, np.ndarray]


@dataclass(frozen=True)
class Subject:
    """One model with one set of inputs. `module` builds the torch module that it was exported from, in eval mode."""

    name: str
    path: Path
    feeds: Feeds
    sizes: Mapping[str, int]  # of the symbols in its inputs
    module: Callable[[], torch.nn.Module] | None = None

    @property
    def label(self) -> str:
        return " ".join([self.name, *(f"{symbol}={size}" for symbol, size in self.sizes.items())])


def find(name: str, sizes: Mapping[str, int]) -> Subject:
    """The subject called `name`; of `sizes` it takes those that it has symbols for."""
    path = Path(name)
    if path.suffix == ".onnx" or path.is_file():
        return from_file(path, sizes)
    registry = _registry()
    if registry is None:
        raise BurnError(
            f"no model '{name}'",
            [Problem("it is no file, and named models are known only in a checkout of the project")],
        )
    return registry.subject(name, sizes)


def _registry() -> ModuleType | None:
    for root in (Path(__file__).parents[2], Path.cwd()):
        file = root / "benchmarks" / "registry.py"
        if file.is_file():
            if str(root) not in sys.path:
                sys.path.insert(0, str(root))  # the registry reads the table in tests/models
            spec = importlib.util.spec_from_file_location("benchmarks.registry", file)
            assert spec is not None and spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    return None


def from_file(path: Path, sizes: Mapping[str, int], seed: int = 0) -> Subject:
    """A subject from any ONNX file: floats are normal, whole numbers 0 or 1, which every embedding and mask accepts."""
    import onnx  # here, so that a fresh process that times another engine does not pay for it

    try:
        model = onnx.load(path, load_external_data=False)
    except FileNotFoundError:
        raise ModelError(f"{path}: there is no such file") from None
    except Exception as error:
        raise ModelError(f"{path}: not an ONNX file", [str(error)]) from None
    weights = {tensor.name for tensor in model.graph.initializer}
    random = np.random.default_rng(seed)
    problems: list[Problem] = []
    taken: dict[str, int] = {}
    feeds: Feeds = {}
    for value in model.graph.input:
        if value.name in weights:
            continue
        shape = []
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            symbol = dim.dim_param or f"{value.name}.{axis}"
            if dim.HasField("dim_value"):
                shape.append(dim.dim_value)
            elif symbol in sizes:
                shape.append(sizes[symbol])
                taken[symbol] = sizes[symbol]
            else:
                problems.append(Problem(f"input '{value.name}' has a size '{symbol}'", hint=f"--dim '{symbol}=NUMBER'"))
        if not problems:
            try:
                dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
                feeds[value.name] = _draw(random, dtype, tuple(shape))
            except (KeyError, TypeError) as error:
                problems.append(Problem(f"input '{value.name}' is of a type that cannot be drawn at random: {error}"))
    if problems:
        raise BurnError(f"{path}: its inputs cannot be made", problems)
    return Subject(path.name, path, feeds, taken)


def _draw(random: np.random.Generator, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    if dtype.kind in "iub":
        return random.integers(0, 2, shape).astype(dtype)
    if dtype.kind == "f":
        return random.standard_normal(shape).astype(dtype)
    raise TypeError(str(dtype))
