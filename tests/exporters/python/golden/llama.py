"""Model, written from llama.onnx by burn-import.

    model = Model.from_file("model.safetensors")
    run = burn.compile(model)  # for every size of batch, length
"""

from __future__ import annotations

import burn
from burn import nn, ops


class Block(nn.Module):
    """Shapes: x [batch, length, 64], cos [1, length, 8], sin [1, length, 8], mask bool[batch, 1, 1, length] -> [batch,
    length, 64]."""

    def __init__(self) -> None:
        self.num_heads = 4
        self.num_kv_heads = 2
        self.input_layernorm = nn.RMSNorm(64, eps=1e-06)
        self.q_proj = nn.Linear(64, 64, bias=False)
        self.k_proj = nn.Linear(64, 32, bias=False)
        self.v_proj = nn.Linear(64, 32, bias=False)
        self.o_proj = nn.Linear(64, 64, bias=False)
        self.post_attention_layernorm = nn.RMSNorm(64, eps=1e-06)
        self.gate_proj = nn.Linear(64, 96, bias=False)
        self.up_proj = nn.Linear(64, 96, bias=False)
        self.down_proj = nn.Linear(96, 64, bias=False)

    def forward(self, x: burn.Tensor, cos: burn.Tensor, sin: burn.Tensor, mask: burn.Tensor) -> burn.Tensor:
        batch, length, _ = x.shape
        normed = self.input_layernorm(x)
        query = self.q_proj(normed).reshape(batch, length, self.num_heads, -1).transpose(1, 2)  # [batch, 4, length, 16]
        key = self.k_proj(normed).reshape(batch, length, self.num_kv_heads, -1).transpose(1, 2)
        value = self.v_proj(normed).reshape(batch, length, self.num_kv_heads, -1).transpose(1, 2)
        query = ops.rotary_embedding(query, cos, sin)
        key = ops.rotary_embedding(key, cos, sin)
        context = burn.scaled_dot_product_attention(query, key, value, mask, is_causal=True)
        x = x + self.o_proj(context.transpose(1, 2).flatten(2))
        normed = self.post_attention_layernorm(x)
        out = self.down_proj(ops.silu(self.gate_proj(normed)) * self.up_proj(normed))
        return x + out


class Model(nn.Module):
    inputs = {"input_ids": "int64[batch, length]", "attention_mask": "int64[batch, length]"}
    outputs = ("logits",)

    def __init__(self) -> None:
        self.embed_tokens = nn.Embedding(101, 64, wrap=True)
        self.layers = nn.ModuleList(Block() for _ in range(3))
        self.norm = nn.RMSNorm(64, eps=1e-06)
        self.lm_head = nn.Linear(64, 101, bias=False)
        self.scale = nn.Parameter((8,))

    def forward(self, input_ids: burn.Tensor, attention_mask: burn.Tensor) -> burn.Tensor:
        batch, length = input_ids.shape
        mask = attention_mask.astype("bool").reshape(batch, 1, 1, length)  # bool[batch, 1, 1, length]
        x = self.embed_tokens(input_ids)  # [batch, length, 64]
        positions = burn.arange(length).astype("float32").reshape(1, length, 1)  # [1, length, 1]
        scaled = positions * self.scale  # [1, length, 8]
        cos = ops.cos(scaled)
        sin = ops.sin(scaled)
        for layer in self.layers:
            x = layer(x, cos, sin, mask)
        return self.lm_head(self.norm(x))
