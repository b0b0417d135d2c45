"""Model, written from llama.onnx by burn-import.

    model = Model.from_file("model.safetensors")
    run = burn.compile(model)  # for every size of batch, length
"""

from __future__ import annotations

import burn
from burn import nn, ops


class Attention(nn.Module):
    def __init__(self) -> None:
        self.q_proj = nn.Linear(64, 64, bias=False)
        self.k_proj = nn.Linear(64, 32, bias=False)
        self.v_proj = nn.Linear(64, 32, bias=False)
        self.o_proj = nn.Linear(64, 64, bias=False)

    def forward(self, x: burn.Tensor, cos: burn.Tensor, sin: burn.Tensor, mask: burn.Tensor) -> burn.Tensor:
        batch, length, _ = x.shape
        q_proj = self.q_proj(x).reshape(batch, length, 4, 16).transpose(1, 2)  # [batch, 4, length, 16]
        k_proj = self.k_proj(x).reshape(batch, length, 2, 16).transpose(1, 2)  # [batch, 2, length, 16]
        x = self.v_proj(x).reshape(batch, length, 2, 16).transpose(1, 2)  # [batch, 2, length, 16]
        scaled = q_proj * cos  # [batch, 4, length, 16]
        first, second = q_proj.chunk(2, 3)  # [batch, 4, length, 8], [batch, 4, length, 8]
        query = scaled + ops.concat([-second, first], axis=3) * sin  # [batch, 4, length, 16]
        scaled = k_proj * cos  # [batch, 2, length, 16]
        first, second = k_proj.chunk(2, 3)  # [batch, 2, length, 8], [batch, 2, length, 8]
        # [batch, 4, length, 16]
        x = ops.attention(query, scaled + ops.concat([-second, first], axis=3) * sin, x, mask, scale=0.25)
        return self.o_proj(x.transpose(1, 2).flatten(2))


class TransformerLayer(nn.Module):
    def __init__(self) -> None:
        self.input_layernorm = nn.RMSNorm(64, eps=1e-06)
        self.self_attn = Attention()
        self.post_attention_layernorm = nn.RMSNorm(64, eps=1e-06)
        self.gate_proj = nn.Linear(64, 96, bias=False)
        self.up_proj = nn.Linear(64, 96, bias=False)
        self.down_proj = nn.Linear(96, 64, bias=False)

    def forward(self, x: burn.Tensor, cos: burn.Tensor, sin: burn.Tensor, mask: burn.Tensor) -> burn.Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, mask)  # [batch, length, 64]
        post_attention_layernorm = self.post_attention_layernorm(x)  # [batch, length, 64]
        # [batch, length, 96]
        scaled = ops.silu(self.gate_proj(post_attention_layernorm)) * self.up_proj(post_attention_layernorm)
        return x + self.down_proj(scaled)


class Model(nn.Module):
    inputs = {"input_ids": "int64[batch, length]", "attention_mask": "int64[batch, length]"}
    outputs = ("logits",)

    def __init__(self) -> None:
        self.embed_tokens = nn.Embedding(101, 64, wrap=True)
        self.layers = nn.ModuleList(TransformerLayer() for _ in range(3))
        self.norm = nn.RMSNorm(64, eps=1e-06)
        self.lm_head = nn.Linear(64, 101, bias=False)
        self.table = nn.Parameter((8,))

    def forward(self, input_ids: burn.Tensor, attention_mask: burn.Tensor) -> burn.Tensor:
        batch, length = input_ids.shape
        positions = ops.iota(shape=(length,), axis=0)  # int64[length]
        mask = positions.reshape(1, 1, 1, length) <= positions.reshape(1, 1, length, 1)  # bool[1, 1, length, length]
        mask2 = attention_mask.astype("bool").reshape(batch, 1, 1, length)  # bool[batch, 1, 1, length]
        mask = mask & mask2  # bool[batch, 1, length, length]
        x = self.embed_tokens(input_ids)  # [batch, length, 64]
        positions = positions.reshape(1, length, 1).astype("float32")  # [1, length, 1]
        scaled = positions * self.table  # [1, length, 8]
        joined = ops.concat([scaled, scaled], axis=2)  # [1, length, 16]
        cos = ops.cos(joined)  # [1, length, 16]
        sin = ops.sin(joined)  # [1, length, 16]
        cos = cos.unsqueeze(0)  # [1, 1, length, 16]
        sin = sin.unsqueeze(0)  # [1, 1, length, 16]
        for block in self.layers:
            x = block(x, cos, sin, mask)  # [batch, length, 64]
        return self.lm_head(self.norm(x))
