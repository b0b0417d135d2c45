"""Arrays in GPU memory, burn's own and other libraries'.

A program on a GPU uses such arrays without a copy, and leaves its outputs in GPU memory. Other libraries' tensors pass through
DLPack without a copy. The producer's library makes burn's stream wait for its own stream, and burn makes the consumer's stream
wait for its own. So the host does not block, and no element is read before it is written.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from burn.runtime import _native
from burn.runtime.arrays import GPU_KINDS, Array, Unfit, device_named, is_foreign, like
from burn.runtime.device import Device
from burn.runtime.device import device as as_device
from burn.runtime.dtypes import DTYPES, from_dlpack, name_of

_CODES = {name: code for code, name in GPU_KINDS.items()}


class DeviceArray(_native.DeviceArray):
    """A dense row-major array in GPU memory. Programs on that GPU use it directly, other libraries through
    DLPack: `torch.from_dlpack(array)`. `to_device` and programs make it."""

    __slots__ = ()

    @property
    def dtype(self) -> str:
        return name_of(self.numpy_dtype)

    @property
    def device(self) -> Device:
        native = self.native_device
        return Device(native.kind, native.index)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def numpy(self) -> np.ndarray:
        """A copy in the host's memory. Waits for what computes the elements."""
        return self.fetched().view(self.numpy_dtype).reshape(self.shape)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("the elements are in GPU memory: numpy needs a copy")
        return self.numpy() if dtype is None else self.numpy().astype(dtype, copy=False)

    def to(self, device: str | Device) -> Any:
        """On another device: a copy, which is a numpy array for "cpu"; itself where it lies there already."""
        return copied_to(self, as_device(device))

    def copy(self) -> DeviceArray:
        made = _native.new_device_array(self.native_device, self.numpy_dtype, self.shape)
        self.native_device.copy(made.address, self.address, self.nbytes)
        return made

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """stream: the consumer's, in the array API's numbers for CUDA (None or 1: the default stream, 2: the per-thread stream,
        -1: no synchronisation). Raises BufferError for element types that DLPack lacks, and for other devices than the CPU."""
        versions = {} if max_version is None else {"max_version": max_version}
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            if tuple(dl_device) != (1, 0) or copy is False:
                raise BufferError(f"an array on {self.device} does not become one on {device_named(*dl_device)}")
            return Array(self.numpy()).__dlpack__(**versions)
        element = DTYPES[self.dtype]
        if element.dlpack is None:
            raise BufferError(f"DLPack has no layout for {self.dtype} with one element a byte")
        if stream == 0:
            raise BufferError("stream 0 may mean two streams: say 1 or 2")
        array = self.copy() if copy else self
        theirs = 0 if stream in (None, 1, -1) else stream  # the driver's word for its default stream is 0
        if stream != -1:
            self.native_device.let_wait(theirs)
        owner = array.lent(theirs)
        code, index = self.__dlpack_device__()
        made = _native.device_to_dlpack(owner, array.address, self.shape, element.dlpack, element.bits, code, index)
        return made.__dlpack__(**versions)

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack_device(self.device)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a number")
        return self.shape[0]

    def __reduce__(self) -> tuple[Any, ...]:
        """A pickle contains the elements; they return to the same GPU."""
        return to_device, (self.numpy(), self.device)

    def __repr__(self) -> str:
        return f"DeviceArray({self.dtype}{list(self.shape)}, {self.device})"


_native.set_device_array_type(DeviceArray)


def dlpack_device(device: Device) -> tuple[int, int]:
    return (1, 0) if device.memory.is_host else (_CODES[device.kind], device.index)


def to_device(array: np.ndarray, device: str | Device) -> DeviceArray:
    """A copy on a GPU. Raises DeviceError, and MemoryError if the memory is full."""
    native = as_device(device).native
    made = _native.new_device_array(native, array.dtype, array.shape)
    native.send(made.address, np.ascontiguousarray(array).reshape(-1).view(np.uint8))
    return made


