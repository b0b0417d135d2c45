"""Feed-forward layers of transformers: two linear layers with an activation between them, gated or not."""

from __future__ import annotations

from typing import ClassVar

from burn.nn.activation import BY_NAME, Activation
from burn.nn.checks import Count, DTypeName, Probability
from burn.nn.dropout import Dropout
from burn.nn.linear import Linear
from burn.nn.module import Layer
from burn.tensors import Tensor


class GatedLinear(Layer):
    """activation(gate x) * (linear x) (arXiv:2002.05202). Shapes: x [.., in] -> [.., out]."""

    def __init__(
        self,
        in_features: Count,
        out_features: Count,
        activation: Activation = "silu",
        bias: bool = False,
        dtype: DTypeName = "float32",
    ) -> None:
        self.activation = activation
        self.gate = Linear(in_features, out_features, bias, dtype=dtype)
        self.linear = Linear(in_features, out_features, bias, dtype=dtype)

    def forward(self, x: Tensor) -> Tensor:
        return BY_NAME[self.activation](self.gate(x)) * self.linear(x)

    def extra_repr(self) -> str:
        return self.activation


class _Gated(GatedLinear):
    ACTIVATION: ClassVar[Activation]

    def __init__(
        self, in_features: Count, out_features: Count, bias: bool = False, dtype: DTypeName = "float32"
    ) -> None:
        super().__init__(in_features, out_features, self.ACTIVATION, bias, dtype)


class SwiGLU(_Gated):
    """silu(gate x) * (linear x) (arXiv:2002.05202). Shapes: x [.., in] -> [.., out]."""

    ACTIVATION = "silu"


class GEGLU(_Gated):
    """gelu(gate x) * (linear x) (arXiv:2002.05202). Shapes: x [.., in] -> [.., out]."""

    ACTIVATION = "gelu"


class ReGLU(_Gated):
    """relu(gate x) * (linear x) (arXiv:2002.05202). Shapes: x [.., in] -> [.., out]."""

    ACTIVATION = "relu"


class FeedForward(Layer):
    """outer(activation(inner x)), or with `gated` outer(activation(gate x) * (linear x)); dropout after the activation, in
    training. Shapes: x [.., dim] -> [.., dim]."""

    def __init__(
        self,
        dim: Count,
        hidden: Count,
        activation: Activation = "gelu",
        dropout: Probability = 0.0,
        bias: bool = True,
        gated: bool = False,
        dtype: DTypeName = "float32",
    ) -> None:
        self.activation, self.gated = activation, gated
        self.inner = (
            GatedLinear(dim, hidden, activation, bias, dtype) if gated else Linear(dim, hidden, bias, dtype=dtype)
        )
        self.dropout = Dropout(dropout)
        self.outer = Linear(hidden, dim, bias, dtype=dtype)

    def forward(self, x: Tensor) -> Tensor:
        y = self.inner(x)
        return self.outer(self.dropout(y if self.gated else BY_NAME[self.activation](y)))
