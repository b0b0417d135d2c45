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
        self.layer_norm = nn.RMSNorm(48, eps=1e-06)
        self.q = nn.Linear(48, 48, bias=False)
        self.k = nn.Linear(48, 48, bias=False)
        self.v = nn.Linear(48, 48, bias=False)
        self.o = nn.Linear(48, 48, bias=False)

    def forward(self, x: burn.Tensor, mask: burn.Tensor) -> burn.Tensor:
        batch, length, _ = x.shape
        layer_norm = self.layer_norm(x)
        query = self.q(layer_norm).reshape(batch, length, 3, 16).transpose(1, 2)
        key = self.k(layer_norm).reshape(batch, length, 3, 16).transpose(1, 2)
        value = self.v(layer_norm).reshape(batch, length, 3, 16).transpose(1, 2)
        context = ops.attention(query, key, value, mask, scale=1.0).transpose(1, 2).flatten(2)
        return x + self.o(context)


class Attention2(nn.Module):
    def __init__(self) -> None:
        self.layer_norm = nn.RMSNorm(48, eps=1e-06)
        self.q = nn.Linear(48, 48, bias=False)
        self.k = nn.Linear(48, 48, bias=False)
        self.v = nn.Linear(48, 48, bias=False)
        self.o = nn.Linear(48, 48, bias=False)

    def forward(self, x: burn.Tensor, skip: burn.Tensor, mask: burn.Tensor) -> burn.Tensor:
        batch, target, _ = x.shape
        length = skip.shape[1]
        query = self.q(self.layer_norm(x)).reshape(batch, target, 3, 16).transpose(1, 2)  # [batch, 3, target, 16]
        key = self.k(skip).reshape(batch, length, 3, 16).transpose(1, 2)  # [batch, 3, length, 16]
        value = self.v(skip).reshape(batch, length, 3, 16).transpose(1, 2)  # [batch, 3, length, 16]
        context = ops.attention(query, key, value, mask, scale=1.0).transpose(1, 2).flatten(2)  # [batch, target, 48]
        return x + self.o(context)


class Attention3(nn.Module):
    def __init__(self) -> None:
        self.q = nn.Linear(48, 48, bias=False)
        self.k = nn.Linear(48, 48, bias=False)
        self.v = nn.Linear(48, 48, bias=False)
        self.relative_attention_bias = nn.Embedding(32, 3, wrap=True)
        self.o = nn.Linear(48, 48, bias=False)

    def forward(self, x: burn.Tensor, skip: burn.Tensor, positions: burn.Tensor) -> tuple[burn.Tensor, ...]:
        target = x.shape[0]
        batch = skip.shape[0]
        x = x.unsqueeze(1)  # int64[target, 1]
        smaller = ops.min(positions - x, burn.zeros((target, target), dtype="int64"))  # int64[target, target]
        query = self.q(skip).reshape(batch, target, 3, 16)  # [batch, target, 3, 16]
        key = self.k(skip).reshape(batch, target, 3, 16)  # [batch, target, 3, 16]
        value = self.v(skip).reshape(batch, target, 3, 16)  # [batch, target, 3, 16]
        negative = -smaller  # int64[target, target]
        # int64[target, target]
        scaled = (ops.log(negative.astype("float32") / 16.0) / 2.0794415 * 16.0).astype("int64")
        smaller = ops.min(scaled + 16, burn.full((target, target), 31))  # int64[target, target]
        # [target, target, 3]
        relative_attention_bias = self.relative_attention_bias(ops.select(negative < 16, negative, smaller))
        relative_attention_bias = relative_attention_bias.permute(2, 0, 1).unsqueeze(0)  # [1, 3, target, target]
        mask = (x >= positions).reshape(1, 1, target, target)  # bool[1, 1, target, target]
        mask = ops.select(mask, relative_attention_bias, -3.4028235e+38)  # [1, 3, target, target]
        query = query.transpose(1, 2)  # [batch, 3, target, 16]
        key = key.transpose(1, 2)  # [batch, 3, target, 16]
        value = value.transpose(1, 2)  # [batch, 3, target, 16]
        x = ops.attention(query, key, value, mask, scale=1.0).transpose(1, 2).flatten(2)  # [batch, target, 48]
        return mask, self.o(x)


class Attention4(nn.Module):
    def __init__(self) -> None:
        self.layer_norm = nn.RMSNorm(48, eps=1e-06)
        self.self_attention = Attention3()

    def forward(self, x: burn.Tensor, positions: burn.Tensor, positions2: burn.Tensor) -> tuple[burn.Tensor, ...]:
        # [1, 3, target, target], [batch, target, 48]
        chosen, self_attention = self.self_attention(positions, self.layer_norm(x), positions2)
        return chosen, x + self_attention


