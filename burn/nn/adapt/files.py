"""Adapters in the files of peft: a folder with adapter_model.safetensors and adapter_config.json.

Tensors are named "base_model.model.<path of the layer>.lora_A.weight". The configuration has the rank, alpha and the layers'
paths. Format: `PeftModel.save_pretrained` of https://github.com/huggingface/peft (written by 0.19, read since 0.3).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from burn.dialect.types import numpy_dtype
from burn.dialect.weights import Weight
from burn.errors import ModelError, Problem, TypeMismatch, near
from burn.importers import weights
from burn.importers.weights import safetensors
from burn.nn.adapt import apply
from burn.nn.adapt.apply import Target, adapters, targets
from burn.nn.adapt.lora import LoRA, Update
from burn.nn.module import Module
from burn.nn.parameter import Parameter
from burn.runtime.files import save_text

M = TypeVar("M", bound=Module)
Remap = Sequence[tuple[str, str]]

PREFIX = "base_model.model."
WEIGHTS, CONFIG = "adapter_model", "adapter_config.json"
_TENSOR = re.compile(r"(.*)\.(lora_A\.weight|lora_B\.weight|lora_embedding_A|lora_embedding_B|base_layer\.weight)")

_READ = frozenset({"r", "lora_alpha", "lora_dropout", "use_rslora", "rank_pattern", "alpha_pattern", "peft_type"})
"""Entries of the configuration that decide what an adapter computes."""
_UNUSED = frozenset({
    "auto_mapping", "base_model_name_or_path", "ensure_weight_tying", "exclude_modules", "inference_mode", "layers_pattern",
    "layers_to_transform", "megatron_core", "peft_version", "qalora_group_size", "revision", "runtime_config",
    "target_modules", "task_type",
})  # fmt: skip
"""Entries that name layers, which the tensors do too, or that say nothing of an adapter without others that are refused."""
_STARTS = (True, False, None, "gaussian", "orthogonal", "eva")
"""Values of init_lora_weights that leave the base as it is."""


def save(model: Module, folder: str | os.PathLike[str], *, remap: Remap | None = None, base: str = "") -> None:
    """Writes the adapters of a model to a folder, which peft reads: `PeftModel.from_pretrained(torch_model, folder)`.

    - `remap`: (pattern, replacement) pairs of regular expressions, applied in order to the layers' paths, if PyTorch's model has
      others.
    - `base`: the base model's name or path, for the configuration.

    Raises ModelError if the model has no adapter, if layers disagree about what the format has once, or if a file cannot be
    written."""
    found = {_renamed(path, remap): adapter for path, adapter in adapters(model)}
    if not found:
        raise ModelError("there is no adapter to save", [Problem("the model has none", hint="see burn.nn.adapt.lora")])
    first = next(iter(found.values()))
    dropouts = {_dropout(a) for a in found.values() if isinstance(a, LoRA) and "lora_A" in vars(a)} or {0.0}
    one = {"stabilised": {a.stabilised for a in found.values()}, "dropout": dropouts}
    if several := [f"{name}: {', '.join(map(str, sorted(v)))}" for name, v in one.items() if len(v) > 1]:
        raise ModelError("peft's files have one value for all layers", several)
    config = {
        "peft_type": "LORA",
        "base_model_name_or_path": base,
        "r": first.rank,
        "lora_alpha": _plain(first.alpha),
        "lora_dropout": dropouts.pop(),
        "use_rslora": first.stabilised,
        "target_modules": sorted(found),
        "rank_pattern": {path: a.rank for path, a in found.items() if a.rank != first.rank},
        "alpha_pattern": {path: _plain(a.alpha) for path, a in found.items() if a.alpha != first.alpha},
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
        "init_lora_weights": True,
        "task_type": None,
    }
    tensors = {
        f"{PREFIX}{path}.{name}": p.weight for path, adapter in found.items() for name, p in adapter.factors().items()
    }
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ModelError(f"cannot write {folder}", [error.strerror or str(error)]) from None
    safetensors.write(folder / f"{WEIGHTS}.safetensors", tensors, {"format": "pt"})
    save_text(folder / CONFIG, json.dumps(config, indent=2) + "\n")


def load(model: M, folder: str | os.PathLike[str], *, remap: Remap | None = None, freeze: bool = True) -> M:
    """Gives a model the adapters of a folder that peft or `save` wrote, in place; returns the model.

    - `remap`: (pattern, replacement) pairs of regular expressions, applied in order to the layers' paths in the file.
    - `freeze`: see `lora`.

    Adapters that the model has already take the file's elements. Raises ModelError, without any change, that lists options of the
    configuration that burn does not support, layers that the model lacks, and tensors that do not fit."""
    folder = Path(folder)
    config = _config(folder / CONFIG)
    tensors = _tensors(folder, remap)
    known = {t.path: t for t in targets(model)}
    existing = dict(adapters(model))
    problems: list[Problem] = []
    ready: list[tuple[Target, Update, Mapping[str, Weight]]] = []
    for path, given in tensors.items():
        if path not in known:
            hint = near(path, known) or "remap=[(pattern, replacement)]"
            problems.append(Problem(f"there is no layer '{path}' that can have an adapter", hint=hint))
            continue
        adapter, own = _adapter(known[path], existing.get(path), path, given, config)
        problems += own
        if adapter is not None and not own:
            ready.append((known[path], adapter, given))
    if problems:
        raise ModelError(f"the adapter in {folder} does not fit {type(model).__name__}", problems)
    for target, adapter, given in ready:
        if target.path not in existing:
            apply.put([*known.values()], target, adapter)
        for name, p in adapter.factors().items():
            p.assign(_cast(given[name], p))
        if "base_layer.weight" in given:
            base = _base(target, adapter)
            base.assign(_cast(given["base_layer.weight"], base))
    if freeze:
        apply.freeze_rest(model)
    return model


def _adapter(
    target: Target, existing: Update | None, path: str, given: Mapping[str, Weight], config: Mapping[str, Any]
) -> tuple[Update | None, list[Problem]]:
    """The adapter that takes a layer's tensors, and what does not fit."""
    rank = int(_of(config["rank_pattern"], path, config["r"]))
    alpha = float(_of(config["alpha_pattern"], path, config["lora_alpha"]))
    if existing is not None:
        own = (existing.rank, existing.alpha, existing.stabilised)
        if own != (rank, alpha, config["use_rslora"]) or existing.merged:
            text = f"'{path}' has rank {own[0]} and alpha {own[1]:g}, the file {rank} and {alpha:g}"
            return None, [Problem("it is merged" if existing.merged else text, hint="nn.adapt.remove(model)")]
    try:
        dropout = 0.0 if "lora_embedding_A" in given else float(config["lora_dropout"])
        adapter = existing or apply.made_of(target, rank, alpha, dropout, bool(config["use_rslora"]), None)
    except TypeMismatch as error:
        return None, [Problem(f"'{path}': {error.summary}: {'; '.join(map(str, error.problems))}")]
    factors = adapter.factors()
    wanted = {name: tuple(p.shape) for name, p in factors.items()}
    problems = [Problem(f"'{path}.{name}' is missing") for name in wanted.keys() - given.keys()]
    if "base_layer.weight" in given:
        wanted["base_layer.weight"] = tuple(_base(target, adapter).shape)
    problems += [
        Problem(
            f"'{path}.{name}' is {list(w.shape)}, not {list(wanted[name])}"
            if name in wanted
            else f"'{path}.{name}' is of another kind of layer"
        )
        for name, w in given.items()
        if wanted.get(name) != tuple(w.shape)
    ]
    return adapter, problems


