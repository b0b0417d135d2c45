"""Parameters and buffers: tensors that a module owns. In a traced program each is one constant.

Their elements are an array in memory, or lie in a mapped file and are read when they are wanted; a parameter that was
never given any draws them from its initialiser at first use.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from burn.dialect.deferred import Deferred
from burn.dialect.types import TensorType, numpy_dtype
from burn.dialect.weights import Weight, array_weight
from burn.errors import TypeMismatch
from burn.importers.trace import active
from burn.tensor import Tensor

Init = Callable[[tuple[int, ...]], np.ndarray]


class Parameter(Tensor):
    """A tensor that training changes. It is made from an array, or from a shape whose elements come later."""

    __slots__ = ("_init", "_leaf", "_type", "_weight", "name")
    trainable = True

    def __init__(
        self, data: np.ndarray | tuple[int, ...] | list[int], dtype: str = "float32", init: Init | None = None
    ):
        self.name = ""  # where it is in the module it was last traced or loaded with
        self._init = init
        self._weight: Weight | None = None
        self._leaf: Deferred | None = None
        if isinstance(data, (tuple, list)):
            self._type = TensorType(dtype, tuple(data))
        else:
            self._weight = array_weight(np.asarray(data))
            self._type = TensorType(self._weight.dtype, self._weight.shape)

    @property
    def type(self) -> TensorType:
        return self._type

    @property
    def is_traced(self) -> bool:
        return False

    @property
    def _value(self) -> Deferred:  # type: ignore[override]  # made when it is first computed with
        if self._leaf is None:
            self._leaf = Deferred(self._type, array=self.array)
        return self._leaf

    def __del__(self) -> None:
        """A tensor gives up what it holds; a parameter's elements are its own, and may never have been made."""

    @property
    def value(self) -> Any:
        """What stands for it: a constant of the program being traced, or its elements."""
        tracer = active()
        return self._value if tracer is None else tracer.constant(self, self.weight, self.name)

    @property
    def weight(self) -> Weight:
        """Its elements where they lie."""
        if self._weight is None:
            init = self._init or np.zeros
            self._weight = array_weight(np.asarray(init(self.shape), numpy_dtype(self.dtype)))
        return self._weight

    @property
    def array(self) -> np.ndarray:
        """Its elements, without a copy where they are in memory or mapped one to a byte."""
        return self.weight.array()

    @property
    def count(self) -> int:
        return prod(self.shape)

    def assign(self, data: np.ndarray | Weight | Tensor) -> None:
        """Gives it other elements. Raises TypeMismatch unless element type and shape are the same."""
        if isinstance(data, Tensor):
            data = data.numpy()
        weight = data if isinstance(data, Weight) else array_weight(np.asarray(data))
        if (weight.dtype, weight.shape) != (self._type.dtype, self._type.shape):
            given = TensorType(weight.dtype, weight.shape)
            raise TypeMismatch(
                f"parameter '{self.name}' does not take these elements", [f"it is {self._type}, not {given}"]
            )
        self._weight, self._leaf = weight, None

    def become(self, weight: Weight) -> None:
        """Gives it other elements, of another element type too."""
        self._type = TensorType(weight.dtype, weight.shape)
        self._weight, self._leaf = weight, None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._type})"


class Buffer(Parameter):
    """A tensor that belongs to a module and that training leaves alone: a table, running statistics."""

    __slots__ = ()
    trainable = False


def uniform(bound: float, seed: int = 0) -> Init:
    """Numbers in [-bound, bound); the same for the same shape and seed."""

    def draw(shape: tuple[int, ...]) -> np.ndarray:
        return np.random.default_rng([seed, *shape]).uniform(-bound, bound, shape)

    return draw


def fan_in(shape: tuple[int, ...], axes: tuple[int, ...]) -> Init:
    """The usual start of a layer's weights: uniform within 1 / sqrt(the number of inputs of an output)."""
    inputs = prod(shape[a] for a in axes)
    return uniform(max(inputs, 1) ** -0.5)
