"""Names of models, drawn by a seed from the lists of timm, torchvision, transformers and diffusers. Enter at `drawn_names`."""

from __future__ import annotations

import random
import sys
from concurrent.futures import ProcessPoolExecutor

import torch

SEED = 32
DRAWN = {"timm": 70, "torchvision": 12, "encoder": 6, "decoder": 6, "encoder-decoder": 4, "decode": 8}
"""The most names of each list. "decode" has decoders with a cache of keys and values, for steps of one token."""

MOST_PARAMETERS = 4e8


def smallest_of_family(module: str) -> tuple[str, int] | None:
    """timm's smallest model of a module, by parameters."""
    import timm

    best: tuple[str, int] | None = None
    names = [n for n in timm.list_models(module=module) if not n.startswith("test_")]  # of timm's own tests
    for name in random.Random(SEED).sample(names, min(len(names), 40)):
        try:
            with torch.device("meta"):
                size = sum(p.numel() for p in timm.create_model(name).parameters())
        except Exception as error:  # a model that needs another package, or cannot be made without memory
            _skipped(name, error)
            continue
        best = min(best or (name, size), (name, size), key=lambda pair: pair[1])
    return best


def transformers_names(kind: str) -> list[str]:
    """Types of models with default configurations of moderate size."""
    from transformers.models.auto import modeling_auto

    causal, both = (
        modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
    )
    masked = modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES
    lists = {
        "decoder": set(causal) - set(masked) - set(both),
        "encoder": set(masked) - set(both),
        "encoder-decoder": set(both),
    }
    return sorted(lists[kind])


def drawn_names() -> list[dict[str, str]]:
    import timm
    import torchvision

    found: list[dict[str, str]] = []
    modules = sorted(timm.list_modules())
    with ProcessPoolExecutor() as pool:
        best = [pair for pair in pool.map(smallest_of_family, modules) if pair is not None]
    rng = random.Random(SEED)
    small = [name for name, size in best if size < MOST_PARAMETERS]
    found += [{"list": "timm", "name": n} for n in rng.sample(small, min(len(small), DRAWN["timm"]))]
    names = torchvision.models.list_models(module=torchvision.models)
    found += [{"list": "torchvision", "name": n} for n in rng.sample(names, DRAWN["torchvision"])]
    for kind in ("encoder", "decoder", "encoder-decoder"):
        names = transformers_names(kind)
        rng.shuffle(names)
        with ProcessPoolExecutor() as pool:
            sizes = pool.map(_parameters, names[:40])
            small = [n for n, size in zip(names, sizes, strict=False) if 0 < size < MOST_PARAMETERS]
        found += [{"list": kind, "name": n} for n in small[: DRAWN[kind]]]
        if kind == "decoder":
            found += [{"list": "decode", "name": n} for n in small if keeps_keys(n)][: DRAWN["decode"]]
    found += [{"list": "diffusers", "name": n} for n in _diffusers()]
    return found


def _parameters(name: str) -> int:
    """Those of a model with its default configuration; 0 if there is none."""
    from transformers import AutoConfig, AutoModel

    try:
        with torch.device("meta"):
            return sum(p.numel() for p in AutoModel.from_config(AutoConfig.for_model(name)).parameters())
    except Exception as error:  # no default configuration, or a package that is not installed
        _skipped(name, error)
        return 0


def _skipped(name: str, error: Exception) -> None:
    """A model that cannot be drawn is named, so that a draw with other packages is not taken for the same one."""
    print(f"not drawn: {name}: {' '.join(str(error).split())[:120]}", file=sys.stderr)


def keeps_keys(name: str) -> bool:
    """True if every layer of the model appends to keys and values of its own."""
    from zoo.models import kept_shapes

    try:
        return all(len(shape) == 4 and shape[0] == 1 and shape[2] == 1 for shape in kept_shapes(name))
    except Exception:  # it has no cache, or one of another kind
        return False


def _diffusers() -> list[str]:
    from zoo.models import DIFFUSION

    try:
        import diffusers
    except ImportError:
        return []
    return [name for name in DIFFUSION if hasattr(diffusers, name)]
