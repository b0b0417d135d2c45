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

    def forward(self, input: burn.Tensor, sr: burn.Tensor, state: burn.Tensor) -> tuple[burn.Tensor, burn.Tensor]:
        sequence = input.shape[1]
        condition = sr == 16000  # bool[]
        def then():
            positions = burn.arange(sequence + 64)  # int64[sequence + 64]
            scaled = ops.mul(burn.constant(sequence - 1), burn.constant(2, "int64"))  # int64[]
            size = ops.abs(positions % ops.max(scaled, burn.constant(1, "int64")) - (sequence - 1))
            x = ops.gather(input, ops.sub(sequence - 1, size), axis=1).unsqueeze(1)  # [batch, 1, sequence + 64]
            first, second = self.model_stft_forward_basis_buffer(x).chunk(2, 1)  # each [batch, 129, ...]
            x = self.model_encoder_0_reparam_conv(ops.sqrt(first * first + second * second))  # [batch, 128, ...]
            x = ops.relu(self.model_encoder_1_reparam_conv(ops.relu(x)))  # [batch, 64, ...]
            x = self.model_encoder_3_reparam_conv(ops.relu(self.model_encoder_2_reparam_conv(x)))  # [batch, 128, ...]
            x = self.model_decoder_rnn(state[0]) + self.model_decoder_rnn2(ops.relu(x).take(0, 2))  # [batch, 512]
            part = state[1]  # [batch, 128]
            first, second, third, fourth = x.chunk(4, 1)  # each [batch, 128]
            x = ops.sigmoid(fourth)
            scaled = ops.sigmoid(second) * part
            scaled2 = ops.sigmoid(first) * ops.tanh(third)
            total = scaled + scaled2
            x = x * ops.tanh(total)
            joined = ops.concat([x.unsqueeze(0), total.unsqueeze(0)], axis=0)  # [2, batch, 128]
            x = self.model_decoder_decoder_2(ops.relu(x.unsqueeze(2)))  # [batch, 1, 1]
            return ops.sigmoid(x).flatten(1), joined
        def otherwise():
            positions = burn.arange(sequence + 32)  # int64[sequence + 32]
            scaled = ops.mul(burn.constant(sequence - 1), burn.constant(2, "int64"))  # int64[]
            size = ops.abs(positions % ops.max(scaled, burn.constant(1, "int64")) - (sequence - 1))
            x = ops.gather(input, ops.sub(sequence - 1, size), axis=1).unsqueeze(1)  # [batch, 1, sequence + 32]
            first, second = self.model_8k_stft_forward_basis_buffer(x).chunk(2, 1)  # each [batch, 65, ...]
            x = self.model_8k_encoder_0_reparam_conv(ops.sqrt(first * first + second * second))  # [batch, 128, ...]
            x = ops.relu(self.model_8k_encoder_1_reparam_conv(ops.relu(x)))  # [batch, 64, ...]
            x = self.model_8k_encoder_3_reparam_conv(ops.relu(self.model_8k_encoder_2_reparam_conv(x)))
            x = self.model_8k_decoder_rnn(state[0]) + self.model_8k_decoder_rnn2(ops.relu(x).take(0, 2))  # [batch, 512]
            part = state[1]  # [batch, 128]
            first, second, third, fourth = x.chunk(4, 1)  # each [batch, 128]
            x = ops.sigmoid(fourth)
            scaled = ops.sigmoid(second) * part
            scaled2 = ops.sigmoid(first) * ops.tanh(third)
            total = scaled + scaled2
            x = x * ops.tanh(total)
            joined = ops.concat([x.unsqueeze(0), total.unsqueeze(0)], axis=0)  # [2, batch, 128]
            x = self.model_8k_decoder_decoder_2(ops.relu(x.unsqueeze(2)))  # [batch, 1, 1]
            return ops.sigmoid(x).flatten(1), joined
        output, stateN = burn.cond(condition, then, otherwise, partial=True)  # [batch, 1], [2, batch, 128]
        return output, stateN
