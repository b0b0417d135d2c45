"""Model, written from gpt.onnx by burn-import.

    model = Model.from_file("model.safetensors")
    run = burn.compile(model)  # for every size of batch, length
"""

from __future__ import annotations

import burn
from burn import nn, ops


class Block(nn.Module):
    """Shapes: x [batch, length, 32] -> [batch, length, 32]."""

    def __init__(self) -> None:
        self.num_heads = 4
        self.ln_1 = nn.LayerNorm(32)
        self.c_attn = nn.Linear(32, 96)
        self.c_proj = nn.Linear(32, 32)
        self.ln_2 = nn.LayerNorm(32)
        self.c_fc = nn.Linear(32, 128)
        self.c_out = nn.Linear(128, 32)

    def forward(self, x: burn.Tensor) -> burn.Tensor:
        batch, length, _ = x.shape
        query, key, value = self.c_attn(self.ln_1(x)).chunk(3, 2)  # each [batch, length, 32]
        query = query.reshape(batch, length, self.num_heads, -1).transpose(1, 2)  # [batch, 4, length, 8]
        key = key.reshape(batch, length, self.num_heads, -1).transpose(1, 2)  # [batch, 4, length, 8]
        value = value.reshape(batch, length, self.num_heads, -1).transpose(1, 2)  # [batch, 4, length, 8]
        context = burn.scaled_dot_product_attention(query, key, value, is_causal=True).transpose(1, 2)
        x = x + self.c_proj(context.flatten(2))
        hidden = ops.gelu(self.c_fc(self.ln_2(x)), approximate="tanh")  # [batch, length, 128]
        return x + self.c_out(hidden)


class Model(nn.Module):
    inputs = {"tokens": "int64[batch, length]"}
    outputs = ("logits",)

    def __init__(self) -> None:
        self.wte = nn.Embedding(50, 32, wrap=True)
        self.wpe = nn.Embedding(16, 32, wrap=True)
        self.h = nn.ModuleList(Block() for _ in range(3))
        self.ln_f = nn.LayerNorm(32)
        self.lm_head = nn.Linear(32, 50, bias=False)

    def forward(self, tokens: burn.Tensor) -> burn.Tensor:
        length = tokens.shape[1]
        burn.check_size(length, "<=", 16, "the mask in the model has no more rows")
        x = self.wte(tokens) + self.wpe(burn.arange(length))  # [batch, length, 32]
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))
