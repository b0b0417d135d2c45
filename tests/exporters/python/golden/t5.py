"""Model, written from t5.onnx by burn-import.

    model = Model.from_file("model.safetensors")
    run = burn.compile(model)  # for every size of batch, length, target
"""

from __future__ import annotations

import burn
from burn import nn, ops


class FeedForward(nn.Module):
    def __init__(self) -> None:
        self.layer_norm = nn.RMSNorm(48, eps=1e-06)
        self.wi = nn.Linear(48, 96, bias=False)
        self.wo = nn.Linear(96, 48, bias=False)

    def forward(self, x: burn.Tensor) -> burn.Tensor:
        hidden = ops.relu(self.wi(self.layer_norm(x)))
        return x + self.wo(hidden)


class Attention(nn.Module):
    def __init__(self) -> None:
        self.num_heads = 3
        self.layer_norm = nn.RMSNorm(48, eps=1e-06)
        self.q = nn.Linear(48, 48, bias=False)
        self.k = nn.Linear(48, 48, bias=False)
        self.v = nn.Linear(48, 48, bias=False)
        self.o = nn.Linear(48, 48, bias=False)

    def forward(self, x: burn.Tensor, mask: burn.Tensor) -> burn.Tensor:
        batch, length, _ = x.shape
        normed = self.layer_norm(x)
        query = self.q(normed).reshape(batch, length, self.num_heads, -1).transpose(1, 2)
        key = self.k(normed).reshape(batch, length, self.num_heads, -1).transpose(1, 2)
        value = self.v(normed).reshape(batch, length, self.num_heads, -1).transpose(1, 2)
        context = burn.scaled_dot_product_attention(query, key, value, mask, scale=1.0).transpose(1, 2)
        return x + self.o(context.flatten(2))


class Attention2(nn.Module):
    """Shapes: x [batch, target, 48], normed [batch, length, 48], mask [batch, 3, target, length] -> [batch, target,
    48]."""

    def __init__(self) -> None:
        self.num_heads = 3
        self.layer_norm = nn.RMSNorm(48, eps=1e-06)
        self.q = nn.Linear(48, 48, bias=False)
        self.k = nn.Linear(48, 48, bias=False)
        self.v = nn.Linear(48, 48, bias=False)
        self.o = nn.Linear(48, 48, bias=False)

    def forward(self, x: burn.Tensor, normed: burn.Tensor, mask: burn.Tensor) -> burn.Tensor:
        batch, target, _ = x.shape
        length = normed.shape[1]
        query = self.q(self.layer_norm(x)).reshape(batch, target, self.num_heads, -1).transpose(1, 2)
        key = self.k(normed).reshape(batch, length, self.num_heads, -1).transpose(1, 2)  # [batch, 3, length, 16]
        value = self.v(normed).reshape(batch, length, self.num_heads, -1).transpose(1, 2)  # [batch, 3, length, 16]
        context = burn.scaled_dot_product_attention(query, key, value, mask, scale=1.0).transpose(1, 2)
        return x + self.o(context.flatten(2))


class SelfAttention(nn.Module):
    """Shapes: x int64[target], normed [batch, target, 48], positions int64[1, target] -> [1, 3, target, target],
    [batch, target, 48]."""

    def __init__(self) -> None:
        self.num_heads = 3
        self.q = nn.Linear(48, 48, bias=False)
        self.k = nn.Linear(48, 48, bias=False)
        self.v = nn.Linear(48, 48, bias=False)
        self.relative_attention_bias = nn.Embedding(32, 3, wrap=True)
        self.o = nn.Linear(48, 48, bias=False)

    def forward(self, x: burn.Tensor, normed: burn.Tensor, positions: burn.Tensor) -> tuple[burn.Tensor, burn.Tensor]:
        target = x.shape[0]
        batch = normed.shape[0]
        x = x.unsqueeze(1)  # int64[target, 1]
        smaller = ops.min(positions - x, burn.zeros((target, target), dtype="int64"))  # int64[target, target]
        query = self.q(normed).reshape(batch, target, self.num_heads, -1)  # [batch, target, 3, 16]
        key = self.k(normed).reshape(batch, target, self.num_heads, -1)  # [batch, target, 3, 16]
        value = self.v(normed).reshape(batch, target, self.num_heads, -1)  # [batch, target, 3, 16]
        negative = -smaller
        scaled = (ops.log(negative.astype("float32") / 16.0) / 2.0794415 * 16.0).astype("int64")
        smaller = ops.min(scaled + 16, burn.full((target, target), 31))
        out = self.relative_attention_bias(burn.where(negative < 16, negative, smaller))  # [target, target, 3]
        out = out.permute(2, 0, 1).unsqueeze(0)  # [1, 3, target, target]
        mask = (x >= positions).reshape(1, 1, target, target)  # bool[1, 1, target, target]
        mask = burn.where(mask, out, -3.4028235e+38)
        query = query.transpose(1, 2)  # [batch, 3, target, 16]
        key = key.transpose(1, 2)  # [batch, 3, target, 16]
        value = value.transpose(1, 2)  # [batch, 3, target, 16]
        x = burn.scaled_dot_product_attention(query, key, value, mask, scale=1.0).transpose(1, 2)
        return mask, self.o(x.flatten(2))


class Attention3(nn.Module):
    """Shapes: x [batch, target, 48], positions int64[target], positions2 int64[1, target] -> [1, 3, target, target],
    [batch, target, 48]."""

    def __init__(self) -> None:
        self.layer_norm = nn.RMSNorm(48, eps=1e-06)
        self.self_attention = SelfAttention()

    def forward(
        self,
        x: burn.Tensor,
        positions: burn.Tensor,
        positions2: burn.Tensor,
    ) -> tuple[burn.Tensor, burn.Tensor]:
        chosen, out = self.self_attention(positions, self.layer_norm(x), positions2)
        return chosen, x + out


