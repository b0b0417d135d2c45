"""Conversion of elements. The class is apart because its methods hide the names of Python's types from annotations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from burn.dialect import compose
from burn.dialect import ops as build
from burn.dialect.spec import element_type
from burn.tensors.base import Base, made

if TYPE_CHECKING:
    from burn.tensors.tensor import Tensor


DEVICE = "cpu"
"""Where tensors are."""


class Conversions(Base):
    """Elements of another type."""

    __slots__ = ()

    @property
    def device(self) -> str:
        """Where the elements are: "cpu"."""
        return DEVICE

    def astype(self, dtype: Any) -> Tensor:
        """Elements converted: floats to integers truncate, to bool tests for non-zero (burn.ops.cast). dtype: a name
        ("float16"), or a type of numpy's or Python's."""
        return made(compose.convert(self.value, element_type(dtype)))

    def to(self, target: Any) -> Tensor:
        """The same as `astype`; or on a device, of which there is one, "cpu"."""
        return self.astype(self.dtype if target == DEVICE else target)

    def bitcast(self, dtype: Any) -> Tensor:
        """The same bits read as another element type of the same width (numpy's `view`)."""
        return made(build.bitcast(self.value, dtype=element_type(dtype)))

    def float(self) -> Tensor:
        """As float32."""
        return self.astype("float32")

    def double(self) -> Tensor:
        """As float64."""
        return self.astype("float64")

    def half(self) -> Tensor:
        """As float16."""
        return self.astype("float16")

    def bfloat16(self) -> Tensor:
        """As bfloat16."""
        return self.astype("bfloat16")

    def int(self) -> Tensor:
        """As int64, burn's type of integers."""
        return self.astype("int64")

    def bool(self) -> Tensor:
        """As bool: whether each element is not zero."""
        return self.astype("bool")
