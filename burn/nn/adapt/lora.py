"""`LoRA`: a layer with a low-rank update, y = base(x) + scale * B(A(dropout(x))) (arXiv:2106.09685).

Over a base with int4 or int8 weights this is QLoRA (arXiv:2305.14314): the base stays as it is, A and B are floats. Names of
modules and parameters are those of peft.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

from burn.dialect import ops as build
from burn.errors import Problem, TypeMismatch
from burn.nn import init
from burn.nn.convolution import Conv1d, Conv2d, Conv3d
from burn.nn.derived import holder_of
from burn.nn.dropout import Dropout
from burn.nn.linear import Embedding, Linear
from burn.nn.module import Module
from burn.nn.parameter import Parameter
from burn.nn.quantization import BlockLinear, QuantLinear
from burn.tensors import Tensor

LINEARS = (Linear, BlockLinear, QuantLinear)
CONVOLUTIONS = (Conv1d, Conv2d, Conv3d)
ADAPTABLE = (*LINEARS, Embedding, *CONVOLUTIONS)
"""Layers that can have an adapter."""


class Factor(Linear):
    """A or B of a linear layer. Its class keeps it out of `quantize_module` and of further adapters."""


class Update(Module):
    """Base of low-rank updates. rank: of the update; alpha: scale * rank, or with `stabilised` scale * sqrt(rank)
    (arXiv:2312.03732)."""

    rank: int
    alpha: float
    stabilised: bool
    merged: bool = False

    def _set(self, rank: int, alpha: float | None, stabilised: bool) -> None:
        self.rank, self.alpha, self.stabilised = rank, float(rank if alpha is None else alpha), stabilised

    @property
    def scale(self) -> float:
        return self.alpha / (math.sqrt(self.rank) if self.stabilised else self.rank)

    def factors(self) -> dict[str, Parameter]:
        """A and B by their names in peft's files, behind the layer's path."""
        raise NotImplementedError

    def update(self) -> Tensor:
        """The change of the base's weight."""
        raise NotImplementedError

    def merge(self) -> None:
        raise NotImplementedError

    def unmerge(self) -> None:
        raise NotImplementedError

    def _unsaved(self) -> Problem | None:
        if not self.merged:
            return None
        return Problem(
            "its update is part of the base weight", hint="nn.adapt.unmerge(model), or nn.adapt.remove(model)"
        )

    def _must_not_train(self) -> None:
        if self.merged and self.training:
            problem = Problem("its update is part of the base weight", hint="nn.adapt.unmerge(model)")
            raise TypeMismatch("a merged adapter cannot be trained", [problem])