class SelfAttention2(nn.Module):
    """Shapes: x [batch, length, 48], positions int64[length], positions2 int64[1, length], mask bool[batch, 1, 1,
    length] -> [batch, 3, length, length], [batch, length, 48]."""

    def __init__(self) -> None:
        self.num_heads = 3
        self.q = nn.Linear(48, 48, bias=False)
        self.k = nn.Linear(48, 48, bias=False)
        self.v = nn.Linear(48, 48, bias=False)
        self.relative_attention_bias = nn.Embedding(32, 3, wrap=True)
        self.o = nn.Linear(48, 48, bias=False)

    def forward(
        self,
        x: burn.Tensor,
        positions: burn.Tensor,
        positions2: burn.Tensor,
        mask: burn.Tensor,
    ) -> tuple[burn.Tensor, burn.Tensor]:
        batch, length, _ = x.shape
        query = self.q(x).reshape(batch, length, self.num_heads, -1)  # [batch, length, 3, 16]
        key = self.k(x).reshape(batch, length, self.num_heads, -1)  # [batch, length, 3, 16]
        value = self.v(x).reshape(batch, length, self.num_heads, -1)  # [batch, length, 3, 16]
        positions3 = positions.unsqueeze(1)  # int64[length, 1]
        difference = positions2 - positions3  # int64[length, length]
        scaled = (difference > 0).astype("int64") * 16
        size = ops.abs(difference)
        scaled2 = (ops.log(size.astype("float32") / 8.0) / 2.7725887 * 8.0).astype("int64")
        smaller = ops.min(scaled2 + 8, burn.full((length, length), 15))
        x = self.relative_attention_bias(scaled + burn.where(size < 8, size, smaller))  # [length, length, 3]
        attention_mask = burn.where(mask, x.permute(2, 0, 1).unsqueeze(0), -3.4028235e+38)  # [batch, 3, length, length]
        query = query.transpose(1, 2)  # [batch, 3, length, 16]
        key = key.transpose(1, 2)  # [batch, 3, length, 16]
        value = value.transpose(1, 2)  # [batch, 3, length, 16]
        x = burn.scaled_dot_product_attention(query, key, value, attention_mask, scale=1.0)
        return attention_mask, self.o(x.transpose(1, 2).flatten(2))


class Attention4(nn.Module):
    """Shapes: x [batch, length, 48], positions int64[length], positions2 int64[1, length], mask bool[batch, 1, 1,
    length] -> [batch, 3, length, length], [batch, length, 48]."""

    def __init__(self) -> None:
        self.layer_norm = nn.RMSNorm(48, eps=1e-06)
        self.self_attention = SelfAttention2()

    def forward(
        self,
        x: burn.Tensor,
        positions: burn.Tensor,
        positions2: burn.Tensor,
        mask: burn.Tensor,
    ) -> tuple[burn.Tensor, burn.Tensor]:
        chosen, out = self.self_attention(self.layer_norm(x), positions, positions2, mask)
        return chosen, x + out


class Model(nn.Module):
    inputs = {
        "input_ids": "int64[batch, length]",
        "attention_mask": "int64[batch, length]",
        "decoder_input_ids": "int64[batch, target]",
    }
    outputs = ("logits",)

    def __init__(self) -> None:
        self.shared = nn.Embedding(101, 48, wrap=True)
        self.encoder_block_0_layer = nn.ModuleList([Attention4(), FeedForward()])
        self.encoder_block_1_layer = nn.ModuleList([Attention(), FeedForward()])
        self.encoder_final_layer_norm = nn.RMSNorm(48, eps=1e-06)
        self.decoder_block_0_layer = nn.ModuleList([Attention3(), Attention2(), FeedForward()])
        self.decoder_block_1_layer = nn.ModuleList([Attention(), Attention2(), FeedForward()])
        self.decoder_final_layer_norm = nn.RMSNorm(48, eps=1e-06)
        self.lm_head = nn.Linear(48, 101, bias=False)

    def forward(
        self,
        input_ids: burn.Tensor,
        attention_mask: burn.Tensor,
        decoder_input_ids: burn.Tensor,
    ) -> burn.Tensor:
        batch, length = input_ids.shape
        target = decoder_input_ids.shape[1]
        mask = attention_mask.astype("bool").reshape(batch, 1, 1, length)  # bool[batch, 1, 1, length]
        positions = burn.arange(target)  # int64[target]
        positions2 = positions.unsqueeze(0)  # int64[1, target]
        x = burn.zeros((1, 3, target, length))  # [1, 3, target, length]
        x = burn.where(mask, x, -3.4028235e+38)  # [batch, 3, target, length]
        out = self.shared(input_ids)  # [batch, length, 48]
        positions3 = burn.arange(length)  # int64[length]
        mask, total = self.encoder_block_0_layer[0](out, positions3, positions3.unsqueeze(0), mask)
        out = self.encoder_block_1_layer[0](self.encoder_block_0_layer[1](total), mask)
        normed = self.encoder_final_layer_norm(self.encoder_block_1_layer[1](out))
        mask, total = self.decoder_block_0_layer[0](self.shared(decoder_input_ids), positions, positions2)
        out = self.decoder_block_0_layer[2](self.decoder_block_0_layer[1](total, normed, x))
        x = self.decoder_block_1_layer[1](self.decoder_block_1_layer[0](out, mask), normed, x)
        x = self.decoder_final_layer_norm(self.decoder_block_1_layer[2](x)) * 0.14433756
        return self.lm_head(x)
