"""Linear, bilinear and embedding layers."""

from __future__ import annotations

from math import prod

from burn.dialect import ops as build
from burn.nn.checks import Count, DTypeName
from burn.nn.init import Init, inputs_bound, normal
from burn.nn.module import Layer
from burn.nn.parameter import Parameter, ParameterOrNone
from burn.tensors import Tensor


class Identity(Layer):
    """Returns its argument."""

    def forward(self, x: Tensor) -> Tensor:
        return x


class Linear(Layer):
    """x W' + bias. Shapes: x [.., in] -> [.., out]; weight [out, in], or [in, out] when `transposed`; bias [out]."""

    def __init__(
        self,
        in_features: Count,
        out_features: Count,
        bias: bool = True,
        transposed: bool = False,
        dtype: DTypeName = "float32",
    ) -> None:
        self.in_features, self.out_features, self.transposed = in_features, out_features, transposed
        shape = (in_features, out_features) if transposed else (out_features, in_features)
        self.weight = Parameter(shape, dtype, inputs_bound(in_features))
        self.bias: ParameterOrNone = Parameter((out_features,), dtype, inputs_bound(in_features)) if bias else None

    @property
    def dtype(self) -> str:
        return self.weight.dtype

    def forward(self, x: Tensor) -> Tensor:
        axis = 0 if self.transposed else 1
        y = build.dot_general(x.value, self.weight.value, lhs_contract=(x.ndim - 1,), rhs_contract=(axis,))
        return Tensor(y) if self.bias is None else Tensor(y) + self.bias

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}{', bias=False' if self.bias is None else ''}"


class Bilinear(Layer):
    """x1 W x2' + bias for each output. Shapes: x1 [.., a], x2 [.., b] -> [.., out]; weight [out, a, b], bias [out]."""

    def __init__(
        self,
        in1_features: Count,
        in2_features: Count,
        out_features: Count,
        bias: bool = True,
        dtype: DTypeName = "float32",
    ) -> None:
        start = inputs_bound(in1_features)
        self.weight = Parameter((out_features, in1_features, in2_features), dtype, start)
        self.bias: ParameterOrNone = Parameter((out_features,), dtype, start) if bias else None

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        half = Tensor(build.dot_general(x1.value, self.weight.value, lhs_contract=(x1.ndim - 1,), rhs_contract=(1,)))
        y = (half * x2.unsqueeze(-2)).sum(-1)
        return y if self.bias is None else y + self.bias

    def extra_repr(self) -> str:
        out, *inputs = self.weight.shape
        return ", ".join(map(str, (*inputs, out)))


class Embedding(Layer):
    """Rows of a table. Shapes: indices [..] -> [.., dim]; weight [count, dim].

    padding_index: a row that starts as zeros. An index out of range is an error at run time. A negative index is out of range,
    unless `wrap` makes it count from the end (as in ONNX's Gather)."""

    def __init__(
        self,
        count: Count,
        dim: Count,
        dtype: DTypeName = "float32",
        padding_index: int | None = None,
        wrap: bool = False,
    ) -> None:
        self.padding_index, self.wrap = padding_index, wrap
        self.weight = Parameter((count, dim), dtype, _with_zero_row(normal(), padding_index))

    def forward(self, indices: Tensor) -> Tensor:
        rows = indices.value if self.wrap else build.from_start(indices.value)
        return Tensor(build.gather(self.weight.value, rows, axis=0))

    def extra_repr(self) -> str:
        return ", ".join([*map(str, self.weight.shape), *["wrap=True"] * self.wrap])


def _with_zero_row(init: Init, row: int | None) -> Init:
    def draw(shape, rng):
        array = init(shape, rng)
        if row is not None and prod(shape):
            array[row] = 0
        return array

    return draw


class CosineSimilarity(Layer):
    """x1 x2 / (|x1| |x2|) along an axis, each norm at least `eps`. Shapes: x1, x2 broadcast to [.., d, ..] -> without d."""

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        self.dim, self.eps = dim, eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return x1.cosine_similarity(x2, self.dim, self.eps)


class PairwiseDistance(Layer):
    """The p-norm of x1 - x2 + eps along the last axis. Shapes: x1, x2 broadcast to [.., d] -> [..], or [.., 1] with keepdim."""

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        self.p, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return (x1 - x2 + self.eps).norm(self.p, -1, self.keepdim)
