"""Mixed precision: parameters stay float32, the model computes with rounded copies, and float16 gradients are scaled.

Losses are computed in float32 (`burn.nn.loss`). An imported model keeps its types and computes its matmuls in half precision
(`passes/precision.py`).

In bfloat16 gradients have float32's range. In float16 small gradients would underflow. So the loss is multiplied by a factor
before the backward pass, and the gradients are divided by it. A step whose gradients overflow only changes the factor
(arXiv:1710.03740).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from burn.errors import TypeMismatch
from burn.nn.graph import Graph
from burn.nn.module import Module
from burn.nn.parameter import Buffer, Parameter
from burn.options import PRECISIONS
from burn.tensors import Tensor, constant, trees
from burn.tensors.concatenation import where

HALF_PRECISIONS = ("bfloat16", "float16")
FULL = "float32"
FIRST, LARGEST, FACTOR, PATIENCE = 2.0**15, 2.0**24, 2.0, 2000
"""The factor at first and at most, what it is divided by after an overflow, and how many steps without one multiply it by
that."""


class Rounded(Parameter):
    """A parameter as the model computes with it, in fewer bits."""

    __slots__ = ("_rounded",)

    def __init__(self, of: Parameter, dtype: str) -> None:
        super().__init__(tuple(of.shape), dtype)
        self.name, self._trainable = of.name, of.trainable
        self._rounded = of.astype(dtype)

    @property
    def _value(self) -> Any:  # type: ignore[override]
        return self._rounded.value

    @property
    def value(self) -> Any:
        return self._rounded.value

    def assign(self, data: Any) -> None:
        raise TypeMismatch("a loss function does not assign parameters", [f"'{self.name}' is a rounded copy in it"])


def checked(precision: str) -> str:
    """The element type of a name, short or long. Raises TypeMismatch for one that is none of `HALF_PRECISIONS`."""
    found = PRECISIONS.get(precision, precision) if isinstance(precision, str) else ""
    if found not in (FULL, *HALF_PRECISIONS):
        raise TypeMismatch(
            f"there is no training in {precision!s:.80}", [f"precision is one of {', '.join((FULL, *HALF_PRECISIONS))}"]
        )
    return found


@contextmanager
def rounded(model: Module, dtype: str) -> Iterator[None]:
    """Inside, float32 parameters of a model are copies in another type, and imported models compute in it."""
    if dtype == FULL:
        yield
        return
    with ExitStack() as stack:
        for part in model.modules():
            if isinstance(part, Graph):
                stack.enter_context(part.in_precision(dtype))
        stack.enter_context(_copied(model, dtype))
        yield


@contextmanager
def _copied(model: Module, dtype: str) -> Iterator[None]:
    copies: dict[int, Rounded] = {}
    there: list[tuple[dict[str, Any], str, Parameter]] = []
    for part in (p for p in model.modules() if not isinstance(p, Graph)):
        own = vars(part)
        for name, value in list(own.items()):
            if isinstance(value, Parameter) and not isinstance(value, Buffer) and value.dtype == FULL:
                there.append((own, name, value))
                own[name] = copies.setdefault(id(value), Rounded(value, dtype))
    try:
        yield
    finally:
        for own, name, value in there:
            own[name] = value


def narrowed(batch: Any, dtype: str) -> Any:
    """A batch whose float32 tensors are of another type."""
    leaves, structure = trees.flatten(batch)
    return trees.unflatten(structure, [leaf.astype(dtype) if leaf.dtype == FULL else leaf for leaf in leaves])


class LossScale:
    """The factor of float16's losses: halved by an overflow, doubled after enough steps without one."""

    def __init__(self) -> None:
        self.factor = Buffer(np.array(FIRST, np.float32))
        self.good = Buffer(np.array(0, np.int64))
        self.factor.name, self.good.name = "loss scale", "steps without overflow"

    def finite(self, gradients: Mapping[str, Tensor]) -> Tensor:
        """True if all gradients are finite: a bool scalar."""
        found = constant(True)
        for g in gradients.values():
            found = found & g.isfinite().all()
        return found

    def update(self, finite: Tensor) -> None:
        good = where(finite, self.good + 1, 0)
        grows = good >= PATIENCE
        factor = where(finite, self.factor * where(grows, FACTOR, 1.0), self.factor * (1.0 / FACTOR))
        self.factor.assign(factor.clip(1.0, LARGEST).astype(FULL))
        self.good.assign(where(grows, 0, good))
