"""Model, written from gpt.onnx by burn-import.

    model = Model.from_file("model.safetensors")
    run = burn.compile(model)  # for every size of batch, length
"""

from __future__ import annotations

import burn
from burn import nn, ops


class Attention(nn.Module):
    def __init__(self) -> None:
        self.ln_1 = nn.LayerNorm(32)
        self.c_attn = nn.Linear(32, 96)
        self.c_proj = nn.Linear(32, 32)
        self.ln_2 = nn.LayerNorm(32)
        self.c_fc = nn.Linear(32, 128)
        self.c_out = nn.Linear(128, 32)

    def forward(self, x: burn.Tensor, mask: burn.Tensor) -> burn.Tensor:
        batch, length, _ = x.shape
        # [batch, length, 32], [batch, length, 32], [batch, length, 32]
        query, key, value = self.c_attn(self.ln_1(x)).chunk(3, 2)
        query = query.reshape(batch, length, 4, 8).transpose(1, 2)  # [batch, 4, length, 8]
        key = key.reshape(batch, length, 4, 8).transpose(1, 2)  # [batch, 4, length, 8]
        value = value.reshape(batch, length, 4, 8).transpose(1, 2)  # [batch, 4, length, 8]
        # [batch, length, 4, 8]
        context = ops.attention(query, key, value, mask, scale=0.35355339059327373).transpose(1, 2)
        x = x + self.c_proj(context.flatten(2))  # [batch, length, 32]
        hidden = ops.gelu(self.c_fc(self.ln_2(x)), approximate="tanh")  # [batch, length, 128]
        return x + self.c_out(hidden)


class Model(nn.Module):
    inputs = {"tokens": "int64[batch, length]"}
    outputs = ("logits",)

    def __init__(self) -> None:
        self.wte = nn.Embedding(50, 32, wrap=True)
        self.wpe = nn.Embedding(16, 32, wrap=True)
        self.h = nn.ModuleList(Attention() for _ in range(3))
        self.ln_f = nn.LayerNorm(32)
        self.lm_head = nn.Linear(32, 50, bias=False)
        self.bias = nn.Parameter((1, 1, 16, 16))

    def forward(self, tokens: burn.Tensor) -> burn.Tensor:
        length = tokens.shape[1]
        x = self.wpe(ops.iota(shape=(length,), axis=0))  # [length, 32]
        x = self.wte(tokens) + x  # [batch, length, 32]
        bias = self.bias[..., :length, :length]  # [1, 1, min(16, length), min(16, length)]
        mask = bias != 0.0  # bool[1, 1, min(16, length), min(16, length)]
        for block in self.h:
            x = block(x, mask)  # [batch, length, 32]
        return self.lm_head(self.ln_f(x))
