"""Vendors' operators that are refused by name, each with its reason. The sweep in tests/importers/vendor reads `REFUSED`."""

from __future__ import annotations

from typing import Any

from burn.importers.onnx.node import Node, onnx_op
from burn.importers.onnx.ops.vendor import DOMAIN

_SEARCH = "it generates tokens in a loop of its own; export the decoder alone and write tokens with burn.generate"
REFUSED: dict[tuple[str, str], str] = {
    (DOMAIN, "BeamSearch"): _SEARCH,
    (DOMAIN, "GreedySearch"): _SEARCH,
    (DOMAIN, "Sampling"): _SEARCH,
    (DOMAIN, "WhisperBeamSearch"): _SEARCH,
    (DOMAIN, "SparseToDenseMatMul"): "its operand is a sparse tensor",
    (DOMAIN, "MaxpoolWithMask"): "its result depends on the order in which a runtime looks at the elements",
    (DOMAIN, "MatMulFpQ4"): "its weight is packed for the kernels of one library (MLAS)",
    (DOMAIN, "AttnLSTM"): "an LSTM that looks at a memory in each step is not supported",
    (DOMAIN, "DynamicTimeWarping"): "its path has a length that only the run finds, step by step",
    (DOMAIN, "VarlenNGramHashMapping"): "rows of different lengths in one are not supported",
}
"""(domain, operator) -> why it is refused."""


LIMITS: dict[str, tuple[str, ...]] = {
    "Attention": ("past_sequence_length",),
    "DecoderMaskedMultiHeadAttention": ("cache_indirection",),
    "GroupQueryAttention": ("k_scale", "v_scale", "kv_cache_bit_width"),
    "MatMulNBits": ("g_idx",),
    "MoE": ("fc3_experts_weights", "fc3_experts_bias"),
    "MultiHeadAttention": ("cache_indirection",),
    "QMoE": (
        *(
            "fc3_experts_weights",
            "fc3_scales",
            "fc3_experts_bias",
            "fc3_zero_points",
            "fc1_global_scale",
            "fc2_global_scale",
        ),
        *("fc1_act_scale", "fc2_act_scale", "fc1_act_block_scale", "fc2_act_block_scale"),
    ),
}
"""Operands and attributes of com.microsoft's operators that are refused when a node gives them."""

VALUES: dict[str, dict[str, Any]] = {
    "Attention": {"do_rotary": 1, "past_present_share_buffer": 1},
    "CausalConvWithState": {"ndim": 2, "state_window": 1},
    "CDist": {"metric": "cosine"},
    "GroupQueryAttention": {"k_quant_type": "PER_TENSOR", "sliding_window_cache": 1, "v_quant_type": "PER_TENSOR"},
    "LinearAttention": {"state_window": 1},
    "MatMulBnb4": {"transB": 0},
    "MatMulNBits": {"weight_prepacked": 1},
    "MoE": {"use_sparse_mixer": 1},
    "MRotaryEmbedding": {"is_packed_batching": 1},
    "QAttention": {"do_rotary": 1, "past_present_share_buffer": 1},
    "QMoE": {"quant_type": "fp4", "use_sparse_mixer": 1, "weights_prepacked": 1},
    "RotaryEmbedding": {"is_packed_batching": 1},
    "Tokenizer": {"mark": 1},
}
"""Attributes of com.microsoft's operators with some unsupported values, each with one such value."""


def _enter(domain: str, op: str, reason: str) -> None:
    @onnx_op(op, domain=domain)
    def refuse(node: Node) -> Any:
        node.fail(f"this operator is not supported: {reason}")


for (_domain, _op), _reason in REFUSED.items():
    _enter(_domain, _op, _reason)
