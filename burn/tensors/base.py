"""Base class of tensors: holds a value of the program being traced, or a recorded one. Start at `Base`.

The families of methods (`operators.py`, `shapes.py` ...) are written once, on `value` and the dialect's builders. Inside of a
traced function they add ops to its program. Elsewhere they record ops, which are computed when elements are read.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from burn.dialect import compose
from burn.dialect.copies import seen
from burn.dialect.deferred import Deferred, Value
from burn.dialect.dims import Expr, plain
from burn.dialect.mlir import ir
from burn.dialect.spec import element_type
from burn.dialect.types import DTYPES, PARTS, TensorType, type_of
from burn.dialect.weights import array_weight
from burn.errors import OutOfRange, Problem, TypeMismatch, WrongArgument
from burn.evaluation import evaluate
from burn.runtime.device_array import DeviceArray
from burn.tensors.sizes import shown, shown_shape
from burn.tensors.tracer import active

if TYPE_CHECKING:
    from burn.tensors.tensor import Tensor

DEEPEST = 1000
"""Longest chain of recorded ops; a deeper tensor is computed at once, so that no loop records without end."""


class ElementType(str):
    """The name of an element type. It also equals numpy's and Python's type of that name: `x.dtype == np.float32`."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return str.__eq__(self, other)
        try:
            return str.__eq__(self, element_type(other))
        except TypeMismatch:
            return False

    def __ne__(self, other: object) -> bool:
        return not self == other


ELEMENT_TYPES = {name: ElementType(name) for name in DTYPES}


class Base:
    """A tensor's value, type and shape. `shape` holds numbers and symbolic sizes; `dtype` is the element type's name."""

    __slots__ = ("__weakref__", "_region", "_tracer", "_value")
    _final: ClassVar[Any] = None  # Tensor, when it is complete

    def __init__(self, value: Value) -> None:
        if not isinstance(value, (Deferred, ir.Value)):
            raise TypeMismatch("a Tensor is not made of elements", ["write burn.tensor(elements)"])
        self._value = value
        self._tracer = None if isinstance(value, Deferred) else active()
        self._region = None if self._tracer is None else self._tracer.region
        if isinstance(value, Deferred):
            value.held += 1
            # computed now: a data-dependent size is then known, and a long history is cut
            if value.array is None and (value.depth > DEEPEST or not value.type.is_static):
                evaluate(value.siblings())

    def __del__(self) -> None:
        value = getattr(self, "_value", None)
        if isinstance(value, Deferred):
            value.held -= 1

    def _rebind(self, result: Tensor) -> None:
        """Gives this tensor object another value of the same type. Raises TypeMismatch where the old value could be used later:
        by the caller of a traced function, or by code around a region."""
        old, new, tracer = self._value, result._value, active()
        advice = "copy it first, x = x.clone(), or write x = x.at[i].set(v)"
        inside = self._tracer is tracer and (tracer is None or self._region is tracer.region)
        if isinstance(old, Deferred) != isinstance(new, Deferred) or not inside:
            raise TypeMismatch("x[i] = v is not for tensors of the code around", [f"this is {self!r}; {advice}"])
        if isinstance(old, ir.BlockArgument):
            raise TypeMismatch("x[i] = v is not for arguments of a traced function", [f"this is {self!r}; {advice}"])
        if isinstance(old, Deferred) and isinstance(new, Deferred):
            old.held -= 1
            new.held += 1
        self._value = new

    @property
    def value(self) -> Any:
        """The value that ops are built or recorded with. A lazy tensor in a traced function is a constant of its program.

        Raises TypeMismatch for a tensor of a traced function that has ended."""
        value = self._value
        tracer = active()
        if not isinstance(value, Deferred):
            copy = seen(value)
            if copy is not value:
                return copy
            if tracer is None or not (self._tracer is tracer or tracer.sees(self._tracer)):
                self._must_be_alive()
                if tracer is None or self._tracer is not None:
                    raise TypeMismatch("this tensor belongs to another traced function", ["pass it as an argument"])
            return value
        return value if tracer is None else tracer.captured(value, lambda: array_weight(self._elements()))

    @property
    def type(self) -> TensorType:
        self._must_be_alive()
        return type_of(self._value)

    @property
    def _is_gone(self) -> bool:
        """True for a tensor of a traced function that has ended: its value may be deleted and must not be used."""
        return self._tracer is not None and self._tracer.ended

    def _must_be_alive(self) -> None:
        if self._is_gone:
            raise TypeMismatch(
                "this tensor belongs to a traced function that has ended",
                ["return it from the function; what is kept elsewhere has no elements"],
            )

    @property
    def is_traced(self) -> bool:
        """True for a value of a program under construction, which has no elements yet."""
        return not isinstance(self._value, Deferred)

    @property
    def shape(self) -> tuple[Any, ...]:
        """Sizes: ints, and in a traced function `Dim`s for dynamic sizes. (`type.shape` has the compiler's expressions, whose
        `==` compares their text.)"""
        type_ = self.type
        return type_.shape if type_.is_static else shown_shape(type_.shape)

    @property
    def dtype(self) -> ElementType:
        return ELEMENT_TYPES[self.type.dtype]

    @property
    def ndim(self) -> int:
        return self.type.rank

    @property
    def size(self) -> Any:
        """The number of elements."""
        return shown(self.type.elements)

    @property
    def nbytes(self) -> Any:
        """The number of bytes of the elements."""
        return shown(self.type.bytes)

    def _elements(self) -> np.ndarray:
        """The elements in host memory; computes them if necessary."""
        held = self._held()
        return held.numpy() if isinstance(held, DeviceArray) else held

    def _held(self) -> np.ndarray | DeviceArray:
        """The elements on their device; computes them if necessary."""
        value = self._value
        assert isinstance(value, Deferred)
        if value.array is None:
            if value.type.dtype == "list":
                hint = "burn.ops.list_at reads one of its tensors, burn.ops.list_concat joins them"
                raise TypeMismatch("a sequence has no elements", [Problem("its tensors have them", hint=hint)])
            evaluate(value.with_kin())
        assert value.array is not None
        return value.array

    def _present(self) -> Tensor:
        """Another tensor with the present elements. Functions that return an operand unchanged return this instead, since the
        elements of a tensor object change: by x[i] = v, or those of a parameter."""
        return made(self.value)

    def _floating(self) -> Tensor:
        """Itself if it holds floats; integers and bools as float32. Raises TypeMismatch for other element types."""
        kind = DTYPES[self.dtype].kind
        if kind == "float":
            return self._present()
        if kind not in ("int", "uint", "bool"):
            raise TypeMismatch(f"this function is of floats and integers, not of {self.dtype}", [f"given {self.type}"])
        return made(compose.convert(self.value, "float32"))

    def _field(self) -> Tensor:
        """Itself if it holds floats or complex numbers; integers and bools as float32."""
        return self._present() if self.dtype in PARTS else self._floating()

    # ---- axes --------------------------------------------------------------------------------------------------------
    def _axis(self, axis: int) -> int:
        """An axis counted from the first. A scalar counts as a vector of one element, as in PyTorch."""
        axis, rank = axis_number(axis), max(self.ndim, 1)
        if not -rank <= axis < rank:
            raise OutOfRange(f"axis {axis} is out of range", [f"for {self.type}"])
        return axis % rank

    def _present_axis(self, axis: int) -> int:
        """An axis that the tensor has."""
        if not self.ndim:
            raise OutOfRange(f"axis {axis_number(axis)} is out of range", [f"for {self.type}, which has no axes"])
        return self._axis(axis)

    def _axes(self, axis: int | Sequence[int] | None) -> tuple[int, ...]:
        if axis is None:
            return tuple(range(self.ndim))
        several = isinstance(axis, Iterable) and not isinstance(axis, (str, bytes)) and getattr(axis, "ndim", 1)
        axes = tuple(self._axis(a) for a in (axis if several else (axis,)))  # type: ignore[union-attr]
        if len(set(axes)) != len(axes):
            raise TypeMismatch("an axis is named twice", [f"{list(axes)}, for {self.type}"])
        return axes if self.ndim else ()


