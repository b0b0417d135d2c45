"""Conversion of elements. A class of its own, because its methods hide the names of Python's types from annotations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from burn.dialect import compose
from burn.dialect import ops as build
from burn.dialect.deferred import Deferred, is_remembering
from burn.dialect.spec import element_type
from burn.errors import TypeMismatch
from burn.runtime.device import CPU, Device, named
from burn.runtime.device_array import copied_to
from burn.tensors.base import Base, made, of_array
from burn.tensors.tracer import active

if TYPE_CHECKING:
    from burn.tensors.tensor import Tensor


class Conversions(Base):
    """Elements of another type."""

    __slots__ = ()

    @property
    def device(self) -> str:
        """The device of the elements, present or not yet computed: "cpu", or a GPU, "cuda:0"."""
        value = self._value
        return (value.device or "cpu") if isinstance(value, Deferred) else "cpu"

    def astype(self, dtype: Any) -> Tensor:
        """Elements converted: floats to integers truncate, to bool tests for non-zero (burn.ops.cast). dtype: a name
        ("float16"), or a type of numpy's or Python's."""
        return made(compose.convert(self.value, element_type(dtype)))

    def to(self, target: Any) -> Tensor:
        """`astype` for an element type. For a device ("cpu", "cuda", "cuda:1"), computes the tensor and copies it there. Raises
        DeviceError for a GPU that does not exist, and TypeMismatch in a function that is being compiled or differentiated."""
        where = named(target)
        return self.astype(target) if where is None else self._moved(where)

    def to_device(self, device: Any, /, *, stream: None = None) -> Tensor:
        """The array API standard's name of `to` for a device. A copy is complete when it is returned; a `stream` is refused."""
        if stream is not None:
            raise TypeMismatch("to_device takes no stream", ["burn orders its copies itself"])
        where = named(device)
        if where is None:
            raise TypeMismatch("to_device takes a device", [f"not {device!r}"])
        return self._moved(where)

    def cpu(self) -> Tensor:
        """The same as `to("cpu")`."""
        return self._moved(CPU)

    def _moved(self, where: Device) -> Tensor:
        value = self._value
        if active() is not None or not isinstance(value, Deferred):
            if where.memory.is_host:
                return made(self.value)
            hint = "say where it runs when it is compiled: burn.compile(..., device=...)"
            raise TypeMismatch("a compiled function runs on one device", [hint])
        if str(where) == (value.device or "cpu"):
            return made(value)
        if is_remembering():
            hint = "move tensors before they go into the function"
            raise TypeMismatch("moving a tensor to another device is not differentiated", [hint])
        return of_array(copied_to(self._held(), where), device="" if where == CPU else str(where))

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
        """As bool: true for elements that are not zero."""
        return self.astype("bool")
