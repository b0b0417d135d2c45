"""Model, written from bert.onnx by burn-import.

    model = Model.from_file("model.safetensors")
    run = burn.compile(model)  # for every size of batch, length
"""

from __future__ import annotations

import burn
from burn import nn, ops


class EncoderLayer(nn.Module):
    """Shapes: x [batch, length, 48], mask bool[batch, 1, 1, length] -> [batch, length, 48]."""

    def __init__(self) -> None:
        self.num_heads = 3
        self.query = nn.Linear(48, 48)
        self.key = nn.Linear(48, 48)
        self.value = nn.Linear(48, 48)
        self.attention_output_dense = nn.Linear(48, 48)
        self.attention_output_layer_norm = nn.LayerNorm(48, eps=1e-12)
        self.intermediate_dense = nn.Linear(48, 96)
        self.output_dense = nn.Linear(96, 48)
        self.output_layer_norm = nn.LayerNorm(48, eps=1e-12)

    def forward(self, x: burn.Tensor, mask: burn.Tensor) -> burn.Tensor:
        batch, length, _ = x.shape
        query = self.query(x).reshape(batch, length, self.num_heads, -1).transpose(1, 2)  # [batch, 3, length, 16]
        key = self.key(x).reshape(batch, length, self.num_heads, -1).transpose(1, 2)  # [batch, 3, length, 16]
        value = self.value(x).reshape(batch, length, self.num_heads, -1).transpose(1, 2)  # [batch, 3, length, 16]
        context = burn.scaled_dot_product_attention(query, key, value, mask).transpose(1, 2)  # [batch, length, 3, 16]
        x = self.attention_output_layer_norm(self.attention_output_dense(context.flatten(2)) + x)
        out = self.output_dense(ops.gelu(self.intermediate_dense(x)))
        return self.output_layer_norm(out + x)


class Model(nn.Module):
    inputs = {
        "input_ids": "int64[batch, length]",
        "attention_mask": "int64[batch, length]",
        "token_type_ids": "int64[batch, length]",
    }
    outputs = ("last_hidden_state",)

    def __init__(self) -> None:
        self.word_embeddings = nn.Embedding(101, 48, wrap=True)
        self.token_type_embeddings = nn.Embedding(2, 48, wrap=True)
        self.position_embeddings = nn.Embedding(64, 48, wrap=True)
        self.layer_norm = nn.LayerNorm(48, eps=1e-12)
        self.layer = nn.ModuleList(EncoderLayer() for _ in range(3))
        self.index = nn.Buffer((1, 64), "int64")

    def forward(self, input_ids: burn.Tensor, attention_mask: burn.Tensor, token_type_ids: burn.Tensor) -> burn.Tensor:
        batch, length = input_ids.shape
        mask = attention_mask.astype("bool").reshape(batch, 1, 1, length)  # bool[batch, 1, 1, length]
        x = self.word_embeddings(input_ids) + self.token_type_embeddings(token_type_ids)  # [batch, length, 48]
        x = self.layer_norm(x + self.position_embeddings(self.index[:, :length]))
        for block in self.layer:
            x = block(x, mask)
        return x