class Attention5(nn.Module):
    def __init__(self) -> None:
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
    ) -> tuple[burn.Tensor, ...]:
        batch, length, _ = x.shape
        query = self.q(x).reshape(batch, length, 3, 16)  # [batch, length, 3, 16]
        key = self.k(x).reshape(batch, length, 3, 16)  # [batch, length, 3, 16]
        x = self.v(x).reshape(batch, length, 3, 16)  # [batch, length, 3, 16]
        encoder_positions = positions.unsqueeze(1)  # int64[length, 1]
        difference = positions2 - encoder_positions  # int64[length, length]
        scaled = (difference > 0).astype("int64") * 16  # int64[length, length]
        size = ops.abs(difference)  # int64[length, length]
        # int64[length, length]
        selfattention_scaled = (ops.log(size.astype("float32") / 8.0) / 2.7725887 * 8.0).astype("int64")
        smaller = ops.min(selfattention_scaled + 8, burn.full((length, length), 15))  # int64[length, length]
        # [length, length, 3]
        relative_attention_bias = self.relative_attention_bias(scaled + ops.select(size < 8, size, smaller))
        # [batch, 3, length, length]
        attention_mask = ops.select(mask, relative_attention_bias.permute(2, 0, 1).unsqueeze(0), -3.4028235e+38)
        query = query.transpose(1, 2)  # [batch, 3, length, 16]
        key = key.transpose(1, 2)  # [batch, 3, length, 16]
        x = x.transpose(1, 2)  # [batch, 3, length, 16]
        x = ops.attention(query, key, x, attention_mask, scale=1.0).transpose(1, 2).flatten(2)  # [batch, length, 48]
        return attention_mask, self.o(x)


class Attention6(nn.Module):
    def __init__(self) -> None:
        self.layer_norm = nn.RMSNorm(48, eps=1e-06)
        self.self_attention = Attention5()

    def forward(
        self,
        x: burn.Tensor,
        positions: burn.Tensor,
        positions2: burn.Tensor,
        mask: burn.Tensor,
    ) -> tuple[burn.Tensor, ...]:
        # [batch, 3, length, length], [batch, length, 48]
        chosen, self_attention = self.self_attention(self.layer_norm(x), positions, positions2, mask)
        return chosen, x + self_attention


class Model(nn.Module):
    inputs = {
        "input_ids": "int64[batch, length]",
        "attention_mask": "int64[batch, length]",
        "decoder_input_ids": "int64[batch, target]",
    }
    outputs = ("logits",)

    def __init__(self) -> None:
        self.shared = nn.Embedding(101, 48, wrap=True)
        self.encoder_block_0_layer = nn.ModuleList([Attention6(), FeedForward()])
        self.encoder_block_1_layer = nn.ModuleList([Attention(), FeedForward()])
        self.encoder_final_layer_norm = nn.RMSNorm(48, eps=1e-06)
        self.decoder_block_0_layer = nn.ModuleList([Attention4(), Attention2(), FeedForward()])
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
        positions = ops.iota(shape=(target,), axis=0)  # int64[target]
        decoder_positions = positions.unsqueeze(0)  # int64[1, target]
        x = burn.zeros((1, 3, target, length))  # [1, 3, target, length]
        x = ops.select(mask, x, -3.4028235e+38)  # [batch, 3, target, length]
        shared = self.shared(input_ids)  # [batch, length, 48]
        encoder_positions = ops.iota(shape=(length,), axis=0)  # int64[length]
        # [batch, 3, length, length], [batch, length, 48]
        mask, total = self.encoder_block_0_layer[0](shared, encoder_positions, encoder_positions.unsqueeze(0), mask)
        # [batch, length, 48]
        encoder_block_1_layer = self.encoder_block_1_layer[0](self.encoder_block_0_layer[1](total), mask)
        # [batch, length, 48]
        encoder_final_layer_norm = self.encoder_final_layer_norm(self.encoder_block_1_layer[1](encoder_block_1_layer))
        # [1, 3, target, target], [batch, target, 48]
        mask, total = self.decoder_block_0_layer[0](self.shared(decoder_input_ids), positions, decoder_positions)
        # [batch, target, 48]
        decoder_block_0_layer = self.decoder_block_0_layer[2](
            self.decoder_block_0_layer[1](total, encoder_final_layer_norm, x),
        )
        decoder_block_1_layer = self.decoder_block_1_layer[0](decoder_block_0_layer, mask)  # [batch, target, 48]
        x = self.decoder_block_1_layer[1](decoder_block_1_layer, encoder_final_layer_norm, x)  # [batch, target, 48]
        x = self.decoder_final_layer_norm(self.decoder_block_1_layer[2](x)) * 0.14433756  # [batch, target, 48]
        return self.lm_head(x)
