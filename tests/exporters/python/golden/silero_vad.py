"""Model, written from silero_vad.onnx by burn-import.

    model = Model.from_file("model.safetensors")
    run = burn.compile(model)  # for every size of batch, sequence
"""

from __future__ import annotations

import burn
from burn import nn, ops


class Model(nn.Module):
    inputs = {"input": "float32[batch, sequence]", "sr": "int64[]", "state": "float32[2, batch, 128]"}
    outputs = ("output", "stateN")

    def __init__(self) -> None:
        self.model_stft_forward_basis_buffer = nn.Conv1d(1, 258, 256, stride=128, bias=False)
        self.model_encoder_0_reparam_conv = nn.Conv1d(129, 128, 3, padding=1)
        self.model_encoder_1_reparam_conv = nn.Conv1d(128, 64, 3, stride=2, padding=1)
        self.model_encoder_2_reparam_conv = nn.Conv1d(64, 64, 3, stride=2, padding=1)
        self.model_encoder_3_reparam_conv = nn.Conv1d(64, 128, 3, padding=1)
        self.model_decoder_rnn = nn.Linear(128, 512)
        self.model_decoder_rnn2 = nn.Linear(128, 512)
        self.model_decoder_decoder_2 = nn.Conv1d(128, 1, 1)
        self.model_8k_stft_forward_basis_buffer = nn.Conv1d(1, 130, 128, stride=64, bias=False)
        self.model_8k_encoder_0_reparam_conv = nn.Conv1d(65, 128, 3, padding=1)
        self.model_8k_encoder_1_reparam_conv = nn.Conv1d(128, 64, 3, stride=2, padding=1)
        self.model_8k_encoder_2_reparam_conv = nn.Conv1d(64, 64, 3, stride=2, padding=1)
        self.model_8k_encoder_3_reparam_conv = nn.Conv1d(64, 128, 3, padding=1)
        self.model_8k_decoder_rnn = nn.Linear(128, 512)
        self.model_8k_decoder_rnn2 = nn.Linear(128, 512)
        self.model_8k_decoder_decoder_2 = nn.Conv1d(128, 1, 1)

    def forward(self, input: burn.Tensor, sr: burn.Tensor, state: burn.Tensor) -> tuple[burn.Tensor, ...]:
        sequence = input.shape[1]
        condition = sr == 16000  # bool[]
        def then():
            positions = ops.iota(shape=(sequence + 64,), axis=0)  # int64[sequence + 64]
            scaled = ops.mul(burn.constant(sequence - 1), burn.constant(2, "int64"))  # int64[]
            # int64[sequence + 64]
            size = ops.abs(positions % ops.max(scaled, burn.constant(1, "int64")) - (sequence - 1))
            x = ops.gather(input, ops.sub(sequence - 1, size), axis=1).unsqueeze(1)  # [batch, 1, sequence + 64]
            x, second = self.model_stft_forward_basis_buffer(x).chunk(2, 1)  # [batch, 129, ...], [batch, 129, ...]
            x = ops.relu(self.model_encoder_0_reparam_conv(ops.sqrt(x * x + second * second)))  # [batch, 128, ...]
            x = self.model_encoder_2_reparam_conv(ops.relu(self.model_encoder_1_reparam_conv(x)))  # [batch, 64, ...]
            x = ops.relu(self.model_encoder_3_reparam_conv(ops.relu(x)))  # [batch, 128, ...]
            x2 = state[1]  # [batch, 128]
            x = self.model_decoder_rnn(state[0]) + self.model_decoder_rnn2(x.take(0, 2))  # [batch, 512]
            x, second, third, fourth = x.chunk(4, 1)  # [batch, 128], [batch, 128], [batch, 128], [batch, 128]
            gate = ops.sigmoid(fourth)  # [batch, 128]
            scaled = ops.sigmoid(second) * x2  # [batch, 128]
            x = ops.sigmoid(x) * ops.tanh(third)  # [batch, 128]
            x = scaled + x  # [batch, 128]
            scaled = gate * ops.tanh(x)  # [batch, 128]
            x = ops.concat([scaled.unsqueeze(0), x.unsqueeze(0)], axis=0)  # [2, batch, 128]
            model_decoder_decoder_2 = self.model_decoder_decoder_2(ops.relu(scaled.unsqueeze(2)))  # [batch, 1, 1]
            return ops.sigmoid(model_decoder_decoder_2).flatten(1), x
        def otherwise():
            positions2 = ops.iota(shape=(sequence + 32,), axis=0)  # int64[sequence + 32]
            scaled2 = ops.mul(burn.constant(sequence - 1), burn.constant(2, "int64"))  # int64[]
            # int64[sequence + 32]
            difference = positions2 % ops.max(scaled2, burn.constant(1, "int64")) - (sequence - 1)
            picked = ops.gather(input, ops.sub(sequence - 1, ops.abs(difference)), axis=1)  # [batch, sequence + 32]
            # [batch, 65, ...], [batch, 65, ...]
            first, second2 = self.model_8k_stft_forward_basis_buffer(picked.unsqueeze(1)).chunk(2, 1)
            # [batch, 128, ...]
            model_8k_encoder_0_reparam_conv = self.model_8k_encoder_0_reparam_conv(
                ops.sqrt(first * first + second2 * second2),
            )
            # [batch, 64, ...]
            model_8k_encoder_1_reparam_conv = self.model_8k_encoder_1_reparam_conv(
                ops.relu(model_8k_encoder_0_reparam_conv),
            )
            # [batch, 64, ...]
            model_8k_encoder_2_reparam_conv = self.model_8k_encoder_2_reparam_conv(
                ops.relu(model_8k_encoder_1_reparam_conv),
            )
            # [batch, 128, ...]
            model_8k_encoder_3_reparam_conv = self.model_8k_encoder_3_reparam_conv(
                ops.relu(model_8k_encoder_2_reparam_conv),
            )
            # [batch, 512]
            model_8k_decoder_rnn2 = self.model_8k_decoder_rnn2(ops.relu(model_8k_encoder_3_reparam_conv).take(0, 2))
            x3 = state[1]  # [batch, 128]
            total = self.model_8k_decoder_rnn(state[0]) + model_8k_decoder_rnn2  # [batch, 512]
            # [batch, 128], [batch, 128], [batch, 128], [batch, 128]
            first, second3, third2, fourth2 = total.chunk(4, 1)
            gate2 = ops.sigmoid(fourth2)  # [batch, 128]
            scaled3 = ops.sigmoid(second3) * x3  # [batch, 128]
            scaled4 = ops.sigmoid(first) * ops.tanh(third2)  # [batch, 128]
            total = scaled3 + scaled4  # [batch, 128]
            scaled5 = gate2 * ops.tanh(total)  # [batch, 128]
            joined = ops.concat([scaled5.unsqueeze(0), total.unsqueeze(0)], axis=0)  # [2, batch, 128]
            # [batch, 1, 1]
            model_8k_decoder_decoder_2 = self.model_8k_decoder_decoder_2(ops.relu(scaled5.unsqueeze(2)))
            return ops.sigmoid(model_8k_decoder_decoder_2).flatten(1), joined
        result, result2 = burn.cond(condition, then, otherwise)  # [batch, 1], [2, batch, 128]
        return result, result2
