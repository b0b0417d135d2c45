"""Indexed updates. Values are immutable: an update makes a copy with other elements at an index, and `x[i] = v` binds it to x.

    x.at[1:3].set(0.0)          x.at[mask].add(1.0)          x.at[rows, columns].max(values)

Every index of `indexing.py` works: it is applied to the row-major indices of the elements, and the values are scattered to these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from burn.dialect import compose
from burn.dialect import ops as build
from burn.errors import OutOfRange, TypeMismatch
from burn.tensors.base import made
from burn.tensors.indexing import Indexing, _indices, _mask, _must_cover
from burn.tensors.promotion import common, constant, lift

if TYPE_CHECKING:
    from burn.tensors.tensor import Tensor

REDUCTIONS = ("none", "add", "mul", "max", "min")


class Updates(Indexing):
    """Indexed updates."""

    __slots__ = ()

    @property
    def at(self) -> At:
        """`x.at[index].set(values)`, and .add, .multiply, .min, .max: a copy with those elements changed."""
        return At(made(self.value))

    def __setitem__(self, index: Any, value: Any) -> None:
        """x[i] = v: this tensor object has the elements of `x.at[i].set(v)` from here on. Other tensors keep theirs, also those
        made by indexing this one. Raises TypeMismatch for values whose element type does not promote to the tensor's. It also
        refuses arguments of traced functions and, in a region, tensors of the code around it."""
        x = made(self.value)
        values = x.at[index].set(_fitting(value, x.dtype))
        self._rebind(values)

    def scatter(self, axis: int, indices: Any, values: Any, reduction: str = "none") -> Tensor:
        """A copy in which x[i, indices[i, j, ..], ..] is replaced by, or combined with, values[i, j, ..] (torch's scatter).
        reduction: "none" (the last one wins), "add", "mul", "max" or "min"."""
        if reduction not in REDUCTIONS:
            raise TypeMismatch(f"there is no reduction '{reduction}'", [f"there are {', '.join(REDUCTIONS)}"])
        indices = _indices(indices)
        updates = _values(values, self.dtype).broadcast_to(*indices.type.shape)
        return _written(
            self, build.scatter_elements, indices, updates, axis=self._present_axis(axis), reduction=reduction
        )

    def put_along_axis(self, indices: Any, values: Any, axis: int = -1) -> Tensor:
        """`scatter` without a reduction, in numpy's order of arguments."""
        return self.scatter(axis, indices, values)


class At:
    """`x.at`: takes an index; see `Tensor.at`."""

    def __init__(self, x: Tensor) -> None:
        self._x = x

    def __getitem__(self, index: Any) -> Selection:
        return Selection(self._x, index)


class Selection:
    """`x.at[index]`: elements to update. Values broadcast to the shape of `x[index]`, and are converted to the
    tensor's element type."""

    def __init__(self, x: Tensor, index: Any) -> None:
        self._x, self._index = x, index

    def get(self) -> Tensor:
        """x[index]."""
        return self._x[self._index]

    def set(self, values: Any) -> Tensor:
        """Elements replaced; if the index names one several times, the last value stays."""
        return self._write(values, "none")

    def add(self, values: Any) -> Tensor:
        """Elements added to, once for each time that the index names them."""
        return self._write(values, "add")

    def multiply(self, values: Any) -> Tensor:
        """Elements multiplied, once for each time that the index names them."""
        return self._write(values, "mul")

    def min(self, values: Any) -> Tensor:
        """The smaller of each element and its values."""
        return self._write(values, "min")

    def max(self, values: Any) -> Tensor:
        """The larger of each element and its values."""
        return self._write(values, "max")

    def _write(self, values: Any, reduction: str) -> Tensor:
        x, updates = self._x, _values(values, self._x.dtype)
        index = constant(self._index) if isinstance(self._index, list) else self._index
        mask = _mask(index)
        if mask is not None and not updates.ndim:
            return _where(mask, x, updates, reduction)
        every = made(build.reshape(build.iota(shape=(x.type.elements,), axis=0), shape=x.type.shape))
        indices = every[index]
        updates = updates.broadcast_to(*indices.type.shape)
        flat = x.ravel()
        result = _written(flat, build.scatter_elements, indices.ravel(), updates.ravel(), axis=0, reduction=reduction)
        return result.reshape(*x.type.shape)


def _where(mask: Tensor, x: Tensor, value: Tensor, reduction: str) -> Tensor:
    """A single value where the mask, over the first axes of x, is true: no size depends on the data."""
    if mask.ndim > x.ndim:
        raise OutOfRange("the mask does not fit", [f"{mask.type} for {x.type}"])
    _must_cover(mask, x.type, 0)
    mask = mask.reshape(*mask.type.shape, *(1,) * (x.ndim - mask.ndim))
    if reduction == "none":
        return mask.where(value, x)
    kinds = {"add": "or_", "max": "or_", "mul": "and_", "min": "and_"} if x.dtype == "bool" else {}
    return mask.where(made(getattr(build, kinds.get(reduction, reduction))(x.value, value.value)), x)


def _fitting(value: Any, dtype: str) -> Any:
    """Values to assign. Raises TypeMismatch if the element type does not hold them all."""
    numbers = _numbers(value)
    typed = [] if numbers else [constant(value).dtype]
    if common([dtype, *typed], numbers) == dtype:
        return value
    kind = "numbers with fractions" if numbers else f"elements of {typed[0]}"
    raise TypeMismatch(f"a tensor of {dtype} does not take {kind}", ["convert them with .astype, or the tensor before"])


def _numbers(value: Any) -> list[Any]:
    """Python numbers that promote as a number does, or as a list of numbers does; none for others."""
    if not isinstance(value, (list, tuple)):
        return [value] if isinstance(value, (bool, int, float, complex)) else []
    found = [each for one in value for each in (_numbers(one) or [None])]
    return [] if None in found else found


def _values(values: Any, dtype: str) -> Tensor:
    tensor = lift(values) if not isinstance(values, (bool, int, float, list, tuple)) else constant(values, dtype)
    return tensor if tensor.dtype == dtype else tensor.astype(dtype)


def _written(x: Any, scatter: Any, indices: Tensor, updates: Tensor, **options: Any) -> Tensor:
    """A scatter; bools are scattered as bytes."""
    if x.dtype != "bool":
        return made(scatter(x.value, indices.value, updates.value, **options))
    kinds = {"add": "max", "mul": "min"}
    options["reduction"] = kinds.get(options["reduction"], options["reduction"])
    bytes_ = [compose.convert(v.value, "uint8") for v in (x, updates)]
    return made(compose.convert(scatter(bytes_[0], indices.value, bytes_[1], **options), "bool"))
