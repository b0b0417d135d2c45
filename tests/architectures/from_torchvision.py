"""The smallest model of each of torchvision's modules: classification, detection, segmentation, video, optical flow."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import torch

from tests.architectures.drawn import Inputs, Made, Unmade, floats, runs

models: Any = importlib.import_module("torchvision.models")


def _has_ops() -> bool:  # a function that torch.jit.script can read
    return True


vars(importlib.import_module("torchvision.extension"))["_has_ops"] = _has_ops  # tests.architectures.vision_ops has them

DETECTORS: tuple[dict[str, Any], ...] = (
    {
        "min_size": 64,
        "max_size": 64,
        "box_detections_per_img": 5,
        "rpn_post_nms_top_n_test": 20,
        "rpn_pre_nms_top_n_test": 20,
    },
    {"min_size": 64, "max_size": 64, "detections_per_img": 5, "topk_candidates": 20},
    {"detections_per_img": 5, "topk_candidates": 20},
)
"""Small images and few boxes, as each kind of detector takes them."""


def names() -> list[str]:
    """module.model, the smallest of each module; of detectors and what is in submodules, every module's."""
    found: dict[str, tuple[float, str]] = {}
    for name in models.list_models():
        module = models.get_model_builder(name).__module__.removeprefix("torchvision.models.")
        weights = list(models.get_model_weights(name))
        size = min((w.meta.get("num_params", 1e12) for w in weights), default=1e12)
        found[module] = min(found.get(module, (1e18, "")), (size, name))
    return sorted(f"{module}.{name}" for module, (_, name) in found.items())


def made(listed: str) -> Made:
    module, _, name = listed.rpartition(".")
    if "detection" in module:
        return _detector(name)
    nothing = {"weights_backbone": None} if "segmentation" in module else {}
    model = models.get_model(name, weights=None, **nothing).eval()
    reasons = []
    argument = next(iter(inspect.signature(model.forward).parameters))
    for size in (64, 128, 224):
        shape = (3, 4, size, size) if "video" in module else (3, size, size)

        def inputs(batch: int, shape: tuple[int, ...] = shape) -> Inputs:
            if "optical_flow" in module:
                return {"image1": floats(batch, *shape), "image2": floats(batch, *shape) + 1, "num_flow_updates": 2}
            return {argument: floats(batch, *shape)}

        try:
            runs(model, inputs(2))
            return Made(model, inputs, tuple(n for n in inputs(2) if n != "num_flow_updates"), note=f"at {size}")
        except Exception as error:
            reasons.append(f"{type(error).__name__}: {' '.join(str(error).split())[:120]}")
    raise Unmade("; ".join(reasons))


def _detector(name: str) -> Made:
    reasons = []
    for kwargs in DETECTORS:
        try:
            torch.manual_seed(0)
            model = models.get_model(name, weights=None, weights_backbone=None, num_classes=5, **kwargs).eval()

            def inputs(batch: int) -> Inputs:
                return {"images": [floats(3, 64, 64 + i).sigmoid() for i in range(batch)]}

            runs(model, inputs(2))
            return Made(model, inputs, ())
        except Exception as error:
            reasons.append(f"{type(error).__name__}: {' '.join(str(error).split())[:120]}")
    raise Unmade("; ".join(reasons))
