"""Small configurations of transformers' model types, by the names of their fields. Enter at `small`.

Every width becomes one number, and every count of heads another, so that parts fit each other.
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

WIDTH, HEADS, HEAD, INNER, VOCABULARY, LAYERS = 32, 4, 8, 48, 128, 2
POSITIONS, IMAGE, PATCH, EXPERTS, RANK, STATE = 128, 32, 8, 4, 16, 8
FIRST_TOKEN = 100
"""Special tokens beyond the vocabulary become these and those after."""

Rule = Callable[[Any], Any]


def _to(number: int) -> Rule:
    """A number, or numbers, of at most this size."""

    def rule(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)(rule(v) for v in value)
        return min(value, number) if isinstance(value, int) and not isinstance(value, bool) else value

    return rule


def _exactly(number: int) -> Rule:
    """The number, where there is one or None."""
    return lambda value: [number] * len(value) if isinstance(value, (list, tuple)) else number


def _growing(value: Any) -> Any:
    """Widths of stages."""
    return (
        [WIDTH * 2 ** min(i, 2) for i in range(len(value))] if isinstance(value, (list, tuple)) else _to(WIDTH)(value)
    )


def _ones(value: Any) -> Any:
    return [_ones(v) for v in value] if isinstance(value, (list, tuple)) else min(value, LAYERS) if value else value


def _heads(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_heads(v) for v in value]
    return HEADS if isinstance(value, int) and value > 1 else value


RULES: tuple[tuple[str, Rule], ...] = (
    (r"vocab_size|.*_vocab_size|vocab_size_.*|num_codevectors_per_group|codebook_size", _to(VOCABULARY)),
    (r"(num_)?(key_value|kv)_heads|num_key_value_heads|multi_query_group_num|num_.*key_value_heads", _to(2)),
    (r"(num_|n_)(.*_)?(heads?|attention_heads)|n_head|.*attention_heads|num_heads|heads|n_heads", _heads),
    (
        r"head_dim|d_kv|kv_channels|attention_head_dim|.*_head_dim|attention_head_size|d_head|dim_head|head_size",
        _to(HEAD),
    ),
    (r"(q|kv|o|mlp|.*)_lora_rank|.*_rank|lora_.*", _to(RANK)),
    (r"(num_|n_)(local_|routed_)?experts|moe_num_experts|num_local_experts|.*num_experts", _to(EXPERTS)),
    (r"num_experts_per_tok.*|num_selected_experts|moe_topk|top_?k_experts|moe_k|num_experts_per_token", _exactly(2)),
    (r"n_group|topk_group", lambda value: 1),
    (r"mamba_n_heads", _to(HEADS)),
    (r"(attn|expert)_layer_period", _to(LAYERS)),
    (r"(attn|expert)_layer_offset", _to(1)),
    (r"attn_layer_indices", lambda value: [1]),
    (r"block_types", lambda value: _kinds(list(value), LAYERS)),
    (r"num_kv_shared_layers", lambda value: 0),
    (r"prediction_length", lambda value: 4 if value is None else value),
    (r"state_size|mamba_d_state|ssm_state_size|d_state|mamba_state_size", _to(STATE)),
    (
        r"depths?|(.*_)?num_(hidden_|encoder_|decoder_)?layers|(num_|n_)(.*_)?layers?|n_layer|.*_layers|num_.*blocks(_.*)?|layers"
        r"|.*_depths?|.*num_blocks|num_blocks_.*",
        _ones,
    ),
    (
        r"max_position_embeddings|n_positions|max_.*positions|max_seq_len.*|max_sequence_length|max_length",
        _to(POSITIONS),
    ),
    (r"image_size|input_size|img_size", _to(IMAGE)),
    (r"patch_size", _to(PATCH)),
    (r"num_frames|frames", _to(4)),
    (r"tubelet_size", _to(2)),
    (r"window_size|sliding_window|attention_window|local_window_size|attention_chunk_size|sliding_window_size", _to(4)),
    (
        r"intermediate_size|.*ffn_dim|.*intermediate_size|d_ff|n_inner|ffn_hidden_size|.*ffn_size|d_inner|.*feedforward_dim"
        r"|ffn_dim.*|.*_mlp_dim|mlp_dim|dim_feedforward|d_mlp|.*feed_forward_.*(dim|size)",
        _to(INNER),
    ),
    (
        r"hidden_sizes|encoder_hidden_size_list|.*hidden_sizes|embed_dims|embed_dim_list|neck_hidden_sizes|stage_dims"
        r"|.*_channels_list|dims",
        _growing,
    ),
    (r"conv_dim|tdnn_dim", lambda value: [16] * len(value) if isinstance(value, (list, tuple)) else _to(16)(value)),
    (
        r"(.*_)?(hidden_size|d_model|n_embd|embed_dim|hidden_dim|embedding_size|dim|width|d_embed|embedding_dim|projection_dim"
        r"|hidden_channels|model_dim|embeddings?_size|emb_dim|proj_dim|attention_dim|decoder_dim|feature_size|text_embed_dim"
        r"|embed_dimension|channels|hidden_dims?|d_proj|dim_model|out_dim|token_dim|feature_dim|latent_dim)",
        _growing,
    ),
    (r"num_queries|num_query_tokens|query_length|num_latents|n_query|num_query", _to(8)),
    (r"conv_.*groups|num_conv_pos_embedding_groups", _to(2)),
    (r"num_conv_pos_embeddings", _to(16)),
    (r"num_groups|group_norm_groups|n_groups", _to(2)),
    (r"codevector_dim|proj_codevector_dim|classifier_proj_size", _to(WIDTH)),
)
KEPT = re.compile(
    r"num_channels|in_channels|in_chans|out_channels|num_input_channels|num_labels|.*dropout.*|transformers_version|.*ratio|num_mel.*"
    r"|input_channels|n_mels|.*_layer_norm|rope_.*|.*audio_channels|patch_embed_.*kernel.*|vision_feature_layer.*|.*_stride|temporal_dim"
)
SPLIT = r"glm(4v|_ocr|_image|ga|46v).*|qwen2(_5)?_(vl|omni).*|paddleocr_vl.*|ernie4_5_vl.*"
"""Model types with positions of time, height and width, whose frequencies the model's code separates."""
NONE_TOO = r"num_experts_per_tok.*|prediction_length|attn_layer_indices"
"""Fields without a number, which get one."""
TOKEN = re.compile(r".*(_token_id|_token_index|_token|_id|_ids|_index)")


