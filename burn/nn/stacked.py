"""torch's recurrent networks: stacked layers, in one or both directions, batch first or not.

Each layer is one of `recurrent.py`, with its parameters.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from burn import ops
from burn.errors import TypeMismatch
from burn.nn.checks import Count, DTypeName, Positive, Probability
from burn.nn.containers import ModuleList
from burn.nn.dropout import Dropout
from burn.nn.module import Layer
from burn.nn.recurrent import GRU, LSTM, RNN, Direction
from burn.tensors import Tensor


class _Stacked(Layer):
    """Base of the three classes. A subclass makes its layers and defines the number of states."""

    STATES: ClassVar[int] = 1

    def _build(
        self, sizes: tuple[int, int], count: int, both: bool, batch_first: bool, dropout: float, **options: Any
    ) -> None:
        self.batch_first, self.directions = batch_first, 1 + both
        self.hidden_size, self.dropout = sizes[1], Dropout(dropout)
        direction: Direction = "bidirectional" if both else "forward"
        inputs = [sizes[0]] + [sizes[1] * self.directions] * (count - 1)
        self.layers = ModuleList(self._layer(size, sizes[1], direction, **options) for size in inputs)

    def _layer(self, input_size: int, hidden_size: int, direction: Direction, **options: Any) -> Layer:
        raise NotImplementedError

    def _run(self, x: Tensor, states: list[Tensor | None], lengths: Tensor | None) -> tuple[Tensor, list[Tensor]]:
        if x.ndim != 3:
            axes = "[batch, steps, in]" if self.batch_first else "[steps, batch, in]"
            raise TypeMismatch(f"{type(self).__name__} takes {axes}", [f"not {x.type}"])
        y = x.permute(1, 0, 2) if self.batch_first else x
        n, last = self.directions, []
        for number, layer in enumerate(self.layers):
            y = self.dropout(y) if number else y
            own = [None if s is None else s[number * n : (number + 1) * n] for s in states]
            y, *ends = layer(y, *own, lengths)
            y = y.permute(0, 2, 1, 3).flatten(2)
            last.append(ends)
        joined = [ops.concat(list(column), axis=0) for column in zip(*last, strict=True)]
        return (y.permute(1, 0, 2) if self.batch_first else y), joined

    def extra_repr(self) -> str:
        return f"hidden={self.hidden_size}, directions={self.directions}{', batch_first' if self.batch_first else ''}"


class StackedRNN(_Stacked):
    """torch.nn.RNN: layers of h' = tanh(W x + R h + b) (or relu). dropout: between layers, in training.

    Shapes: x [steps, batch, in] (or [batch, steps, in]), h [layers * directions, batch, hidden], lengths [batch] ->
    y [steps, batch, directions * hidden] (or batch first), h."""

    def __init__(
        self,
        input_size: Count,
        hidden_size: Count,
        num_layers: Positive = 1,
        nonlinearity: Literal["tanh", "relu"] = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: Probability = 0.0,
        bidirectional: bool = False,
        dtype: DTypeName = "float32",
    ) -> None:
        activations = (nonlinearity,) * (1 + bidirectional)
        sizes = (input_size, hidden_size)
        self._build(
            sizes, num_layers, bidirectional, batch_first, dropout, bias=bias, dtype=dtype, activations=activations
        )

    def _layer(self, input_size: int, hidden_size: int, direction: Direction, **options: Any) -> Layer:
        return RNN(input_size, hidden_size, direction, **options)

    def forward(self, x: Tensor, h: Tensor | None = None, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
        y, (last,) = self._run(x, [h], lengths)
        return y, last


class StackedGRU(_Stacked):
    """torch.nn.GRU: layers of gated recurrent units (arXiv:1406.1078). dropout: between layers, in training. Shapes: as for
    StackedRNN."""

    def __init__(
        self,
        input_size: Count,
        hidden_size: Count,
        num_layers: Positive = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: Probability = 0.0,
        bidirectional: bool = False,
        dtype: DTypeName = "float32",
    ) -> None:
        self._build((input_size, hidden_size), num_layers, bidirectional, batch_first, dropout, bias=bias, dtype=dtype)

    def _layer(self, input_size: int, hidden_size: int, direction: Direction, **options: Any) -> Layer:
        return GRU(input_size, hidden_size, direction, reset_after=True, **options)

    def forward(self, x: Tensor, h: Tensor | None = None, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
        y, (last,) = self._run(x, [h], lengths)
        return y, last


class StackedLSTM(_Stacked):
    """torch.nn.LSTM: layers of long short-term memory (Hochreiter and Schmidhuber, "Long short-term memory", 1997).
    dropout: between layers, in training. Shapes: as for StackedRNN, with the states (h, c) in place of h."""

    def __init__(
        self,
        input_size: Count,
        hidden_size: Count,
        num_layers: Positive = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: Probability = 0.0,
        bidirectional: bool = False,
        dtype: DTypeName = "float32",
    ) -> None:
        self._build((input_size, hidden_size), num_layers, bidirectional, batch_first, dropout, bias=bias, dtype=dtype)

    def _layer(self, input_size: int, hidden_size: int, direction: Direction, **options: Any) -> Layer:
        return LSTM(input_size, hidden_size, direction, **options)

    def forward(
        self, x: Tensor, states: tuple[Tensor, Tensor] | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        h, c = (None, None) if states is None else states
        y, (last_h, last_c) = self._run(x, [h, c], lengths)
        return y, (last_h, last_c)