def copied_to(array: np.ndarray | DeviceArray, device: Device) -> np.ndarray | DeviceArray:
    """A copy in a device's memory space; itself for what lies there. Between GPUs of one driver the elements do not pass through
    the host. Raises DeviceError, and MemoryError if there is no room."""
    if isinstance(array, DeviceArray):
        if array.device == device:
            return array
        if not device.memory.is_host and device.native.reaches(array.native_device):
            made = _native.new_device_array(device.native, array.numpy_dtype, array.shape)
            device.native.copy_from(made.address, array.native_device, array.address, array.nbytes)
            return made
        array = array.numpy()
    return array if device.memory.is_host else to_device(array, device)


def gpu_of(value: Any) -> Device | None:
    """The GPU of any library's array; None for host memory."""
    if type(value) is np.ndarray:
        return None
    if isinstance(value, DeviceArray):
        return value.device
    if not is_foreign(value):
        return None
    try:
        kind, index = value.__dlpack_device__()
    except Exception as error:  # whatever the tensor's library raises: torch's for the device "meta"
        raise Unfit(f"cannot be read through DLPack: {error}") from error
    return Device(GPU_KINDS[kind], index) if kind in GPU_KINDS else None


def callers(outputs: Sequence[Any], given: Sequence[Any]) -> list[Any]:
    """Outputs in the kind of array that the caller passed: copied to the host unless one of `given` is on a GPU. (Outputs can
    stay on a GPU because of inputs that the caller did not pass.)"""
    if all(gpu_of(value) is None for value in given):
        outputs = [output.numpy() if isinstance(output, DeviceArray) else output for output in outputs]
    return like(outputs, given)


def resident(value: Any, device: Device) -> DeviceArray | None:
    """An array on the GPU `device`, without a copy; None for an array in host memory. Raises Unfit for another device,
    and for a layout that its library cannot convert."""
    if isinstance(value, DeviceArray):
        if value.device != device:
            raise Unfit(_elsewhere(str(value.device), device))
        return value
    if not is_foreign(value) or isinstance(value, Array):
        return None
    try:
        kind, index = value.__dlpack_device__()
    except Exception as error:  # whatever the tensor's library raises
        raise Unfit(f"cannot be read through DLPack: {error}") from error
    if kind == 1:
        return None
    if (GPU_KINDS.get(kind), index) != (device.kind, device.index):
        raise Unfit(_elsewhere(device_named(kind, index), device))
    return _taken(value, device)


def _elsewhere(where: str, device: Device) -> str:
    return f"is on {where}, and the program runs on {device}; copy it there first"


def _taken(value: Any, device: Device, again: bool = True) -> DeviceArray:
    native = device.native
    try:
        try:
            capsule = value.__dlpack__(stream=native.stream, max_version=(1, 0))
        except TypeError:  # a library from before DLPack 1.0
            capsule = value.__dlpack__(stream=native.stream)
        address, shape, strides, code, bits, _, _, owner = _native.device_from_dlpack(capsule)
    except Exception as error:  # whatever the tensor's library raises: a torch tensor that needs a gradient, say
        raise Unfit(f"cannot be read through DLPack: {error}") from error
    dtype = from_dlpack(code, bits)
    if dtype is None:
        raise Unfit(f"has an element type that burn does not know (DLPack code {code}, {bits} bits)")
    if not _is_dense(shape, strides):
        if again and hasattr(value, "contiguous"):
            return _taken(value.contiguous(), device, again=False)
        raise Unfit("is not dense in row-major order; make a copy that is")
    return _native.foreign_device_array(native, address, dtype.numpy, shape, owner, _stream_of(value))


def _is_dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    expected = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1 and stride != expected:
            return 0 in shape
        expected *= size
    return True


def _stream_of(value: Any) -> int | None:
    """The stream on which the tensor's library may write over its memory, where that is known."""
    torch = sys.modules.get("torch")  # never imported here: only a caller that has it can have passed its tensors
    if torch is None or not isinstance(value, torch.Tensor):
        return None
    return torch.cuda.current_stream(value.device).cuda_stream
