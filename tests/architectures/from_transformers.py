"""Every model type of transformers that has a model. Enter at `names` and `made`."""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any

import torch
import transformers
from transformers import CONFIG_MAPPING
from transformers.models.auto import modeling_auto

from tests.architectures.drawn import Inputs, Made, Unmade, floats, integers, runs
from tests.architectures.small import small

HEADS = (
    "SEQ_TO_SEQ_CAUSAL_LM", "MULTIMODAL_LM", "SPEECH_SEQ_2_SEQ", "CTC", "MASKED_LM", "CAUSAL_LM", "ZERO_SHOT_OBJECT_DETECTION",
    "OBJECT_DETECTION", "UNIVERSAL_SEGMENTATION", "SEMANTIC_SEGMENTATION", "DEPTH_ESTIMATION", "ZERO_SHOT_IMAGE_CLASSIFICATION",
    "IMAGE_CLASSIFICATION", "VIDEO_CLASSIFICATION",
    "AUDIO_CLASSIFICATION", "TEXT_TO_WAVEFORM", "TEXT_TO_SPECTROGRAM", "MASK_GENERATION", "TIME_SERIES_PREDICTION",
    "PRETRAINING",
)  # fmt: skip
"""The model with the first of these heads that a type has; else the one without."""
LENGTH = 11
LARGEST = 45_000_000
"""Parameters: what is larger was not shrunk."""


OTHERWISE: tuple[dict[str, Callable[[int], Any]], ...] = (
    {},
    {"input_values": lambda batch: floats(batch, 1, 1600)},
    {"input_features": lambda batch: floats(batch, 128, 256)},
    {"pixel_values": lambda batch: floats(batch, 3, 128, 128)},
)
"""Arguments in forms that few models want: one channel of sound, its features first, images for many halvings."""


def names() -> list[str]:
    return sorted(set(CONFIG_MAPPING.keys()) & set(modeling_auto.MODEL_MAPPING_NAMES))


def _classes(kind: str) -> Iterator[tuple[str, str]]:
    """(head, class) of a model type."""
    for head in HEADS:
        name = getattr(modeling_auto, f"MODEL_FOR_{head}_MAPPING_NAMES").get(kind)
        if name is not None:
            yield head, name if isinstance(name, str) else name[0]
    name = modeling_auto.MODEL_MAPPING_NAMES[kind]
    yield "", name if isinstance(name, str) else name[0]


def made(kind: str) -> Made:
    reasons = []
    for head, class_name in _classes(kind):
        try:
            torch.manual_seed(0)
            config = small(CONFIG_MAPPING[kind])
            model = getattr(transformers, class_name)(config).eval()
            count = sum(p.numel() for p in model.parameters())
            if count > LARGEST:
                raise ValueError(f"{count} parameters")
            if hasattr(model, "set_default_language"):
                model.set_default_language(config.languages[0])
            return _with_inputs(model, config, head)
        except Exception as error:
            reasons.append(f"{class_name}: {type(error).__name__}: {' '.join(str(error).split())[:300]}")
    raise Unmade("; ".join(reasons))


