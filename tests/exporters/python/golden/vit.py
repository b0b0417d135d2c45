"""Model, written from vit.onnx by burn-import.

    model = Model.from_file("model.safetensors")
    run = burn.compile(model)  # for every size of batch
"""

from __future__ import annotations

import burn
from burn import nn, ops


class VitLayer(nn.Module):
    """Shapes: x [batch, 17, 48] -> [batch, 17, 48]."""

    def __init__(self) -> None:
        self.num_heads = 3
        self.layernorm_before = nn.LayerNorm(48, eps=1e-12)
        self.q_proj = nn.Linear(48, 48)
        self.k_proj = nn.Linear(48, 48)
        self.v_proj = nn.Linear(48, 48)
        self.o_proj = nn.Linear(48, 48)
        self.layernorm_after = nn.LayerNorm(48, eps=1e-12)
        self.fc1 = nn.Linear(48, 96)
        self.fc2 = nn.Linear(96, 48)

    def forward(self, x: burn.Tensor) -> burn.Tensor:
        batch = x.shape[0]
        normed = self.layernorm_before(x)
        query = self.q_proj(normed).reshape(batch, 17, self.num_heads, -1).transpose(1, 2)  # [batch, 3, 17, 16]
        key = self.k_proj(normed).reshape(batch, 17, self.num_heads, -1).transpose(1, 2)  # [batch, 3, 17, 16]
        value = self.v_proj(normed).reshape(batch, 17, self.num_heads, -1).transpose(1, 2)  # [batch, 3, 17, 16]
        context = burn.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)  # [batch, 17, 48]
        x = self.o_proj(context) + x
        hidden = ops.gelu(self.fc1(self.layernorm_after(x)))  # [batch, 17, 96]
        return self.fc2(hidden) + x


class Model(nn.Module):
    inputs = {"pixel_values": "float32[batch, 3, 32, 32]"}
    outputs = ("logits",)

    def __init__(self) -> None:
        self.projection = nn.Conv2d(3, 48, 8, stride=8)
        self.layers = nn.ModuleList(VitLayer() for _ in range(3))
        self.layernorm = nn.LayerNorm(48, eps=1e-12)
        self.classifier = nn.Linear(48, 2)
        self.cls_token = nn.Parameter((1, 1, 48))
        self.position_embeddings = nn.Parameter((1, 17, 48))

    def forward(self, pixel_values: burn.Tensor) -> burn.Tensor:
        batch = pixel_values.shape[0]
        x = self.projection(pixel_values).flatten(2).transpose(1, 2)  # [batch, 16, 48]
        cls_token = self.cls_token.broadcast_to(batch, 1, 48)  # [batch, 1, 48]
        x = ops.concat([cls_token, x], axis=1) + self.position_embeddings  # [batch, 17, 48]
        for layer in self.layers:
            x = layer(x)
        return self.classifier(self.layernorm(x)[:, 0])