def axis_number(axis: Any) -> int:
    """An axis as an int. Raises WrongArgument for others."""
    try:
        return operator.index(axis)
    except TypeError:
        raise WrongArgument("an axis is an integer", [f"not {axis!r}"]) from None


def made(value: Value) -> Tensor:
    """A tensor of a value."""
    return Base._final(value)


def of_array(array: np.ndarray | DeviceArray, anywhere: bool = False, device: str = "") -> Tensor:
    """A lazy tensor over an array, which must not be changed afterwards; in a traced function, a constant of its program.
    anywhere: the tensor is compatible with every device. device: of an array in host memory, if it is not the CPU."""
    tracer = active()
    if isinstance(array, DeviceArray):
        if tracer is None:
            return made(Deferred(TensorType(array.dtype, array.shape), array=array))
        array = array.numpy()
    if tracer is not None:
        return made(tracer.literal(array_weight(array)))
    if not array.flags.c_contiguous or array.dtype.kind in "OUST":
        array = array_weight(array).array()
    return made(Deferred(_type_of(array.dtype, array.shape), array=array, anywhere=anywhere, device=device))


@functools.lru_cache(1 << 12)
def _type_of(dtype: np.dtype, shape: tuple[int, ...]) -> TensorType:
    """Of an array. Raises ModelError."""
    return TensorType(array_weight(np.empty(0, dtype)).dtype, shape)


def sequence(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments of f(1, 2) or f((1, 2)), with sizes as the compiler's expressions."""
    given = values[0] if len(values) == 1 and isinstance(values[0], (tuple, list)) else values
    return tuple(plain(v) if isinstance(v, Expr) else v for v in given)