def _with_inputs(model: Any, config: Any, head: str) -> Made:
    """Raises what the first set of arguments raises, where none is taken."""
    problem: Exception | None = None
    for names, changed in itertools.product(_choices(model, config), OTHERWISE):
        if not changed.keys() <= set(names):
            continue
        images = 0
        for _ in range(2):  # the second time with as many image tokens as there are features
            makers = _makers(model, config, images) | changed
            chosen = {name: makers[name] for name in names}

            def inputs(batch: int, chosen: dict[str, Callable[[int], Any]] = chosen) -> Inputs:
                return {name: maker(batch) for name, maker in chosen.items()}

            try:
                runs(model, inputs(2))
                runs(model, inputs(3))
                return Made(model, inputs, tuple(names), _prompt(model, head, inputs, names))
            except Exception as error:
                problem = problem or error
                wanted = re.search(r"features[:= ]*\(?(?:torch\.Size\(\[)?(\d+)", str(error))
                if wanted is None or "pixel_values" not in names or "input_ids" not in names or images:
                    break
                images = max(1, int(wanted.group(1)) // 2)
    assert problem is not None
    raise problem


def _prompt(model: Any, head: str, inputs: Callable[[int], Inputs], names: tuple[str, ...]) -> Inputs:
    if (
        head not in ("CAUSAL_LM", "SEQ_TO_SEQ_CAUSAL_LM", "MULTIMODAL_LM", "SPEECH_SEQ_2_SEQ")
        or not model.can_generate()
    ):
        return {}
    return {n: v for n, v in inputs(2).items() if not n.startswith("decoder_")}


def _choices(model: Any, config: Any) -> Iterator[tuple[str, ...]]:
    """Sets of arguments to try, the fullest first."""
    parameters = inspect.signature(model.forward).parameters
    makers = _makers(model, config, 0)
    all_known = tuple(n for n in parameters if n in makers)
    needed = {
        n for n, p in parameters.items() if p.default is p.empty and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
    }
    main = getattr(model, "main_input_name", "input_ids")
    few = {main, *needed, *(("decoder_input_ids",) if getattr(config, "is_encoder_decoder", False) else ())}
    seen = set()
    for wanted in (
        tuple(n for n in all_known if n not in ("attention_mask", "token_type_ids")),
        all_known,
        tuple(n for n in all_known if n in few),
        tuple(n for n in all_known if n in {*few, "attention_mask"}),
        tuple(n for n in all_known if n in {"input_ids", *needed}),
        tuple(n for n in all_known if n in {"input_ids", "attention_mask", *needed}),
    ):
        if wanted and wanted not in seen:
            seen.add(wanted)
            yield wanted


def _field(config: Any, *names: str, default: Any = None) -> Any:
    """The first of a configuration's fields, or of its parts'."""
    parts = [config, *(v for k, v in vars(config).items() if k.endswith("_config") and v is not None)]
    for name in names:
        for part in parts:
            value = getattr(part, name, None)
            if value is not None and not isinstance(value, dict):
                return value
    return default


def _square(value: Any) -> tuple[int, int]:
    if isinstance(value, dict):
        return value["height"], value["width"]
    return (value[0], value[1]) if isinstance(value, (list, tuple)) else (value, value)


def _makers(model: Any, config: Any, images: int) -> dict[str, Callable[[int], Any]]:
    """Argument's name -> the argument for a batch's size. images: tokens that stand for an image's features."""
    height, width = _square(_field(config, "image_size", "input_size", "img_size", default=32))
    channels = _field(config, "num_channels", "in_channels", "in_chans", "num_input_channels", default=3)
    channels = channels if isinstance(channels, int) else 3
    bins = _field(config, "num_mel_bins", "n_mels", "input_feat_per_channel", "feature_size", "input_dim", default=80)
    image = _field(config, "image_token_id", "image_token_index")
    length = LENGTH + images
    frames = _field(config, "num_frames", "num_image_frames", default=4)
    conv_first = _field(config, "max_source_positions", default=None)

    below = min(90, _field(config, "vocab_size", default=128) - 3)

    def tokens(batch: int) -> torch.Tensor:
        made = integers(below, batch, length) + 3
        if images:
            made[:, 1 : images + 1] = image
        return made

    def decoder(batch: int) -> torch.Tensor:
        return integers(below, batch, 7) + 3

    def pixels(batch: int) -> torch.Tensor:
        return floats(batch, channels, height, width)

    def videos(batch: int) -> torch.Tensor:
        return floats(batch, frames, channels, height, width)

    def features(batch: int) -> torch.Tensor:
        if model.main_input_name == "input_features" and conv_first and "audio" not in type(model).__name__.lower():
            return floats(batch, bins, 2 * conv_first)
        return floats(batch, 32, bins)

    video = hasattr(config, "tubelet_size") or (hasattr(config, "num_frames") and not hasattr(config, "text_config"))
    found: dict[str, Callable[[int], Any]] = {
        "input_ids": tokens,
        "attention_mask": lambda batch: torch.ones(batch, length, dtype=torch.int64),
        "decoder_input_ids": decoder,
        "pixel_values": videos if video else pixels,
        "pixel_values_videos": videos,
        "input_values": lambda batch: (
            floats(batch, 1, 1024) if hasattr(config, "audio_channels") else floats(batch, 1600)
        ),
        "input_features": features,
        "input_features_mask": lambda batch: torch.ones(batch, 32, dtype=torch.int64),
        "noise": lambda batch: floats(batch, *_patches(config)),
        "noise_sequence": lambda batch: floats(batch, 32, config.model_in_channels),
        "query_embeds": lambda batch: floats(batch, 5, config.hidden_size),
        "grid_thw": lambda batch: torch.tensor([[1, 4, 4]] * batch),
        "merge_sizes": lambda batch: torch.tensor([2] * batch),
        "bbox": lambda batch: (integers(8, batch, length, 4) + torch.tensor([0, 0, 8, 8])).int().long(),
        "past_values": lambda batch: floats(batch, *_series(config)),
        "past_time_features": lambda batch: floats(batch, _series(config)[0], config.num_time_features),
        "past_observed_mask": lambda batch: torch.ones(batch, *_series(config)),
        "future_values": lambda batch: floats(batch, config.prediction_length),
        "future_time_features": lambda batch: floats(batch, config.prediction_length, config.num_time_features),
        "audio_values": lambda batch: floats(batch, 1, 1024),
    }
    if "grid_thw" in inspect.signature(model.forward).parameters:  # patches of all images in a row
        found["hidden_states"] = found["pixel_values"] = lambda batch: floats(16 * batch, channels * _pixels(config))
    return found


def _patches(config: Any) -> tuple[int, ...]:
    height, width = _square(config.image_size)
    return ((height // config.patch_size) * (width // config.patch_size),)


def _pixels(config: Any) -> int:
    return (getattr(config, "temporal_patch_size", None) or 1) * config.patch_size**2


def _series(config: Any) -> tuple[int, ...]:
    length = getattr(config, "context_length", None) or 16
    lags = max(getattr(config, "lags_sequence", None) or [0])
    inputs = getattr(config, "num_input_channels", getattr(config, "input_size", 1))
    return (length + lags,) if inputs == 1 and hasattr(config, "lags_sequence") else (length + lags, inputs)
