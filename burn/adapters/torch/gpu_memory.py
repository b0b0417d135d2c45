"""torch's side of a GPU: streams, memory and addresses of tensors. Tests replace these functions, to run without a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._C._dynamo import guards

from burn.dialect.types import numpy_dtype
from burn.importers.torch.dtypes import dtype_name
from burn.runtime import _native, torch_tensors
from burn.runtime.device_array import DeviceArray

MOST_KEPT = 64 << 20
"""Bytes that burn keeps for later after a run with its own memory."""


def where(tensor: torch.Tensor) -> torch.device:
    """The device of a tensor, with its number."""
    device = tensor.device
    return torch.device(device.type, 0) if device.type != "cpu" and device.index is None else device


def stream(device: torch.device) -> int:
    """The driver's handle of torch's current stream."""
    return torch._C._cuda_getCurrentRawStream(device.index)


def is_capturing() -> bool:
    """True while the caller captures a CUDA graph of its own."""
    return torch._C._cuda_isCurrentStreamCapturing()


def empty(size: Sequence[int], stride: Sequence[int], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Memory of torch's allocator, for the current stream. Raises torch.OutOfMemoryError."""
    if _empty is not None and torch._C._cuda_getDevice() == device.index:
        return _empty(size, stride, dtype)
    return torch.empty_strided(size, stride, dtype=dtype, device=device)


def allocated(shapes: Sequence[tuple[Any, Any, torch.dtype]], device: torch.device) -> list[torch.Tensor]:
    """Memory for tensors of these sizes, strides and types, as `empty`. The current device is read once."""
    if _empty is not None and torch._C._cuda_getDevice() == device.index:
        make = _empty
        return [make(size, stride, dtype) for size, stride, dtype in shapes]
    return [empty(size, stride, dtype, device) for size, stride, dtype in shapes]


_empty = getattr(guards, "_empty_strided_cuda", None) if torch.cuda._is_compiled() else None
"""torch's own short cut, which takes the current device."""


def address(tensor: torch.Tensor) -> int:
    return tensor.data_ptr()


def same(values: Sequence[Any], addresses: list[int], indices: list[int]) -> bool:
    """True if the tensors of these indices are at their addresses. addresses: of all values."""
    if _same is not None:
        return _same(values, addresses, indices)
    return all(values[i].data_ptr() == addresses[i] for i in indices)


_same = getattr(torch._C, "_tensors_data_ptrs_at_indices_equal", None)  # of torch with CUDA


def give_back() -> None:
    """Returns the memory that torch's allocator keeps in reserve to the driver."""
    torch.cuda.empty_cache()


def as_array(tensor: torch.Tensor, native: Any, on: int) -> DeviceArray:
    """A dense tensor's memory as burn's array; the stream waits for burn's work when it ends."""
    dtype = numpy_dtype(dtype_name(tensor.dtype))
    if not tensor.numel():
        return _native.new_device_array(native, dtype, tuple(tensor.shape))
    return _native.foreign_device_array(native, tensor.data_ptr(), dtype, tuple(tensor.shape), tensor, on)


def copied(array: DeviceArray, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """A copy in torch's memory, by torch's current stream."""
    (tensor,) = torch_tensors.as_tensors([array], array.device)
    return tensor.view(dtype).clone() if tensor.dtype != dtype else tensor.clone()
