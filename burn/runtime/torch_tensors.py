"""Conversion between torch tensors on a GPU and arrays, in some microseconds.

DLPack (device_array.py) handles any library's tensors with several calls for each. For torch these calls take many times the
time of a small model, so this file reads dense torch tensors directly. DLPack handles the rest.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from burn.runtime import _native
from burn.runtime.artefact import ValueSpec
from burn.runtime.device import Device
from burn.runtime.device_array import DeviceArray, dlpack_device
from burn.runtime.dtypes import DTYPES


def as_arrays(values: Sequence[Any], device: Device) -> list[Any] | None:
    """The values with torch tensors as arrays on the GPU; its stream waits for torch's current stream. None if there
    is no such tensor, or if one needs DLPack."""
    torch = sys.modules.get("torch")  # never imported here: only a caller that has it can have passed its tensors
    if torch is None:
        return None
    usual = (torch.Tensor, torch.nn.Parameter)  # what derives from them may keep its elements elsewhere
    tensors = [value for value in values if type(value) in usual]
    if not tensors or not all(_is_plain(tensor, device) for tensor in tensors):
        return None
    native, stream = device.native, torch.cuda.current_stream(device.index).cuda_stream
    native.wait_for(stream)

    def taken(tensor: Any) -> DeviceArray:
        dtype = _numpy(tensor.dtype)
        assert dtype is not None
        return _native.foreign_device_array(native, tensor.data_ptr(), dtype, tensor.shape, tensor, stream)

    return [taken(value) if type(value) in usual else value for value in values]


def _is_plain(tensor: Any, device: Device) -> bool:
    where = tensor.device
    if where.type != "cuda" or where.index != device.index or _numpy(tensor.dtype) is None:
        return False
    return (
        tensor.is_contiguous() and tensor.numel() and not (tensor.requires_grad or tensor.is_conj() or tensor.is_neg())
    )


def can_give(outputs: Sequence[ValueSpec]) -> bool:
    """True if `as_tensors` can make a program's outputs."""
    return not any(spec.containers or DTYPES[spec.dtype].dlpack is None for spec in outputs)


def as_tensors(outputs: Sequence[DeviceArray], device: Device) -> list[Any]:
    """Arrays on the GPU as torch tensors over the same memory; torch's current stream waits for them."""
    torch = sys.modules["torch"]
    stream = torch.cuda.current_stream(device.index).cuda_stream
    device.native.let_wait(stream)
    target = dlpack_device(device)
    made = []
    for output in outputs:
        element = DTYPES[output.dtype]
        assert element.dlpack is not None
        lent = output.lent(stream)
        array = _native.device_to_dlpack(lent, output.address, output.shape, element.dlpack, element.bits, *target)
        made.append(torch.utils.dlpack.from_dlpack(array.__dlpack__()))
    return made


@cache
def _numpy(dtype: Any) -> np.dtype | None:
    """numpy's word for one of torch's element types."""
    element = DTYPES.get(str(dtype).removeprefix("torch."))
    return None if element is None or element.dlpack is None else element.numpy