class LoRA(Update):
    """base(x) + scale * B(A(dropout(x))). Shapes: as of the base, a linear layer, an embedding or a convolution. `nn.adapt.lora`
    makes it. It has the base's attributes. Raises TypeMismatch for another base, for a weight that is computed from other
    parameters (`nn.adapt.weight_norm`), and for a rank that is no multiple of a convolution's groups."""

    BASE: ClassVar[str] = "base_layer"

    lora_A: Any
    lora_B: Any

    def __init__(
        self,
        base: Module,
        rank: int = 8,
        alpha: float | None = None,
        dropout: float = 0.0,
        stabilised: bool = False,
        dtype: str | None = None,
    ) -> None:
        if rank < 1:
            raise TypeMismatch("an adapter has a rank of at least 1", [f"not {rank}"])
        _must_be_stored(base, "LoRA adapts layers whose weight is a parameter")
        self._set(rank, alpha, stabilised)
        self.base_layer: Any = base
        self.lora_dropout = Dropout(dropout)
        self._kept: Any = None  # the base of a merged adapter
        dtype = _dtype(base) if dtype is None else dtype
        match base:
            case Linear() | BlockLinear() | QuantLinear():
                inputs, outputs = _features(base)
                self.lora_A = Factor(inputs, rank, bias=False, dtype=dtype)
                self.lora_B = Factor(rank, outputs, bias=False, dtype=dtype)
                self.lora_B.weight.reset(init.zeros)
            case Embedding():
                if dropout:
                    raise TypeMismatch("an adapter of an embedding has no dropout", ["indices cannot be dropped"])
                count, dim = base.weight.shape
                self.lora_embedding_A = Parameter((rank, count), dtype, init.zeros)
                self.lora_embedding_B = Parameter((dim, rank), dtype, init.normal())
            case Conv1d() | Conv2d() | Conv3d():
                if rank % base.groups:
                    raise TypeMismatch("the rank is a multiple of a convolution's groups", [f"{rank}, {base.groups}"])
                options = base.config.with_bias(False).with_dtype(dtype)
                self.lora_A = options.with_out_channels(rank).with_groups(1).init()
                self.lora_B = type(base)(rank, base.weight.shape[0], 1, groups=base.groups, bias=False, dtype=dtype)
                self.lora_B.weight.reset(init.zeros)
            case _:
                raise TypeMismatch(
                    "LoRA adapts linear layers, embeddings and convolutions", [f"not {type(base).__name__}"]
                )
        where = next(base.parameters()).placement
        for parameter in self.factors().values():
            parameter.move(where)
        self.training = base.training

    def __getattr__(self, name: str) -> Any:
        base = vars(self).get(self.BASE)
        if base is None or name.startswith("_"):
            return super().__getattr__(name)  # type: ignore[misc]  # which raises AttributeError
        return getattr(base, name)

    def forward(self, x: Tensor) -> Tensor:
        self._must_not_train()
        y = self.base_layer(x)
        if self.merged:
            return y
        if isinstance(self.base_layer, Embedding):
            rows = x.value if self.base_layer.wrap else build.from_start(x.value)
            update = Tensor(build.gather(self.lora_embedding_A.T.value, rows, axis=0)) @ self.lora_embedding_B.T
        else:
            update = self.lora_B(self.lora_A(self.lora_dropout(x.astype(self.lora_A.weight.dtype))))
        return y + (update * self.scale).astype(y.dtype)

    def factors(self) -> dict[str, Parameter]:
        if isinstance(self.base_layer, Embedding):
            return {n: vars(self)[n] for n in ("lora_embedding_A", "lora_embedding_B")}
        return {"lora_A.weight": self.lora_A.weight, "lora_B.weight": self.lora_B.weight}

    def update(self) -> Tensor:
        """The change of the base's weight, in the weight's layout of PyTorch: [out, in], [count, dim] or [out, in, k..].
        Raises TypeMismatch for a convolution with groups, whose update is no convolution with groups, and for a weight that is
        computed from other parameters."""
        _must_be_stored(self.base_layer, "the update cannot be merged")
        a, b = (p.astype("float32") if p.dtype in ("float16", "bfloat16") else p for p in self.factors().values())
        if isinstance(self.base_layer, Embedding):
            return (b @ a).T * self.scale
        if not isinstance(self.base_layer, CONVOLUTIONS):
            return b @ a * self.scale
        if self.base_layer.groups > 1:
            problem = f"a convolution with {self.base_layer.groups} groups cannot hold it"
            raise TypeMismatch("the update cannot be merged", [problem])
        outputs, shape = b.shape[0], a.shape
        return (b.reshape(outputs, self.rank) @ a.reshape(self.rank, -1)).reshape(outputs, *shape[1:]) * self.scale

    def merge(self) -> None:
        """Replaces the base by one that has the update in its weight; a base with quantised weights by a `Linear`. The former
        base is kept for `unmerge`."""
        if self.merged:
            return
        base, update = self.base_layer, self.update()
        other: Any = _dense(base) if isinstance(base, (BlockLinear, QuantLinear)) else base.clone()
        weight = other.weight
        if isinstance(other, Linear) and other.transposed:
            update = update.T
        weight.assign((weight.astype(update.dtype) + update).astype(weight.dtype))
        other.training = base.training
        self._kept, self.base_layer, self.merged = _Kept(base), other, True

    def unmerge(self) -> None:
        """Puts the base back that was there before `merge`, with the same bits."""
        if self.merged:
            self.base_layer, self._kept, self.merged = self._kept.module, None, False

    def extra_repr(self) -> str:
        return f"rank={self.rank}, alpha={self.alpha:g}{', merged' * self.merged}"


class _Kept:
    """A module that is no part of the one that refers to it."""

    def __init__(self, module: Module) -> None:
        self.module = module


def _must_be_stored(base: Module, summary: str) -> None:
    """Raises TypeMismatch for a layer whose weight is computed from other parameters."""
    if "weight" in (holder_of(base) or ()):
        hint = "nn.adapt.bake(model) makes it one"
        raise TypeMismatch(
            summary, [Problem(f"the weight of a {type(base).__name__} is computed from others", hint=hint)]
        )


def _dtype(base: Any) -> str:
    if isinstance(base, QuantLinear):
        return str(base.weight.scale.dtype)
    return str(base.scale.dtype if isinstance(base, BlockLinear) else base.weight.dtype)


def _features(base: Any) -> tuple[int, int]:
    if isinstance(base, QuantLinear):
        outputs, inputs = base.weight.values.shape
        return (outputs, inputs) if base.transposed else (inputs, outputs)
    return base.in_features, base.out_features


def _trainable(p: Any) -> bool:
    """False also for what is computed from parameters."""
    return isinstance(p, Parameter) and p.trainable


def _dense(base: BlockLinear | QuantLinear) -> Linear:
    """The layer with float weights of the same values."""
    inputs, outputs = _features(base)
    other = Linear(inputs, outputs, base.bias is not None, dtype=_dtype(base))
    if isinstance(base, BlockLinear):
        other.weight.assign(base.dense())
        bias = base.bias
    else:
        weight = base.weight()
        other.weight.assign(weight.T if base.transposed else weight)
        bias = None if base.bias is None else base.bias()
    if bias is not None:
        other.bias.assign(bias * 1)
    quantised = base if isinstance(base, BlockLinear) else base.weight
    other.weight.trainable = _trainable(quantised.scale)
    if base.bias is not None:
        other.bias.trainable = _trainable(base.bias if isinstance(base, BlockLinear) else base.bias.scale)
    return other
