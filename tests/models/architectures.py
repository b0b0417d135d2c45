"""Architectures of transformers with small random configurations: what each is made of, and what goes in.

`ARCHITECTURES` is the table; `build` makes the model with random weights, `inputs` its example inputs of a batch and a length.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

Config = dict[str, Any]
Inputs = dict[str, torch.Tensor]

LENGTH = 11
"""The example's tokens; some models want a multiple of their window."""
VOCABULARY = 99
BERT: Config = {
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "vocab_size": VOCABULARY,
}
SHORT = {**BERT, "max_position_embeddings": 64}
LLAMA = {**BERT, "num_key_value_heads": 2}
"""Grouped-query attention: two query heads for every key head."""
HEADS_OF_8 = {**LLAMA, "head_dim": 8}
ALTERNATING = {**HEADS_OF_8, "num_hidden_layers": 2}
"""Layers of two kinds take turns."""
GPT = {"n_embd": 32, "n_layer": 1, "n_head": 4, "vocab_size": VOCABULARY, "n_positions": 64}
MAMBA = {"hidden_size": 32, "num_hidden_layers": 1, "vocab_size": VOCABULARY, "state_size": 4, "use_cache": False}
"""torch.export cannot return its cache, but `generate()` requests it."""
SEQ2SEQ: Config = {
    "d_model": 32,
    **{
        f"{side}_{what}": n
        for side in ("encoder", "decoder")
        for what, n in (("layers", 1), ("attention_heads", 4), ("ffn_dim", 48))
    },
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 64,
    "pad_token_id": 1,
    "decoder_start_token_id": 2,
    "eos_token_id": 2,
    "bos_token_id": 0,
    "forced_eos_token_id": None,
}
VIT: Config = {**{k: v for k, v in BERT.items() if k != "vocab_size"}, "image_size": 32, "patch_size": 8}
RELATIVE = {**VIT, "use_relative_position_bias": True, "layer_scale_init_value": 0.1}
STAGES = {"embedding_size": 16, "hidden_sizes": [16, 32, 32, 64], "depths": [1, 1, 1, 1]}
CONVNEXT = {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 2, 1]}
SOUND: Config = {
    **VIT,
    "vocab_size": 32,
    "conv_dim": [16, 16, 16],
    "conv_stride": [5, 2, 2],
    "conv_kernel": [10, 3, 3],
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 2,
}
DISENTANGLED = {**SHORT, "relative_attention": True, "pos_att_type": ["c2p", "p2c"]}


# ---- inputs of a batch and a length -------------------------------------------------------------------------------------
def _generator(batch: int, length: int) -> torch.Generator:
    return torch.Generator().manual_seed(length * 7 + batch)


def _tokens(batch: int, length: int) -> torch.Tensor:
    return torch.randint(3, VOCABULARY - 2, (batch, length), generator=_generator(batch, length))


def _floats(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=_generator(*shape[:2]))


def text(batch: int, length: int) -> Inputs:
    """The last row ends in padding."""
    mask = torch.ones(batch, length, dtype=torch.int64)
    mask[-1, -3:] = 0
    return {"input_ids": _tokens(batch, length), "attention_mask": mask}


def unmasked(batch: int, length: int) -> Inputs:
    return {"input_ids": _tokens(batch, length)}


def translation(batch: int, length: int) -> Inputs:
    return {**text(batch, length), "decoder_input_ids": _tokens(batch, 7)}


def image(batch: int, length: int) -> Inputs:
    return {"pixel_values": _floats(batch, 3, 32, 32)}


def larger_image(batch: int, length: int) -> Inputs:
    return {"pixel_values": _floats(batch, 3, 64, 64)}


def image_and_text(batch: int, length: int) -> Inputs:
    return {**text(batch, length), **image(batch, length)}


def sound(batch: int, length: int) -> Inputs:
    return {"input_values": _floats(batch, 380 + 4 * length)}


