"""Recurrent layers, over x [steps, batch, in]. The weights are laid out as in ONNX: one stack for each direction.

Each returns the states of every step, y [steps, directions, batch, hidden], and the last of each direction,
h (and c) [directions, batch, hidden].
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from burn.dialect import ops as build
from burn.dialect.recurrent import DIRECTIONS
from burn.nn.checks import Count, DTypeName
from burn.nn.init import inputs_bound
from burn.nn.module import Layer
from burn.nn.parameter import Parameter, ParameterOrNone
from burn.tensors import Tensor

Direction = Literal["forward", "reverse", "bidirectional"]


class _Recurrent(Layer):
    """Base of recurrent layers. weight_input [directions, gates * hidden, in], weight_hidden [directions, gates * hidden,
    hidden], bias [directions, 2 * gates * hidden]: the input's, then the recurrence's."""

    GATES: ClassVar[int]
    _elsewhere = dict.fromkeys(
        ("num_layers", "batch_first", "bidirectional", "dropout"),
        "torch's recurrent networks, with these options, are nn.StackedLSTM, nn.StackedGRU and nn.StackedRNN",
    )

    def __init__(
        self,
        input_size: Count,
        hidden_size: Count,
        direction: Direction = "forward",
        bias: bool = True,
        activations: Sequence[str] = (),
        alphas: Sequence[float] = (),
        betas: Sequence[float] = (),
        clip: float = 0.0,
        dtype: DTypeName = "float32",
    ) -> None:
        self.options: dict[str, Any] = {
            "direction": direction,
            "activations": tuple(activations),
            "alphas": tuple(alphas),
            "betas": tuple(betas),
            "clip": clip,
        }
        self.sizes = (input_size, hidden_size)
        count, gates = len(DIRECTIONS[direction]), self.GATES * hidden_size
        init = inputs_bound(hidden_size)
        self.weight_input = Parameter((count, gates, input_size), dtype, init)
        self.weight_hidden = Parameter((count, gates, hidden_size), dtype, init)
        self.bias: ParameterOrNone = Parameter((count, 2 * gates), dtype, init) if bias else None

    def _operands(self, x: Tensor, lengths: Tensor | None, *states: Tensor | None) -> list[Any]:
        given = (x, self.weight_input, self.weight_hidden, self.bias, lengths, *states)
        return [None if t is None else t.value for t in given]

    def extra_repr(self) -> str:
        return f"{self.sizes[0]}, {self.sizes[1]}, {self.options['direction']}"


class RNN(_Recurrent):
    """h' = activation(W x + R h + b)."""

    GATES = 1

    def forward(self, x: Tensor, h: Tensor | None = None, lengths: Tensor | None = None) -> tuple[Tensor, ...]:
        return tuple(map(Tensor, build.rnn(*self._operands(x, lengths, h), **self.options)))


class GRU(_Recurrent):
    """The gated recurrent unit, gates in the order update, reset, new. reset_after: the reset gate multiplies the
    result of the recurrent matmul, as in torch, instead of the state."""

    GATES = 3

    def __init__(
        self,
        input_size: Count,
        hidden_size: Count,
        direction: Direction = "forward",
        bias: bool = True,
        activations: Sequence[str] = (),
        alphas: Sequence[float] = (),
        betas: Sequence[float] = (),
        clip: float = 0.0,
        dtype: DTypeName = "float32",
        *,
        reset_after: bool = False,
    ) -> None:
        super().__init__(input_size, hidden_size, direction, bias, activations, alphas, betas, clip, dtype)
        self.options["reset_after"] = reset_after

    def forward(self, x: Tensor, h: Tensor | None = None, lengths: Tensor | None = None) -> tuple[Tensor, ...]:
        return tuple(map(Tensor, build.gru(*self._operands(x, lengths, h), **self.options)))


class LSTM(_Recurrent):
    """Long short-term memory, gates in the order input, output, forget, cell.

    couple: the forget gate is 1 - input gate. peephole: the gates also read the cell, with one weight each."""

    GATES = 4

    def __init__(
        self,
        input_size: Count,
        hidden_size: Count,
        direction: Direction = "forward",
        bias: bool = True,
        activations: Sequence[str] = (),
        alphas: Sequence[float] = (),
        betas: Sequence[float] = (),
        clip: float = 0.0,
        dtype: DTypeName = "float32",
        *,
        couple: bool = False,
        peephole: bool = False,
    ) -> None:
        super().__init__(input_size, hidden_size, direction, bias, activations, alphas, betas, clip, dtype)
        self.options["couple"] = couple
        shape = (len(DIRECTIONS[direction]), 3 * hidden_size)
        self.peephole: ParameterOrNone = Parameter(shape, dtype, inputs_bound(hidden_size)) if peephole else None

    def forward(
        self, x: Tensor, h: Tensor | None = None, c: Tensor | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        return tuple(map(Tensor, build.lstm(*self._operands(x, lengths, h, c, self.peephole), **self.options)))