def _base(target: Target, adapter: Update) -> Parameter:
    """The base's float weight."""
    if target.layer is None:
        return vars(target.owner)[target.name]
    layer: Any = adapter.base_layer if isinstance(adapter, LoRA) else target.layer
    weight = layer.weight
    return weight if isinstance(weight, Parameter) else weight.scale


def _tensors(folder: Path, remap: Remap | None) -> dict[str, dict[str, Weight]]:
    """The file's tensors by layer and name."""
    path = next((p for p in (folder / f"{WEIGHTS}.{end}" for end in ("safetensors", "bin")) if p.is_file()), None)
    if path is None:
        raise ModelError(f"{folder} has no adapter", [f"there is no {WEIGHTS}.safetensors"])
    found: dict[str, dict[str, Weight]] = {}
    problems = []
    for name, weight in weights.read(path).items():
        match = _TENSOR.fullmatch(name.removeprefix(PREFIX))
        if match is None or not name.startswith(PREFIX):
            problems.append(Problem(f"'{name}' is of no kind that burn supports"))
        else:
            found.setdefault(_renamed(match[1], remap), {})[match[2]] = weight
    if problems or not found:
        raise ModelError(f"{path} is no LoRA adapter", problems or ["it has no tensors"])
    return found


def _config(path: Path) -> dict[str, Any]:
    """The configuration with defaults. Raises ModelError for options that would change what adapters compute."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ModelError(f"cannot read {path}", [error.strerror or str(error)]) from None
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path} is malformed", [str(error)]) from None
    if not isinstance(found, dict):
        raise ModelError(f"{path} is malformed", ["it is no table"])
    problems = [] if found.get("peft_type") == "LORA" else [f"peft_type is {found.get('peft_type')!r}, not 'LORA'"]
    for name, value in found.items():
        if name in _READ or name in _UNUSED or value in (None, False, "none") or value in ({}, []):
            continue
        if name == "init_lora_weights" and value in _STARTS:
            continue
        problems.append(f"{name} is {value!r}")
    config = {
        "r": 8,
        "lora_alpha": 8,
        "lora_dropout": 0.0,
        "use_rslora": False,
        "rank_pattern": {},
        "alpha_pattern": {},
    }
    config |= {name: found[name] for name in config if found.get(name) is not None}
    kinds = {"r": int, "lora_alpha": (int, float), "lora_dropout": (int, float), "use_rslora": bool}
    problems += [
        f"{name} is {config[name]!r}"
        for name, kind in kinds.items()
        if not isinstance(config[name], kind) or (kind is int and config[name] < 1)
    ]
    for name in ("rank_pattern", "alpha_pattern"):
        if not _is_table(config[name]):
            problems.append(f"{name} is {config[name]!r}")
    if problems:
        raise ModelError(f"burn does not support this adapter: {path}", problems)
    return config


def _is_table(value: Any) -> bool:
    """True for numbers by regular expressions."""
    try:
        return all(isinstance(v, (int, float)) and re.compile(key) is not None for key, v in value.items())
    except (AttributeError, TypeError, re.error):
        return False


def _of(patterns: Mapping[str, Any], path: str, default: Any) -> Any:
    """The value of the first pattern that matches the end of a path, as in peft (`get_pattern_key`)."""
    return next((value for key, value in patterns.items() if re.match(rf"(.*\.)?({key})$", path)), default)


def _renamed(path: str, remap: Remap | None) -> str:
    for pattern, replacement in remap or ():
        path = re.sub(pattern, replacement, path)
    return path


def _cast(weight: Weight, p: Parameter) -> Any:
    return weight if weight.dtype == p.dtype else weight.array().astype(numpy_dtype(p.dtype))


def _dropout(adapter: LoRA) -> float:
    return float(adapter.lora_dropout.p)


def _plain(value: float) -> int | float:
    return int(value) if value == int(value) else value