def small(config_class: Any) -> Any:
    """A small configuration of a class. Raises whatever the class raises."""
    try:
        before = config_class()
    except Exception:
        before = None
    kwargs = shrunk(before.to_dict() if before is not None else {}, config_class, _Tokens())
    config = config_class(**kwargs)
    config.use_cache = getattr(config, "use_cache", True)
    return config


class _Tokens:
    def __init__(self) -> None:
        self.last = FIRST_TOKEN - 1

    def next(self) -> int:
        self.last += 1
        return self.last


def accepted(config_class: Any) -> set[str]:
    """The fields that a class of configurations takes."""
    names: set[str] = set()
    for cls in config_class.__mro__:
        names |= set(getattr(cls, "__annotations__", {}))
    if not dataclasses.is_dataclass(config_class) or "__init__" in vars(config_class):
        names |= set(inspect.signature(config_class.__init__).parameters)
    return names


def shrunk(values: Mapping[str, Any], config_class: Any, tokens: _Tokens) -> dict[str, Any]:
    """The fields that get other values than a class gives by itself."""
    known = accepted(config_class)
    parts = getattr(config_class, "sub_configs", None) or {}
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping) and (name in parts or "model_type" in value):
            found[name] = _part(value, parts.get(name), tokens)
        elif name in known and not KEPT.fullmatch(name):
            other = _other(name, value, tokens)
            if other != value:
                found[name] = other
    if {"expand", "num_heads", "head_dim", "hidden_size"} <= set(
        values
    ) and "num_heads" in found:  # as many as there are
        found["num_heads"] = int(values["expand"]) * WIDTH // HEAD
    for name in ("rope_parameters", "rope_scaling"):
        rope = values.get(name)
        if name not in known or not isinstance(rope, Mapping):
            continue
        if rope.get("mrope_section") or re.fullmatch(SPLIT, str(values.get("model_type"))):
            found[name] = {**rope, "mrope_section": _sections(rope)}
    alike = values.get("num_key_value_heads") == values.get("num_attention_heads")
    if alike and "num_key_value_heads" in found:  # latent attention has as many, and counts on it
        found["num_key_value_heads"] = HEADS
    layers = found.get("num_hidden_layers", found.get("n_layer"))
    for name, value in values.items():  # one word for every layer
        if (
            name in known
            and layers
            and isinstance(value, (list, tuple))
            and len(value) == values.get("num_hidden_layers")
        ):
            found[name] = (
                _kinds(list(value), layers) if all(isinstance(v, str) for v in value) else list(value)[:layers]
            )
    return found


def _sections(rope: Mapping[str, Any]) -> list[int]:
    """How many of the frequencies time, height and width get."""
    count = int(HEAD * float(rope.get("partial_rotary_factor") or 1)) // 2
    return [count - 2 * (count // 3), count // 3, count // 3] if count > 2 else [count - 1, 1, 0]


def _kinds(value: list[str], layers: int) -> list[str]:
    """So many layers, of as many kinds as there are."""
    kinds = list(dict.fromkeys(value))
    return (kinds + value)[:layers] if len(kinds) > 1 else value[:layers]


def _part(value: Mapping[str, Any], config_class: Any, tokens: _Tokens) -> dict[str, Any]:
    from transformers import CONFIG_MAPPING

    kind = value.get("model_type")
    if config_class is None or config_class.__name__ == "AutoConfig":
        config_class = CONFIG_MAPPING[str(kind)]
    made = shrunk(value, config_class, tokens)
    kept = {k: copy.deepcopy(v) for k, v in value.items() if k in accepted(config_class) and k not in made}
    return {**kept, **made, "model_type": kind} if kind else {**kept, **made}


def _other(name: str, value: Any, tokens: _Tokens) -> Any:
    if TOKEN.fullmatch(name) and isinstance(value, int) and not isinstance(value, bool):
        return value if value < FIRST_TOKEN else tokens.next()
    return value if value is None and not re.fullmatch(NONE_TOO, name) else matched(name, value, RULES)


def matched(name: str, value: Any, rules: tuple[tuple[str, Rule], ...]) -> Any:
    """The value after the first rule for its name; unchanged without a rule."""
    for pattern, rule in rules:
        if re.fullmatch(pattern, name):
            try:
                return rule(value)
            except TypeError:
                return value
    return value