def spectrum(batch: int, length: int) -> Inputs:
    return {"input_features": _floats(batch, 8, 40), "decoder_input_ids": _tokens(batch, length // 2)}


# ---- the table ----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Architecture:
    """One model class, its configuration and inputs. generates: `generate()` is tested."""

    model: str
    config: Config
    inputs: Callable[[int, int], Inputs] = text
    generates: bool = False
    sizes: tuple[tuple[int, int], ...] = ((2, LENGTH), (3, 14))
    """(batch, length): the example's, and the ones that it is tried on besides."""
    parts: Mapping[str, tuple[str, Config]] = field(default_factory=dict)
    """Parts of the configuration that have a class of their own."""

    def build(self) -> torch.nn.Module:
        import transformers

        torch.manual_seed(0)
        class_ = getattr(transformers, self.model)
        parts = {name: getattr(transformers, part)(**config) for name, (part, config) in self.parts.items()}
        model = class_(class_.config_class(**self.config, **parts)).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.dim() == 1:  # norms and biases are ones and zeros
                    parameter += 0.1 * torch.randn_like(parameter)
        return model


def _causal(name: str, config: Config = LLAMA, **more: Any) -> Architecture:
    return Architecture(f"{name}ForCausalLM", config | more, generates=True)


def _masked(name: str, config: Config = SHORT, **more: Any) -> Architecture:
    return Architecture(f"{name}ForMaskedLM", config | more)


def _classifier(name: str, config: Config, inputs: Callable[[int, int], Inputs] = image, **more: Any) -> Architecture:
    return Architecture(f"{name}ForImageClassification", config | more, inputs)


def _translator(name: str, config: Config = SEQ2SEQ, **more: Any) -> Architecture:
    return Architecture(name, config | more, translation, generates=True)


ARCHITECTURES: dict[str, Architecture] = {
    # encoders
    "BERT": _masked("Bert"),
    "RoBERTa": _masked("Roberta"),
    "DistilBERT": _masked(
        "DistilBert",
        {
            "dim": 32,
            "n_layers": 1,
            "n_heads": 4,
            "hidden_dim": 48,
            "vocab_size": VOCABULARY,
            "max_position_embeddings": 64,
        },
    ),
    "ALBERT": _masked("Albert", embedding_size=16),
    "ELECTRA": _masked("Electra", embedding_size=16),
    "DeBERTa": _masked("Deberta", DISENTANGLED),
    "DeBERTa-V2": _masked("DebertaV2", DISENTANGLED, position_buckets=8, norm_rel_ebd="layer_norm", share_att_key=True),
    "XLNet": Architecture(
        "XLNetLMHeadModel", {"d_model": 32, "n_layer": 1, "n_head": 4, "d_inner": 48, "vocab_size": VOCABULARY}
    ),
    "MPNet": _masked("MPNet"),
    "Data2Vec": _masked("Data2VecText"),
    "FNet": Architecture("FNetForMaskedLM", SHORT, unmasked),
    "Longformer": Architecture("LongformerForMaskedLM", {**SHORT, "attention_window": [8]}, sizes=((2, 16), (3, 24))),
    # decoders
    "GPT-2": Architecture("GPT2LMHeadModel", GPT, generates=True),
    "GPT-Neo": _causal(
        "GPTNeo",
        {
            "hidden_size": 32,
            "num_layers": 2,
            "num_heads": 4,
            "attention_types": [[["global", "local"], 1]],
            "vocab_size": VOCABULARY,
            "window_size": 4,
            "max_position_embeddings": 64,
        },
    ),
    "GPT-NeoX": _causal("GPTNeoX", BERT),
    "GPT-J": _causal("GPTJ", GPT, rotary_dim=4),
    "OPT": _causal("OPT", SHORT, ffn_dim=48, word_embed_proj_dim=32),
    "BLOOM": _causal("Bloom", {"hidden_size": 32, "n_layer": 1, "n_head": 4, "vocab_size": VOCABULARY}),
    "Falcon": _causal("Falcon", BERT),
    "Llama": _causal("Llama", num_hidden_layers=2),
    "Mistral": _causal("Mistral", sliding_window=5),
    "Mixtral": _causal("Mixtral", num_local_experts=4),
    "Qwen2": _causal("Qwen2"),
    "Qwen2-MoE": _causal(
        "Qwen2Moe", num_experts=4, moe_intermediate_size=16, shared_expert_intermediate_size=16, num_experts_per_tok=2
    ),
    "Qwen3": _causal("Qwen3", HEADS_OF_8),
    "Gemma": _causal("Gemma", HEADS_OF_8),
    "Gemma2": _causal("Gemma2", ALTERNATING, sliding_window=4),
    "Gemma3": _causal("Gemma3", ALTERNATING, sliding_window=4),
    "Phi": _causal("Phi"),
    "Phi3": _causal("Phi3", pad_token_id=0),
    "StableLM": _causal("StableLm"),
    "OLMo": _causal("Olmo"),
    "Granite": _causal("Granite"),
    "Cohere": _causal("Cohere"),
    "GPT-OSS": _causal("GptOss", ALTERNATING, num_local_experts=4, num_experts_per_tok=2),
    "Mamba": _causal("Mamba", MAMBA),
    "Mamba2": _causal("Mamba2", MAMBA, num_heads=8, head_dim=8, n_groups=2, chunk_size=4),
    "RWKV": _causal(
        "Rwkv",
        {
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "vocab_size": VOCABULARY,
            "attention_hidden_size": 32,
            "context_length": 64,
        },
    ),
    # from one sequence to another
    "T5": _translator(
        "T5ForConditionalGeneration",
        {
            "d_model": 32,
            "d_kv": 8,
            "d_ff": 48,
            "num_layers": 1,
            "num_heads": 4,
            "vocab_size": VOCABULARY,
            "decoder_start_token_id": 0,
        },
    ),
    "BART": _translator("BartForConditionalGeneration"),
    "mBART": _translator("MBartForConditionalGeneration"),
    "Pegasus": _translator("PegasusForConditionalGeneration"),
    "Marian": _translator("MarianMTModel"),
    # images
    "ViT": _classifier("ViT", VIT),
    "DeiT": _classifier("DeiT", VIT),
    "BEiT": _classifier("Beit", RELATIVE),
    "DINOv2": _classifier("Dinov2", VIT),
    "Swin": _classifier(
        "Swin",
        {"image_size": 32, "patch_size": 4, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4},
    ),
    "ConvNeXt": _classifier("ConvNext", CONVNEXT),
    "ConvNeXt-V2": _classifier("ConvNextV2", CONVNEXT),
    "ResNet": _classifier("ResNet", STAGES, larger_image),
    "RegNet": _classifier("RegNet", STAGES, larger_image, hidden_sizes=[16, 16, 32, 32], groups_width=8),
    "DETR": Architecture(
        "DetrForObjectDetection",
        {k: v for k, v in SEQ2SEQ.items() if k in ("d_model", "encoder_attention_heads", "decoder_attention_heads")}
        | {"use_timm_backbone": False, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "num_queries": 5}
        | {"encoder_layers": 1, "decoder_layers": 1, "use_pretrained_backbone": False, "backbone": None},
        larger_image,
        parts={"backbone_config": ("ResNetConfig", {**STAGES, "out_features": ["stage4"]})},
    ),
    # images and text
    "CLIP": Architecture(
        "CLIPModel",
        {"text_config": {**SHORT, "eos_token_id": 98}, "vision_config": VIT, "projection_dim": 16},
        image_and_text,
    ),
    "SigLIP": Architecture("SiglipModel", {"text_config": SHORT, "vision_config": VIT}, image_and_text),
    # sound
    "Wav2Vec2": Architecture("Wav2Vec2ForCTC", SOUND, sound),
    "HuBERT": Architecture("HubertForCTC", SOUND, sound),
    "Whisper": Architecture(
        "WhisperForConditionalGeneration",
        {
            **SEQ2SEQ,
            "num_mel_bins": 8,
            "max_source_positions": 20,
            "max_target_positions": 32,
            "suppress_tokens": None,
            "begin_suppress_tokens": None,
        },
        spectrum,
    ),
}
"""Name -> architecture, in the order of the table in docs/guide/pytorch.md."""
