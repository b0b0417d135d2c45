"""Activations and other functions without weights, as modules: rows of a table, one class made from each."""

from __future__ import annotations

from typing import Any

from burn import ops
from burn.nn.module import Module
from burn.nn.parameter import Parameter
from burn.tensor import Tensor

# Class -> (the op, its attributes' defaults under the names that torch gives them: {name: (attribute, default)}).
FUNCTIONS: dict[str, tuple[str, dict[str, tuple[str, Any]]]] = {
    "ReLU": ("relu", {}),
    "LeakyReLU": ("leaky_relu", {"negative_slope": ("alpha", 0.01)}),
    "ELU": ("elu", {"alpha": ("alpha", 1.0)}),
    "CELU": ("celu", {"alpha": ("alpha", 1.0)}),
    "SELU": ("selu", {}),
    "GELU": ("gelu", {"approximate": ("approximate", "none")}),
    "SiLU": ("silu", {}),
    "Mish": ("mish", {}),
    "Softplus": ("softplus", {}),
    "Softsign": ("softsign", {}),
    "Hardswish": ("hard_swish", {}),
    "Hardsigmoid": ("hard_sigmoid", {"slope": ("alpha", 1 / 6), "offset": ("beta", 0.5)}),
    "Sigmoid": ("sigmoid", {}),
    "Tanh": ("tanh", {}),
    "Softmax": ("softmax", {"dim": ("axis", -1)}),
    "LogSoftmax": ("log_softmax", {"dim": ("axis", -1)}),
}


class Function(Module):
    """Base of the classes made from the table."""

    OP = ""
    OPTIONS: dict[str, tuple[str, Any]] = {}  # noqa: RUF012 - the table's row, set once for each class

    def __init__(self, **options: Any) -> None:
        unknown = options.keys() - self.OPTIONS.keys()
        if unknown:
            raise TypeError(f"{type(self).__name__} has no option {', '.join(sorted(unknown))}")
        self.options = {attr: options.get(name, default) for name, (attr, default) in self.OPTIONS.items()}

    def forward(self, x: Tensor) -> Tensor:
        return getattr(ops, self.OP)(x, **self.options)


def _make(name: str, op: str, options: dict[str, tuple[str, Any]]) -> type[Function]:
    doc = f"`burn.ops.{op}` as a module."
    return type(name, (Function,), {"__doc__": doc, "__module__": __name__, "OP": op, "OPTIONS": options})


for _name, (_op, _options) in FUNCTIONS.items():
    globals()[_name] = _make(_name, _op, _options)


class PReLU(Module):
    """x for x >= 0, weight * x below. weight: one number, or a tensor that broadcasts with x."""

    def __init__(self, *shape: int, dtype: str = "float32") -> None:
        self.weight = Parameter(shape or (1,), dtype, lambda s: 0.25 * _ones(s))

    def forward(self, x: Tensor) -> Tensor:
        return ops.prelu(x, self.weight)


def _ones(shape: tuple[int, ...]):
    import numpy as np

    return np.ones(shape)


class Dropout(Module):
    """The identity: dropping elements is for training."""

    def __init__(self, p: float = 0.5) -> None:
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        return x


class Flatten(Module):
    """All axes from `start` on as one."""

    def __init__(self, start: int = 1) -> None:
        self.start = start

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(self.start)
